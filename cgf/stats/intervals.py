"""Intervals and p-values of a difference of accuracy: over test samples, over seeds, and of one seed alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import binomtest
from scipy.stats import nct as noncentral
from scipy.stats import norm as normal
from scipy.stats import t as student
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from cgf.errors import UserError

LEVEL = 0.95  # of every interval
MARGIN = 0.5  # points below which a difference may lie that is called 'within 0.5'
TAIL = (1 - LEVEL) / 2  # probability on each side of an interval
LEAST = 1e-12  # smallest probability that the bootstrap's transforms in float64 tell from 0


@dataclass(frozen=True)
class Evidence:
    """What one test says of a difference, in points (100 times a difference of accuracies).

    low, high  ends of the 95 % interval
    p_zero     two-sided p-value of 'the difference is 0'
    p_margin   p-value of 'the difference is -0.5 or less', twice the one-sided one, as the interval's lower end has it
    power      of a lower end above -0.5 where the true difference is 0 and the spread is the one that was seen
    """

    low: float
    high: float
    p_zero: float
    p_margin: float
    power: float


def wilson(hits: int, samples: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of hits, as two shares in [0, 1] (scipy's binomtest).

    UserError unless 0 <= hits <= samples and there is a sample.
    """
    if samples < 1 or not 0 <= hits <= samples:
        raise UserError(f"a share needs hits among at least one sample, and {hits} of {samples} were given")
    ends = binomtest(hits, samples).proportion_ci(LEVEL, method="wilson")
    return float(ends.low), float(ends.high)


def over_samples(differences: NDArray[np.int8]) -> Evidence:
    """Paired bootstrap over test samples of the difference averaged over seeds, all draws counted.

    differences (S, N): of seed s and sample n 1 where the first alone is right, -1 where the second alone is, else 0.
    A sample is drawn with its answers of every seed, so that a draw is N sums over seeds, with replacement. The
    distribution of their total is the N-fold convolution of the sums' own, a whole number from -N S to N S, so that it
    is computed and not drawn: ``total_of_draws``. Each end is the farther one of two intervals, the percentile interval
    and the one that is corrected for bias and acceleration (BCa: Efron, J. Am. Stat. Assoc. 82, 1987), and each p-value
    the larger of theirs: percentiles alone are too near where few samples differ, nearly all to one side. An end lies
    beyond 0 where the p-value is at most 0.05. Where all samples differ alike, draws would give no width: see
    ``_none_differs``. UserError where there is no sample or no seed, or another number.
    """
    if differences.ndim != 2 or not differences.size or not np.isin(differences, (-1, 0, 1)).all():
        raise UserError(f"differences must be -1, 0 or 1 by seed and sample, and are of shape {differences.shape}")
    seeds, samples = differences.shape
    sums = differences.sum(0, dtype=np.int64)
    if (sums == sums[0]).all():
        return _none_differs(100 * int(sums[0]) / seeds, samples)
    totals, shares = total_of_draws(sums)
    below, above = np.cumsum(shares), np.cumsum(shares[::-1])[::-1]  # of a total at most, at least this one
    points = 100 / (seeds * samples)
    # 1. BCa's constants: where the observed total lies in its own distribution, and a sixth of the sums' skewness over
    # the root of their count
    observed, centred = int(sums.sum()), sums - sums.mean()
    middle = shares[totals < observed].sum() + shares[totals == observed].sum() / 2
    bca = BCa(float(normal.ppf(middle)), float((centred**3).sum() / (6 * (centred**2).sum() ** 1.5)))
    # 2. the ends: the farther of both intervals
    least, most = min(TAIL, bca.share(TAIL)), min(TAIL, 1 - bca.share(1 - TAIL))
    # 3. the p-values: the larger of both, of a total at most or at least 0 and at most the margin
    at_most_zero, at_least_zero = shares[totals <= 0].sum(), shares[totals >= 0].sum()
    margin = shares[100 * totals <= -MARGIN * seeds * samples].sum()
    return Evidence(
        points * float(totals[below > least][0]),
        points * float(totals[above > most][-1]),
        _two_sided(
            min(max(at_most_zero, bca.level(at_most_zero)), max(at_least_zero, 1 - bca.level(1 - at_least_zero)))
        ),
        _two_sided(max(margin, bca.level(margin))),
        power_within(100 * float(sums.std()) / seeds, samples),
    )


