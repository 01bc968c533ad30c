"""From a configuration or a checkpoint to a host model with its softmax in place."""

from __future__ import annotations

from typing import Any

from torch import nn

from cgf.data.task import ImageInput
from cgf.distill.checkpoint import Checkpoint
from cgf.errors import UserError
from cgf.softmax.base import Softmax
from models import bert, llama
from models.host import Host
from models.install import install

TEXT = {"llama": llama, "bert": bert}


def from_checkpoint(checkpoint: Checkpoint) -> tuple[Host, list[Softmax]]:
    """The host of a checkpoint, with its weights and the softmax that it was trained with.

    Needs neither the hub nor the original weights. Raises UserError where the weights are another model's.
    """
    tensors, layers = checkpoint.weights()
    host = _host(checkpoint, tensors)
    softmaxes = install(host.model, checkpoint.softmax)
    if len(softmaxes) != checkpoint.layers:
        raise UserError(f"checkpoint {checkpoint.path} has {checkpoint.layers} softmaxes, and its model "
                        f"{len(softmaxes)} attentions")
    for softmax, kept in zip(softmaxes, layers, strict=True):
        softmax.load_tensors(kept)
    return host, softmaxes


def load_weights(model: nn.Module, tensors: dict[str, Any], checkpoint: Checkpoint) -> None:
    """Strict loading by the host's own key names; UserError names the first keys that do not fit."""
    own = model.state_dict()
    missing, extra = sorted(set(own) - set(tensors)), sorted(set(tensors) - set(own))
    shapes = [k for k in own if k in tensors and own[k].shape != tensors[k].shape]
    if missing or extra or shapes:
        first = (missing + extra + shapes)[0]
        raise UserError(f"checkpoint {checkpoint.path} is of another model ({checkpoint.run.get('model')}): "
                        f"{len(missing)} keys missing, {len(extra)} unknown, {len(shapes)} of another shape, "
                        f"first '{first}'")
    model.load_state_dict(tensors)


def _host(checkpoint: Checkpoint, tensors: dict[str, Any]) -> Host:
    """The host of a checkpoint with its weights, which it is measured with."""
    run = checkpoint.run
    family, about = run["family"], (run["model"], run["num_classes"], True, run["source"], run.get("class_names"))
    if family == "vit":
        import timm

        from models import vit

        source = run["source"]
        model = timm.create_model(source["timm"], num_classes=run["num_classes"], **source["options"])
        facts: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in run["image"].items()}
        image = ImageInput(**facts)
        load_weights(model, tensors, checkpoint)
        return vit.host(model, image, *about)
    if family not in TEXT:
        raise UserError(f"checkpoint {checkpoint.path} is of the family '{family}', and there are bert, llama, vit")
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer  # seconds: not for a ViT

    folder = checkpoint.path / "host"
    if not (folder / "config.json").is_file():  # a relative path would be asked for on the hub
        raise UserError(f"{folder} does not describe the model: it holds no config.json")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForSequenceClassification.from_config(AutoConfig.from_pretrained(folder))
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} does not describe the model: {str(error).splitlines()[0]}") from None
    load_weights(model, tensors, checkpoint)
    return TEXT[family].host(model, tokenizer, *about)
