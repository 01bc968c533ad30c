"""Where a host's norms and activations stand: found by what they are and compute, not by the family's name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache

import torch
from torch import Tensor, nn

from cgf.errors import UserError
from cgf.norm.base import NormPlace
from cgf.replacement import Replacement

TOLERANCE = 1e-4  # of the largest number, between a norm and the formula of a LayerNorm or an RMSNorm
Original = nn.Module | Callable[[Tensor], Tensor]


def norms(model: nn.Module) -> list[str]:
    """Names of the modules that are norms over the last dimension, in the order of the model. UserError for shared."""
    return _unshared(model, [name for name, m in model.named_modules(remove_duplicate=False) if is_norm(m)])


def activations(model: nn.Module) -> list[str]:
    """Names of the modules, and of the functions that a module's forward calls, that are activations.

    That is measured: without weights, the same for every number by itself, and not affine.
    """
    names = []
    for name, module in model.named_modules(remove_duplicate=False):
        if is_bare(module) and is_activation(module):
            names.append(name)
        names += [
            f"{name}.{attribute}" if name else attribute
            for attribute, value in vars(module).items()
            if not isinstance(value, nn.Module)
            and callable(value)
            and f"self.{attribute}(" in _forward_source(type(module))  # type: ignore[arg-type]
            and is_activation(value)
        ]
    return _unshared(model, names)


def _unshared(model: nn.Module, names: list[str]) -> list[str]:
    first: dict[int, str] = {}
    for name in names:
        there = at(model, name)
        if isinstance(there, nn.Module) and id(there) in first:
            raise UserError(
                f"{first[id(there)]} and {name} of {type(model).__name__} are one module: each needs its own"
            )
        first[id(there)] = name
    return names


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a LayerNorm or an RMSNorm by its class, or a leaf whose forward divides by a root."""
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return True
    parameters = list(module.parameters())
    leaf = not list(module.children()) and 1 <= len(parameters) <= 2 and all(p.dim() == 1 for p in parameters)
    return leaf and not isinstance(module, Replacement) and "rsqrt(" in _forward_source(type(module))  # type: ignore[arg-type]


def is_bare(module: nn.Module) -> bool:
    """Whether a module holds nothing: no weights, no buffers, no other modules."""
    held: list[Iterator[object]] = [module.parameters(), module.buffers(), module.children()]
    return all(next(each, None) is None for each in held)


@cache
def _forward_source(kind: type[nn.Module]) -> str:
    try:
        return inspect.getsource(kind.forward)
    except (OSError, TypeError):  # no Python source: what runs is seen by cgf.models.replace_check
        return ""


@torch.no_grad()
def is_activation(function: Original) -> bool:
    """Whether a function of tensors acts on every number by itself, and is not affine."""
    u = torch.linspace(-20.0, 20.0, 64, dtype=torch.float64, device="cpu").reshape(2, 8, 4)
    was_training = isinstance(function, nn.Module) and function.training
    if isinstance(function, nn.Module):
        function.eval()
    try:
        y, back = function(u), function(u.flip(0, 1, 2))
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError, NotImplementedError):
        return False  # it takes something else than a tensor of any shape
    finally:
        if isinstance(function, nn.Module):
            function.train(was_training)
    if not isinstance(y, Tensor) or y.shape != u.shape or not torch.equal(back.flip(0, 1, 2), y):
        return False
    step = y.reshape(-1).diff()
    return bool((step - step.mean()).abs().max() > 1e-6)


def at(model: nn.Module, name: str) -> Original:
    """What stands at a place: a module, or a function kept as an attribute. UserError where there is nothing."""
    parent, _, attribute = name.rpartition(".")
    try:
        holder = model.get_submodule(parent)
    except AttributeError:
        holder = None
    there = None if holder is None else holder._modules.get(attribute, vars(holder).get(attribute))
    if there is None or not callable(there):
        raise UserError(f"{type(model).__name__} has nothing at {name!r} that could be replaced")
    return there


def put(model: nn.Module, name: str, thing: Original) -> None:
    """Puts a module or a function at a place, whatever of the two stood there."""
    parent, _, attribute = name.rpartition(".")
    holder = model.get_submodule(parent)
    if not isinstance(thing, nn.Module) and attribute in holder._modules:
        delattr(holder, attribute)  # a module takes no function in the place of a submodule
    setattr(holder, attribute, thing)


def norm_place(module: nn.Module, name: str) -> NormPlace:
    """features, eps and kind of a norm, measured but for modules without numbers (device 'meta').

    UserError for one that is neither (x - mean) / sqrt(var + eps) nor x / sqrt(mean square + eps), scaled and shifted.
    """
    weight, bias = gains(module)
    numbers = [value for value in vars(module).values() if type(value) is float]
    eps = numbers[0] if len(numbers) == 1 else torch.finfo(torch.float32).eps
    shape = module.normalized_shape if isinstance(module, nn.LayerNorm | nn.RMSNorm) else weight.shape  # type: ignore[union-attr]
    if len(shape) != 1 or len(numbers) > 1:
        raise UserError(f"the norm {name} is over {len(shape)} dimensions, and one is needed")
    features = int(shape[0])  # type: ignore[arg-type]
    if weight is not None and weight.is_meta:
        return NormPlace(features, eps, isinstance(module, nn.LayerNorm))
    for centred in (True, False):
        if _computes(module, weight, bias, NormPlace(features, eps, centred)):
            return NormPlace(features, eps, centred)
    raise UserError(
        f"the norm {name} ({type(module).__name__}) computes neither a LayerNorm nor an RMSNorm over its last "
        "dimension: it cannot be replaced"
    )


def gains(module: nn.Module) -> tuple[Tensor | None, Tensor | None]:
    """(scale, shift) of a norm, by where they stand: the first of its parameters, and the second."""
    held = [p for _, p in module.named_parameters(recurse=False)]
    return (held[0] if held else None), (held[1] if len(held) > 1 else None)


@torch.no_grad()
def _computes(module: nn.Module, weight: Tensor | None, bias: Tensor | None, place: NormPlace) -> bool:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(6, place.features, generator=draw, device="cpu") + 2.0
    x = x * torch.tensor([1.0, 1.0, 1.0, 0.1, 1e-2, 1e-3], device="cpu")[:, None]
    centre = x - x.mean(-1, keepdim=True) if place.centred else x
    expected = centre * (centre.square().mean(-1, keepdim=True) + place.eps).rsqrt()
    expected = expected if weight is None else expected * weight.cpu()
    expected = expected if bias is None else expected + bias.cpu()
    try:
        own = module(x if weight is None else x.to(weight))
    except (TypeError, ValueError, RuntimeError, IndexError):
        return False
    return own.shape == x.shape and bool((own.cpu() - expected).abs().max() <= TOLERANCE * expected.abs().max())
