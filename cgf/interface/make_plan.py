"""A plan for a model at hand: what scripts/plan.py computes for a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn

from cgf.checks import one_of
from cgf.errors import UserError
from cgf.evaluate.plan_checkpoint import observed, requests_of
from cgf.interface.engines import ENGINES
from cgf.interface.installing import own_softmaxes
from cgf.interface.own_model import measured
from cgf.interface.samples import read
from cgf.named import short
from cgf.plan.op_times import table_of
from cgf.plan.plan import Plan
from cgf.plan.planner import Planner, content
from cgf.softmax.base import ExponentialSoftmax
from cgf.types import Json


@dataclass(frozen=True)
class ModelPlan:
    """The polynomial of a model's softmaxes and what it costs.

    plan      what ``evaluate_model`` puts in place;  ring_slots: of the ring it needs
    levels    of one softmax on such rows; full rows of another length or number may take one more (padding columns)
    seconds   predicted, of one evaluation of ``data['packing']`` rows; key_mib: of its keys; None: there is no table of
              times, or a plan a layer
    data      what plan.json would say;  softmax: what it was made for, as ``Softmax.to_json`` describes it
    """

    plan: Plan
    levels: int
    ring_slots: int
    seconds: float | None
    key_mib: float | None
    data: Json
    softmax: Json

    def __str__(self) -> str:
        low, high = self.data["domain"]
        cost = (
            "" if self.seconds is None else f", {self.seconds:.2f} s predicted for {self.data['packing']['rows']} rows"
        )
        return (
            f"{self.data['method']} on [{low:.1f}, {high:.1f}], error {self.data['max_error']:.1e}, "
            f"{self.levels} levels, {self.ring_slots} slots{cost}"
        )


def make_plan(
    model: nn.Module,
    loader: Iterable[object],
    *,
    samples: int | None = 200,
    tolerance: float = 1e-4,
    margin: float = 1.1,
    outside: float = 0.0,
    objective: str = "levels",
    per_layer: bool = False,
    batch_size: int = 32,
    engine: str = "desilo",
) -> ModelPlan:
    """Calibrates the softmaxes that ``install`` put in and chooses the polynomial in place of exp.

    loader   training or validation data, never what is evaluated on: a plan is a choice
    margin, outside, objective, per_layer  as in configs/plan.yaml;  engine: whose operation times predict seconds

    Changes nothing in the model. Raises UserError where nothing is installed, the softmax has no exponential, or no
    polynomial serves the range that the layers show.
    """
    one_of("engine", engine, ENGINES)
    if not isinstance(per_layer, bool):
        raise UserError(f"per_layer must be True or False, and is {short(per_layer)}")
    softmaxes = own_softmaxes(model)
    first = softmaxes[0]
    if not isinstance(first, ExponentialSoftmax):
        raise UserError(f"softmax '{first.name}' has no exponential to plan")
    planner = Planner(
        "auto",
        outside=outside,
        margin=margin,
        objective=objective,
        whole=False,
        per_layer=per_layer,
        times=table_of(None, engine),
    )
    host = measured(model)
    data = read(loader, samples, host)
    seen = observed(host, softmaxes, data, data.collate, range(len(data)), batch_size=batch_size, padding="auto")
    requests = requests_of(seen, first, host.mask, "auto", tolerance=tolerance)
    plan, pareto = planner.plan(seen.layers, requests)
    stated = content(plan, planner.request(seen.layers, requests))
    told = {} if pareto is None or per_layer else pareto.picked.to_json()
    return ModelPlan(
        plan,
        stated["packing"]["levels"],
        stated["ring_slots"],
        told.get("seconds"),
        told.get("key_mib"),
        stated,
        first.to_json(),
    )
