"""A host's network as ``cgf.network`` describes it, from its weights; what cannot stay encrypted is refused by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor, nn

from cgf.activation.polynomial import Linear as ProductModule
from cgf.activation.polynomial import Square as SquareModule
from cgf.approx.exponential import Exponential
from cgf.errors import UserError
from cgf.models.host import Host
from cgf.models.install import installed_softmaxes
from cgf.network.inputs import Inputs
from cgf.network.layers import Affine, Layer, Linear, Network, Square
from cgf.norm.base import Norm
from cgf.norm.batch import BatchNorm
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.softmax.cgf import CGF
from cgf.softmax.inheritance import as_defined
from cgf.softmax.loop import LoopCGF
from cgf.types import HostModule

NOTHING = (nn.Identity, nn.Dropout)  # what does nothing in an evaluation


def network_of(host: Host) -> tuple[Network, Inputs]:
    """A host's network and what prepares its features, with the softmaxes and polynomials that are in place.

    UserError, with the place, for what does not stay encrypted: another norm than one of fixed statistics, another
    activation than a trained square (or a product, of a gate), another softmax than CGF-softmax of two cumulants with a
    polynomial in place, windows, and hosts that are not timm's VisionTransformer, transformers'
    BertForSequenceClassification or LlamaForSequenceClassification, or the BERT of model=bert_tiny.
    """
    from cgf.models import network_bert, network_llama, network_vit

    adapters: dict[str, Callable[[Host], tuple[Network, Inputs]]] = {
        "vit": network_vit.network_of,
        "bert": network_bert.network_of,
        "bert_tiny": network_bert.mean_pooled,
        "llama": network_llama.network_of,
    }
    if host.window is not None or (host.causal and host.family != "llama"):
        kind = "is causal" if host.window is None else f"has a window of {host.window} tokens"
        raise UserError(f"he.scope=network needs attentions over all tokens, and model '{host.name}' {kind}")
    if host.family not in adapters:
        raise UserError(
            f"he.scope=network reads hosts of {' and '.join(adapters)}, and model '{host.name}' is of {host.family}"
        )
    return adapters[host.family](host)


def exponentials_of(host: Host) -> list[Exponential]:
    """What stands for exp in each attention. UserError for softmaxes that a network under CKKS does not know."""
    slots = installed_softmaxes(host.model)
    if not slots:
        raise UserError(f"model '{host.name}' keeps its exact softmax: he.scope=network needs a CGF-softmax in place")
    return [exponential_of(slot.softmax) for slot in slots]


def check_known(softmax: Softmax) -> None:
    """UserError for a softmax that a network under CKKS does not know: any but CGF-softmax of two cumulants."""
    applied = (ExponentialSoftmax.apply_exponential, CGF.apply_exponential, LoopCGF.apply_exponential)
    made = (ExponentialSoftmax.formula, ExponentialSoftmax.from_exponentials)
    own = (Softmax.scores, Softmax.attention, Softmax.public_scale, CGF.exponent, *made)
    known = as_defined(softmax, *own) and any(as_defined(softmax, one) for one in applied)
    if not isinstance(softmax, CGF) or not known or softmax.order != 2:
        raise UserError(
            f"he.scope=network knows CGF-softmax of two cumulants alone, and layer {softmax.layer} has "
            f"'{softmax.title()}'"
        )


def exponential_of(softmax: Softmax) -> Exponential:
    """What stands for exp in CGF-softmax of two cumulants. UserError for any other softmax, or with exp itself."""
    check_known(softmax)
    assert isinstance(softmax, CGF)  # as was checked
    if softmax.exponential is None:
        raise UserError(
            f"he.scope=network needs a polynomial in place of exp, and layer {softmax.layer} has none: approx=plan or "
            "softmax=cgf_chain"
        )
    return softmax.exponential


def numbers(tensor: Tensor) -> np.ndarray:
    """A tensor as float64 numbers."""
    array: np.ndarray = tensor.detach().cpu().double().numpy()
    return array


def linear(module: HostModule, where: str) -> Linear:
    """A linear layer as it is; without a bias it gets one of zeros. UserError for any other module."""
    if type(module) is not nn.Linear:
        raise UserError(f"he.scope=network needs a linear layer at {where}, and there is {type(module).__name__}")
    weight = numbers(module.weight)
    return Linear(weight, np.zeros(len(weight)) if module.bias is None else numbers(module.bias))


def norm(module: HostModule, where: str) -> tuple[Layer, ...]:
    """A norm of fixed statistics, or none. UserError for others."""
    if type(module) is BatchNorm:
        return (Affine(*module.affine()),)
    if type(module) in NOTHING:
        return ()
    if isinstance(module, Norm):
        raise UserError(
            f"he.scope=network needs norms that are affine in an evaluation, and '{module.variant}' at {where} is not: "
            "norm=batch"
        )
    raise UserError(
        f"he.scope=network needs norms that are affine in an evaluation, and {type(module).__name__} at {where} stays "
        "exact: norm=batch"
    )


def activation(module: HostModule, where: str) -> Square:
    """A trained square. UserError for others."""
    if type(module) is SquareModule:
        return Square(module.coefficients())
    name = getattr(module, "variant", None) or type(module).__name__
    raise UserError(
        f"he.scope=network needs a square for an activation, and {name} at {where} is none: activation=square"
    )


def gate(module: HostModule, where: str) -> Layer:
    """The activation of a gated unit: affine, so that the unit is a product of two maps, or a trained square."""
    if type(module) is ProductModule:
        shift, scale = module.coefficients()
        return Affine(scale, shift)
    if type(module) is SquareModule:
        return activation(module, where)
    name = getattr(module, "variant", None) or type(module).__name__
    raise UserError(
        f"he.scope=network needs a product or a square for the gate of a gated unit, and {name} at {where} is none: "
        "activation=product or activation=square"
    )


def classes_of(host: Host) -> tuple[str, ...]:
    """Names of the classes, or their numbers."""
    return tuple(host.class_names or map(str, range(host.num_classes)))
