"""How a plan is chosen: from a range alone, or from the ranges that the layers of a model showed. Knows no model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from cgf.approx.exponential import Fit, Interval
from cgf.checks import one_of, share
from cgf.errors import UserError
from cgf.former import PLAN_SCHEMA
from cgf.plan.calibration import Calibration, merged, union
from cgf.plan.choose import candidates_for, choose
from cgf.plan.fit_cache import FitCache
from cgf.plan.op_times import OpTimes, table_of
from cgf.plan.pareto import (
    CostedPlan,
    by,
    check_objective,
    costed_of_least_levels,
    costed_plans,
    least_levels,
    needs,
    pareto_front,
    pick,
)
from cgf.plan.plan import Margin, Plan, by_layer, stretched
from cgf.plan.request import Request
from cgf.types import Json

ENGINES = ("desilo", "openfhe", "sim")  # those that come with the package
Requests = Callable[[Interval, Interval], Request]  # of a range and a domain, on rows and a softmax that are settled


@dataclass(frozen=True)
class ParetoSet:
    """Feasible rows of a request, fewest levels first, and the one that the objective picks of the Pareto set."""

    request: Request
    objective: str
    feasible: list[CostedPlan]
    picked: CostedPlan

    def to_json(self) -> Json:
        """What pareto.json holds, run info apart."""
        return {
            "objective": self.objective,
            "picked": self.picked.to_json(),
            "front": [row.to_json() for row in pareto_front(self.feasible)],
            "feasible": [row.to_json() for row in self.feasible],
            "range": self.request.range,
            "tolerance": self.request.tolerance,
            **_shape(self.request),
        }


@dataclass(frozen=True)
class Planner:
    """Settings of a choice. UserError for those that do not go together.

    method     of the exponential, or auto: all of them; degree, k: None for every one that is listed
    domain     the accuracy domain by hand; None: what the layers show
    outside    share of a layer's entries that may lie below the domain that it shows
    margin     the guard must hold the shown range stretched by this, or by [below, above]
    objective  levels or seconds, by which one of the Pareto set is picked; pareto: whether that is made at all
    whole      the set has every feasible row; else, by objective=levels, only rows of least levels: the same is picked
    per_layer  a plan for each layer, from its own range
    times      of operations, which predict seconds; None: there are none for the engine
    """

    method: str
    degree: int | None = None
    k: int | None = None
    domain: Interval | None = None
    outside: float = 0.0
    margin: Margin = 1.0
    objective: str = "levels"
    pareto: bool = True
    whole: bool = True
    per_layer: bool = False
    times: OpTimes | None = None
    cache: FitCache = field(default_factory=lambda: FitCache(None))

    def __post_init__(self) -> None:
        check_objective(self.objective)
        share("outside", self.outside, "the entries")
        if self.objective == "seconds" and not self.pareto:
            raise UserError("objective=seconds chooses from the Pareto set: it needs pareto=true")

    @classmethod
    def of(cls, config: Json) -> Planner:
        """As configs/plan.yaml says; reads the table of operation times. UserError for settings that clash.

        Likewise for an engine that is neither one of ENGINES nor that of the file ``times``.
        """
        _check_target(config)
        approx, cache = config["approx"], config["cache"]
        times = table_of(config["times"], config["engine"])
        if times is None:  # a file of times may be of an engine of one's own
            one_of("engine", config["engine"], ENGINES)
        settled = {key: config[key] for key in ("outside", "margin", "objective", "pareto", "per_layer")}
        return cls(
            approx["method"],
            approx.get("degree"),
            approx.get("k"),
            approx.get("range"),
            **settled,
            times=times,
            cache=FitCache(None if cache is None else Path(cache).expanduser()),
        )

    @property
    def by_hand(self) -> bool:
        """Whether nothing is set side by side: ``cgf.plan.choose.choose`` says what is taken."""
        return not self.pareto or (self.method != "auto" and self.k is not None)

    def pareto_set(self, request: Request) -> ParetoSet:
        """UserError where no exponential serves the request."""
        listed = candidates_for(request, self.method, self.degree, self.k)
        costing = costed_plans if self.whole or self.objective == "seconds" else costed_of_least_levels
        costed = costing(request, listed, self.times, self.cache)
        return ParetoSet(request, self.objective, costed, pick(costed, self.objective))

    def request(self, layers: list[Calibration], requests: Requests) -> Request:
        """What is asked for layers that share a plan."""
        calibrated, domain = union(layers, self.outside)
        return requests(stretched(calibrated, self.margin), domain if self.domain is None else self.domain)

    def plan(self, layers: list[Calibration], requests: Requests) -> tuple[Plan, ParetoSet | None]:
        """One plan for all layers, or one each, with the share of the entries outside its domain; and the Pareto set
        of all layers together, where one is made.

        UserError where no exponential serves, or the guard of one by hand does not hold what its layer showed.
        """
        together = self.request(layers, requests)
        made = None if self.by_hand else self.pareto_set(together)
        if self.per_layer:
            plan = by_layer([self._alone(self.request([layer], requests)) for layer in layers])
        else:
            plan = self._chosen(together) if made is None else made.picked.plan
        for index, layer in enumerate(layers):
            _check_guard(plan.of(index), layer)
        return replace(plan, share_outside=share_outside(plan, layers)), made

    def _chosen(self, request: Request) -> Plan:
        return choose(request, method=self.method, degree=self.degree, k=self.k, fitted=by(self.cache))

    def _alone(self, request: Request) -> Plan:
        if self.by_hand:
            return self._chosen(request)
        if self.objective == "seconds":
            return self.pareto_set(request).picked.plan
        return least_levels(request, candidates_for(request, self.method, self.degree, self.k), self.cache)


def share_outside(plan: Plan, layers: list[Calibration]) -> float:
    """Share of the entries of all layers that lie outside the domain of their layer's exponential."""
    outside = sum(layer.y.outside(fit_of(plan.of(index)).domain) * layer.entries for index, layer in enumerate(layers))
    return outside / merged(layers).entries


