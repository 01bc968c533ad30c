"""Which exponential for a measured range: of the listed candidates (specs.py), the cheapest feasible one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from cgf.approx import fit
from cgf.approx.exponential import Exponential
from cgf.approx.exponential_json import exponential_from_json, number, numbers
from cgf.approx.specs import METHODS, Interval, Spec, least_error, specs
from cgf.errors import UserError

ROWS = ("full", "masked")
BY_HAND = 15  # degree of a polynomial whose k alone is given


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


def candidates(range_: Any, domain: Any, tolerance: float = 1e-4, rows: str = "masked", method: str = "auto",
               degree: int | None = None, k: int | None = None, folded: bool = False,
               guard_bound: float = fit.GUARD_BOUND, share_outside: float | None = None) -> list[Plan]:
    """Every candidate as a plan, cheapest first, feasible or not (``feasible`` tells). Fits them all: slow."""
    wanted = Wanted(range_, domain, tolerance, rows, folded, guard_bound, share_outside)
    listed = specs(wanted.domain, _methods(method), degree, k, tolerance)
    return sorted((wanted.plan(spec.make()) for spec in listed), key=cost)


def choose(range_: Any, domain: Any, tolerance: float = 1e-4, rows: str = "masked",
           guard_bound: float = fit.GUARD_BOUND, method: str = "auto", degree: int | None = None, k: int | None = None,
           folded: bool = False, share_outside: float | None = None) -> Plan:
    """The plan of least total levels, then fewest multiplications, then least error.

    range_   calibrated [lo, hi] of y or None; the guard interval must hold it
    domain   [lo, hi] on which the error must be at most tolerance
    degree   of polynomials; None: every degree that ``specs`` lists
    A method with its own k is taken as it is (degree 15 unless told), whatever its error, which the plan records.
    Otherwise UserError where nothing is feasible.
    """
    wanted = Wanted(range_, domain, tolerance, rows, folded, guard_bound, share_outside)
    by_hand = method != "auto" and k is not None
    listed = specs(wanted.domain, _methods(method), BY_HAND if by_hand and degree is None else degree, k, tolerance)
    return wanted.plan(listed[0].make()) if by_hand else least(wanted, listed)


def _methods(method: str) -> tuple[str, ...]:
    return METHODS if method == "auto" else (method,)


def least(wanted: Wanted, listed: list[Spec], fitted: Callable[[Spec], Exponential] | None = None) -> Plan:
    """Of a list of candidates, the feasible plan of least ``cost``; UserError where none is feasible.

    fitted  makes the fit of a candidate, by a cache say
    Fits in order of levels, then multiplications, and nothing beyond the first that serve; a candidate whose degree
    no polynomial of the tolerance has (``least_error``) is fitted only for the error's message.
    """
    wanted.need_room()

    def plan_of(spec: Spec) -> Plan:
        return wanted.plan(spec.make() if fitted is None else fitted(spec))

    tried: list[Plan] = []
    in_vain: list[Spec] = []
    for _, group in groupby(sorted(listed, key=_spent), key=_spent):
        for spec in group:
            if least_error(wanted.domain, spec.whole_degree) > wanted.tolerance:
                in_vain.append(spec)
            else:
                tried.append(plan_of(spec))
        if good := [plan for plan in tried if feasible(plan)]:
            return min(good, key=cost)
    raise UserError(why_not(wanted, tried + [plan_of(spec) for spec in in_vain]))


def _spent(spec: Spec) -> tuple[int, int]:
    return spec.levels, spec.ct_mults


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


def why_not(request: Wanted, tried: list[Plan]) -> str:
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


class Wanted:
    """What every candidate is judged by (see ``choose``); UserError for what is no request."""

    def __init__(self, range_: Any, domain: Any, tolerance: float, rows: str, folded: bool,
                 bound: float = fit.GUARD_BOUND, share_outside: float | None = None) -> None:
        self.domain = checked(domain, "domain")
        self.range = None if range_ is None else checked(range_, "range")
        if not (math.isfinite(tolerance) and tolerance > 0 and math.isfinite(bound) and bound > 0):
            raise UserError(f"tolerance and guard bound must be positive, and are {tolerance} and {bound}")
        if rows not in ROWS:
            raise UserError(f"rows must be full or masked, and is {rows!r}")
        self.tolerance, self.rows, self.folded, self.bound = tolerance, rows, folded, bound
        self.share_outside = share_outside

    def need_room(self) -> None:
        """UserError where exp itself, less the tolerance, passes the guard bound: no candidate need be fitted then."""
        highest, most = self.domain[1], math.log(self.bound)
        if highest + math.log1p(-min(self.tolerance, 0.5)) > most:
            raise UserError(f"exp is to be approximated up to y = {highest:.4g}, and a guard of 2^"
                            f"{math.log2(self.bound):.3g} holds it up to {most:.3g}: less range is needed (train with "
                            "a range penalty, or leave more entries out by outside=SHARE)")

    def plan(self, exponential: Exponential) -> Plan:
        if self.bound != fit.GUARD_BOUND:
            exponential = fit.with_fit(exponential, self.domain, self.bound)
        statistics = statistics_levels(self.rows, exponential, self.folded)
        return Plan(exponential, self.rows, statistics, statistics + exponential.levels, exponential.ct_mults,
                    self.range, self.tolerance, self.share_outside)
