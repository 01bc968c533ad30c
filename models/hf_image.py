"""Image classifiers of transformers as hosts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cgf.data.task import ImageInput, Inputs
from cgf.errors import UserError
from cgf.hub import fetching
from cgf.models.host import Host, listed
from cgf.models.pretrained import check_named, fit_head
from cgf.models.self_check import checked
from cgf.results import read_json

PREPROCESSOR = "preprocessor_config.json"
INTERPOLATIONS = {0: "nearest", 2: "bilinear", 3: "bicubic"}  # as Pillow counts them


def forward(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Logits (B, classes) of the model's own head."""
    return model(pixel_values=batch["pixel_values"]).logits


def host(
    model: nn.Module,
    image: ImageInput,
    *,
    name: str,
    num_classes: int,
    trained: bool,
    source: dict[str, Any],
    class_names: Sequence[str] | None = None,
) -> Host:
    """A host of a transformers image classifier; trained: whether its head was trained for these classes.

    Raises UserError where a softmax of the model cannot be replaced, see cgf.models.self_check.
    """
    made = Host(
        model=model,
        name=name,
        family="hf_image",
        forward=forward,
        inputs=Inputs(image=image),
        num_classes=num_classes,
        head_trained=trained,
        source=source,
        lora_targets=("query", "key", "value", "q_proj", "k_proj", "v_proj", "o_proj"),
        class_names=listed(class_names),
        extras=partial(_write, model),
    )
    return checked(made)


def _write(model: nn.Module, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)  # type: ignore[union-attr, operator]


def load(name: str, where: str, num_classes: int, class_names: Sequence[str] | None = None) -> Host:
    """The classifier of a folder or a hub id, with a head of num_classes.

    Raises UserError where it does not say how its images are prepared, and for a model that is no host.
    """
    from transformers import AutoModelForImageClassification, logging

    logging.set_verbosity_error()
    with fetching(where, "model.path=FOLDER with its files"):
        check_named(where)
        model, info = AutoModelForImageClassification.from_pretrained(
            where,
            num_labels=num_classes,
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            trust_remote_code=False,
            use_safetensors=True,
        )
        image = image_input(model.config, where)
    fresh = set(info["missing_keys"]) | {key[0] if isinstance(key, tuple) else key for key in info["mismatched_keys"]}
    if inner := sorted(key for key in fresh if key.startswith(f"{model.base_model_prefix}.")):
        raise UserError(f"{where} lacks weights of its model: {inner[0]}")
    names = listed(class_names)
    trained = not fresh and (names is None or fit_head(model, names, where))
    return host(
        model,
        image,
        name=name,
        num_classes=num_classes,
        trained=trained,
        source={"weights": where},
        class_names=class_names,
    )


def image_input(config: Any, where: str) -> ImageInput:
    """Size from the model's configuration, mean and std from the file of its preprocessing, beside it."""
    from transformers.utils import cached_file

    path = cached_file(where, PREPROCESSOR, _raise_exceptions_for_missing_entries=False)
    if path is None:
        raise UserError(
            f"{where} needs {PREPROCESSOR}, which says how its images are scaled: save its image processor beside it"
        )
    stated: dict[str, Any] = read_json(Path(path))
    size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", 3)
    height, width = (size, size) if isinstance(size, int) else tuple(size or (None, None))
    mean, std = stated.get("image_mean"), stated.get("image_std")
    whole = isinstance(height, int) and isinstance(width, int)
    numbers = isinstance(mean, list) and isinstance(std, list) and len(mean) == len(std) == channels
    if not whole or not numbers or stated.get("do_normalize") is False:
        raise UserError(f"{where} must state image_size, and image_mean and image_std of {channels} channels")
    return ImageInput(
        (channels, height, width),  # type: ignore[arg-type]
        tuple(map(float, mean)),  # type: ignore[arg-type]
        tuple(map(float, std)),  # type: ignore[arg-type]
        INTERPOLATIONS.get(stated.get("resample", 2), "bilinear"),
    )