@dataclass(frozen=True)
class BCa:
    """The correction of a bootstrap's probabilities for ``bias`` and ``acceleration`` (Efron 1987)."""

    bias: float
    acceleration: float

    def share(self, level: float) -> float:
        """The share of draws below the end of BCa's interval that is to lie ``level`` from its lower side."""
        z = self.bias + float(normal.ppf(level))
        slope = 1 - self.acceleration * z
        return float(normal.cdf(self.bias + z / slope)) if slope > 0 else float(z > 0)

    def level(self, share: float) -> float:
        """The level whose end has this share of draws below it: the inverse of ``share``."""
        w = float(normal.ppf(min(max(share, LEAST), 1 - LEAST))) - self.bias
        slope = 1 + self.acceleration * w
        return float(normal.cdf(w / slope - self.bias)) if slope > 0 else float(w > 0)


def _two_sided(share: float) -> float:
    return float(min(1.0, 2 * max(share, LEAST)))


def total_of_draws(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The distribution of the sum of N draws with replacement from N whole numbers: the sums, and their probabilities.

    1. The distribution of one draw, from the smallest value on.
    2. Its discrete Fourier transform, to the power of N: that of N draws. The transform is long enough that no sum
       wraps around.
    3. Back, where rounding leaves errors of about 1e-16 a sum.
    """
    least, count = int(values.min()), len(values)
    one = np.bincount(values - least) / count
    size = count * (len(one) - 1) + 1
    length = next_fast_len(size, real=True)
    shares = np.clip(irfft(rfft(one, length) ** count, length)[:size], 0.0, None)
    return np.arange(size) + count * least, shares / shares.sum()


def _none_differs(mean: float, samples: int) -> Evidence:
    """Where every sample has the same difference, ``mean`` points: what the test set is too small to have shown.

    A kind of sample of share q is missed by all with probability (1 - q)^samples, which is 0.025 at the largest share
    that is not ruled out (Clopper and Pearson). Such samples could be wrong where these are right.
    """
    unseen = 100 * (1 - TAIL ** (1 / samples))
    reach = unseen * (1 + abs(mean) / 100)
    return Evidence(
        mean - reach,
        mean + reach,
        1.0 if mean == 0 else min(1.0, 2 * (1 - abs(mean) / (100 + abs(mean))) ** samples),
        min(1.0, 2 * (1 - max(0.0, mean + MARGIN) / (100 + abs(mean))) ** samples),
        1.0 if reach < MARGIN else 0.0,
    )


def alone(first_alone: int, second_alone: int, samples: int) -> NDArray[np.int8]:
    """The differences (1, N) of one seed of which the counts alone are known, in some order of the samples.

    UserError where the counts are more than the samples.
    """
    if min(first_alone, second_alone) < 0 or first_alone + second_alone > samples:
        raise UserError(f"{first_alone} and {second_alone} samples cannot differ of {samples}")
    row = np.zeros((1, samples), np.int8)
    row[0, :first_alone], row[0, first_alone : first_alone + second_alone] = 1, -1
    return row


def over_seeds(points: Sequence[float], samples: int) -> Evidence:
    """Student's t interval of the differences seed by seed, in points.

    points: one difference a seed, two at least, each a mean over ``samples``. Accuracies lie on a grid of 1 / samples,
    so the standard deviation is taken to be no less than that of rounding to it, 100 / (samples sqrt(12)): seeds that
    happen to agree to the last sample do not make an interval without width. UserError for one seed, and for a
    difference that is no finite number.
    """
    if len(points) < 2 or samples < 1:
        raise UserError(f"an interval over seeds needs two seeds, and {len(points)} were given")
    if not np.isfinite(points).all():
        raise UserError(f"an interval over seeds needs finite differences, and {list(points)} were given")
    k, mean = len(points), float(np.mean(points))
    deviation = max(float(np.std(points, ddof=1)), 100 / (samples * math.sqrt(12)))
    error = deviation / math.sqrt(k)
    half = float(student.ppf((1 + LEVEL) / 2, k - 1)) * error
    return Evidence(
        mean - half,
        mean + half,
        min(1.0, 2 * float(student.sf(abs(mean) / error, k - 1))),
        min(1.0, 2 * float(student.sf((mean + MARGIN) / error, k - 1))),
        power_within(deviation, k),
    )


def over_both(differences: NDArray[np.int8]) -> Evidence:
    """Student's t interval of the difference where seeds and test samples both were drawn, with the variance of both.

    differences (S, N) as in ``over_samples``, of two seeds at least. Each of the other two intervals holds one source
    of chance alone, so that both together promise too much where the two are alike. Here seeds and samples are crossed
    random effects with one value a cell, and the variance of the mean and its degrees of freedom are Satterthwaite's:

    1. Mean squares of the seeds' means, of the samples' means and of what is left of each cell.
    2. Variance of the mean: (seeds + samples - rest) / (S N), where the sum is no less than either of its first two
       parts, nor than that of rounding to a sample.
    3. Degrees of freedom: that sum squared over the squares of its parts, each over its own.

    Source: Satterthwaite, Biometrics Bulletin 2, 1946. UserError for one seed.
    """
    seeds, samples = differences.shape
    if seeds < 2 or samples < 2:
        raise UserError(f"an interval over both needs two seeds and two samples, and has {seeds} and {samples}")
    values = 100.0 * differences
    by_seed, by_sample, mean = values.mean(1), values.mean(0), float(values.mean())
    of_seeds = samples * float(by_seed.var(ddof=1))
    of_samples = seeds * float(by_sample.var(ddof=1))
    total = float(np.square(values - mean).sum())
    rest = total - (seeds - 1) * of_seeds - (samples - 1) * of_samples
    of_rest = max(0.0, rest / ((seeds - 1) * (samples - 1)))
    parts = ((of_seeds, seeds - 1), (of_samples, samples - 1), (of_rest, (seeds - 1) * (samples - 1)))
    rounding = (100 / samples) ** 2 / 12 * samples  # as ``over_seeds`` takes it, in units of a mean square
    both = max(of_seeds + of_samples - of_rest, of_seeds, of_samples, rounding)
    squares = sum(part**2 / freedom for part, freedom in parts)
    freedom = both**2 / squares if squares > 0 else seeds - 1.0
    error = math.sqrt(both / (seeds * samples))
    quantile = float(student.ppf((1 + LEVEL) / 2, freedom))
    return Evidence(
        mean - quantile * error,
        mean + quantile * error,
        min(1.0, 2 * float(student.sf(abs(mean) / error, freedom))),
        min(1.0, 2 * float(student.sf((mean + MARGIN) / error, freedom))),
        float(noncentral.sf(quantile, freedom, MARGIN / error)),
    )


def power_within(deviation: float, count: int) -> float:
    """Probability that the lower end lies above -0.5 points where the true difference is 0 (statsmodels' t test).

    deviation: standard deviation of one difference in points, >= 0; count: how many there are, two at least.
    """
    if deviation < 0 or count < 2:
        raise UserError(
            f"a power needs a deviation of at least 0 and two values, and {deviation} and {count} were given"
        )
    if deviation == 0:
        return 1.0
    return float(TTestPower().power(MARGIN / deviation, count, TAIL, alternative="larger"))


def mcnemar_p(first_alone: int, second_alone: int) -> float:
    """p-value of McNemar's exact test from the samples that only one of the two has right (statsmodels).

    1 where there is none. UserError for a count below 0.
    """
    if min(first_alone, second_alone) < 0:
        raise UserError(f"counts of samples must be at least 0, and are {first_alone} and {second_alone}")
    return float(mcnemar([[0, first_alone], [second_alone, 0]], exact=True).pvalue)


def holm(p: Sequence[float]) -> list[float]:
    """p-values after Holm's correction over all of them, in their order (statsmodels); [] of none."""
    return [float(value) for value in multipletests(p, method="holm")[1]] if p else []
