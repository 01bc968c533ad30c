"""Which exponential for a measured range: of the listed candidates (cgf.plan.candidates), the cheapest feasible one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from cgf.approx import fit
from cgf.approx.exponential import Exponential
from cgf.errors import UserError
from cgf.plan.candidates import METHODS, Spec, least_error, specs
from cgf.plan.plan import Plan, cost, error_of, other_than_second_order, statistics_levels
from cgf.plan.request import Request

BY_HAND = 15  # degree of a polynomial whose k alone is given
WIDER = (0.8, 0.9, 1.0)  # shares of the range below 0 on which a fit is tried whose guard does not hold the range


def choose(request: Request, *, method: str = "auto", degree: int | None = None, k: int | None = None) -> Plan:
    """The plan of least total levels, then fewest multiplications, then least error.

    degree   of polynomials; None: every degree that ``specs`` lists
    A method with its own k is taken as it is (degree 15 unless told), whatever its error, which the plan records.
    Otherwise UserError where nothing is feasible.
    """
    by_hand = method != "auto" and k is not None
    degree = BY_HAND if by_hand and degree is None else degree
    listed = listed_for(request, method, degree, k)
    return planned(request, listed[0].make()) if by_hand else least(request, listed)


def listed_for(request: Request, method: str, degree: int | None, k: int | None) -> list[Spec]:
    """The candidates of a request: of one method, or of all where it is auto."""
    methods = METHODS if method == "auto" else (method,)
    return specs(request.domain, methods, degree, k, request.tolerance)


def planned(request: Request, exponential: Exponential) -> Plan:
    """The plan that an exponential makes for a request, feasible or not (``feasible`` tells)."""
    if request.bound != fit.GUARD_BOUND:
        exponential = fit.with_fit(exponential, request.domain, request.bound)
    statistics = statistics_levels(request.kind, exponential, request.softmax)
    return Plan(
        exponential,
        request.kind,
        statistics,
        statistics + exponential.levels,
        exponential.ct_mults,
        request.range,
        request.tolerance,
        softmax=other_than_second_order(request.kind, exponential, request.softmax),
    )


def least(request: Request, listed: list[Spec], fitted: Callable[[Spec], Exponential] | None = None) -> Plan:
    """Of a list of candidates, the feasible plan of least ``cost``; UserError where none is feasible.

    fitted  makes the fit of a candidate, by a cache say
    Fits in order of levels, then multiplications, and nothing beyond the first that serve; a candidate whose degree
    no polynomial of the tolerance has (``least_error``) is fitted only for the error's message.
    """
    request.need_room()
    make = fitted or Spec.make
    tried: list[Plan] = []
    in_vain: list[Spec] = []
    for _, group in groupby(sorted(listed, key=_spent), key=_spent):
        for spec in group:
            if least_error(request.domain, spec.whole_degree) > request.tolerance:
                in_vain.append(spec)
            else:
                tried += tries(request, spec, make)
        if good := [plan for plan in tried if feasible(plan)]:
            return min(good, key=cost)
    raise UserError(why_not(request, tried + [planned(request, make(spec)) for spec in in_vain]))


def tries(request: Request, spec: Spec, make: Callable[[Spec], Exponential]) -> list[Plan]:
    """The plan of a candidate; then, where its guard alone falls short below, of its fits on wider and wider domains.

    A guard reaches as far beyond its domain as the polynomial stays small: a fit on more than the accuracy asks for
    may hold the range at the same levels, at a greater error. Ends with the first that is feasible.
    """
    plans = [planned(request, make(spec))]
    known = plans[0].exponential.fit
    if (
        request.range is None
        or known is None
        or known.max_error > request.tolerance
        or request.range[0] >= known.guard[0]
    ):
        return plans
    for share in WIDER:
        low = share * request.range[0]
        if low < request.domain[0]:
            plans.append(planned(request, make(spec.over((low, request.domain[1])))))
            if feasible(plans[-1]) or error_of(plans[-1]) > request.tolerance:
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


def why_not(request: Request, tried: list[Plan]) -> str:
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
