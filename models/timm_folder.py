"""A folder that timm's save_for_hf wrote, as a model: what it names is checked, and its weights are safetensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import timm
from timm.models import VisionTransformer
from torch import nn

from cgf.data.task import ImageInput
from cgf.errors import UserError, reason, with_reason
from cgf.models.described import CONFIG, check_floats, check_options, check_weights, image_facts, is_timm, timm_source
from cgf.models.pretrained import class_order
from cgf.named import short
from cgf.results import read_json
from cgf.target import tensors_of
from cgf.types import Json, JsonValue, Options

WEIGHTS = "model.safetensors"
PREPARED = {
    "input_size": "size",
    "mean": "mean",
    "std": "std",
    "interpolation": "interpolation",
    "crop_pct": "crop_pct",
}


@dataclass(frozen=True)
class TimmFolder:
    """What a folder says of its model.

    name, options  as ``timm.create_model`` takes them, but for the number of classes
    image          the images that it takes;  labels: what its logits stand for, None: not told
    own_options    those of the weights, where ``options`` ask for images of another size; None: the same
    """

    path: Path
    name: str
    options: Options
    image: ImageInput
    classes: int
    labels: list[str] | None
    own_options: Options | None = None

    def of_size(self, side: int) -> TimmFolder:
        """The same for images of ``side`` by ``side`` pixels, to which ``model`` brings the position embeddings."""
        options, size = {**self.options, "img_size": side}, (self.image.size[0], side, side)
        check_options(options, f"'img_size' of {self.path}")
        return replace(self, options=options, image=replace(self.image, size=size), own_options=self.options)

    def model(self, num_classes: int, class_names: list[str] | None = None, **more: object) -> tuple[nn.Module, bool]:
        """(the model with a head of num_classes, whether that head came with the weights); more: arguments of timm's.

        The rows of a head that names the same classes in another order are put into that of class_names. UserError for
        weights of another model, for a model that timm cannot build, and for one that takes images of its own size
        alone.
        """
        built = self.options if self.own_options is None else self.own_options
        with with_reason(f"{self.path / CONFIG} describes no model that timm can build"):
            model = timm.create_model(self.name, num_classes=num_classes, **{**built, **more})
        check_floats(self.path / WEIGHTS)
        own, head, order = model.state_dict(), _head(model), self._order(num_classes, class_names)
        taken = {key for key in own if order is not None or not key.startswith(head)}
        kept = {key: t for key, t in tensors_of(self.path / WEIGHTS).items() if order is not None or key in taken}
        wrong = sorted(taken ^ set(kept)) or sorted(key for key in taken if kept[key].shape != own[key].shape)
        if wrong:
            raise UserError(f"{self.path} holds the weights of another model than {self.name}: {wrong[0]}")
        ordered = {key: t[order] if order is not None and key.startswith(head) else t for key, t in kept.items()}
        model.load_state_dict({**own, **ordered})
        if built is not self.options:
            bring_to(model, self.image.size[1:], f"{self.name} of {self.path}")
        return model, order is not None

    def _order(self, num_classes: int, class_names: list[str] | None) -> list[int] | None:
        """The place of each class in the folder's head; None where that is of other classes."""
        if num_classes != self.classes:
            return None
        if self.labels is None or class_names is None:
            return list(range(num_classes))
        return class_order(self.labels, class_names, str(self.path))


def bring_to(model: nn.Module, size: tuple[int, int], name: str) -> None:
    """Brings a model's position embeddings to images of that size (height, width); UserError where it takes no other.

    name: of the model, for the message.
    """
    if not isinstance(model, VisionTransformer):
        raise UserError(f"{name} takes images of its own size alone: leave out model.img_size")
    patch = model.patch_embed.patch_size
    if any(side % of for side, of in zip(size, patch, strict=True)):
        raise UserError(f"{name} has patches of {patch[0]} pixels, and model.img_size={size[0]} is no multiple of them")
    model.set_input_size(size)  # timm's own way to bring position embeddings to another grid


