"""Hidden states and attention weights of student and teacher drawn together, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from cgf.distill.penalty import finite
from cgf.errors import UserError
from cgf.models.install import install
from cgf.softmax.slot import Around, Slot


@dataclass
class Matching:
    """hidden * mean over layers of MSE(hidden states) + attention * mean over layers of SE(attention weights).

    Hidden states (B, Q, D) are what each layer hands on, their error the mean over tokens and features; of the
    weights (B, H, Q, K) it is the sum over keys, averaged over rows. Tokens that are padding count in neither.
    Off at weight 0. Sources: TinyBERT, Jiao et al. 2020; MPCFormer and Powerformer distil so too.
    """

    hidden: float = 0.0
    attention: float = 0.0
    _taken: dict[str, list[list[Tensor]]] = field(default_factory=dict, init=False, repr=False)
    _open: bool = field(default=False, init=False, repr=False)  # between start and take, when passes are kept

    def __post_init__(self) -> None:
        if not finite(self.hidden, self.attention) or min(self.hidden, self.attention) < 0:
            raise UserError(
                "distill.hidden and distill.attention are weights of at least 0, and "
                f"{self.hidden!r} and {self.attention!r} were given"
            )

    @property
    def on(self) -> bool:
        """Whether anything is matched."""
        return bool(self.hidden or self.attention)

    def watch(
        self, student: nn.Module, softmaxes: Sequence[Slot], teacher: nn.Module | None, teachers: Sequence[Slot]
    ) -> None:
        """Listens to both models and to what is installed in them, in layer order; of weights by taps around it.

        UserError without a teacher, or with one of another depth.
        """
        if not self.on:
            return
        if teacher is None:
            raise UserError("distill.hidden and distill.attention need a teacher, and distill.teacher is null")
        if len(softmaxes) != len(teachers):
            raise UserError(
                f"distill.hidden and distill.attention need a teacher of as many layers as the student "
                f"({len(softmaxes)}), and it has {len(teachers)}"
            )
        for side, model, slots in (("student", student, softmaxes), ("teacher", teacher, teachers)):
            kept: list[list[Tensor]] = [[], []]
            self._taken[side] = kept
            if self.hidden:
                for layer in layers_of(model, len(slots)):
                    layer.register_forward_hook(
                        lambda _m, _i, out, kept=kept[0]: self._keep(kept, out[0] if isinstance(out, tuple) else out)
                    )
            if self.attention:
                install(model, self._tapped(slots, kept[1]))

    def _tapped(self, slots: Sequence[Slot], kept: list[Tensor]) -> Callable[[int], WeightsTap]:
        return lambda layer: WeightsTap(slots[layer], partial(self._keep, kept))

    def _keep(self, kept: list[Tensor], tensor: Tensor) -> None:
        """Adds a tensor of a pass that is matched: a validation, or a layer computed once more, leaves nothing."""
        if self._open:
            kept.append(tensor)

    def start(self) -> None:
        """From here on passes are kept, until ``take``."""
        self._forget()
        self._open = True

    def _forget(self) -> None:
        for hidden, attention in self._taken.values():
            hidden.clear()
            attention.clear()

    def take(self, padding: Tensor | None = None) -> Tensor | None:
        """What the passes since ``start`` add to the loss, or None; padding (B, Q): 0 at tokens that are none."""
        if not self.on:
            return None
        (own_h, own_a), (their_h, their_a) = self._taken["student"], self._taken["teacher"]
        parts = []
        if self.hidden:
            parts.append(self.hidden * _mean(own_h, their_h, "hidden states", padding, lambda d: d.square().mean(-1)))
        if self.attention:
            parts.append(
                self.attention
                * _mean(own_a, their_a, "attention weights", padding, lambda d: d.square().sum(-1).mean(1))
            )
        self._forget()
        self._open = False
        return torch.stack(parts).sum()


def _mean(
    own: list[Tensor], theirs: list[Tensor], what: str, padding: Tensor | None, reduce: Callable[[Tensor], Tensor]
) -> Tensor:
    """Mean over layers and tokens of reduce(difference), which gives (B, Q)."""
    layers = []
    for a, b in zip(own, theirs, strict=True):
        if a.shape != b.shape:
            raise UserError(
                f"the teacher's {what} must have the student's shape {tuple(a.shape)}, and have {tuple(b.shape)}"
            )
        tokens = reduce(a.float() - b.detach().float())
        keep = torch.ones_like(tokens) if padding is None else padding.to(tokens)
        layers.append((tokens * keep).sum() / keep.sum().clamp(min=1))
    return torch.stack(layers).mean()


class WeightsTap(Around):
    """Shows every batch of weights that the inner slot gives to ``keep``."""

    def __init__(self, inner: Slot, keep: Callable[[Tensor], None]) -> None:
        super().__init__(inner)
        self.keep = keep

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """The inner slot's weights (B, H, Q, K), which are shown."""
        weights = super().weights(scores, valid)
        self.keep(weights)
        return weights


def layers_of(model: nn.Module, count: int) -> list[nn.Module]:
    """The model's layers: the first list of ``count`` modules of one class; UserError if there is none."""
    for module in model.modules():
        if isinstance(module, nn.ModuleList | nn.Sequential) and len(module) == count:
            children = list(module.children())
            if len({type(child) for child in children}) == 1 and any(True for _ in children[0].parameters()):
                return children
    raise UserError(f"{type(model).__name__} has no list of {count} layers whose hidden states could be matched")
