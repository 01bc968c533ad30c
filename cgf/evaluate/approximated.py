"""Exact softmax by published polynomials in a model trained with it: accuracy on test samples, in the clear."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import torch

from cgf.evaluate.loop import batches_of_rows, evaluate
from cgf.evaluate.observe import ExponentMonitor
from cgf.evaluate.open_checkpoint import OpenCheckpoint
from cgf.plan.published import ScoreRange, levels_of
from cgf.progress import Bar
from cgf.results import read_json, write_json
from cgf.softmax.published.base import Published
from cgf.types import Json


@dataclass
class EvaluationBySoftmax:
    """The test set of a checkpoint, evaluated once with each of several softmaxes.

    host  name of the host in names of files; opening: told the row and the digest before an evaluation
    """

    opened: OpenCheckpoint
    host: str
    batch_size: int
    opening: Callable[[str, str], None]
    _right: torch.Tensor = field(init=False, repr=False)

    def name(self, softmax: str) -> str:
        """'<host>-<task>-<softmax>-<seed of the training>'."""
        run = self.opened.checkpoint.run
        return f"{self.host}-{run['task']}-{softmax}-{run['config']['seed']}"

    def file(self, out: Path, softmax: str) -> Path:
        """Result file of a softmax in a folder."""
        return out / f"{self.name(softmax)}.json"

    def exact(self, out: Path, run: Json) -> None:
        """Evaluates the model as it was trained, which others stand against; a checkpoint's file is written once."""
        path = self.file(out, "exact")
        measured = self._evaluated("exact", {"kind": "approximated", "levels": None, "paired": None})
        if not self.own(path):
            write_json(path, {**measured, "run": run})

    def own(self, path: Path) -> bool:
        """Whether a result file is there and is of this checkpoint."""
        return path.exists() and read_json(path).get("checkpoint_sha256") == self.opened.checkpoint.digest

    def evaluated(self, softmax: Published, seen: ScoreRange) -> Json:
        """The result of a softmax with these settings; ``exact`` is evaluated first.

        levels are counted off its circuit on rows of the longest row's entries, rounded up to a power of two. A sample
        whose logits are not finite is wrong, and loss is None then.
        """
        right = self._right
        self.opened.replace(softmax)
        watch = ExponentMonitor()
        for own in self.opened.softmaxes:
            own.observers.append(watch)
        told = watch.summary
        measured = self._evaluated(
            softmax.name,
            {
                "kind": "approximated",
                "levels": levels_of(softmax, self.opened.host.row_kind, seen.columns),
                "settings": softmax.params(),
                "error_bound": _finite(softmax.error_bound()),
                "seen": asdict(seen),
            },
        )
        both = [int((a & b).sum()) for a, b in ((self._right, right), (self._right, ~right), (~self._right, right))]
        self._right, paired = right, dict(zip(("both", "this_alone", "exact_alone"), both, strict=True))
        paired["neither"] = measured["samples"] - sum(both)
        return {**measured, "paired": paired, **{k: told()[k] for k in ("outside_domain", "beyond_guard", "range")}}

    def _evaluated(self, softmax: str, facts: Json) -> Json:
        """Runs the test set with what is in place; leaves in ``_right`` which samples are right."""
        self.opening(f"approximated/{self.name(softmax)}", self.opened.checkpoint.digest)
        dataset, masked = self.opened.dataset, self.opened.host.row_kind == "masked"
        with Bar(softmax, len(dataset)) as bar:
            outcome = evaluate(
                self.opened.host.model,
                self.opened.host.logits,
                dataset,
                self.opened.collate,
                batches_of_rows(dataset, self.batch_size, self._indices, masked),
                lambda chosen, *_: bar.advance(len(chosen)),
            )
        self._right = outcome.right
        correct = int(self._right.sum())
        return {
            **facts,
            "host": self.host,
            "model": self.opened.host.name,
            "task": self.opened.checkpoint.run["task"],
            "softmax": softmax,
            "seed": self.opened.checkpoint.run["config"]["seed"],
            "checkpoint_sha256": self.opened.checkpoint.digest,
            "rows": self.opened.host.row_kind,
            "split": "test",
            "samples": len(dataset),
            "correct": correct,
            "accuracy": correct / len(dataset),
            "loss": _finite(outcome.loss),
        }

    @cached_property
    def _indices(self) -> list[int]:
        return self.opened.samples(None, 0)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
