"""One row of training from the folds of a data set: every sample is in the test set of one fold, and counts once."""

from __future__ import annotations

from collections.abc import Sequence

from cgf.errors import UserError
from cgf.types import Json, JsonValue

ALIKE = ("host", "task", "run", "softmax", "seed", "model", "rows", "tuning", "tempered", "trained", "trials")
EVALUATIONS = "evaluation", "evaluation_planned"
MADE = ("commit", "dirty", "commit_evaluated", "commit_planned", "commit_teacher", "cpu")


def joined(results: Sequence[Json]) -> Json:
    """Evaluations on the test sets of all folds as one: predictions, labels and counts after each other.

    Everything else is said of the first, but for processors and commits, which ``folded`` takes from its results.
    """
    together = {name: [value for result in results for value in result[name]] for name in ("predictions", "labels")}
    samples = len(together["labels"])
    right = sum(a == b for a, b in zip(together["predictions"], together["labels"], strict=True))
    return {**results[0], **together, "samples": samples, "correct": right, "accuracy": right / samples}


def folded(results: Sequence[Json]) -> Json:
    """The row of a run and seed from its results on the folds, in their order; ``folds`` keeps what each fold says.

    Accuracies are those of all samples together and validation the mean over folds; epochs and best_epoch are means,
    seconds are sums, levels the most that a fold needs, polynomials those of all, since each fold plans its own.
    Commits and processors are the first fold's, and ``folds`` has each one's. UserError where two folds are of other
    runs.
    """
    first = results[0]
    for result in results[1:]:
        if unlike := [key for key in ALIKE if result[key] != first[key]]:
            name = f"{first['run']}, seed {first['seed']}"
            raise UserError(f"the folds of row {name}, must agree in {', '.join(unlike)}: train them anew")
    levels = [result["total_levels"] for result in results]
    trained = [result["evaluation"] for result in results]
    planned = [result["evaluation_planned"] for result in results]
    weights = [evaluation["samples"] for evaluation in trained]
    return {
        **first,
        **{
            key: _mean([result[key] for result in results], weights)
            for key in ("accuracy", "accuracy_exact", "accuracy_teacher")
        },
        "accuracy_planned": None
        if None in planned
        else _mean([result["accuracy_planned"] for result in results], weights),
        **{key: _mean([result[key] for result in results]) for key in ("validation", "epochs", "best_epoch")},
        "val_samples": first["val_samples"],
        "validation_by_epoch": by_epoch([result["validation_by_epoch"] for result in results]),
        "train_s": sum(result["train_s"] for result in results),
        "trials_s": None if first["trials_s"] is None else sum(result["trials_s"] for result in results),
        "total_levels": None if None in levels else max(levels),
        "approx": ", ".join(sorted({result["approx"] for result in results})),
        "paired": _summed([result["paired"] for result in results]),
        "paired_planned": None if None in planned else _summed([result["paired_planned"] for result in results]),
        "dirty": any(result["dirty"] for result in results),
        "evaluation": evaluation_of(trained),
        "evaluation_planned": None if None in planned else evaluation_of(planned),
        "folds": [
            {key: result[key] for key in (*MADE, "validation", "best_epoch", "total_levels", "approx", *EVALUATIONS)}
            for result in results
        ],
    }


def by_epoch(curves: Sequence[list[list[float]]]) -> list[list[float]] | None:
    """The mean of the folds' accuracies on validation by epoch; None where they were validated at other epochs."""
    epochs = [[epoch for epoch, _ in curve] for curve in curves]
    if any(each != epochs[0] for each in epochs):
        return None
    means = [_mean(values) for values in zip(*([value for _, value in curve] for curve in curves), strict=True)]
    return [[epoch, mean] for epoch, mean in zip(epochs[0], means, strict=True)]


def evaluation_of(evaluations: Sequence[Json]) -> Json:
    """What evaluations of several test sets say together: counts summed, means weighed by samples, extremes the widest.

    row_sum's median is the mean of the folds' medians. red: the reasons of every fold that is red.
    """
    weights = [e["samples"] for e in evaluations]
    made: Json = {key: _sum([e.get(key) for e in evaluations]) for key in ("samples", "correct", "beyond_guard")}
    made |= {key: _mean([e.get(key) for e in evaluations], weights) for key in ("accuracy", "loss", "outside_domain")}
    errors = [e["max_error_exponential"] for e in evaluations if e.get("max_error_exponential") is not None]
    made["max_error_exponential"] = max(errors, default=None)
    ranges = [e["range"] for e in evaluations if e.get("range") is not None]
    made["range"] = [min(r[0] for r in ranges), max(r[1] for r in ranges)] if ranges else None
    sums = [e["row_sum"] for e in evaluations if e.get("row_sum") is not None]
    made["row_sum"] = _sums(sums) if sums else None
    red = [reason for e in evaluations for reason in e.get("red", [])]
    return {**made, **({"red": red} if red else {})}


def _sums(sums: Sequence[Json]) -> Json:
    """Row sums of several test sets."""
    ends = {"min": min(s["min"] for s in sums), "max": max(s["max"] for s in sums)}
    return {**ends, "median": _mean([s["median"] for s in sums])}


def _summed(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    return {key: sum(c[key] for c in counts) for key in counts[0]}


def _sum(values: Sequence[JsonValue]) -> JsonValue:
    return None if None in values else sum(values)


def _mean(values: Sequence[JsonValue], weights: Sequence[int] | None = None) -> JsonValue:
    """The mean, weighed or not; None where a value is missing."""
    if None in values:
        return None
    shares = weights or [1] * len(values)
    return sum(v * w for v, w in zip(values, shares, strict=True)) / sum(shares)
