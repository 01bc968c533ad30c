"""timm vision transformers as hosts. Their attention: ``cgf.models.timm_attention``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import timm
import torch
from torch import Tensor, nn

from cgf.data.task import ImageInput, Inputs
from cgf.errors import UserError, with_reason
from cgf.hub import fetching
from cgf.memory import need_memory
from cgf.models import timm_folder, timm_hub
from cgf.models.described import check_options
from cgf.models.host import Host, HostFacts, listed
from cgf.models.pretrained import check_revision, locate, whence
from cgf.models.self_check import checked
from cgf.types import HostConfig, Json, JsonValue, Options

BYTES = 8  # of a weight in float32, and as many again for what is computed with it


def load(
    name: str,
    timm_name: str | None,
    num_classes: int,
    *,
    path: str | None = None,
    pretrained: bool = True,
    hub_revision: str | None = None,
    img_size: int | None = None,
    options: Options | None = None,
    drop_path: float = 0.0,
    class_names: Sequence[str] | None = None,
) -> Host:
    """A timm vision transformer with a head of num_classes.

    path is a folder that timm.models.save_for_hf or cgf.save wrote, or a hub id of such files; it says which model it
    is, timm_name may be None. img_size: pixels of a side, None: the model's own; position embeddings are brought to it.
    options are further arguments of timm's, for a name alone; drop_path, from 0 to below 1, drops whole branches in
    training.

    pretrained takes the weights of the hub; with as many classes as its own head it keeps that head. hub_revision: a
    commit or a branch of them; None: the newest. run.json names the commit that was loaded.
    Raises UserError for a name that timm does not know, weights that cannot be fetched, and weights without a commit.
    """
    given = _with_size(_plain(options or {}), img_size)
    if path is not None:
        return _of_folder(
            name,
            locate(name, path),
            timm_name,
            num_classes,
            hub_revision=hub_revision,
            options=given,
            drop_path=drop_path,
            classes=class_names,
        )
    options = {**given, **dropping(drop_path)}
    known = _known(name, timm_name, options)
    make = partial(timm.create_model, known, num_classes=num_classes, **options)
    with torch.device("meta"), with_reason(f"model '{name}' is none that timm can build"):  # nothing is allocated
        count = sum(weight.numel() for weight in make(pretrained=False).parameters())
    need_memory(count * BYTES / 2**30, f"model '{name}' with its {count:,} weights")
    if pretrained:
        model, weights = _pretrained(known, make, hub_revision)
    elif hub_revision is not None:
        raise UserError(f"model.hub_revision={hub_revision} is of weights, and model.pretrained=false takes none")
    else:
        model, weights = make(pretrained=False), {}
    pretrained_cfg: HostConfig = model.pretrained_cfg
    own_head = pretrained and pretrained_cfg.get("num_classes") == num_classes
    source: Json = {"timm": known, "pretrained": pretrained, "options": options, **weights}
    about = HostFacts(name=name, num_classes=num_classes, trained=own_head, source=source, class_names=class_names)
    return host(model, image_input(model, source["options"]), about)


def _with_size(options: Options, img_size: int | None) -> Options:
    """The options with the size of the images among them; UserError where both give one."""
    if img_size is None:
        return options
    if "img_size" in options:
        raise UserError("model.img_size and model.options.img_size are the same setting: leave one of them out")
    return {**options, "img_size": img_size}


def _known(name: str, timm_name: str | None, options: Mapping[str, JsonValue]) -> str:
    """The name of a model in timm's registry; UserError for what is none, and for options that none may have."""
    if timm_name is None:
        raise UserError(f"model '{name}' needs model.timm_name=NAME, or model.path=FOLDER that timm wrote")
    if any(mark in timm_name for mark in ":/"):  # timm's own words for a hub id or a folder
        raise UserError(
            f"model.timm_name is a name of timm.list_models(), and {timm_name!r} was given: "
            "model.path=FOLDER or model.path=OWNER/NAME takes a model by where it lies"
        )
    if not timm.is_model(timm_name):
        raise UserError(f"model '{name}' needs a timm model name, and timm does not know {timm_name!r}")
    _check_pool(name, options)
    check_options(options, f"model '{name}'")  # before memory is taken, and before a checkpoint that none can read
    return timm_name


