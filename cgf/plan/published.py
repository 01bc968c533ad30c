"""Settings of the published softmaxes that the scores of a model need: intervals, rounds, steps of a division."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cgf.approx.inverse import iterations_for
from cgf.errors import UserError
from cgf.he.dryrun import depth
from cgf.plan.cost import MASK_OF, mask_rows
from cgf.softmax.published.base import Published
from cgf.softmax.published.comparison import Comparison
from cgf.softmax.published.normalize_square import NormalizeSquare, Thor
from cgf.softmax.published.standard import FixedMax, Standard
from cgf.softmax.published.statistical import Arion

MARGIN = 0.1  # of the width of what was seen, on either side: other samples reach further than those that were seen
ERROR = 0.01  # largest error of a weight that a setting is to state, where one that is tried does
TEMPERATURES = (2, 4, 8, 16, 32)  # tried for THOR
SQUARINGS = range(1, 9)  # of a polynomial for exp, tried in this order
MOST_LOG = 700.0  # of a float
FARTHEST = 1e8  # greatest sum over the least, of which a series of degree 255 still is one
RADIUS = 8.0  # of HETAL's exponential, which its comparisons and extensions are about
RULES = ("arion", "cho", "fixed_max", "hetal", "standard", "thor")  # the softmaxes that ``settings`` has a rule for


@dataclass(frozen=True)
class ScoreRange:
    """What scaled scores reached over all layers, heads and rows of a model, padding rows included.

    low, high      the least and the greatest score
    least_maximum  the least of the rows' maxima
    log_sums       [least, greatest] of ln of the rows' sums of exp
    entries        valid entries of the shortest and of the longest row
    shifted        [least, greatest] score less ARION's estimate of the row's maximum
    sums           [least, greatest] of the rows' sums of exp of those shifted scores
    levelled       [least, greatest] score less ln of the valid entries of its row
    log_means      [least, greatest] of ln of the rows' means of exp
    """

    low: float
    high: float
    least_maximum: float
    log_sums: tuple[float, float]
    entries: tuple[int, int]
    shifted: tuple[float, float]
    sums: tuple[float, float]
    levelled: tuple[float, float]
    log_means: tuple[float, float]

    def __post_init__(self) -> None:
        pairs = (self.log_sums, self.shifted, self.sums, self.levelled, self.log_means)
        numbers = (self.low, self.high, self.least_maximum, *(end for pair in pairs for end in pair))
        if not all(map(math.isfinite, numbers)) or not self.low < self.high or self.entries[1] < 2 or self.sums[0] <= 0:
            raise UserError(
                f"settings of a published softmax need finite scores that differ, in rows of two entries or more, and "
                f"those seen reach from {self.low} to {self.high} in rows of {self.entries[1]}"
            )

    def widened(self) -> ScoreRange:
        """With MARGIN of the width on either side; the sums by the factor that this is for an exponential's sum."""
        more = MARGIN * (self.high - self.low)
        spread = (self.sums[1] / self.sums[0]) ** MARGIN
        return replace(
            self,
            low=self.low - more,
            high=self.high + more,
            least_maximum=self.least_maximum - more,
            log_sums=_wider(self.log_sums),
            shifted=_wider(self.shifted),
            sums=(self.sums[0] / spread, self.sums[1] * spread),
            levelled=_wider(self.levelled),
            log_means=_wider(self.log_means),
        )

    @property
    def denominators(self) -> tuple[bool, tuple[float, float], tuple[float, float]]:
        """(whether rows divide by means, ends of the scores as they are then, ends of ln of the denominators).

        By means where rows have different counts of entries: those of short and of long rows lie nearer each other.
        """
        if self.entries[0] == self.entries[1]:
            return False, (self.low, self.high), self.log_sums
        return True, self.levelled, self.log_means

    @property
    def columns(self) -> int:
        """Entries of the longest row, rounded up to a power of two: a circuit without padding columns."""
        return 1 << (self.entries[1] - 1).bit_length()


def levels_of(softmax: Published, row_kind: str, columns: int) -> int:
    """Levels of its circuit on 'full' or 'masked' rows of so many columns, counted as if no ring ended."""
    return depth(softmax, mask_rows(MASK_OF[row_kind], columns, columns), columns).levels


def cho(seen: ScoreRange) -> Published:
    """Cho et al. on the interval of the scores and the row lengths; rounds by the rule k = ceil(log2 M - log2 ln n)."""
    return NormalizeSquare(bound=seen.high - seen.low, high=seen.high, n=seen.columns, fewest=seen.entries[0])


def fixed_max(seen: ScoreRange) -> Published:
    """The stand-in for EncryptedLLM with the greatest score for its maximum, on the sums that rows reach below it,
    or their means where rows have different counts of entries.

    Its squarings stay those of its configuration: one more halves the error of the limit, and doubles the noise.
    UserError where the sums are so far apart that no number of steps divides by all of them, or the scores so far
    that the limit grows again below them.
    """
    mean, (low, high), logs = seen.denominators
    least, most = (math.exp(end - high) for end in logs)
    steps = iterations_for(least, most, ERROR / 2)
    softmax = FixedMax(high, low, seen.entries[1], iterations=steps, least=least, most=most, mean=mean)
    if math.isinf(softmax.error_bound()):
        raise UserError(
            f"a fixed maximum with {softmax.r} squarings serves scores within {2**softmax.r} of each other, and these "
            f"reach from {low:.4g} to {high:.4g}"
        )
    return softmax


