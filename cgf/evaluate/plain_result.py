"""eval_plain.py: from an opened checkpoint to the result file of its evaluation in the clear."""

from __future__ import annotations

import math
from pathlib import Path

from cgf.checks import interval, one_of
from cgf.errors import UserError
from cgf.evaluate.by_class import by_class
from cgf.evaluate.loop import Outcome, batches_of_rows, evaluate
from cgf.evaluate.observe import ExponentMonitor
from cgf.evaluate.open_checkpoint import OpenCheckpoint
from cgf.evaluate.result_file import is_result_of
from cgf.plan.plan import Plan
from cgf.progress import Bar
from cgf.results import check_replaceable
from cgf.types import Json, JsonValue

SETTINGS = (
    "approx",
    "softmax",
    "domain",
    "not_finite",
)  # what figures depend on, beside the checkpoint and the samples
REFUSE, WRONG = "refuse", "wrong"  # what becomes of samples whose logits are no finite numbers


def monitor(opened: OpenCheckpoint, domain: object) -> ExponentMonitor:
    """What sees the exponents of every softmax, put in place. domain: the setting; None for the polynomials' own.

    UserError for a domain where the softmax has no exponential.
    """
    first = opened.softmaxes[0]
    if domain is not None and not (first.uses_exponential or opened.own_polynomials):
        raise UserError(f"domain is one of exponents, and softmax '{first.name}' has no exponential: leave it out")
    watch = ExponentMonitor(opened.domain if domain is None else interval("domain", domain))
    for softmax in opened.softmaxes:
        softmax.observers.append(watch)
    return watch


def check_own(opened: OpenCheckpoint, path: Path, config: Json, samples: int, plan: Plan | None) -> None:
    """UserError where ``path`` holds something else than a result in the clear of this checkpoint on these samples.

    The softmax in place and the kind of its polynomial must be the same too, and so must what ``config`` and the
    configuration that the result has kept both say of polynomial, softmax, domain and samples.
    """
    names = opened.names(plan)
    kinds = {key: names[key] for key in ("softmax", "replaced", "approx")}
    asked = {"split": config["split"], "samples": samples, **kinds}
    settings = SETTINGS if samples == len(opened.dataset) else (*SETTINGS, "seed")

    def same(there: Json) -> bool:
        alike = all(there[key] == value for key, value in asked.items() if key in there)
        run = there.get("run")
        kept = run.get("config") if isinstance(run, dict) else None
        alike = alike and _agree(kept or {}, {key: config[key] for key in settings if key in config})
        return there["kind"] == "eval_plain" and alike and is_result_of(opened, there, path)

    check_replaceable(path, same)


def _agree(there: JsonValue, here: JsonValue) -> bool:
    """Whether two configurations say the same where both say something."""
    if isinstance(there, dict) and isinstance(here, dict):
        return all(_agree(there[key], here[key]) for key in there.keys() & here.keys())
    return there == here


def measure(
    opened: OpenCheckpoint, watch: ExponentMonitor, indices: list[int], batch_size: int, not_finite: object = REFUSE
) -> Outcome:
    """The predictions of these samples.

    not_finite: what becomes of samples whose logits are no finite numbers, as a norm or an activation without bound can
    give: REFUSE is a UserError, WRONG a wrong answer each. UserError where all samples are so, and for another word.
    """
    one_of("not_finite", not_finite, (REFUSE, WRONG))
    with Bar("in the clear", len(indices)) as bar:
        outcome = evaluate(
            opened.host.model,
            opened.host.logits,
            opened.dataset,
            opened.collate,
            batches_of_rows(opened.dataset, batch_size, indices, opened.host.row_kind == "masked"),
            lambda chosen, *_: bar.advance(len(chosen)),
        )
    lost = int((~outcome.finite).sum())
    if lost == len(indices) or (not_finite == REFUSE and (lost or not math.isfinite(outcome.loss))):
        raise UserError(f"softmax '{opened.softmaxes[0].name}' gives no finite numbers here; {watch.told()}")
    return outcome


def figures(opened: OpenCheckpoint, plan: Plan | None, watch: ExponentMonitor, outcome: Outcome) -> Json:
    """What a result file says of the predictions and of the exponents that were seen.

    A loss, an end of the range or a row sum is None where samples that count as wrong make it no finite number.
    """
    pairs = zip(outcome.labels.tolist(), classes(outcome), strict=True)
    return {
        "samples": len(outcome.labels),
        "accuracy": outcome.accuracy,
        "correct": outcome.correct,
        "not_finite": int((~outcome.finite).sum()),
        "by_class": by_class(opened.task.class_names, pairs),
        **_finite({"loss": outcome.loss, **watch.summary()}),
        "watched": watch.domain,
        "rows": opened.host.row_kind,
        "levels": opened.levels(plan),
        **opened.facts(plan),
    }


def classes(outcome: Outcome) -> list[int | None]:
    """The class predicted for each sample; None where its logits are no finite numbers."""
    pairs = zip(outcome.predictions.tolist(), outcome.finite.tolist(), strict=True)
    return [predicted if finite else None for predicted, finite in pairs]


def _finite(facts: Json) -> Json:
    """The facts, with None in the place of numbers that are not finite, in their lists and dictionaries too."""
    return {key: _number(value) for key, value in facts.items()}


def _number(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return _finite(value)
    if isinstance(value, list):
        return [_number(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
