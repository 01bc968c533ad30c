"""Is a model CGF-friendly: the fewest levels that hold a tolerance on the range that each layer shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from cgf.checks import interval, is_whole, positive, share
from cgf.errors import UserError
from cgf.plan.calibration import Calibration, Interval, merged
from cgf.plan.choose import choose
from cgf.plan.cost import MASK_OF, SECOND_ORDER
from cgf.plan.plan import Plan, cost, one_of_rows
from cgf.plan.request import Request
from cgf.softmax.base import ExponentialSoftmax
from cgf.types import Json


@dataclass(frozen=True)
class Budget:
    """What a layer is judged by.

    row_kind   'full' or 'masked', of the circuit;  tolerance: largest error of the exponential on the domain
    levels     most levels of a softmax that is called friendly
    outside    share of the entries that may lie below the accuracy domain
    margin     the guard must hold the range of all slots, stretched by this
    domain     the accuracy domain to judge by, None: the layer's own range
    softmax    whose circuit takes the levels
    """

    row_kind: str
    tolerance: float = 1e-4
    levels: int = 9
    outside: float = 0.0
    margin: float = 1.1
    domain: Interval | None = None
    softmax: ExponentialSoftmax = SECOND_ORDER

    def __post_init__(self) -> None:
        one_of_rows(self.row_kind)
        positive("tolerance", self.tolerance), share("outside", self.outside, "the entries")
        if not isinstance(self.margin, int | float) or not (math.isfinite(self.margin) and self.margin >= 1):
            raise UserError(f"margin stretches the range, by 1 or more, and {self.margin} was given")
        if not is_whole(self.levels) or self.levels < 1:
            raise UserError(f"levels must be a whole number of at least 1, and is {self.levels!r}")
        if self.domain is not None:
            object.__setattr__(self, "domain", interval("domain", self.domain))

    def request(self, range_: Interval, domain: Interval) -> Request:
        """What is planned for a layer: its rows are as full as the model's, its interval its own."""
        return Request(range_, domain, self.tolerance, mask=MASK_OF[self.row_kind], softmax=self.softmax)


@dataclass(frozen=True)
class Assessment:
    """What a layer or head asks for.

    plan   None where no exponential serves;  fails: what is in the way, empty where friendly
    far    share of real rows whose weights sum to less than 1/2 or more than 2
    """

    domain: Interval
    outside: float
    plan: Plan | None
    fails: str
    far: float

    def to_json(self) -> Json:
        """The plan's figures are of the domain rounded outwards: never too few levels."""
        plan, fit = self.plan, None if self.plan is None else self.plan.exponential.fit
        return {
            "domain": list(self.domain),
            "outside_domain": self.outside,
            "friendly": not self.fails,
            "levels": None if plan is None else plan.levels,
            "method": None if plan is None else plan.exponential.method,
            "max_error": None if fit is None else fit.max_error,
            "guard": None if fit is None else list(fit.guard),
            "verdict": self.verdict(),
        }

    def verdict(self) -> str:
        """One sentence in plain words."""
        sums = f"; {self.far:.0%} of the rows sum to less than 1/2 or more than 2 (exact softmax: 1)"
        sums = sums if self.far >= 0.005 else ""
        if self.fails:
            return f"needs range control: {self.fails}{sums}"
        assert self.plan is not None
        return (
            f"friendly: {self.plan.levels} levels ({self.plan.exponential.method}) on [{self.domain[0]:.1f}, "
            f"{self.domain[1]:.1f}]{sums}"
        )


def assess(seen: Calibration, budget: Budget, others: Iterable[Plan] = ()) -> Assessment:
    """Plans the exponential of one layer or head alone, and says what is in the way of it.

    others  plans of other layers: one that covers this one's intervals in fewer levels is taken (fits of many
            squarings are good, not optimal, so a wider interval sometimes has the better one).
    """
    domain, reach = _domain(seen, budget), seen.reach()
    outer, guarded = _intervals(seen, budget)
    own = _plan(budget.request(guarded, outer))
    plans = [p for p in (own, *others) if p is not None and _covers(p, outer, guarded)]
    plan = min(plans, key=cost, default=None)
    return Assessment(domain, seen.y.outside(outer), plan, _fails(seen, budget, domain, reach, plan), seen.far())


def _domain(seen: Calibration, budget: Budget) -> Interval:
    return seen.domain(budget.outside) if budget.domain is None else budget.domain


def _intervals(seen: Calibration, budget: Budget) -> tuple[Interval, Interval]:
    """(accuracy domain, interval that the guard must hold), the layer's own rounded outwards to an eighth of an
    octave, so that layers share their fits (1 to 20 s each)."""
    domain, reach = _domain(seen, budget), seen.reach()
    outer = rounded_out(domain) if budget.domain is None else domain
    return outer, rounded_out((min(outer[0], reach[0] * budget.margin), max(outer[1], reach[1] * budget.margin)))