def hetal(seen: ScoreRange) -> Published:
    """HETAL with as many extensions as the scores' interval asks for."""
    reach = max(abs(seen.low), abs(seen.high))
    return Comparison(radius=RADIUS, extensions=max(0, math.ceil(math.log2(2 * reach / RADIUS))), n=seen.columns)


def standard(seen: ScoreRange) -> Published:
    """Exponential and Goldschmidt on the interval of the scores and of the rows' sums, without a maximum; of their
    means where rows have different counts of entries.

    UserError where the sums are so far apart that no number of steps divides by all of them, or no floats.
    """
    mean, (low, high), logs = seen.denominators
    if max(map(abs, logs)) > MOST_LOG:
        raise UserError(
            f"without a maximum the sums of exp must be floats, and those of these scores reach from e^{logs[0]:.4g} "
            f"to e^{logs[1]:.4g}"
        )
    least, most = map(math.exp, logs)
    steps = iterations_for(least, most, ERROR / 2)

    def of(k: int) -> Standard:
        return Standard(low, high, n=seen.columns, k=k, iterations=steps, least=least, most=most, mean=mean)

    return _shortest(map(of, SQUARINGS))


def thor(seen: ScoreRange, count: Callable[[Published], int]) -> Published:
    """THOR at the temperature and with the squarings of the fewest levels among those that state ERROR.

    The mean exponential at temperature t is at least exp((least maximum - high) / t) / n. UserError where no
    temperature leaves means that a division can take.
    """

    def of(temperature: int, squarings: int) -> Thor:
        eps = math.exp((seen.least_maximum - seen.high) / temperature) / seen.columns
        return Thor(seen.low, seen.high, temperature, squarings, seen.columns, eps)

    fine, refusal = [], UserError("no temperature was tried")
    for temperature in TEMPERATURES:
        try:
            fine.append(_shortest(of(temperature, squarings) for squarings in SQUARINGS))
        except UserError as error:  # exponentials too far apart to divide by: a higher temperature brings them together
            refusal = error
    if not fine:
        raise refusal
    stated = [softmax for softmax in fine if softmax.error_bound() <= ERROR]
    return min(stated, key=count) if stated else min(fine, key=lambda softmax: softmax.error_bound())


def arion(seen: ScoreRange) -> Published:
    """ARION with its own degrees, on the interval of the scores less its estimate of the maximum.

    UserError where the sums are further apart than a series of its degree tells from zero in double precision.
    """
    (low, high), (least, most) = seen.shifted, seen.sums
    if most / least > FARTHEST:
        raise UserError(
            f"a series of 1 / sum needs sums within {FARTHEST:g} of each other, and those of ARION's exponentials "
            f"reach from {least:.3g} to {most:.3g}"
        )
    return Arion(n=seen.columns, low=low, high=high, least=least, most=most)


@dataclass(frozen=True)
class Settings:
    """Published softmaxes with settings for the scores of a model, and why the others have none, by name."""

    softmaxes: list[Published]
    left_out: dict[str, str]


def settings(names: Iterable[str], seen: ScoreRange, row_kind: str) -> Settings:
    """The published softmaxes of these names for scores as ``seen`` with its margin; rows 'full' or 'masked'.

    One whose division or series cannot be had on such an interval is left out. UserError for a name without a rule.
    """
    wide, softmaxes, left_out = seen.widened(), list[Published](), dict[str, str]()
    made: dict[str, Callable[[ScoreRange], Published]] = {
        "arion": arion,
        "cho": cho,
        "fixed_max": fixed_max,
        "hetal": hetal,
        "standard": standard,
        "thor": lambda s: thor(s, lambda softmax: levels_of(softmax, row_kind, s.columns)),
    }
    wanted = list(names)
    if unknown := [name for name in wanted if name not in RULES]:
        raise UserError(f"settings are made for {', '.join(RULES)}, and '{unknown[0]}' was asked for")
    for name in wanted:
        try:
            softmax = made[name](wide)
            levels_of(softmax, row_kind, wide.columns)  # its series are fitted now
            softmaxes.append(softmax)
        except UserError as error:
            left_out[name] = str(error)
    return Settings(softmaxes, left_out)


def _wider(ends: tuple[float, float]) -> tuple[float, float]:
    """An interval with MARGIN of its width on either side."""
    more = MARGIN * (ends[1] - ends[0])
    return ends[0] - more, ends[1] + more


def _shortest(tried: Iterable[Published]) -> Published:
    """The first that states ERROR; else the one that states the least."""
    best: tuple[float, Published] | None = None
    for softmax in tried:
        error = softmax.error_bound()
        if error <= ERROR:
            return softmax
        if best is None or error < best[0]:
            best = error, softmax
    assert best is not None
    return best[1]
