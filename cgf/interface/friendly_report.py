"""Is a model CGF-friendly, by layer and head: the question of scripts/friendly.py for a model at hand."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn

from cgf.errors import UserError
from cgf.evaluate.calibrate import run
from cgf.evaluate.observe import Calibrator, Onlooker
from cgf.interface.own_model import measured
from cgf.interface.samples import read
from cgf.models.install import installed, installed_softmaxes
from cgf.plan.friendly import Budget, judge
from cgf.softmax.base import ExponentialSoftmax
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact
from cgf.types import Json


@dataclass(frozen=True)
class FriendlyReport:
    """What a model's softmaxes ask of CKKS.

    friendly  whether every layer is;  levels: of one polynomial for the whole model, None where none serves
    layers    a dictionary a layer with its range, levels, verdict and heads;  samples: how many were seen
    """

    friendly: bool
    levels: int | None
    layers: list[Json]
    samples: int
    data: Json

    def __str__(self) -> str:
        head = f"{'CGF-friendly' if self.friendly else 'not CGF-friendly'} on {self.samples} samples"
        return "\n".join([head, *(f"layer {row['layer']}: {row['verdict']}" for row in self.layers)])


def friendly_report(
    model: nn.Module,
    loader: Iterable[object],
    *,
    samples: int = 200,
    softmax: ExponentialSoftmax | None = None,
    tolerance: float = 1e-4,
    levels: int = 9,
    batch_size: int = 32,
    by_head: bool = False,
) -> FriendlyReport:
    """Observes the exponent of a softmax in every layer while the model runs as it is; changes nothing in it.

    loader     batches as cgf.interface.samples.read takes them, training or validation data; ``samples`` of them
    softmax    whose exponent is observed; None: the one put in where it has one, else CGF-softmax
    tolerance  largest error of the exponential;  levels: most levels of a friendly layer;  by_head: judge heads too

    Raises UserError for a model or a loader that is refused.
    """
    host, before = measured(model), installed_softmaxes(model)
    if softmax is None:
        softmax = before[0] if before and isinstance(before[0], ExponentialSoftmax) else CGF()
    if not isinstance(softmax, ExponentialSoftmax):
        raise UserError("softmax must be one with an exponential, such as cgf.CGF()")
    budget = Budget(host.row_kind, tolerance, levels, softmax=softmax)
    data = read(loader, samples, host)
    calibrator, subject = Calibrator(), softmax

    def slot(layer: int) -> Onlooker:
        own = copy.deepcopy(subject)
        own.observers = [calibrator]
        return Onlooker(before[layer] if before else Exact(), own)

    with installed(model, slot):
        run(host, data, data.collate, range(len(data)), batch_size)
    report = judge(calibrator.heads, budget, by_head)
    return FriendlyReport(report["friendly"], report["levels_needed"], report["layers"], len(data), report)