def _pretrained(timm_name: str, make: Callable[..., nn.Module], hub_revision: str | None) -> tuple[nn.Module, Json]:
    """The model with the hub's weights of its name, all of one commit, and what run.json says of them."""
    where = timm_hub.repository(timm_name)
    check_revision(where, hub_revision)
    with fetching(where, timm_hub.INSTEAD, hub_revision):
        commit = timm_hub.commit_of_weights(where, hub_revision)
        return make(pretrained=True, pretrained_cfg_overlay={"hf_hub_id": f"{where}@{commit}"}), whence(where, commit)


def _of_folder(
    name: str,
    where: str,
    timm_name: str | None,
    num_classes: int,
    *,
    hub_revision: str | None,
    options: Mapping[str, JsonValue],
    drop_path: float,
    classes: Sequence[str] | None,
) -> Host:
    """The host of a folder or a hub id; UserError where the call asks for another model than is there."""
    check_revision(where, hub_revision)
    path, commit = (where, None) if Path(where).is_dir() else timm_hub.folder_of(where, hub_revision)
    folder, side = timm_folder.read(path), options.get("img_size")
    if set(options) - {"img_size"} or timm_name not in (None, folder.name):
        raise UserError(
            f"{where} says itself which model it is, {folder.name}: leave out model.timm_name and model.options"
        )
    if side is not None:
        folder = folder.of_size(side)
    _check_pool(name, folder.options)
    more = dropping(drop_path)
    model, trained = folder.model(num_classes, listed(classes), **more)
    source = {"timm": folder.name, "pretrained": False, "options": {**folder.options, **more}, **whence(where, commit)}
    about = HostFacts(name=name, num_classes=num_classes, trained=trained, source=source, class_names=classes)
    return host(model, folder.image, about)


def _check_pool(name: str, options: Mapping[str, JsonValue]) -> None:
    if options.get("global_pool") == "":
        raise UserError(
            f"model '{name}' needs one vector an image, and global_pool='' gives one a token: avg, token, map"
        )


def _plain(value: JsonValue) -> JsonValue:
    """Dictionaries and lists of a configuration as Python's own: timm and json take no others."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def dropping(drop_path: float) -> dict[str, float]:
    """timm's argument for the rate of dropped branches, none for 0. UserError for what is no rate."""
    if not isinstance(drop_path, int | float) or not 0 <= drop_path < 1:
        raise UserError(f"model.drop_path must be a rate from 0 to below 1, and {drop_path!r} was given")
    return {"drop_path_rate": float(drop_path)} if drop_path else {}


def image_input(model: nn.Module, options: Options) -> ImageInput:
    """The images the model takes: those of its pretrained weights, or whole ones of the size it was built for.

    UserError for a model whose images are padded with a border.
    """
    config = timm.data.resolve_model_data_config(model)
    if config.get("crop_mode") == "border":
        raise UserError(
            f"{type(model).__name__} takes images with a border (crop_mode of timm), which is not made here"
        )
    size, crop = tuple(config["input_size"]), config["crop_pct"]
    channels = int(options.get("in_chans", size[0]))
    if "img_size" in options:
        size, crop = (channels, int(options["img_size"]), int(options["img_size"])), 1.0
    return ImageInput(
        size,
        tuple(config["mean"][:channels]),
        tuple(config["std"][:channels]),  # type: ignore[arg-type]  # three numbers, or one for grey images
        config["interpolation"],
        crop,
        config.get("crop_mode") == "squash",
    )


def forward(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Logits (B, classes) of the model's own head."""
    return model(batch["pixel_values"])


def host(model: nn.Module, image: ImageInput, about: HostFacts) -> Host:
    """A host of a timm model.

    Raises UserError where a softmax of the model cannot be replaced, see cgf.models.self_check.
    """
    targets = ("attn.qkv", "attn.proj")
    return checked(about.host(model, Inputs(image=image), forward, family="vit", lora_targets=targets))


def resized(model: nn.Module, image: ImageInput, about: HostFacts, side: int) -> Host:
    """A host of a timm model that takes images of ``side`` by ``side`` pixels from now on.

    Its position embeddings are brought to the new grid. Raises UserError for a size that patches do not fill, and for
    a model whose images have the size that it was built for.
    """
    options = {**about.source["options"], "img_size": side}
    check_options(options, f"model '{about.name}'")
    size = (image.size[0], side, side)
    timm_folder.bring_to(model, size[1:], about.name)
    return host(model, replace(image, size=size), replace(about, source={**about.source, "options": options}))
