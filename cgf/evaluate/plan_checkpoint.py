"""The plan of a checkpoint: calibrated on samples that it was not tested on, then chosen by ``cgf.plan.planner``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from torch import Tensor

from cgf.checkpoint import resolve
from cgf.data.task import Collate, Items, Task
from cgf.errors import UserError
from cgf.evaluate.calibrate import run
from cgf.evaluate.observe import Calibrator
from cgf.evaluate.open_checkpoint import OpenCheckpoint, open_checkpoint
from cgf.models.host import Host
from cgf.plan.calibration import Calibration, Interval, union
from cgf.plan.load import FILE
from cgf.plan.plan import Plan, error_of
from cgf.plan.planner import ParetoSet, Planner, Requests, content, fit_of, levels_told
from cgf.plan.request import Request
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.target import check_writable
from cgf.types import Json

SLOTS = 8192  # what rows of whole samples are to fill, where nobody says how many are evaluated together


@dataclass(frozen=True)
class CalibrationRequest:
    """On what a checkpoint is calibrated. UserError for the split that tests it.

    samples    of the split, None: all;  whole: of all there are, those that ``task.limit`` left out too
    padding    rows of padding tokens, see ``cgf.evaluate.calibrate.run``
    """

    split: str
    samples: int | None
    whole: bool
    batch_size: int
    seed: int
    padding: str

    def __post_init__(self) -> None:
        if self.split == "test":
            raise UserError("a plan is a choice, and choices never see test data: split=train or split=val")


@dataclass(frozen=True)
class CalibrationReport:
    """What a pass over samples showed: calibrations by layer and head, and the shape of the longest rows.

    rows  of one sample, of all heads of a layer;  columns: entries of its longest row
    """

    calibrator: Calibrator
    samples: int
    rows: int
    columns: int

    @property
    def layers(self) -> list[Calibration]:
        """The calibration of each layer, in their order."""
        return list(self.calibrator.layers.values())


@dataclass(frozen=True)
class PlannedCheckpoint:
    """A plan and where it goes. data: what plan.json says, run info apart; pareto None: no set was made."""

    plan: Plan
    pareto: ParetoSet | None
    path: Path
    data: Json

    def told(self) -> str:
        """The plan in one sentence."""
        plan, fit, (low, high) = self.plan, fit_of(self.plan), self.shown()
        return (
            f"exponent in [{low:.2f}, {high:.2f}] on {self.data['samples']} {self.data['split']} samples, "
            f"{plan.row_kind} rows, {plan.share_outside:.1e} of the entries outside the domain [{fit.domain[0]:.2f}, "
            f"{fit.domain[1]:.2f}]: {plan.exponential.method}, {levels_told(plan, self.data)}, {plan.ct_mults} "
            f"multiplications, error {fit.max_error:.1e}, guard [{fit.guard[0]:.1f}, {fit.guard[1]:.1f}]"
            f"{' in the deepest layer' if plan.layers else ''}{self._too_far_off()}"
        )

    def shown(self) -> Interval:
        """[low, high] of the entries that count, of all layers. ``calibrated`` in the data reaches to 0 beside them."""
        ends = [layer["range"] for layer in self.data["layers"] if layer["range"]]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def _too_far_off(self) -> str:
        """That the error is above the tolerance, as that of a polynomial by hand may be; else nothing."""
        error = max(error_of(part) for part in self.plan.layers or (self.plan,))
        if error <= self.plan.tolerance:
            return ""
        return f". An error of {error:.1e} is above tolerance={self.plan.tolerance}: by hand it is taken as it is"


def open_to_plan(
    path: str, calibrating: CalibrationRequest, make_task: Callable[[Json], Task]
) -> tuple[OpenCheckpoint, ExponentialSoftmax]:
    """The checkpoint and the softmax that it is planned for; UserError for one without an exponential."""
    opened = open_checkpoint(path, calibrating.split, make_task, calibrating.whole)
    first = opened.softmaxes[0]
    if not isinstance(first, ExponentialSoftmax):
        raise UserError(
            f"softmax '{opened.checkpoint.softmax.name}' has no exponential to plan: eval_he.py runs it "
            "with approx=exact"
        )
    return opened, first


def calibrate(opened: OpenCheckpoint, calibrating: CalibrationRequest) -> CalibrationReport:
    """One pass over the chosen samples, with the exponents of all layers observed."""
    indices = opened.samples(calibrating.samples, calibrating.seed)
    return observed(
        opened.host,
        opened.softmaxes,
        opened.dataset,
        opened.collate,
        indices,
        batch_size=calibrating.batch_size,
        padding=calibrating.padding,
    )


def observed(
    host: Host,
    softmaxes: Sequence[Softmax],
    dataset: Items,
    collate: Collate,
    indices: Sequence[int],
    *,
    batch_size: int,
    padding: str,
) -> CalibrationReport:
    """One pass over samples with the exponents of these softmaxes, the host's by layer, observed for its length."""
    calibrator, shape = Calibrator(), [0, 0]

    def measure(softmax: Softmax, y: Tensor, weights: Tensor, valid: Tensor | None) -> None:
        if y.shape[-1] > shape[1]:
            shape[:] = int(y[0, ..., 0].numel()), int(y.shape[-1])

    kept = [list(softmax.observers) for softmax in softmaxes]
    for softmax in softmaxes:
        softmax.observers += [calibrator, measure]
    try:
        run(host, dataset, collate, indices, batch_size, padding)
    finally:
        for softmax, before in zip(softmaxes, kept, strict=True):
            softmax.observers[:] = before
    return CalibrationReport(calibrator, len(indices), shape[0], shape[1])


