"""install and uninstall: a softmax into a model of one's own, and out of it again."""

from __future__ import annotations

import warnings
from functools import partial

from torch import nn

from cgf.errors import UserError
from cgf.interface.own_model import check_module, measured
from cgf.interface.saved import save_with_softmax
from cgf.interface.state import forget_state, keep_in_state
from cgf.models.install import install_copies, installed_softmaxes
from cgf.models.install import uninstall as restore
from cgf.models.saving import SAVER
from cgf.plan.check_formula import check_formula
from cgf.softmax.base import Softmax
from cgf.softmax.load import VARIANTS


def install(model: nn.Module, softmax: str | Softmax = "cgf") -> list[Softmax]:
    """Puts a softmax into every attention of a classifier and returns these, one a layer.

    model    a transformers sequence or image classifier whose attention goes through the attention interface, or a
             timm model with Attention; in float32
    softmax  a name ('cgf', 'bpmax' ...), or a Softmax, of which every layer gets a copy

    The untouched model is checked first: an exact softmax put in must give its logits again. A second install replaces
    the first. ``model.save_pretrained`` keeps the softmax beside the weights from then on, and ``model.state_dict()``
    what it was trained to (BPMax's denominators, a chain's constants), as cgf_softmax.LAYER.NAME. Raises UserError for
    a name that is not known, a formula that cannot be encrypted and a model that is refused, which is then as it was.
    """
    chosen = softmax_of(softmax)
    check_formula(chosen)
    measured(model)
    if hasattr(model, "save_pretrained"):
        object.__setattr__(model, SAVER, partial(save_with_softmax, model))
    slots = install_copies(model, chosen)
    keep_in_state(model)
    if any(slot.parameters() for slot in slots):
        warnings.warn(
            f"softmax '{chosen.name}' has constants that are trained, and model.parameters() does not hold them: give "
            "the optimizer parameters() of the softmaxes that install returns too",
            stacklevel=2,
        )
    return slots


def uninstall(model: nn.Module) -> int:
    """Puts the model's own attention back, as it was; returns how many softmaxes stood in it, 0 where none did.

    UserError for what is no torch module.
    """
    check_module(model)
    count = restore(model)
    forget_state(model)
    if SAVER in vars(model):
        object.__delattr__(model, SAVER)
    return count


def softmax_of(softmax: str | Softmax) -> Softmax:
    """The softmax of a name with its own defaults, or the one given. UserError for what is neither."""
    if isinstance(softmax, Softmax):
        return softmax
    if not isinstance(softmax, str) or softmax not in VARIANTS:
        raise UserError(f"softmax must be a Softmax or one of {', '.join(sorted(VARIANTS))}, and is {softmax!r}")
    return VARIANTS[softmax]()


def own_softmaxes(model: nn.Module) -> list[Softmax]:
    """The softmaxes that ``install`` put in, by layer. UserError where there are none."""
    check_module(model)
    slots = installed_softmaxes(model)
    if not slots or not all(isinstance(slot, Softmax) for slot in slots):
        raise UserError(f"{type(model).__name__} has no softmax put in: cgf.install(model, 'cgf') first")
    return [slot for slot in slots if isinstance(slot, Softmax)]
