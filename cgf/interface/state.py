"""What a softmax was trained to, within the state_dict of the model that it is put into.

BPMax's denominators and the constants of a chain are no parameters of the model's own modules. Whoever keeps
``model.state_dict()``, or loads the best one of a training back, keeps and loads them with the weights all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from torch import Tensor, nn

from cgf.errors import UserError
from cgf.models.install import installed_softmaxes

KEY = "cgf_softmax."  # then the layer and the name: cgf_softmax.0.denominator
HOOKED, LEFT_OUT = "_cgf_state_hooked", "_cgf_state_left_out"  # attributes of a model


class Kept:
    """What the keys lead to as a path of attributes, ``model.cgf_softmax.0.denominator``: torch's distributed
    checkpoints follow each key of a state_dict so."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def __getattr__(self, layer: str) -> SimpleNamespace:
        if not layer.isdecimal():
            raise AttributeError(layer)
        return SimpleNamespace(**installed_softmaxes(self._model)[int(layer)].softmax.tensors())


def keep_in_state(model: nn.Module) -> None:
    """Makes the tensors of its softmaxes part of the model's state_dict, until ``forget_state``.

    Of a model that peft wraps it is that of the model inside, which is what stays where adapters are merged.
    """
    own = _inside(model)
    if HOOKED not in vars(own):  # a copy of a model has its hooks already
        handles = own.register_state_dict_post_hook(_give), own.register_load_state_dict_pre_hook(_take)
        object.__setattr__(own, HOOKED, handles)
        object.__setattr__(own, KEY[:-1], Kept(own))


def forget_state(model: nn.Module) -> None:
    """Its state_dict is that of its own modules again."""
    own = _inside(model)
    if HOOKED in vars(own):
        for handle in getattr(own, HOOKED):
            handle.remove()
        object.__delattr__(own, HOOKED)
        object.__delattr__(own, KEY[:-1])


def _inside(model: nn.Module) -> nn.Module:
    peft = sys.modules.get("peft")  # whoever has a model of its has imported it
    if peft is None or not isinstance(model, peft.PeftModel):
        return model
    inside: nn.Module = model.get_base_model()
    return inside


@contextmanager
def weights_alone(model: nn.Module) -> Iterator[None]:
    """For the length of a with block its state_dict is what it would be without any softmax put in."""
    object.__setattr__(model, LEFT_OUT, True)
    try:
        yield
    finally:
        object.__delattr__(model, LEFT_OUT)


def _give(model: nn.Module, state: dict[str, Tensor], prefix: str, _: object) -> None:
    if not hasattr(model, LEFT_OUT):
        for layer, slot in enumerate(installed_softmaxes(model)):
            for name, tensor in slot.softmax.tensors().items():
                state[f"{prefix}{KEY}{layer}.{name}"] = tensor.detach()


def _take(
    model: nn.Module,
    state: dict[str, Tensor],
    prefix: str,
    _: object,
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    """Hands each softmax its tensors. Those that it has and the state lacks are missing keys; keys of no softmax that
    is put in stay, and torch names them as unexpected."""
    for layer, slot in enumerate(installed_softmaxes(model)):
        own = f"{prefix}{KEY}{layer}."
        given = {key.removeprefix(own): state.pop(key) for key in list(state) if key.startswith(own)}
        if not given:
            missing.extend(own + name for name in slot.softmax.tensors())
            continue
        try:
            slot.softmax.load_tensors({name: tensor.detach().clone() for name, tensor in given.items()})
        except UserError as error:
            errors.append(f"{own[:-1]}: {error}")