def _covers(plan: Plan, domain: Interval, guarded: Interval) -> bool:
    fit = plan.exponential.fit
    assert fit is not None
    return (
        fit.domain[0] <= domain[0]
        and domain[1] <= fit.domain[1]
        and fit.guard[0] <= guarded[0]
        and guarded[1] <= fit.guard[1]
    )


@lru_cache(maxsize=1024)
def _plan(request: Request) -> Plan | None:
    # no guard holds a value beyond its bound, so the fits (half a minute) would be in vain
    if not request.has_room:
        return None
    try:
        return choose(request)
    except UserError:  # the budget is checked: what is left is that nothing is feasible
        return None


def _fails(seen: Calibration, budget: Budget, domain: Interval, reach: Interval, plan: Plan | None) -> str:
    if plan is not None and plan.levels <= budget.levels:
        return ""
    where = f"[{domain[0]:.1f}, {domain[1]:.1f}]"
    if plan is not None:
        return f"{where} takes {plan.levels} levels, more than {budget.levels}"
    text = f"no exponential holds {budget.tolerance:g} on {where} and stays bounded on [{reach[0]:.1f}, {reach[1]:.1f}]"
    if seen.slots.high > seen.high + 1 or seen.slots.low < seen.low - 1:
        text += ", which rows of padding tokens reach"
    if reach[1] > 8:
        text += f": weights up to exp({reach[1]:.1f}), where softmax has none above 1"
    return text


def rounded_out(interval: Interval) -> Interval:
    """Both ends away from 0 to a multiple of 1/8 of the power of two below them, steps of 1/8 at least."""
    lo, hi = interval
    lo, hi = (math.floor(lo / _step(lo)) * _step(lo), math.ceil(hi / _step(hi)) * _step(hi))
    return (lo if lo < hi else hi - 1.0), hi


def _step(end: float) -> float:
    return 2.0 ** (max(0, math.floor(math.log2(max(abs(end), 1.0)))) - 3)


def judge(heads: Mapping[tuple[int, int], Calibration], budget: Budget, by_head: bool = False) -> Json:
    """The report of a model from its calibrations by (layer, head): figures of all, then of each layer and head.

    by_head  heads are judged too, not only described. one_plan: the whole model with one polynomial.
    """
    numbers = sorted({layer for layer, _ in heads})
    by_layer = {layer: {head: c for (of, head), c in sorted(heads.items()) if of == layer} for layer in numbers}
    wholes = {layer: merged(heads_of.values()) for layer, heads_of in by_layer.items()}
    model = merged(wholes.values())
    judged = [model, *wholes.values(), *(heads.values() if by_head else ())]
    plans = {a.plan for a in (assess(c, budget) for c in judged) if a.plan is not None}
    layers = []
    for layer, whole in wholes.items():
        described = [
            {"head": head, **c.to_json(), **(assess(c, budget, plans).to_json() if by_head else {})}
            for head, c in by_layer[layer].items()
        ]
        layers.append({"layer": layer, **whole.to_json(), **assess(whole, budget, plans).to_json(), "heads": described})
    one = assess(model, budget, plans).to_json()
    return {
        "friendly": all(row["friendly"] for row in layers),
        "one_plan": one,
        "levels_needed": one["levels"],
        "entries": model.entries,
        "range": [model.low, model.high],
        "slots_range": [model.slots.low, model.slots.high],
        "outside_domain": sum(row["outside_domain"] * row["entries"] for row in layers) / model.entries,
        "layers": layers,
    }


def kappas(seen: Mapping[str, Iterable[Calibration]], bins: int = 120) -> list[Json]:
    """kappa_3/3! + kappa_4/4! over all rows of each named model: {name, mean, std, ..., histogram}.

    The histograms cover one interval, three times as wide as what holds 90 % of each model's rows: tails are
    long, and each histogram says how many rows lie beyond.
    """
    spreads = {name: merged(parts).kappa for name, parts in seen.items()}
    spreads = {name: s for name, s in spreads.items() if s.count}
    if not spreads:
        return []
    lo, hi = min(s.quantile(0.05) for s in spreads.values()), max(s.quantile(0.95) for s in spreads.values())
    apart = hi - lo + 1 / 64
    lo, hi = (
        max(lo - apart, min(s.low for s in spreads.values()), min(s.limits[0] for s in spreads.values())),
        min(hi + apart, max(s.high for s in spreads.values()) + 1 / 64),
    )
    return [{"name": name, **(s.to_json() or {}), "histogram": s.coarse(lo, hi, bins)} for name, s in spreads.items()]