def _check_guard(plan: Plan, layer: Calibration) -> None:
    (low, high), guard = union([layer])[0], fit_of(plan).guard
    if not guard[0] <= low <= high <= guard[1]:  # possible by hand alone
        raise UserError(
            f"the guard of a plan must hold every calibrated entry, [{low:.2f}, {high:.2f}], and that "
            f"of {plan.exponential.method} with this k is [{guard[0]:.2f}, {guard[1]:.2f}]: "
            "another approx.k, or approx=auto"
        )


def fit_of(plan: Plan) -> Fit:
    """What is known of its exponential, which a planner has always fitted."""
    fit = plan.exponential.fit
    assert fit is not None
    return fit


def content(plan: Plan, request: Request) -> Json:
    """What plan.json says of a plan on the rows of the request; what was measured for it comes beside it.

    ring_slots: of the smallest ring that holds the plan on these rows. packing: how they lie in ciphertexts there, and
    the levels that their circuits take. Those are more than the plan's where full rows are packed with padding columns,
    beside which the masked circuit stands.
    """
    blocks, fit = needs(request, plan.exponential), fit_of(plan)
    return {
        "schema": PLAN_SCHEMA,
        **plan.to_json(),
        "ring_slots": max(n.layout.slots for n in blocks),
        "packing": {
            **_shape(request),
            "columns_a_ciphertext": max(n.layout.columns_per_ct for n in blocks),
            "ciphertexts": sum(n.layout.ciphertexts for n in blocks),
            "padding_columns": max(n.layout.padding_columns for n in blocks),
            "levels": max(n.levels for n in blocks),
        },
        "method": plan.exponential.method,
        "domain": fit.domain,
        "guard": fit.guard,
        "max_error": fit.max_error,
    }


def levels_told(plan: Plan, stated: Json) -> str:
    """The levels of a plan in words, and those of its packing (``content``) where they differ."""
    packing = stated["packing"]
    if packing["levels"] == plan.levels:
        return f"{plan.levels} levels"
    return (
        f"{plan.levels} levels ({packing['levels']} as {packing['rows']} rows of {packing['columns']} are packed, with "
        f"{packing['padding_columns']} padding columns)"
    )


def _shape(request: Request) -> Json:
    return {"rows": request.rows, "columns": request.columns, "mask": request.mask}


def _check_target(config: Json) -> None:
    """UserError unless the settings name a checkpoint or a range, and nothing that belongs to the other."""
    if config["ckpt"] is None and config["range"] is None:
        raise UserError("a plan needs ckpt=PATH, or range=[LO,HI] for a table alone, and neither was given")
    if config["ckpt"] is None and config["per_layer"]:
        raise UserError("per_layer=true needs the layers of a checkpoint: ckpt=PATH")
    for key in ("range", "out"):
        if config["ckpt"] is not None and config[key] is not None:
            raise UserError(
                f"{key} is for planning without a checkpoint, and ckpt={config['ckpt']} was given (the "
                "domain of a checkpoint's plan may be set by approx.range)"
            )
