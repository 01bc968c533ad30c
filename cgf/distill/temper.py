"""Queries scaled head by head before training, so that a replaced softmax begins near the exact one.

CGF-softmax takes the log mean exp of a row by its mean and variance; where scores are far from Gaussian (the weights
of DINOv2 put y at -3,304) that is far too large, and whole rows vanish. Scores times a factor t below 1 are nearer to
Gaussian. Of a few factors each head takes the one whose weights, softmax(t x), are nearest to those of exact softmax
of x. It goes into the projection of the queries: nothing is left to compute later, encrypted or not. Ours, not the
paper's; off unless configured.
"""

from __future__ import annotations

import copy
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn

from cgf.data.task import Collate, Items, Task
from cgf.distill.processes import say
from cgf.errors import UserError
from cgf.models.host import Host
from cgf.models.install import installed, installed_softmaxes, query_projections
from cgf.models.samples import samples_of
from cgf.softmax.exact import Exact
from cgf.softmax.slot import Around

FACTORS = (1.0, *(2.0 ** (k / 4) for k in range(4, -21, -1) if k))  # 2 to 1/32; 1 first: of equals it is taken


def temper(host: Host, dataset: Items, collate: Collate, samples: int, seed: int = 0) -> list[list[float]]:
    """Scales the queries of every head for the softmaxes in place; returns the factors by layer and head.

    So many samples, drawn by seed, go through the host once, in one batch; every layer sees those before it scaled
    already. UserError where samples is no whole number of at least 1, or a factor in a projection is not one in the
    scores: an attention that normalises its queries undoes it.
    """
    if type(samples) is not int or samples < 1:
        raise UserError(f"temper.samples must be a whole number of at least 1 (0: off), and {samples!r} was given")
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed))
    batch = collate([dataset[i] for i in order[:samples].tolist()])
    projections, softmaxes = query_projections(host.model), installed_softmaxes(host.model)
    training = host.model.training
    host.model.eval()
    _check_scaling(host, {key: value[:2] for key, value in batch.items()}, projections)
    with torch.no_grad(), installed(host.model, lambda layer: FactorSearch(softmaxes[layer])) as slots:
        host.logits(batch)
    host.model.train(training)
    for (linear, features), slot in zip(projections, slots, strict=True):
        factors = torch.tensor(slot.factors).repeat_interleave((features.stop - features.start) // len(slot.factors))
        with torch.no_grad():
            for parameter in linear.parameters(recurse=False):  # weight, and bias where there is one
                own = parameter[features]
                own.mul_(factors.to(own).reshape(-1, *[1] * (own.dim() - 1)))
    return [slot.factors for slot in slots]


def tempered(task: Task, samples: int, seed: int, host: Host) -> None:
    """``temper`` on the training samples of a task, told in one line."""
    layers = temper(host, samples_of(task, "train", host, training=True), task.collate(host.inputs), samples, seed)
    factors = sorted(factor for layer in layers for factor in layer)
    say(f"queries scaled by {factors[0]:.2g} to {factors[-1]:.2g}, half of the heads by {median(factors):.2g} or less")


def _check_scaling(host: Host, batch: dict[str, Tensor], projections: list[tuple[nn.Linear, slice]]) -> None:
    """UserError unless queries twice as large make scores twice as large, in every layer.

    Every sample goes through twice, the second time with its queries doubled; both halves go on with the weights of the
    first, so that every layer is given the same in both.
    """

    def doubled(_: nn.Module, __: object, output: Tensor, features: slice) -> Tensor:
        output = output.clone()
        output[len(output) // 2 :, ..., features] *= 2
        return output

    handles = [linear.register_forward_hook(partial(doubled, features=features)) for linear, features in projections]
    softmaxes = installed_softmaxes(host.model)
    try:
        with torch.no_grad(), installed(host.model, lambda layer: ScalingProbe(softmaxes[layer])) as slots:
            host.logits({key: torch.cat([value, value]) for key, value in batch.items()})
    finally:
        for handle in handles:
            handle.remove()
    for layer, slot in enumerate(slots):
        if not slot.doubled:
            raise UserError(
                f"queries of {host.name} cannot be scaled: in layer {layer} a factor in their projection "
                "is not one in the scores, as where queries are normalised"
            )


class ScalingProbe(Around):
    """Notes whether the scores of the second half of the samples are twice those of the first."""

    doubled = False

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Exact weights (B, H, Q, K) of the first half of the samples, twice."""
        once, twice = scores.chunk(2)
        self.doubled = bool((twice - 2 * once).abs().max() <= 1e-4 * once.abs().max())
        return Exact().weights(torch.cat([once, once]), valid)


class FactorSearch(Around):
    """Picks each head's factor on the batch that it sees, and goes on with it."""

    factors: list[float]

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Weights (B, H, Q, K) of scores times each head's factor."""
        distances = [distance(self._weights(factor * scores, valid), scores, valid) for factor in FACTORS]
        best = torch.stack(distances).argmin(0)  # (H,)
        self.factors = [FACTORS[i] for i in best.tolist()]
        return self._weights(scores * scores.new_tensor(self.factors)[:, None, None], valid)

    def _weights(self, scores: Tensor, valid: Tensor | None) -> Tensor:
        """As in a first step of training: what a softmax measures then (BPMax's denominator) is of this batch alone."""
        softmax = copy.deepcopy(self.softmax)
        softmax.training = True
        return softmax.weights(scores, valid)


def distance(weights: Tensor, scores: Tensor, valid: Tensor | None) -> Tensor:
    """Mean over rows of the squared distance of weights (B, H, Q, K) to exact softmax of scores: (H,), inf for what
    is no number. Rows of padding, whose own position may not be attended, do not count."""
    rows = (weights - Exact().weights(scores, valid)).double().square().sum(-1).nan_to_num(nan=torch.inf)
    if valid is None or valid.shape[-2] != valid.shape[-1]:
        return rows.mean((0, 2))
    real = valid.diagonal(dim1=-2, dim2=-1).expand(rows.shape)
    return torch.where(real, rows, 0.0).sum((0, 2)) / real.sum((0, 2)).clamp(min=1)
