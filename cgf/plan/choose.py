"""Which exponential for a measured range: of the listed candidates (specs.py), the cheapest feasible one."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import groupby
from typing import Any

from cgf.approx import fit
from cgf.approx.exponential import Exponential
from cgf.errors import UserError
from cgf.plan.candidates import METHODS, Spec, least_error, specs
from cgf.plan.plan import ROWS, Plan, checked, cost, error_of, statistics_levels

BY_HAND = 15  # degree of a polynomial whose k alone is given
WIDER = (0.8, 0.9, 1.0)  # shares of the range below 0 on which a fit is tried whose guard does not hold the range


def candidates(
    range_: Any,
    domain: Any,
    tolerance: float = 1e-4,
    rows: str = "masked",
    method: str = "auto",
    degree: int | None = None,
    k: int | None = None,
    folded: bool = False,
    guard_bound: float = fit.GUARD_BOUND,
    share_outside: float | None = None,
) -> list[Plan]:
    """Every candidate as a plan, cheapest first, feasible or not (``feasible`` tells). Fits them all: slow."""
    wanted = Wanted(range_, domain, tolerance, rows, folded, guard_bound, share_outside)
    listed = specs(wanted.domain, _methods(method), degree, k, tolerance)
    return sorted((wanted.plan(spec.make()) for spec in listed), key=cost)


def choose(
    range_: Any,
    domain: Any,
    tolerance: float = 1e-4,
    rows: str = "masked",
    guard_bound: float = fit.GUARD_BOUND,
    method: str = "auto",
    degree: int | None = None,
    k: int | None = None,
    folded: bool = False,
    share_outside: float | None = None,
) -> Plan:
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
    make = fitted or Spec.make
    tried: list[Plan] = []
    in_vain: list[Spec] = []
    for _, group in groupby(sorted(listed, key=_spent), key=_spent):
        for spec in group:
            if least_error(wanted.domain, spec.whole_degree) > wanted.tolerance:
                in_vain.append(spec)
            else:
                tried += tries(wanted, spec, make)
        if good := [plan for plan in tried if feasible(plan)]:
            return min(good, key=cost)
    raise UserError(why_not(wanted, tried + [wanted.plan(make(spec)) for spec in in_vain]))


def tries(wanted: Wanted, spec: Spec, make: Callable[[Spec], Exponential]) -> list[Plan]:
    """The plan of a candidate; then, where its guard alone falls short below, of its fits on wider and wider domains.

    A guard reaches as far beyond its domain as the polynomial stays small: a fit on more than the accuracy asks for
    may hold the range at the same levels, at a greater error. Ends with the first that is feasible.
    """
    plans = [wanted.plan(make(spec))]
    known = plans[0].exponential.fit
    if wanted.range is None or known is None or known.max_error > wanted.tolerance or wanted.range[0] >= known.guard[0]:
        return plans
    for share in WIDER:
        low = share * wanted.range[0]
        if low < wanted.domain[0]:
            plans.append(wanted.plan(make(spec.over((low, wanted.domain[1])))))
            if feasible(plans[-1]) or error_of(plans[-1]) > wanted.tolerance:
                break
    return plans


def _spent(spec: Spec) -> tuple[int, int]:
    return spec.levels, spec.ct_mults


def _guarded(plan: Plan) -> bool:
    known = plan.exponential.fit
    if known is None:
        return False
    lo, hi = plan.range or known.domain
    return known.guard[0] <= min(lo, known.domain[0]) and max(hi, known.domain[1]) <= known.guard[1]


def feasible(plan: Plan) -> bool:
    """The error is within the tolerance, and the guard holds both the calibrated range and the domain."""
    return error_of(plan) <= plan.tolerance and _guarded(plan)


def why_not(request: Wanted, tried: list[Plan]) -> str:
    """The sentence for a request (tolerance, domain, range) of which no tried plan is feasible."""
    best = min(tried, key=error_of)
    guarded = [p for p in tried if _guarded(p)]
    text = f"no exponential reaches an error of {request.tolerance:g} on {list(request.domain)}"
    if error_of(best) <= request.tolerance:
        text = f"no exponential of error {request.tolerance:g} has a guard that holds {request.range}"
    held = f", and {min(map(error_of, guarded)):.1e} with such a guard" if guarded else ", none with such a guard"
    return (
        f"{text}: the best error is {error_of(best):.1e} ({best.exponential.method}, {best.levels} levels)"
        f"{held}; a wider tolerance, a domain nearer the range, another degree or method, or less range "
        "(train with a range penalty) would help"
    )


class Wanted:
    """What every candidate is judged by (see ``choose``); UserError for what is no request."""

    def __init__(
        self,
        range_: Any,
        domain: Any,
        tolerance: float,
        rows: str,
        folded: bool,
        bound: float = fit.GUARD_BOUND,
        share_outside: float | None = None,
    ) -> None:
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
            raise UserError(
                f"exp is to be approximated up to y = {highest:.4g}, and a guard of 2^"
                f"{math.log2(self.bound):.3g} holds it up to {most:.3g}: less range is needed (train with "
                "a range penalty, or leave more entries out by outside=SHARE)"
            )

    def plan(self, exponential: Exponential) -> Plan:
        if self.bound != fit.GUARD_BOUND:
            exponential = fit.with_fit(exponential, self.domain, self.bound)
        statistics = statistics_levels(self.rows, exponential, self.folded)
        return Plan(
            exponential,
            self.rows,
            statistics,
            statistics + exponential.levels,
            exponential.ct_mults,
            self.range,
            self.tolerance,
            self.share_outside,
        )
