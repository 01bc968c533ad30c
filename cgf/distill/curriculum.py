"""Staged replacement: in training, layers go over from the host's own functions to their replacements one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from cgf.errors import UserError
from cgf.replacement import Replacement
from cgf.softmax.base import Softmax
from cgf.softmax.exact import Exact
from cgf.softmax.slot import Around, Slot

KINDS = ("softmax", "norm", "activation")


@dataclass
class Curriculum:
    """The first layer is replaced at the start, the last after ``share`` of the steps; 0: all from the start.

    ``order`` says which kind goes first: all softmaxes in layer order, then all norms, then all activations, unless
    configured otherwise. Norms and activations that wait compute the host's own function, and measure.

    Which layers are replaced follows from the step alone. Evaluation always has all of them replaced, so that
    validation chooses among models as they will be used. A softmax that measures while it trains (BPMax) does so
    in layers that still run exact softmax, too, and what is observed is observed there: a penalty on the exponent draws
    the scores of a layer into its range before it is replaced.
    """

    share: float = 0.0
    order: Sequence[str] = KINDS
    replaced: int = field(default=0, init=False)
    _layers: int = field(default=0, init=False, repr=False)
    _parts: list[tuple[int, Replacement]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.share, int | float) or isinstance(self.share, bool) or not 0 <= self.share <= 1:
            raise UserError(f"train.staged must be a share of the steps from 0 to 1, and {self.share!r} was given")
        if isinstance(self.order, str | None) or sorted(self.order) != sorted(KINDS):
            raise UserError(f"train.order must name each of {', '.join(KINDS)} once, and is {self.order}")

    def watch(
        self, softmaxes: Sequence[Softmax], norms: Sequence[Replacement] = (), activations: Sequence[Replacement] = ()
    ) -> Sequence[Slot]:
        """What is to be installed for these softmaxes, in layer order: they themselves where nothing is staged.

        Exact softmaxes take no turn where norms or activations do.
        """
        parts = {"norm": norms, "activation": activations}
        turns = {"softmax": len(softmaxes), **{kind: len(each) for kind, each in parts.items()}}
        if norms or activations:
            turns["softmax"] = sum(not isinstance(softmax, Exact) for softmax in softmaxes)
        first, line = {}, 0
        for kind in self.order:
            first[kind], line = line, line + turns[kind]
        self._layers = self.replaced = line
        self._parts = [(first[kind] + i, part) for kind, each in parts.items() for i, part in enumerate(each)]
        if not self.share or not turns["softmax"]:
            return softmaxes
        return [LayerStage(softmax, partial(self._waits, first["softmax"] + i)) for i, softmax in enumerate(softmaxes)]

    def at(self, progress: float) -> int:
        """How many layers are replaced at ``progress`` (from 0 to 1) of the steps; takes effect at once."""
        if self.share and self._layers > 1:
            self.replaced = min(self._layers, 1 + int((self._layers - 1) * progress / self.share + 1e-9))
        for turn, part in self._parts:
            part.waits = self._waits(turn)
            part.at(progress)
        return self.replaced

    def _waits(self, turn: int) -> bool:
        return turn >= self.replaced


class LayerStage(Around):
    """Exact softmax in training while its layer ``waits``; a replacement that is observed or measures does so then."""

    def __init__(self, softmax: Softmax, waits: Callable[[], bool]) -> None:
        super().__init__(softmax)
        self._waits, self._exact = waits, Exact()
        self._own: list[Tensor] = []  # the replacement's scores of a pass through a layer that waits

    @property
    def exact(self) -> bool:
        """Whether exact softmax stands here in this pass."""
        return self.training and self._waits()

    def scores(self, query: Tensor, key: Tensor, scaling: float) -> Tensor:
        """Exact softmax's scores while the layer waits, else the replacement's."""
        if not self.exact:
            return super().scores(query, key, scaling)
        self._own[:] = [super().scores(query, key, scaling)] if self.softmax.observers else []
        return Softmax.scores(self._exact, query, key, scaling)

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Exact softmax's weights while the layer waits, else the replacement's."""
        if not self.exact:
            return super().weights(scores, valid)
        if self.softmax.observers:
            super().weights(self._own.pop() if self._own else scores, valid)
        elif not self.softmax.uses_exponential:
            with torch.no_grad():
                super().weights(scores, valid)
        return self._exact.weights(scores, valid)