def requests_of(
    seen: CalibrationReport,
    softmax: ExponentialSoftmax,
    mask: str,
    padding: str,
    *,
    tolerance: float,
    rows: int | None = None,
    columns: int | None = None,
) -> Requests:
    """What is asked of a plan for a model that showed this; mask: of its rows, see cgf.models.host.Host.mask.

    rows, columns: of the scores of one evaluation; None: whole samples that fill SLOTS, the longest row seen.
    """
    mask = "padding" if mask == "full" and padding == "longest" else mask
    return partial(
        Request,
        tolerance=tolerance,
        rows=seen.rows * max(1, SLOTS // seen.rows) if rows is None else rows,
        columns=seen.columns if columns is None else columns,
        mask=mask,
        softmax=softmax,
    )


def plan_checkpoint(
    path: str,
    planner: Planner,
    calibrating: CalibrationRequest,
    make_task: Callable[[Json], Task],
    *,
    tolerance: float,
    rows: int | None = None,
    columns: int | None = None,
) -> tuple[PlannedCheckpoint, OpenCheckpoint]:
    """Calibrates a checkpoint and plans its exponential; writes nothing.

    rows, columns: of the scores of one evaluation; None: whole samples that fill SLOTS, the longest row seen. UserError
    where there is nothing to plan, or no exponential serves.
    """
    opened, softmax = open_to_plan(path, calibrating, make_task)
    seen = calibrate(opened, calibrating)
    requests = requests_of(
        seen, softmax, opened.host.mask, calibrating.padding, tolerance=tolerance, rows=rows, columns=columns
    )
    plan, pareto = planner.plan(seen.layers, requests)
    plan = replace(plan, checkpoint=opened.checkpoint.digest)
    data = {
        **content(plan, planner.request(seen.layers, requests)),
        "calibrated": union(seen.layers, planner.outside)[0],
        "split": calibrating.split,
        "samples": seen.samples,
        "whole": calibrating.whole,
        "padding": calibrating.padding,
        "layers": by_layer_and_head(seen, [fit_of(plan.of(i)).domain for i in range(len(seen.layers))]),
    }
    return PlannedCheckpoint(plan, pareto, opened.checkpoint.path / FILE, data), opened


def plan_asked(config: Json, make_task: Callable[[Json], Task]) -> tuple[PlannedCheckpoint, OpenCheckpoint]:
    """``plan_checkpoint`` as the settings of configs/plan.yaml ask for it.

    UserError before the work where the plan could not be written beside the checkpoint.
    """
    planner = Planner.of(config)
    calibrating = CalibrationRequest(
        *(config[key] for key in ("split", "samples", "whole", "batch_size", "seed", "padding"))
    )
    sizes = {key: config[key] for key in ("tolerance", "rows", "columns")}
    check_writable(resolve(config["ckpt"]) / FILE)
    return plan_checkpoint(config["ckpt"], planner, calibrating, make_task, **sizes)


def by_layer_and_head(seen: CalibrationReport, domains: list[Interval]) -> list[Json]:
    """The calibration of each layer and each of its heads, with the share of its entries outside the layer's domain."""

    def told(part: Calibration, domain: Interval) -> Json:
        return {**part.to_json(), "outside_domain": part.y.outside(domain)}

    heads = map(seen.calibrator.of_layer, seen.calibrator.layers)
    return [
        {**told(layer, domain), "heads": [told(head, domain) for head in own]}
        for layer, domain, own in zip(seen.layers, domains, heads, strict=True)
    ]
