"""Everything a report shows, gathered from the files under one folder."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from cgf.errors import UserError, inert
from cgf.report.shapes import check_friendly, check_lines, check_plan, check_result
from cgf.results import MOST_LINES, find_results, read_json, read_lines
from cgf.target import content_of
from cgf.types import JsonValue

CHECKPOINT = "_checkpoint"


@dataclass
class ReportInputs:
    """What lies under a folder; every key of a dict is a path relative to it."""

    name: str
    results: list[dict] = field(default_factory=list)
    """Result files; `_path` and `_checkpoint` (the folder that holds eval/) are relative to the folder."""
    curves: dict[str, list[dict]] = field(default_factory=dict)
    """Training run -> the rows of its metrics.jsonl."""
    plans: dict[str, dict] = field(default_factory=dict)
    """Checkpoint -> its plan.json."""
    friendly: dict[str, dict] = field(default_factory=dict)
    """Folder -> its friendly.json (scripts/friendly.py)."""


def collect(root: str | os.PathLike) -> ReportInputs:
    """Read all results, training curves and plans under `root`.

    UserError if `root` is no folder, holds neither results nor curves, or has a file that cannot be read or is of
    another shape than this project writes, or a result whose lines are not those that it was made of.
    """
    root = Path(root)
    results = [_inert(_relative(_checked(row), root)) for row in find_results(root)]
    merged = {row.get("digest") for row in results if "shards" in row}
    # a shard is part of the result that it was merged into
    whole = [row for row in results if "shard" not in row or row.get("digest") not in merged]
    inputs = ReportInputs(name=inert(root.resolve().name), results=whole)
    for path in sorted(root.rglob("metrics.jsonl")):
        lines = read_lines(path)
        check_lines(path, lines)
        inputs.curves[_name(path.parent, root)] = _inert(lines)
    for path in sorted(root.rglob("plan.json")):
        plan = read_json(path)
        check_plan(path, plan)
        inputs.plans[_name(path.parent, root)] = _inert(plan)
    for path in sorted(root.rglob("friendly.json")):
        report = read_json(path)
        check_friendly(path, report)
        inputs.friendly[_name(path.parent, root)] = _inert(report)
    if not inputs.results and not inputs.friendly and not any(inputs.curves.values()):
        raise UserError(
            f"a report needs eval/*.json, metrics.jsonl or friendly.json, and {root} holds none; train or evaluate "
            "first"
        )
    return inputs


def _inert(value: JsonValue) -> JsonValue:
    """What a file holds, its texts without what a terminal would obey; the page itself escapes HTML."""
    if isinstance(value, dict):
        return {inert(str(key)): _inert(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_inert(item) for item in value]
    return inert(value) if isinstance(value, str) else value


def _checked(row: dict) -> dict:
    """The result, where the lines beside it are those it says it was made of; without either there is no telling."""
    check_result(Path(row["_path"]), row)
    lines, stated = Path(row["_path"]).with_suffix(".jsonl"), row.get("lines_sha256")
    if stated is not None and lines.is_file() and hashlib.sha256(content_of(lines, MOST_LINES)).hexdigest() != stated:
        raise UserError(
            f"{lines} was changed after {Path(row['_path']).name} was made of it: run the same evaluation "
            "again, or remove both"
        )
    return row


def _relative(row: dict, root: Path) -> dict:
    path = Path(row["_path"])
    return {**row, "_path": _name(path, root), CHECKPOINT: _name(path.parent.parent, root)}


def _name(path: Path, root: Path) -> str:
    """`path` as seen from `root`, or the root's own name: a page must not show where it was made."""
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    return inert(root.resolve().name if name == "." else name)
