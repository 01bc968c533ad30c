"""Seconds and sizes of a command, by the stages that the FHE benchmarking suite reports."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cgf.he.side_by_side import processor_s
from cgf.header import Terms
from cgf.memory import peak_mib
from cgf.provenance import run_info
from cgf.results import write_json
from cgf.types import Json, JsonValue


class Report:
    """Stages in order, each with seconds of the clock and of all threads and forks of this process; sizes by name."""

    def __init__(self, kind: str, terms: Terms, key: str | None = None) -> None:
        self.kind, self.terms, self.key = kind, terms, key
        self.stages: list[Json] = []
        self.sizes: dict[str, int] = {}

    @contextmanager
    def stage(self, name: str, **facts: JsonValue) -> Iterator[None]:
        """Measures a with block."""
        wall, cpu = time.perf_counter(), processor_s()
        yield
        self.add(name, time.perf_counter() - wall, processor_s() - cpu, **facts)

    def add(self, name: str, wall_s: float, core_s: float, **facts: JsonValue) -> None:
        """Appends a stage."""
        self.stages.append({"stage": name, "wall_s": round(wall_s, 3), "core_s": round(core_s, 3), **facts})

    def size(self, name: str, *paths: Path) -> None:
        """Adds the bytes of files."""
        self.sizes[name] = self.sizes.get(name, 0) + sum(path.stat().st_size for path in paths)

    def write(self, path: Path) -> None:
        """Writes the report as JSON."""
        content = {
            "kind": self.kind,
            **vars(self.terms),
            "key": self.key,
            "stages": self.stages,
            "wall_s": round(sum(stage["wall_s"] for stage in self.stages), 3),
            "core_s": round(sum(stage["core_s"] for stage in self.stages), 3),
            "bytes": self.sizes,
            "peak_mib": round(peak_mib(), 1),
            "run": run_info(),
        }
        write_json(path, content)
