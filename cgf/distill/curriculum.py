"""Staged replacement: in training, layers go over from exact softmax to the replacement one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cgf.errors import UserError
from cgf.softmax.base import Softmax
from cgf.softmax.exact import Exact


@dataclass
class Curriculum:
    """The first layer is replaced at the start, the last after ``share`` of the steps; 0: all from the start.

    Which layers are replaced follows from the step alone. Evaluation always has all of them replaced, so that
    validation chooses among models as they will be used. A softmax that measures while it trains (BPMax) does so
    in layers that still run exact softmax, too, and what is observed is observed there: a penalty on the exponent draws
    the scores of a layer into its range before it is replaced.
    """

    share: float = 0.0
    replaced: int = field(default=0, init=False)
    _layers: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.share, int | float) or isinstance(self.share, bool) or not 0 <= self.share <= 1:
            raise UserError(f"train.staged must be a share of the steps from 0 to 1, and {self.share!r} was given")

    def watch(self, softmaxes: Sequence[Any]) -> None:
        """Takes the installed softmaxes, in layer order, in hand."""
        self._layers = self.replaced = len(softmaxes)
        if self.share:
            for layer, softmax in enumerate(softmaxes):
                self._stage(layer, softmax)

    def at(self, progress: float) -> int:
        """How many layers are replaced at ``progress`` (from 0 to 1) of the steps; takes effect at once."""
        if self.share and self._layers > 1:
            self.replaced = min(self._layers, 1 + int((self._layers - 1) * progress / self.share + 1e-9))
        return self.replaced

    def _stage(self, layer: int, softmax: Any) -> None:
        own_scores, own_weights, exact = softmax.scores, softmax.weights, Exact()
        own: list[Tensor] = []  # the replacement's scores of a pass through a layer that waits

        def scores(query: Tensor, key: Tensor, scaling: float) -> Tensor:
            if not softmax.training or layer < self.replaced:
                return own_scores(query, key, scaling)
            own[:] = [own_scores(query, key, scaling)] if softmax.observers else []
            return Softmax.scores(exact, query, key, scaling)

        def weights(scores: Tensor, valid: Tensor | None = None) -> Tensor:
            if not softmax.training or layer < self.replaced:
                return own_weights(scores, valid)
            if softmax.observers:
                own_weights(own.pop() if own else scores, valid)
            elif not softmax.uses_exponential:
                with torch.no_grad():
                    own_weights(scores, valid)
            return exact.weights(scores, valid)

        softmax.scores, softmax.weights = scores, weights
