"""eval_plain.py: from an opened checkpoint to the result file of its evaluation in the clear."""

from __future__ import annotations

import math
from pathlib import Path

from cgf.checks import interval
from cgf.errors import UserError
from cgf.evaluate.by_class import by_class
from cgf.evaluate.loop import Outcome, batches_of_rows, evaluate
from cgf.evaluate.observe import ExponentMonitor
from cgf.evaluate.open_checkpoint import OpenCheckpoint
from cgf.evaluate.result_file import is_result_of
from cgf.plan.plan import Plan
from cgf.progress import Bar
from cgf.results import check_replaceable
from cgf.types import Json


def monitor(opened: OpenCheckpoint, domain: object) -> ExponentMonitor:
    """What sees the exponents of every softmax, put in place. domain: the setting; None for the polynomials' own."""
    watch = ExponentMonitor(opened.domain if domain is None else interval("domain", domain))
    for softmax in opened.softmaxes:
        softmax.observers.append(watch)
    return watch


def check_own(opened: OpenCheckpoint, path: Path) -> None:
    """UserError where ``path`` holds something else than a result in the clear of this checkpoint."""
    check_replaceable(path, lambda there: there["kind"] == "eval_plain" and is_result_of(opened, there, path))


def measure(opened: OpenCheckpoint, watch: ExponentMonitor, indices: list[int], batch_size: int) -> Outcome:
    """The predictions of these samples. UserError where the softmax gives no finite numbers."""
    with Bar("in the clear", len(indices)) as bar:
        outcome = evaluate(
            opened.host.model,
            opened.host.logits,
            opened.dataset,
            opened.collate,
            batches_of_rows(opened.dataset, batch_size, indices, opened.host.row_kind == "masked"),
            lambda chosen, *_: bar.advance(len(chosen)),
        )
    if not math.isfinite(outcome.loss):
        raise UserError(f"softmax '{opened.softmaxes[0].name}' gives no finite numbers here; {watch.told()}")
    return outcome


def figures(opened: OpenCheckpoint, plan: Plan | None, watch: ExponentMonitor, outcome: Outcome) -> Json:
    """What a result file says of the predictions and of the exponents that were seen."""
    pairs = zip(outcome.labels.tolist(), outcome.predictions.tolist(), strict=True)
    return {
        "samples": len(outcome.labels),
        "accuracy": outcome.accuracy,
        "correct": outcome.correct,
        "loss": outcome.loss,
        "by_class": by_class(opened.task.class_names, pairs),
        **watch.summary(),
        "watched": watch.domain,
        "rows": opened.host.row_kind,
        "levels": opened.levels(plan),
        **opened.facts(plan),
    }