def read(folder: str | Path) -> TimmFolder:
    """What a folder of timm's says; nothing is built yet.

    UserError for a folder without config.json or model.safetensors, a model that timm does not have, options that a
    checkpoint may not have either, and images that are not square or padded with a border.
    """
    path = Path(folder).expanduser()
    if not (path / CONFIG).is_file():
        raise UserError(f"{path} needs {CONFIG}, which says what model it holds, as timm.models.save_for_hf writes it")
    stated, where = read_json(path / CONFIG), str(path / CONFIG)
    if not is_timm(stated):
        raise UserError(f"{where} names no 'architecture' of timm: model=hf reads what transformers saved")
    if not (path / WEIGHTS).is_file():
        check_weights(path)  # pickles have a sentence of their own
        raise UserError(f"{path} needs {WEIGHTS}: timm.models.save_for_hf(model, FOLDER, safe_serialization=True)")
    given = stated.get("model_args") or {}
    if not isinstance(given, dict):
        raise UserError(f"'model_args' of {where} must be an object, and is {short(given)}")
    options = {
        key: _side(value) if key == "img_size" else value for key, value in given.items() if key != "num_classes"
    }
    name, options = timm_source({"timm": stated["architecture"], "options": options}, where)
    classes = stated.get("num_classes")
    if not isinstance(classes, int) or isinstance(classes, bool) or classes < 1:
        raise UserError(f"{where} must say num_classes, and has {short(classes)}")
    return TimmFolder(path, name, options, _image(stated.get("pretrained_cfg"), where), classes, _labels(stated))


def write(model: nn.Module, folder: Path) -> None:
    """Writes a model that timm.create_model made, as timm does; UserError for one that it did not make."""
    made = getattr(model, "pretrained_cfg", None)
    if not isinstance(made, dict) or "architecture" not in made:
        raise UserError(
            f"{type(model).__name__} was not made by timm.create_model, and what makes it again is not known: keep "
            "model.state_dict(), and load it into the model that you make again, once cgf.install put the same softmax "
            "into that"
        )
    try:
        timm.models.save_for_hf(model, str(folder), safe_serialization=True)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{type(model).__name__} cannot be saved by timm: {reason(error)}") from None


def _head(model: nn.Module) -> tuple[str, ...]:
    """How the keys of the model's classifiers begin."""
    # mypy: timm's dictionary, a Tensor for nn.Module's __getattr__
    named: JsonValue = model.pretrained_cfg.get("classifier")  # type: ignore[union-attr, operator]
    names = (named,) if isinstance(named, str) else tuple(named or ())
    return tuple(f"{name}." for name in names) or ("head.",)


def _side(value: JsonValue) -> JsonValue:
    """One side of square images, as the options of a checkpoint have it."""
    if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
        return value[0]
    return value


def _image(stated: JsonValue, where: str) -> ImageInput:
    facts = stated if isinstance(stated, dict) else {}
    if facts.get("crop_mode") == "border":
        raise UserError(f"{where} takes images with a border (crop_mode of timm), which is not made here")
    image = {ours: facts[theirs] for theirs, ours in PREPARED.items() if facts.get(theirs) is not None}
    size = image.get("size")
    for key in ("mean", "std"):  # timm keeps three numbers for grey images too
        if isinstance(size, list) and size and isinstance(size[0], int) and isinstance(image.get(key), list):
            image[key] = image[key][: size[0]]
    return image_facts({**image, "stretch": facts.get("crop_mode") == "squash"}, f"'pretrained_cfg' of {where}")


def _labels(stated: Json) -> list[str] | None:
    names, count = stated.get("label_names"), stated["num_classes"]
    if isinstance(names, dict):
        names = [names.get(str(i)) for i in range(count)]
    if not isinstance(names, list) or len(names) != count or not all(isinstance(name, str) for name in names):
        return None
    return names
