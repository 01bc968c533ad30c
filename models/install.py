"""Swaps the attention softmax of a host model, and puts the original back."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from torch import nn

from cgf.errors import UserError
from cgf.models import timm_attention, transformers_attention
from cgf.softmax.base import Softmax
from cgf.softmax.slot import Slot

S = TypeVar("S", bound=Slot)
C = TypeVar("C", bound=Softmax)

SOFTMAX = re.compile(r"softmax\(|scaled_dot_product_attention\(|multi_head_attention_forward\(")


def attention_modules(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The model's attention modules in forward order, with their names.

    UserError if there is none, or if another module computes a softmax, which would stay exact.
    """
    attentions = timm_attention.find(model) + transformers_attention.find(model)
    if not attentions:
        raise UserError(
            f"{type(model).__name__} has no attention that can be replaced: needed is a timm Attention or a "
            "transformers model that uses the attention interface"
        )
    replaced = {name for name, _ in attentions}
    for name, module in model.named_modules():
        # mypy: cache forgets what a class is
        if name not in replaced and _computes_softmax(type(module)):  # type: ignore[arg-type]
            raise UserError(
                f"{type(model).__name__} has a softmax that cannot be replaced and would stay exact: "
                f"{type(module).__name__} at {name}"
            )
    return attentions


@cache
def _computes_softmax(kind: type[nn.Module]) -> bool:
    """Whether the source of a module's own forward calls a softmax or a fused attention."""
    try:
        source = inspect.getsource(kind.forward)
    except (OSError, TypeError):  # no Python source: what runs is seen by cgf.models.self_check
        return False
    return SOFTMAX.search(source) is not None


def attention_blocks(model: nn.Module) -> list[nn.Module]:
    """Of each attention the smallest module with its output projection, which may stand beside it (BERT's).

    That is the module itself, or its parent where one weight matrix alone is beside it there: a parent with an MLP has
    two or more.
    """
    blocks = []
    for name, module in attention_modules(model):
        parent = model.get_submodule(name.rpartition(".")[0])
        own = {id(p) for p in module.parameters()}
        beside = [p for p in parent.parameters() if id(p) not in own and p.dim() > 1]
        blocks.append(parent if len(beside) == 1 else module)
    return blocks


def install(model: nn.Module, make: Callable[[int], S], expected: int | None = None) -> list[S]:
    """Gives every attention layer what stands at its softmax and returns these slots, in layer order.

    make      gives the slot of a layer, from the layer's index
    expected  how many attentions there must be; None: as many as the model's configuration says

    All or nothing: where a slot does not fit its layer, what stood in the model before comes back. A second install
    replaces the first. Raises UserError if nothing matches or the count is not the expected one.
    """
    count = len(installed_softmaxes(model)) or len(attention_modules(model))
    expected = expected if expected is not None else configured_layers(model)
    if expected is not None and count != expected:
        raise UserError(
            f"{type(model).__name__} has {expected} layers, and {count} attentions were found: each layer needs one "
            "attention of its own"
        )
    slots = [make(layer) for layer in range(count)]
    before = installed_softmaxes(model)
    uninstall(model)
    for layer, slot in enumerate(slots):
        slot.layer = layer
    try:
        _swap(model, attention_modules(model), slots)
    except BaseException:
        uninstall(model)
        if before:
            _swap(model, attention_modules(model), before)
        raise
    return slots


def install_copies(model: nn.Module, softmax: C, expected: int | None = None) -> list[C]:
    """install with a copy of ``softmax`` for every layer, so that constants may differ by layer."""
    return install(model, lambda _: copy.deepcopy(softmax), expected)


def _swap(model: nn.Module, attentions: list[tuple[str, nn.Module]], slots: Sequence[Slot]) -> None:
    in_timm = {name for name, _ in timm_attention.find(model)}
    for (name, module), slot in zip(attentions, slots, strict=True):
        adapter = timm_attention if name in in_timm else transformers_attention
        slot.sized(adapter.heads(module))
        adapter.swap(model, name, module, slot)
    if not in_timm:
        transformers_attention.switch_on(model)


def uninstall(model: nn.Module) -> int:
    """Restores every replaced attention; returns how many there were."""
    return timm_attention.restore(model) + transformers_attention.restore(model)


@contextmanager
def installed(model: nn.Module, make: Callable[[int], S]) -> Iterator[list[S]]:
    """install for the length of a with block; what stood there before comes back afterwards."""
    before = installed_softmaxes(model)
    slots = install(model, make)
    try:
        yield slots
    finally:
        uninstall(model)
        if before:
            install(model, before.__getitem__)


def installed_softmaxes(model: nn.Module) -> list[Slot]:
    """What stands at the softmaxes, in layer order; empty where nothing is installed."""
    return timm_attention.installed(model) or transformers_attention.installed(model)


def query_projections(model: nn.Module) -> list[tuple[nn.Linear, slice]]:
    """Of each attention with a softmax in place, by layer: the linear layer that projects queries, its rows for them.

    UserError where there is no such layer. Whether a factor in it reaches the scores is measured by cgf.distill.temper.
    """
    return timm_attention.queries(model) or transformers_attention.queries(model)


def configured_layers(model: nn.Module) -> int | None:
    """Attention layers that the model's own configuration states, where it does."""
    config = getattr(model, "config", None)
    layers = getattr(config, "num_hidden_layers", None)
    if layers is None and hasattr(model, "blocks"):
        layers = len(list(model.blocks.children()))  # type: ignore[union-attr]  # timm's blocks are modules
    return layers
