"""Which exponential for a measured range: of the candidates listed for it, the cheapest feasible one."""

from __future__ import annotations

import math
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


def choose(
    request: Request,
    *,
    method: str = "auto",
    degree: int | None = None,
    k: int | None = None,
    fitted: Callable[[Spec], Exponential] | None = None,
) -> Plan:
    """The plan of least total levels, then fewest multiplications, then least error.

    degree   of polynomials; None: every degree that ``specs`` lists
    fitted   makes the fit of a candidate, by a cache say
    A method with its own k is taken as it is (degree 15 unless told), whatever its error, which the plan records.
    Otherwise UserError where nothing is feasible, and for one by hand that overflows on the domain.
    """
    by_hand = method != "auto" and k is not None
    degree = BY_HAND if by_hand and degree is None else degree
    candidates = candidates_for(request, method, degree, k)
    if not by_hand:
        return cheapest(request, candidates, fitted)
    plan = plan_with(request, (fitted or Spec.make)(candidates[0]))
    if not math.isfinite(error_of(plan)):
        lo, hi = request.domain
        raise UserError(f"approx={method} with k={k} overflows on [{lo:g}, {hi:g}]: more squarings, or less range")
    return plan


def candidates_for(request: Request, method: str, degree: int | None, k: int | None) -> list[Spec]:
    """The candidates of a request: of one method, or of all where it is auto."""
    methods = METHODS if method == "auto" else (method,)
    return specs(request.domain, methods, degree, k, request.tolerance)


def plan_with(request: Request, exponential: Exponential) -> Plan:
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


def cheapest(request: Request, candidates: list[Spec], fitted: Callable[[Spec], Exponential] | None = None) -> Plan:
    """Of a list of candidates, the feasible plan of least ``cost``; UserError where none is feasible.

    fitted  makes the fit of a candidate, by a cache say
    """
    return min(first_that_serve(request, candidates, _spent, fitted), key=cost)


def first_that_serve(
    request: Request,
    candidates: list[Spec],
    spent: Callable[[Spec], tuple[int, ...]],
    fitted: Callable[[Spec], Exponential] | None = None,
) -> list[Plan]:
    """The feasible plans of the candidates that spend the least of all that serve; UserError where none serves.

    spent   what of a candidate counts, levels first;  fitted: makes the fit of a candidate, by a cache say
    Fits the candidates that spend the least first, and nothing beyond those that serve; a candidate whose degree
    no polynomial of the tolerance has (``least_error``) is fitted only for the error's message.
    """
    # 1. nothing is fitted for a request that no exponential can serve
    request.need_room()
    make = fitted or Spec.make
    tried: list[Plan] = []
    in_vain: list[Spec] = []
    # 2. groups that spend the same, the cheapest first
    for _, group in groupby(sorted(candidates, key=spent), key=spent):
        for spec in group:
            # 3. a degree that is too low for the tolerance is not fitted, the others are: a fit takes seconds
            if least_error(request.domain, spec.whole_degree) > request.tolerance:
                in_vain.append(spec)
            else:
                tried += plans_of(request, spec, make)
        # 4. the first group that serves ends the search: what follows costs more
        if good := [plan for plan in tried if feasible(plan)]:
            return good
    # 5. none serves: the sentence names the best of all, those of too low a degree among them
    raise UserError(why_not(request, tried + [plan_with(request, make(spec)) for spec in in_vain]))


def plans_of(request: Request, spec: Spec, make: Callable[[Spec], Exponential]) -> list[Plan]:
    """The plan of a candidate; then, where its guard alone falls short below, of its fits on wider and wider domains.

    A guard reaches as far beyond its domain as the polynomial stays small: a fit on more than the accuracy asks for
    may hold the range at the same levels, at a greater error. Ends with the first that is feasible.
    """
    # 1. the fit on the domain that was asked for; done where it is too bad, or its guard reaches low enough
    plans = [plan_with(request, make(spec))]
    first = plans[0].exponential.fit
    if (
        request.range is None
        or first is None
        or first.max_error > request.tolerance
        or request.range[0] >= first.guard[0]
    ):
        return plans
    # 2. fits on ever wider domains: the guard reaches further and the error grows, until one serves or none can
    for share in WIDER:
        low = share * request.range[0]
        if low < request.domain[0]:
            plans.append(plan_with(request, make(spec.over((low, request.domain[1])))))
            if feasible(plans[-1]) or error_of(plans[-1]) > request.tolerance:
                break
    return plans


def _spent(spec: Spec) -> tuple[int, int]:
    return spec.levels, spec.ct_mults


def _guarded(plan: Plan) -> bool:
    fitted = plan.exponential.fit
    if fitted is None:
        return False
    lo, hi = plan.range or fitted.domain
    return fitted.guard[0] <= min(lo, fitted.domain[0]) and max(hi, fitted.domain[1]) <= fitted.guard[1]


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
    if not math.isfinite(error_of(best)):
        return (
            f"{text}: each that was tried overflows there; more squarings, or less range (train with a range penalty)"
        )
    held = f", and {min(map(error_of, guarded)):.1e} with such a guard" if guarded else ", none with such a guard"
    return (
        f"{text}: the best error is {error_of(best):.1e} ({best.exponential.method}, {best.levels} levels)"
        f"{held}; a wider tolerance, a domain nearer the range, another degree or method, or less range "
        "(train with a range penalty) would help"
    )
