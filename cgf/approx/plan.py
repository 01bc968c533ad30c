"""Which exponential for a measured range: list the candidates, keep the feasible, take the cheapest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cgf.approx import fit, tree
from cgf.approx.exponential import Exponential
from cgf.approx.exponential_json import exponential_from_json, number, numbers
from cgf.errors import UserError

ROWS = ("full", "masked")
METHODS = ("chebyshev", "limit", "chain", "fitted")
SQUARINGS = range(2, 11)  # of limit and chain; chebyshev takes what its interval can use
Interval = tuple[float, float]


@dataclass(frozen=True)
class Plan:
    """An exponential and what it costs on rows of one kind.

    statistics_levels  levels before the core: variance and scaling (see ``statistics_levels``)
    levels             statistics_levels + levels of the core
    range              calibrated [lo, hi] of y, None where nothing was measured
    share_outside      share of calibrated entries outside the accuracy domain, None where not measured
    layers             where each layer has a plan of its own: those, by layer; the rest is then that of the
                       deepest layer, with a range that holds all of theirs (see ``by_layer``)
    The error and the guard interval stand in ``exponential.fit``.
    """

    exponential: Exponential
    rows: str
    statistics_levels: int
    levels: int
    ct_mults: int
    range: Interval | None
    tolerance: float
    share_outside: float | None = None
    layers: tuple[Plan, ...] = ()

    def of(self, layer: int) -> Plan:
        return self.layers[layer] if self.layers else self

    def to_json(self) -> dict[str, Any]:
        own = {"plans": [plan.to_json() for plan in self.layers]} if self.layers else {}
        return {"exponential": self.exponential.to_json(), "rows": self.rows,
                "statistics_levels": self.statistics_levels, "levels": self.levels, "ct_mults": self.ct_mults,
                "range": None if self.range is None else list(self.range), "tolerance": self.tolerance,
                "share_outside": self.share_outside, **own}

    @classmethod
    def from_json(cls, data: Any) -> Plan:
        """The plan that to_json described; levels and multiplications are those of its exponential."""
        if not isinstance(data, dict):
            raise UserError(f"a plan must be a JSON object, and is {data!r}")
        exponential = exponential_from_json(data.get("exponential"))
        rows, statistics = data.get("rows"), data.get("statistics_levels")
        if rows not in ROWS or statistics not in (1, 2):
            raise UserError(f"a plan needs rows full or masked and 1 or 2 statistics_levels, and has {rows!r} "
                            f"and {statistics!r}")
        range_ = None if data.get("range") is None else checked(numbers(data, "range", 2), "range")
        share = None if data.get("share_outside") is None else number(data, "share_outside")
        own = data.get("plans", [])
        if not isinstance(own, list):
            raise UserError(f"the plans of a plan must be a list, one a layer, and are {own!r}")
        return cls(exponential, rows, statistics, statistics + exponential.levels, exponential.ct_mults,
                   range_, number(data, "tolerance"), share, tuple(cls.from_json(plan) for plan in own))


def by_layer(plans: list[Plan]) -> Plan:
    """One plan of many, one a layer: a model's levels are those of its deepest layer."""
    deepest = max(plans, key=cost)
    ranges = [plan.range for plan in plans if plan.range is not None]
    range_ = (min(lo for lo, _ in ranges), max(hi for _, hi in ranges)) if ranges else None
    return replace(deepest, range=range_, layers=tuple(plans))


def statistics_levels(rows: str, exponential: Exponential, folded: bool = False) -> int:
    """Levels before the core: 1 for the variance and 1 for scaling; 1 in all where a circuit folds the two.

    On full rows a common public factor moves through the core into its constants (cgf.he.circuits.folded).
    """
    if rows not in ROWS:
        raise UserError(f"rows must be full or masked, and is {rows!r}")
    return 1 if folded and rows == "full" else 2


def checked(interval: Any, name: str) -> Interval:
    """The interval as two floats; UserError where it is none."""
    try:
        lo, hi = (float(end) for end in interval)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be two numbers [lo, hi], and is {interval!r}") from None
    if not (math.isfinite(lo) and math.isfinite(hi) and lo < hi):
        raise UserError(f"{name} needs finite lo < hi, and is [{lo}, {hi}]")
    return lo, hi


def stretched(interval: Interval, margin: Any) -> Interval:
    """A calibrated interval that reaches to 0 on both sides, with room around it: margin, or [below, above].

    A polynomial's guard ends near ln of the bound above (12.5 at 2^18), and costs a level a doubling below: rare
    rows that go far below need more room there than one margin for both ends can give. UserError for a margin that
    is neither a number of at least 1 nor two.
    """
    try:
        below, above = (float(m) for m in (margin if isinstance(margin, list | tuple) else (margin, margin)))
    except (TypeError, ValueError):
        below = above = math.nan
    if not (1 <= below < math.inf and 1 <= above < math.inf):
        raise UserError(f"margin must be a number of at least 1 or two, [below, above], and is {margin!r}")
    return interval[0] * below, interval[1] * above


