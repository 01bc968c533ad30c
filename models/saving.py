"""save_pretrained of a transformers model while something of it is replaced: refused, or done with the softmax."""

from __future__ import annotations

from torch import nn

from cgf.errors import UserError

# attributes of a model
BEFORE = "_cgf_previous_attention"  # the attention implementation to go back to, while softmaxes stand in it
PARTS = "_cgf_parts"  # what stands at its norms and activations
SAVER = "_cgf_saver"  # what saves it with its softmax


def settle(model: nn.Module) -> None:
    """Gives a model and its parts the save_pretrained that suits what is replaced; their own where nothing is.

    What reads the weights alone would compute another model, unsaid. Softmaxes alone are saved by a model's SAVER.
    """
    replaced, softmaxes = hasattr(model, PARTS), hasattr(model, BEFORE)
    refuse = _without_parts if replaced else _without_softmax
    for part in model.modules():
        if "save_pretrained" in vars(part):
            object.__delattr__(part, "save_pretrained")
        if (replaced or softmaxes) and hasattr(part, "save_pretrained"):
            object.__setattr__(part, "save_pretrained", refuse)
    if softmaxes and not replaced and hasattr(model, SAVER):
        object.__setattr__(model, "save_pretrained", getattr(model, SAVER))


def _without_softmax(*_: object, **__: object) -> None:
    raise UserError(
        "save_pretrained would keep the weights without their softmax, and what reads them would compute "
        "the exact one: use the checkpoint of a training run, or cgf.models.install.uninstall first"
    )


def _without_parts(*_: object, **__: object) -> None:
    raise UserError(
        "save_pretrained would keep the weights without the norms and activations put in, and what reads them would "
        "compute the model's own: use the checkpoint of a training run, or cgf.models.replace.restore first"
    )
