"""Which words a comparison of two softmaxes may use: a label holds where both intervals support it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cgf.stats.intervals import MARGIN, Evidence, alone, holm, mcnemar_p, over_both, over_samples, over_seeds
from cgf.types import Json

ABOVE, BELOW, WITHIN, UNDECIDED = "above", "below", f"within {MARGIN:g}", "undecided"
LEAST_SEEDS = 3
LEAST_POWER = 0.8
TOO_SMALL = f"{UNDECIDED}: test too small"
NO_PREDICTIONS = f"{UNDECIDED}: no predictions kept"


@dataclass(frozen=True)
class Comparison:
    """A difference of accuracy between two softmaxes, seed by seed, with all that was tested of it.

    points   mean of 100 (accuracy of the first - of the second) over the seeds that both have
    seeds    how many those are
    samples  over test samples; None where predictions were not kept
    between  over seeds; None of one seed
    exact_p  McNemar's exact test of one seed alone; None of several, or where the counts are not known
    both     over samples and seeds as two sources of chance at once; None where either is not to be had
    """

    points: float
    seeds: int
    samples: Evidence | None
    between: Evidence | None
    exact_p: float | None = None
    both: Evidence | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The wider end of each interval at hand, which decides; None where there is none."""
        known = [evidence for evidence in (self.samples, self.between) if evidence is not None]
        return (min(e.low for e in known), max(e.high for e in known)) if known else None

    @property
    def labels(self) -> list[str]:
        """``above``, ``below`` and ``within 0.5`` as far as both intervals support them, else one ``undecided``.

        Always that under three seeds, and where one of the two intervals is not to be had. Where the interval over
        samples does not support ``within 0.5``, and could not in four of five cases though the truth were 0, it says
        so with the power, and whether the seeds alone would not support it either.
        """
        if self.seeds < LEAST_SEEDS:
            return [f"{UNDECIDED}: {self.seeds} seed{'s' if self.seeds != 1 else ''}"]
        if self.samples is None or self.between is None:
            return [NO_PREDICTIONS]
        low, high = min(self.samples.low, self.between.low), max(self.samples.high, self.between.high)
        held = [(ABOVE, low > 0), (BELOW, high < 0), (WITHIN, low > -MARGIN)]
        if labels := [label for label, holds in held if holds]:
            return labels
        if self.samples.low > -MARGIN or self.samples.power >= LEAST_POWER:
            return [UNDECIDED]
        few = ", seeds too far apart" if self.between.low <= -MARGIN else ""
        return [f"{TOO_SMALL} (power {100 * self.samples.power:.0f} %){few}"]

    def p(self, label: str) -> float | None:
        """p-value of what a label denies: the larger of the two tests, since both have to reject.

        Of one seed alone McNemar's, where it tests that (no difference); None where nothing was tested.
        """
        if label != WITHIN and self.exact_p is not None:
            return self.exact_p
        known = [evidence for evidence in (self.samples, self.between) if evidence is not None]
        return max((e.p_margin if label == WITHIN else e.p_zero for e in known), default=None)

    def holds_for_both(self, label: str) -> bool:
        """Whether the interval that has the chance of samples and of seeds at once supports a label, too.

        Each of the two that decide holds one source of chance alone, so that together they promise too much where the
        two sources are alike.
        """
        if self.both is None:
            return False
        low, high = self.both.low, self.both.high
        return {ABOVE: low > 0, BELOW: high < 0, WITHIN: low > -MARGIN}[label]


def compare(
    accuracies: Sequence[tuple[float, float]],
    samples: int,
    right: Sequence[tuple[NDArray[np.bool_], NDArray[np.bool_]]] | None = None,
    one_alone: tuple[int, int] | None = None,
) -> Comparison:
    """The comparison of two softmaxes over the seeds that both have.

    accuracies  (first, second) a seed, shares of ``samples``
    right       (first, second) a seed, whether each sample (samples,) is right; None: predictions were not kept
    one_alone   of a single seed without predictions, the samples that only the first and only the second has right
    """
    points = [100 * (first - second) for first, second in accuracies]
    seeds = len(points)
    differences = None
    if right is not None:
        differences = np.stack([a.astype(np.int8) - b.astype(np.int8) for a, b in right])
        one_alone = (int((differences == 1).sum()), int((differences == -1).sum()))
    elif seeds == 1 and one_alone is not None:
        differences = alone(*one_alone, samples)
    return Comparison(
        float(np.mean(points)),
        seeds,
        None if differences is None else over_samples(differences),
        over_seeds(points, samples) if seeds > 1 else None,
        mcnemar_p(*one_alone) if seeds == 1 and one_alone is not None else None,
        None if differences is None or seeds == 1 else over_both(differences),
    )


def corrected(comparisons: Sequence[Comparison | None], label: str) -> list[float | None]:
    """p-values of what a label denies, after Holm's correction over all comparisons of a table; None where is none."""
    p = [None if c is None else c.p(label) for c in comparisons]
    adjusted = iter(holm([value for value in p if value is not None]))
    return [None if value is None else next(adjusted) for value in p]


def in_words(against: Json) -> str:
    """A difference as a result file keeps it (``points``, ``interval``, ``labels``), as a table tells it."""
    low, high = against["interval"]
    return f"{against['points']:+.2f} points [{low:+.2f}, {high:+.2f}], {', '.join(against['labels'])}"
