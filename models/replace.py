"""Swaps the norms and activations of a host for others, and puts the originals back."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from cgf.activation.base import Activation, ActivationVariant, ExactActivations
from cgf.errors import UserError
from cgf.models import places
from cgf.models.saving import PARTS, settle
from cgf.norm.base import ExactNorms, Norm, NormVariant
from cgf.replacement import Replacement, Tokens, Variant
from cgf.types import Json, Options


@dataclass
class Parts:
    """What stands at the norms and activations of a model, by place; ``originals`` is what stood there."""

    norm: NormVariant = field(default_factory=ExactNorms)
    activation: ActivationVariant = field(default_factory=ExactActivations)
    norms: dict[str, Norm] = field(default_factory=dict)
    activations: dict[str, Activation] = field(default_factory=dict)
    originals: dict[str, places.Original] = field(default_factory=dict)
    tokens: Tokens = field(default_factory=Tokens)
    handles: list[RemovableHandle] = field(default_factory=list)

    @property
    def all(self) -> list[Replacement]:
        """Norms, then activations."""
        return [*self.norms.values(), *self.activations.values()]

    def parameters(self) -> list[nn.Parameter]:
        """All that these modules train."""
        return [p for part in self.all for p in part.parameters()]

    def described(self) -> dict[str, Json]:
        """What a checkpoint says of them: by 'norm' and 'activation' the variant and its places; exact ones nothing."""
        both: dict[str, tuple[Variant, Mapping[str, Norm | Activation]]] = {
            "norm": (self.norm, self.norms),
            "activation": (self.activation, self.activations),
        }
        return {
            kind: {
                **variant.to_json(),
                "places": [{"name": name, "features": part.features} for name, part in parts.items()],
            }
            for kind, (variant, parts) in both.items()
            if parts
        }

    def told(self) -> str:
        """How many of each stand there, in words."""
        counts = [
            f"{len(parts)} {kind} by '{variant.name}'"
            for kind, variant, parts in (
                ("norms", self.norm, self.norms),
                ("activations", self.activation, self.activations),
            )
            if parts
        ]
        return f"replaced: {', '.join(counts)}" if counts else "no norm and no activation is replaced"


def parts_of(model: nn.Module) -> Parts:
    """What stands at the model's norms and activations; nothing where they are its own."""
    return getattr(model, PARTS, None) or Parts()


def replace(
    model: nn.Module,
    norm: NormVariant,
    activation: ActivationVariant,
    norms: Mapping[str, int],
    activations: Mapping[str, int],
) -> Parts:
    """Puts a norm of the variant at each place in ``norms``, an activation at each in ``activations``.

    Both give the features of each place by its name; cgf.models.replace_check measures them. All or nothing: everything
    is made before the first place changes. What stood there before is taken out first. UserError for a place that is
    none.
    """
    restore(model)
    parts = Parts(norm, activation)
    for name, features in norms.items():
        parts.norms[name] = _norm(model, name, features, norm)
    for name, features in activations.items():
        parts.activations[name] = _activation(model, name, features, activation)
    for name, part in {**parts.norms, **parts.activations}.items():
        part.place, part.tokens = name, parts.tokens
        parts.originals[name] = places.at(model, name)
    for name, part in {**parts.norms, **parts.activations}.items():
        part.train(model.training)
        places.put(model, name, part)
    if parts.originals:
        parts.handles = _listen(model, parts.tokens)
        object.__setattr__(model, PARTS, parts)
        settle(model)
    return parts


def restore(model: nn.Module) -> int:
    """Puts the model's own norms and activations back, as they were; returns how many were replaced."""
    parts = parts_of(model)
    for handle in parts.handles:
        handle.remove()
    for name, original in parts.originals.items():
        if isinstance(original, nn.Module):
            original.train(model.training)
        places.put(model, name, original)
    if parts.originals:
        object.__delattr__(model, PARTS)
        settle(model)
    return len(parts.originals)


def _norm(model: nn.Module, name: str, features: int, variant: NormVariant) -> Norm:
    own = places.at(model, name)
    if not isinstance(own, nn.Module) or not places.is_norm(own):
        raise UserError(f"{name} of {type(model).__name__} is no norm that can be replaced")
    place = places.norm_place(own, name)
    if place.features != features:
        raise UserError(f"the norm {name} of {type(model).__name__} has {place.features} features, and not {features}")
    made = variant.make(place)
    weight, bias = places.gains(own)
    if weight is not None and not weight.is_meta:
        made.to(weight.device)
        made.take(weight, bias)
    return made


def _activation(model: nn.Module, name: str, features: int, variant: ActivationVariant) -> Activation:
    own = places.at(model, name)
    bare = places.is_bare(own) if isinstance(own, nn.Module) else True
    if not bare or not places.is_activation(own):
        raise UserError(f"{name} of {type(model).__name__} is no activation that can be replaced")
    made = variant.make(features)
    made.stands_for(own)
    device = next(model.parameters()).device
    return made if device.type == "meta" else made.to(device)


def _listen(model: nn.Module, tokens: Tokens) -> list[RemovableHandle]:
    """Notes the mask of every batch that the model, or what its head is put on, is given."""

    def note(module: nn.Module, placed: tuple[object, ...], given: Options) -> None:
        mask = inspect.signature(module.forward).bind_partial(*placed, **given).arguments.get("attention_mask")
        tokens.valid = mask.bool() if isinstance(mask, Tensor) and mask.dim() == 2 else None

    return [
        module.register_forward_pre_hook(note, with_kwargs=True)
        for module in model.modules()
        if {"input_ids", "attention_mask"} <= set(inspect.signature(module.forward).parameters)
    ]


@contextmanager
def probing(parts: Parts) -> Iterator[None]:
    """Every place computes the host's own function, for the length of a with block."""
    for part in parts.all:
        part.probing = True
    try:
        yield
    finally:
        for part in parts.all:
            part.probing = False


@contextmanager
def starting(parts: Parts) -> Iterator[None]:
    """The next pass is the one that first constants come from; every place sees those before it replaced already."""
    for part in parts.all:
        part.starting = True
    try:
        with torch.no_grad():
            yield
    finally:
        for part in parts.all:
            part.starting = False
