"""A plan: an exponential for a checkpoint or for each of its layers, what it costs, and the ranges that it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from cgf.approx.exponential import Exponential
from cgf.approx.exponential_json import exponential_from_json, number, numbers
from cgf.approx.specs import Interval
from cgf.errors import UserError

ROWS = ("full", "masked")


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


def cost(plan: Plan) -> tuple[int, int, float]:
    return plan.levels, plan.ct_mults, error_of(plan)


def error_of(plan: Plan) -> float:
    """The largest error on the domain of its fit; inf where there is none."""
    return math.inf if plan.exponential.fit is None else plan.exponential.fit.max_error


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
