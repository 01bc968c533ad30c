"""A user's model as a host: what it takes and how it is read, found by its structure and measured."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from cgf.checks import is_whole
from cgf.data.task import ImageInput, Inputs
from cgf.errors import UserError
from cgf.models import llama
from cgf.models.host import Forward, Host
from cgf.models.install import install, installed_softmaxes, uninstall
from cgf.models.self_check import checked
from cgf.softmax.slot import Slot
from cgf.types import HostConfig, HostModule

TEXT, IMAGE = "input_ids", "pixel_values"


@dataclass(frozen=True)
class Padding:
    """What the evaluations ask of a tokenizer: the id that stands at padding."""

    pad_token_id: int


def check_module(model: object) -> None:
    """UserError for what is no torch module, and for a module that torch.compile wraps.

    What stands in a wrapper is traced as it was: a softmax put in later may be passed by.
    """
    name = type(model).__name__
    if not isinstance(model, nn.Module):
        raise UserError(f"a model is needed, and {name} is no torch module")
    if isinstance(getattr(model, "_orig_mod", None), nn.Module):
        raise UserError(
            f"{name} is what torch.compile made of a model: give the model itself (model._orig_mod), and compile that "
            "once its softmax is put in"
        )


def measured(model: nn.Module) -> Host:
    """The model as a host, self-checked without what is installed in it, which stands there again afterwards.

    Raises UserError where the model is refused by ``check_module``, is no classifier that is read here, is not in
    float32, or fails the self-check (cgf.models.self_check); the model is then as it was.
    """
    check_module(model)
    before = installed_softmaxes(model)
    uninstall(model)
    try:
        return checked(_host(model))
    finally:
        if before:
            put_back(model, before)


def put_back(model: nn.Module, slots: list[Slot]) -> None:
    """These very slots at the model's softmaxes, by layer."""
    install(model, slots.__getitem__)


def _host(model: nn.Module) -> Host:
    name, config = type(model).__name__, getattr(model, "config", None)
    kinds = {p.dtype for p in model.parameters() if p.is_floating_point()}
    if kinds != {torch.float32}:
        raise UserError(
            f"{name} must be in float32, in which its self-check is made, and has "
            f"{', '.join(sorted(map(str, kinds))) or 'no parameters'}: model.float()"
        )
    peft = sys.modules.get("peft")  # whoever has a model of its has imported it
    if peft is not None and isinstance(model, peft.PeftModel) and hasattr(model, "score"):
        raise UserError(
            f"{name} is a decoder within adapters, whose head 'score' is not read here: merge the adapters first "
            "(model.merge_and_unload())"
        )
    takes = getattr(model, "main_input_name", IMAGE if config is None else None)
    if config is not None and takes == TEXT:
        return _of(model, _text_forward(model), Inputs(tokenizer=Padding(_pad_id(model))), config.num_labels)
    if takes == IMAGE:
        return _of(model, _image_forward(model), Inputs(image=_image(model)), _image_classes(model))
    raise UserError(f"{name} takes {takes}, and a classifier of texts (input_ids) or images (pixel_values) is needed")


def _of(model: nn.Module, forward: Forward, inputs: Inputs, classes: int) -> Host:
    if classes < 2:  # the largest of one logit is always the first: whatever comes back would agree
        raise UserError(f"{type(model).__name__} gives {classes} logits, and a classifier of at least 2 is needed")
    return Host(
        model=model,
        name=type(model).__name__,
        family="own",
        forward=forward,
        inputs=inputs,
        num_classes=classes,
        head_trained=True,
    )


def _pad_id(model: nn.Module) -> int:
    config: HostConfig = model.config
    if getattr(config, "is_encoder_decoder", False):
        raise UserError(f"{type(model).__name__} has a decoder beside its encoder: one of the two alone is needed")
    pad = getattr(config, "pad_token_id", None)
    if pad is None and llama.has_head(model):
        raise UserError(
            f"{type(model).__name__} reads its logits at the last token that is not padding, and has no pad token: "
            "set model.config.pad_token_id"
        )
    return 0 if pad is None else int(pad)


def _text_forward(model: nn.Module) -> Forward:
    decoder = llama.has_head(model)

    def forward(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        """Logits (B, classes): of a decoder at the last token by the mask, else of the model's own head."""
        batch = _moved(model, batch)
        if decoder and "token_type_ids" in batch:
            raise UserError(f"{type(model).__name__} is a decoder, and token_type_ids are not read of decoders")
        return llama.forward(model, batch) if decoder else model(**batch).logits

    return forward


def _image_forward(model: nn.Module) -> Forward:
    return partial(_images, plain=not hasattr(model, "config"))


def _images(model: nn.Module, batch: dict[str, Tensor], *, plain: bool) -> Tensor:
    pixels = _moved(model, batch)[IMAGE]
    out = model(pixels) if plain else model(pixel_values=pixels).logits
    if not isinstance(out, Tensor) or out.dim() != 2:
        raise UserError(f"{type(model).__name__} gives no logits (B, classes): a classifier is needed")
    return out


def _moved(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    device = next(model.parameters()).device
    return {key: value.to(device) for key, value in batch.items()}


def _image_classes(model: nn.Module) -> int:
    config = getattr(model, "config", None)
    # mypy: timm's number, a Tensor for nn.Module's __getattr__
    return int(model.num_classes if config is None else config.num_labels)  # type: ignore[arg-type]


def _image(model: nn.Module) -> ImageInput:
    """The size of the images: the model's own, not that of the weights it started from."""
    config: HostConfig = getattr(model, "config", None)
    if config is not None:
        config = getattr(config, "vision_config", config)  # of a model of images and texts
        size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", 3)
    else:
        patches: HostModule = getattr(model, "patch_embed", None)
        size = getattr(patches, "img_size", None)
        stem = next((m for m in model.modules() if isinstance(m, nn.Conv2d)), None)
        channels = 3 if stem is None else stem.in_channels
        if size is None:
            size = getattr(model, "pretrained_cfg", {}).get("input_size", (3, None, None))[1:]
    height, width = (size, size) if is_whole(size) else tuple(size or (None, None))
    if not is_whole(height) or not is_whole(width):
        raise UserError(f"{type(model).__name__} does not say what size its images have")
    return ImageInput((channels, height, width), (0.5,) * channels, (0.5,) * channels)
