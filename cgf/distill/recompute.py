"""Gradient checkpointing: layers are computed once more in the backward pass instead of being kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

from torch import nn
from torch.utils.checkpoint import checkpoint

from cgf.errors import UserError
from cgf.models.host import Host

P = ParamSpec("P")
R = TypeVar("R")


class MarksRecomputation(Protocol):
    """What is told that it is computed once more."""

    again: bool


def save_memory(host: Host, softmaxes: Sequence[MarksRecomputation]) -> None:
    """Has the host keep only each layer's input for the backward pass: less memory for about a third more time.

    softmaxes are those installed in it, and the norms and activations replaced: in the second computation they are
    marked (``again``), so that nothing is measured or penalised twice and gradients are those of a pass without
    checkpointing. UserError for a host without layers that can be computed again.
    """
    options = {"use_reentrant": False, "context_fn": lambda: (nullcontext(), Recomputation(softmaxes))}
    blocks = getattr(host.model, "blocks", None)
    if hasattr(host.model, "activation_checkpointing_enable"):
        # mypy: asked for in the line before
        host.model.activation_checkpointing_enable(activation_checkpointing_kwargs=options)  # type: ignore[operator]
    elif isinstance(blocks, nn.Module):
        for block in blocks.children():
            block.forward = _twice(block, block.forward, partial(checkpoint, **options))
    else:
        raise UserError(
            f"train.checkpointing needs a model of layers that can be computed again, and {host.name} has "
            "none that is known"
        )


def _twice(block: nn.Module, forward: Callable[P, R], again: Callable[..., R]) -> Callable[P, R]:
    """The forward pass of a block, kept in evaluation and computed again in training."""

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return again(forward, *args, **kwargs) if block.training else forward(*args, **kwargs)

    return run


class Recomputation:
    """A second computation of a layer: while it lasts the softmaxes know it."""

    def __init__(self, softmaxes: Sequence[MarksRecomputation]) -> None:
        self.softmaxes = softmaxes

    def __enter__(self) -> None:
        for softmax in self.softmaxes:
            softmax.again = True

    def __exit__(self, *_: object) -> None:
        for softmax in self.softmaxes:
            softmax.again = False
