"""Image classifiers of transformers as hosts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from torch import Tensor, nn

from cgf.data.task import ImageInput, Inputs
from cgf.errors import UserError
from cgf.hub import fetching
from cgf.models.described import checked_image
from cgf.models.host import Host, HostFacts, listed
from cgf.models.pretrained import at, body, check_named, named_head, whence, with_head
from cgf.models.self_check import checked
from cgf.results import read_json
from cgf.types import HostConfig, Json

PREPROCESSOR = "preprocessor_config.json"
BYTE = 1 / 255
# what a processor may do to an image: the first four are read below, and the last two change no pixel of it
REPEATED = ("do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb", "do_reduce_labels")
INTERPOLATIONS = {0: "nearest", 2: "bilinear", 3: "bicubic"}  # as Pillow counts them


def forward(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Logits (B, classes) of the model's own head."""
    return model(pixel_values=batch["pixel_values"]).logits


def host(model: nn.Module, image: ImageInput, about: HostFacts) -> Host:
    """A host of a transformers image classifier.

    Raises UserError where a softmax of the model cannot be replaced, see cgf.models.self_check.
    """
    made = about.host(
        model,
        Inputs(image=image),
        forward,
        family="hf_image",
        lora_targets=("query", "key", "value", "q_proj", "k_proj", "v_proj", "o_proj"),
        extras=partial(_write, model),
    )
    return checked(made)


def _write(model: nn.Module, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)  # type: ignore[union-attr, operator]  # a transformers model has it


def load(
    name: str, where: str, num_classes: int, class_names: Sequence[str] | None = None, hub_revision: str | None = None
) -> Host:
    """The classifier of a folder or a hub id at a commit or branch (None: the newest), with a head of num_classes.

    Raises UserError where it does not say how its images are prepared, and for a model that is no host.
    """
    from transformers import AutoModelForImageClassification, logging

    logging.set_verbosity_error()
    with fetching(where, "model.path=FOLDER with its files", hub_revision):
        commit = check_named(where, hub_revision) or hub_revision
        model, fresh = with_head(AutoModelForImageClassification, where, num_classes, **at(commit))
        below, part = body(model)
        image = image_input(part.config, where, commit)  # type: ignore[arg-type]  # a transformers model has it
    if inner := sorted(key for key in fresh if key.startswith(f"{below}.")):
        raise UserError(f"{where} lacks weights of its model: {inner[0]}")
    trained = named_head(model, not fresh, listed(class_names), where)
    about = HostFacts(
        name=name, num_classes=num_classes, trained=trained, source=whence(where, commit), class_names=class_names
    )
    return host(model, image, about)


def image_input(config: HostConfig, where: str, commit: str | None = None) -> ImageInput:
    """Size from the configuration of what reads the images; the file beside it says mean, std and how they are resized.

    Raises UserError where that file is missing, or prepares images in a way that is not repeated here.
    """
    from transformers.utils import cached_file

    path = cached_file(where, PREPROCESSOR, _raise_exceptions_for_missing_entries=False, **at(commit))
    if path is None:
        raise UserError(
            f"{where} needs {PREPROCESSOR}, which says how its images are scaled: save its image processor beside it"
        )
    stated: Json = read_json(Path(path))
    size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", 3)
    height, width = (size, size) if isinstance(size, int) else tuple(size or (None, None))
    mean, std = stated.get("image_mean"), stated.get("image_std")
    numbers = isinstance(mean, list) and isinstance(std, list) and len(mean) == len(std) == channels
    if not isinstance(height, int) or not isinstance(width, int) or not numbers or stated.get("do_normalize") is False:
        raise UserError(f"{where} must state image_size, and image_mean and image_std of {channels} channels")
    resample = stated.get("resample", 2)
    if resample not in INTERPOLATIONS:
        raise UserError(f"{path} resizes by Pillow's filter {resample!r}, and known are {sorted(INTERPOLATIONS)}")
    other = sorted(key for key, on in stated.items() if key.startswith("do_") and on and key not in REPEATED)
    if other or stated.get("crop_pct") is not None:
        raise UserError(f"{path} prepares images by {[*other, 'crop_pct'][0]}, which is not repeated here")
    crop, stretch = _crop(stated, (height, width), path)
    image = ImageInput(
        (channels, height, width),
        tuple(map(float, mean)),  # type: ignore[arg-type]  # as many as channels, checked above
        tuple(map(float, std)),  # type: ignore[arg-type]  # as above
        INTERPOLATIONS[resample],
        crop,
        stretch,
    )
    return checked_image(image, path)


def _crop(stated: Json, goal: tuple[int, int], path: str) -> tuple[float, bool]:
    """(share of the resized image that the centre crop keeps, whether resizing gives up the image's shape).

    The share is 1 where the image is resized to ``goal`` itself.
    """
    factor = stated.get("rescale_factor", BYTE)
    if stated.get("do_rescale") is False or not isinstance(factor, float) or abs(factor - BYTE) > 1e-9:
        raise UserError(f"{path} must rescale bytes to [0, 1], and has do_rescale or rescale_factor of its own")
    size = stated.get("size")
    if isinstance(size, int):  # what one number means is said by the processor's class
        kind = stated.get("image_processor_type", stated.get("feature_extractor_type"))
        if kind is None and stated.get("do_center_crop"):
            raise UserError(f"{path} resizes images to {size} before a crop, and names no image_processor_type")
        size = {"shortest_edge": size} if "CLIP" in str(kind) else {"height": size, "width": size}
    if stated.get("do_resize") is False or not isinstance(size, dict):
        raise UserError(f"{path} must say to which size its images are resized")
    sides = [size[key] for key in ("height", "width") if key in size]
    if not stated.get("do_center_crop"):
        if tuple(sides) != goal:
            raise UserError(
                f"{path} resizes images to {size} without a crop, and the model takes {goal[0]} x {goal[1]}"
            )
        return 1.0, True
    crop = stated.get("crop_size")
    crop = {"height": crop, "width": crop} if isinstance(crop, int) else crop
    shortest = size.get("shortest_edge", sides[0] if len(set(sides)) == 1 else None)
    if crop != {"height": goal[0], "width": goal[1]} or not isinstance(shortest, int) or goal[0] != goal[1]:
        raise UserError(f"{path} crops {crop} out of {size}, and the model takes {goal[0]} x {goal[1]}")
    if shortest < goal[0]:
        raise UserError(f"{path} crops {crop} out of {size}, which is smaller")
    # goal / crop_pct, rounded down, is the resized side again
    return goal[0] / (shortest + 1e-6), "shortest_edge" not in size
