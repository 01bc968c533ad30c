"""Rows of training tested against exact softmax and against the yardstick, from their accuracies and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cgf.errors import UserError
from cgf.predictions import Predictions, read
from cgf.stats.intervals import over_samples, over_seeds, wilson
from cgf.stats.labels import ABOVE, UNDECIDED, WITHIN, Comparison, compare, corrected
from cgf.types import Json

Result = Json
KEPT = "_kept"  # of a result that was read: its Predictions, or None where it is of before they were kept
SIGNIFICANT = 0.05
STAR, WEAK = "\\*", "†"
EXACT = "exact"  # the softmax of that name
Right = NDArray[np.bool_]


def kept(result: Result, path: Path) -> Predictions | None:
    """The predictions that a result tells of, checked against its figures; None for one of before they were kept.

    UserError where they are not those of the result: changed, missing, or with another number of samples that both, one
    or none has right, or another share of right answers.
    """
    if result.get("predictions") is None:
        return None
    predictions = read(path.parent, path.stem, result["predictions"])
    shares = {"accuracy": predictions.right("this").mean(), "accuracy_exact": predictions.right("against").mean()}
    if predictions.planned is not None:
        shares["accuracy_planned"] = (predictions.planned == predictions.labels).mean()
    for key, answers in (("paired", predictions.this), ("paired_planned", predictions.planned)):
        if answers is not None:
            counted = _paired(answers == predictions.labels, predictions.right("against"))
            if result.get(key) != counted:
                raise UserError(f"{path.name} says {key} {result.get(key)}, and its predictions have {counted}")
    for key, share in shares.items():
        if result.get(key) is None or abs(result[key] - share) > 1e-9:
            raise UserError(f"{path.name} says {key} {result.get(key)}, and its predictions have {share}")
    return predictions


def _paired(right: Right, exact: Right) -> dict[str, int]:
    """Samples that both, none, this alone and exact softmax alone have right, as rows keep them."""
    counts = {
        "both": right & exact,
        "neither": ~right & ~exact,
        "this_alone": right & ~exact,
        "exact_alone": ~right & exact,
    }
    return {key: int(where.sum()) for key, where in counts.items()}


def red_of(results: Sequence[Result], evaluation: str) -> bool:
    """Whether one of the rows has reasons not to believe its ``evaluation`` or ``evaluation_planned``."""
    return any((result.get(evaluation) or {}).get("red") for result in results)


def samples_of(result: Result) -> int:
    """Test samples of a result."""
    return sum(result["paired"].values())


def against_exact(results: list[Result]) -> Comparison:
    """Results of one run, one a seed, each against the run that it was trained beside.

    UserError where a result's counts of samples that one alone has right are not the difference of its accuracies, and
    where the seeds were tested on other samples.
    """
    check_one_test_set(results)
    right = [(k.right("this"), k.right("against")) for k in (r.get(KEPT) for r in results) if k is not None]
    for r in results:
        apart = r["paired"]["this_alone"] - r["paired"]["exact_alone"]
        if abs(samples_of(r) * (r["accuracy"] - r["accuracy_exact"]) - apart) > 1e-6:
            raise UserError(f"row {r['run']} of {r['host']}, seed {r['seed']}, has counts that are not its accuracies'")
    one = results[0]["paired"] if len(results) == 1 else None
    return compare(
        [(r["accuracy"], r["accuracy_exact"]) for r in results],
        samples_of(results[0]),
        right if len(right) == len(results) else None,
        None if one is None else (one["this_alone"], one["exact_alone"]),
    )


def against_run(results: list[Result], others: list[Result]) -> Comparison | None:
    """Results of one run against those of another, over the seeds that began alike (``paired_by_beginnings``).

    None where there is none. UserError where they were tested on other samples.
    """
    pairs = paired_by_beginnings(results, others)
    if not pairs:
        return None
    check_one_test_set([result for pair in pairs for result in pair])
    right = [_right(a, b) for a, b in pairs]
    known = [pair for pair in right if pair is not None]
    return compare(
        [(a["accuracy"], b["accuracy"]) for a, b in pairs],
        samples_of(pairs[0][0]),
        known if len(known) == len(pairs) else None,
    )


def paired_by_beginnings(results: list[Result], others: list[Result]) -> list[tuple[Result, Result]]:
    """Results of two runs of one seed that were trained beside one exact softmax and learned from one teacher.

    A teacher that was trained anew on another machine, or an exact student of another schedule, is another one: what
    stands beside it differs by more than its softmax. They are known by their accuracies on the test set and, where
    both results keep predictions, by every answer of the exact student.
    """
    by_seed = {r["seed"]: r for r in others}
    pairs = [(r, by_seed[r["seed"]]) for r in results if r["seed"] in by_seed]
    return [(a, b) for a, b in pairs if alike(a, b)]


def alike(result: Result, other: Result) -> bool:
    """Whether two results of one seed began alike; an exact softmax goes with those trained beside it, too."""
    if result.get("accuracy_teacher") != other.get("accuracy_teacher") or samples_of(result) != samples_of(other):
        return False
    mine, theirs = result.get(KEPT), other.get(KEPT)
    beside = [(result["accuracy_exact"], None if mine is None else mine.against)]
    if result["softmax"] == EXACT:
        beside.append((result["accuracy"], None if mine is None else mine.this))
    return any(
        accuracy == other["accuracy_exact"]
        and (answers is None or theirs is None or np.array_equal(answers, theirs.against))
        for accuracy, answers in beside
    )


def check_one_test_set(results: list[Result]) -> None:
    """UserError unless all results were tested on one set: as many samples and, where predictions are kept, one order
    of labels."""
    first = results[0]
    labels = [r[KEPT].labels for r in results if r.get(KEPT) is not None]
    if any(samples_of(r) != samples_of(first) for r in results) or not all(
        np.array_equal(labels[0], other) for other in labels
    ):
        which = ", ".join(dict.fromkeys(f"{r['run']}, seed {r['seed']}" for r in results))
        raise UserError(f"rows of {first['host']} on {first['task']} have other test samples: {which}")


def _right(result: Result, other: Result) -> tuple[Right, Right] | None:
    mine, theirs = result.get(KEPT), other.get(KEPT)
    if mine is None or theirs is None:
        return None
    return mine.right("this"), theirs.right("this")


def accuracy_interval(results: list[Result]) -> tuple[float, float]:
    """95 % interval of the accuracy of a run, in per cent: of one seed Wilson's over samples, of several t over seeds.

    Where predictions of every seed are kept, it is the wider of that and of the bootstrap over samples. UserError where
    the seeds were tested on other samples.
    """
    check_one_test_set(results)
    n = samples_of(results[0])
    if len(results) == 1:
        low, high = wilson(round(results[0]["accuracy"] * n), n)
        return 100 * low, 100 * high
    intervals = [over_seeds([100 * r["accuracy"] for r in results], n)]
    right = [r[KEPT].right("this") for r in results if r.get(KEPT) is not None]
    if len(right) == len(results):
        intervals.append(over_samples(np.stack(right).astype(np.int8)))
    return max(0.0, min(e.low for e in intervals)), min(100.0, max(e.high for e in intervals))


@dataclass(frozen=True)
class Verdict:
    """What a table says of a comparison.

    points  mean difference in points
    ends    of the interval that decides; None where there is none
    labels  each with its marks. A star: it holds after Holm's correction over the table too; a dagger: the interval
            that has the chance of samples and of seeds at once does not support it
    p       of 'no difference', after Holm's correction over the table; None where nothing was tested
    """

    points: float
    ends: tuple[float, float] | None
    labels: tuple[str, ...]
    p: float | None

    @property
    def _difference(self) -> str:
        shown = "" if self.ends is None else f" [{self.ends[0]:+.2f}, {self.ends[1]:+.2f}]"
        return f"{self.points:+.2f}{shown}"

    def whole(self) -> str:
        """All of it in words."""
        p = "" if self.p is None else f"; p {self.p:.2g}"
        return f"{self._difference}, {', '.join(self.labels)}{p}"

    def brief(self) -> str:
        """Without p, and without the reason for which it is undecided."""
        return f"{self._difference}, {', '.join(label.partition(':')[0] for label in self.labels)}"


def judged(comparisons: Sequence[Comparison | None]) -> list[Verdict | None]:
    """What a table says of each of its comparisons; None where there is nothing to compare with."""
    zero, margin = corrected(comparisons, ABOVE), corrected(comparisons, WITHIN)
    return [
        None if c is None else Verdict(c.points, c.interval, _marked(c, p_zero, p_margin), p_zero)
        for c, p_zero, p_margin in zip(comparisons, zero, margin, strict=True)
    ]


def told(comparisons: Sequence[Comparison | None]) -> list[str]:
    """Each comparison of a table in words (``Verdict.whole``); a dash where there is nothing to compare with."""
    return [in_words(verdict) for verdict in judged(comparisons)]


def in_words(verdict: Verdict | None) -> str:
    """All of a verdict in words; a dash where there is none."""
    return "–" if verdict is None else verdict.whole()


def _marked(comparison: Comparison, p_zero: float | None, p_margin: float | None) -> tuple[str, ...]:
    words = []
    for label in comparison.labels:
        p = p_margin if label == WITHIN else p_zero
        holds = not label.startswith(UNDECIDED) and p is not None and p < SIGNIFICANT
        weak = not label.startswith(UNDECIDED) and not comparison.holds_for_both(label)
        words.append(label + (STAR if holds else "") + (WEAK if weak else ""))
    return tuple(words)