def _specs(domain: Interval, method: str, degree: int, k: int | None, folded: bool
           ) -> Iterator[tuple[tuple[int, int], Callable[[], Exponential]]]:
    """((levels, multiplications), how to fit) of every candidate; nothing is fitted yet."""
    lo, hi = domain
    if method not in ("auto", *METHODS):
        raise UserError(f"method must be auto or one of {', '.join(METHODS)}, and is {method!r}")
    if not isinstance(degree, int) or not 1 <= degree <= tree.MAX_DEGREE:
        raise UserError(f"degree must be a whole number from 1 to {tree.MAX_DEGREE}, and is {degree!r}")
    wanted = ("chebyshev", "limit", "chain") if method == "auto" else (method,)
    full = tree.plan((tree.ANY,) * (degree + 1))
    most = max(0, math.ceil(math.log2((hi - lo) / 2)))  # [lo, hi] / 2^most is 2 wide: more gains nothing
    for name in wanted:
        if name in ("chebyshev", "fitted"):
            make: Callable[..., Exponential] = fit.chebyshev if name == "chebyshev" else fit.fitted
            for n in [k] if k is not None else range(most + 1):
                yield (2 + full.depth + n - folded, full.products + n), partial(make, lo, hi, degree, n)
            continue
        maker: Callable[..., Exponential] = fit.limit if name == "limit" else fit.chain
        for n in [k] if k is not None else SQUARINGS:
            yield (2 + n - folded, n), partial(maker, lo, hi, n)


def candidates(range_: Any, domain: Any, tolerance: float = 1e-4, rows: str = "masked", method: str = "auto",
               degree: int = 15, k: int | None = None, folded: bool = False, guard_bound: float = fit.GUARD_BOUND,
               share_outside: float | None = None) -> list[Plan]:
    """Every candidate as a plan, cheapest first, feasible or not (``feasible`` tells). Fits them all: slow."""
    request = _Request(range_, domain, tolerance, rows, folded, guard_bound, share_outside)
    return sorted((request.plan(make()) for _, make in _specs(request.domain, method, degree, k,
                                                             folded and rows == "full")), key=cost)


def choose(range_: Any, domain: Any, tolerance: float = 1e-4, rows: str = "masked",
           guard_bound: float = fit.GUARD_BOUND, method: str = "auto", degree: int = 15, k: int | None = None,
           folded: bool = False, share_outside: float | None = None) -> Plan:
    """The plan of least total levels, then fewest multiplications, then least error.

    range_   calibrated [lo, hi] of y or None; the guard interval must hold it
    domain   [lo, hi] on which the error must be at most tolerance
    A method with its own k is taken as it is, whatever its error, which the plan records. Otherwise
    UserError where nothing is feasible. Fits in order of cost and stops at the first level that serves.
    """
    request = _Request(range_, domain, tolerance, rows, folded, guard_bound, share_outside)
    specs = sorted(_specs(request.domain, method, degree, k, folded and rows == "full"), key=lambda s: s[0])
    if method != "auto" and k is not None:
        return request.plan(specs[0][1]())
    tried: list[Plan] = []
    for (levels, _), make in specs:
        good = [p for p in tried if feasible(p)]
        if good and levels > good[0].levels:
            break
        tried.append(request.plan(make()))
    good = [p for p in tried if feasible(p)]
    if good:
        return min(good, key=cost)
    raise UserError(why_not(request, tried))


def cost(plan: Plan) -> tuple[int, int, float]:
    return plan.levels, plan.ct_mults, _error(plan)


def _error(plan: Plan) -> float:
    return math.inf if plan.exponential.fit is None else plan.exponential.fit.max_error


def _guarded(plan: Plan) -> bool:
    known = plan.exponential.fit
    if known is None:
        return False
    lo, hi = plan.range or known.domain
    return known.guard[0] <= min(lo, known.domain[0]) and max(hi, known.domain[1]) <= known.guard[1]


def feasible(plan: Plan) -> bool:
    """The error is within the tolerance, and the guard holds both the calibrated range and the domain."""
    return _error(plan) <= plan.tolerance and _guarded(plan)


def why_not(request: Any, tried: list[Plan]) -> str:
    """The sentence for a request (tolerance, domain, range) of which no tried plan is feasible."""
    best = min(tried, key=_error)
    guarded = [p for p in tried if _guarded(p)]
    text = f"no exponential reaches an error of {request.tolerance:g} on {list(request.domain)}"
    if _error(best) <= request.tolerance:
        text = f"no exponential of error {request.tolerance:g} has a guard that holds {request.range}"
    held = f", and {min(map(_error, guarded)):.1e} with such a guard" if guarded else ", none with such a guard"
    return (f"{text}: the best error is {_error(best):.1e} ({best.exponential.method}, {best.levels} levels)"
            f"{held}; a wider tolerance, a domain nearer the range, another degree or method, or less range "
            "(train with a range penalty) would help")


class _Request:
    """What every candidate is judged by."""

    def __init__(self, range_: Any, domain: Any, tolerance: float, rows: str, folded: bool, bound: float,
                 share_outside: float | None) -> None:
        self.domain = checked(domain, "domain")
        self.range = None if range_ is None else checked(range_, "range")
        if not (math.isfinite(tolerance) and tolerance > 0 and math.isfinite(bound) and bound > 0):
            raise UserError(f"tolerance and guard bound must be positive, and are {tolerance} and {bound}")
        if rows not in ROWS:
            raise UserError(f"rows must be full or masked, and is {rows!r}")
        self.tolerance, self.rows, self.folded, self.bound = tolerance, rows, folded, bound
        self.share_outside = share_outside

    def plan(self, exponential: Exponential) -> Plan:
        if self.bound != fit.GUARD_BOUND:
            exponential = fit.with_fit(exponential, self.domain, self.bound)
        statistics = statistics_levels(self.rows, exponential, self.folded)
        return Plan(exponential, self.rows, statistics, statistics + exponential.levels, exponential.ct_mults,
                    self.range, self.tolerance, self.share_outside)
