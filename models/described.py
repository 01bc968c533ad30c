"""What a checkpoint or a folder says of its model, checked before a library reads it: plain values, no code named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cgf.data.task import ImageInput
from cgf.errors import UserError, with_reason
from cgf.named import arguments, plain, short
from cgf.results import read_json
from cgf.target import check_regular
from cgf.types import Json, JsonValue

# options of timm's vision transformers that a checkpoint may carry: least and most of numbers, or the choices
SIZES = {
    "img_size": (1, 4096),
    "patch_size": (1, 1024),
    "in_chans": (1, 16),
    "embed_dim": (1, 2**14),
    "depth": (1, 1024),
    "num_heads": (1, 1024),
    "reg_tokens": (0, 1024),
    "stride": (1, 1024),
    "base_dims": (1, 2**14),
    "heads": (1, 1024),
}
BY_STAGE, MOST_STAGES = ("depth", "base_dims", "heads"), 16  # options that may be a list, one number a stage
SHARES = {
    "mlp_ratio": (0.0, 64.0),
    "init_values": (0.0, 1e6),
    "drop_path_rate": (0.0, 1.0),
    "drop_rate": (0.0, 1.0),
    "pos_drop_rate": (0.0, 1.0),
    "proj_drop_rate": (0.0, 1.0),
    "attn_drop_rate": (0.0, 1.0),
}
FLAGS = ("qkv_bias", "qk_norm", "proj_bias", "class_token", "pre_norm", "final_norm", "fc_norm", "no_embed_class")
CHOICES = {"global_pool": ("", "avg", "avgmax", "max", "token", "map"), "pos_embed": ("", "learn", "none")}
INTERPOLATIONS = ("nearest", "nearest-exact", "bilinear", "bicubic", "box", "hamming", "lanczos")  # of torchvision
MOST_PATCHES = 2**16
# keys of a configuration by which transformers would fetch or choose code or a file, wherever they are nested
CODE = (
    "auto_map",
    "trust_remote_code",
    "quantization_config",
    "attn_implementation",
    "experts_implementation",
    "transformers_weights",
)
MOST, MOST_BY_NAME = 2**24, {"num_hidden_layers": 1024, "num_labels": 2**16}  # whole numbers of a configuration
FLOATS = ("F64", "F32", "F16", "BF16")  # as safetensors calls them
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
CONFIG, TOKENIZER = "config.json", "tokenizer_config.json"


def timm_source(source: Json, where: str) -> tuple[str, Json]:
    """(registered name, options) of a timm model. UserError for any other name, and options that are not listed."""
    import timm

    name, options = source.get("timm"), source.get("options", {})
    if not isinstance(name, str) or any(mark in name for mark in ":/\\") or not timm.is_model(name):
        raise UserError(f"{where} needs the name of a timm model, and has {short(name)}")
    if not isinstance(options, dict):
        raise UserError(f"{where} needs options of timm as an object, and has {short(options)}")
    check_options(options, where)
    size, patch = options.get("img_size", 224), options.get("patch_size", 16)
    if (size // patch) ** 2 > MOST_PATCHES:
        raise UserError(f"{where} may have {MOST_PATCHES} patches at most, and has {(size // patch) ** 2}")
    return name, options


def is_timm(config: JsonValue) -> bool:
    """Whether the content of a config.json is that of a model of timm's."""
    return isinstance(config, dict) and isinstance(config.get("architecture"), str)


def check_options(options: Mapping[str, JsonValue], where: str) -> None:
    """UserError for an option of timm's that a checkpoint may not have, as no later command could read it."""
    for key, value in options.items():
        _check_option(key, value, where)


def _check_option(key: str, value: JsonValue, where: str) -> None:
    numbers = {**SIZES, **SHARES}
    if key in numbers:
        (least, most), kinds = numbers[key], int if key in SIZES else int | float
        null = value is None and key == "init_values"
        stages = value if key in BY_STAGE and isinstance(value, list) and 0 < len(value) <= MOST_STAGES else [value]
        fits = all(isinstance(v, kinds) and not isinstance(v, bool) and least <= v <= most for v in stages)
        if not null and not fits:
            raise UserError(f"timm's option {key} of {where} must be from {least} to {most}, and is {short(value)}")
    elif key in FLAGS:
        if not isinstance(value, bool):
            raise UserError(f"timm's option {key} of {where} must be true or false, and is {short(value)}")
    elif key in CHOICES:
        if value not in CHOICES[key]:
            raise UserError(
                f"timm's option {key} of {where} must be one of {', '.join(map(repr, CHOICES[key]))}, and "
                f"is {short(value)}"
            )
    else:
        raise UserError(
            f"{where} gives timm the option {short(key)}, and a checkpoint may give "
            f"{', '.join((*numbers, *FLAGS, *CHOICES))}"
        )


def image_facts(image: JsonValue, where: str) -> ImageInput:
    """The images that a checkpoint's model takes. UserError where they are none."""
    if not isinstance(image, dict):
        raise UserError(f"{where} needs the images that the model takes, and has {short(image)}")
    facts: Json = arguments(ImageInput, image, where)
    size = facts["size"]
    if len(size) != 3 or not all(1 <= n <= SIZES["img_size"][1] for n in size):
        raise UserError(f"'size' of {where} must be channels, height and width, and is {short(size)}")
    facts = {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}
    return checked_image(ImageInput(**facts), where)


def checked_image(image: ImageInput, where: str) -> ImageInput:
    """The same images. UserError where none can be made so: by their mean, deviation, interpolation or crop."""
    if not len(image.mean) == len(image.std) == image.size[0] or not all(deviation > 0 for deviation in image.std):
        raise UserError(
            f"{where} must have a mean and a std above 0 for each of {image.size[0]} channels, and has "
            f"{short(list(image.mean))} and {short(list(image.std))}"
        )
    if image.interpolation not in INTERPOLATIONS:
        raise UserError(
            f"'interpolation' of {where} must be one of {', '.join(INTERPOLATIONS)}, and is "
            f"{short(image.interpolation)}"
        )
    if not image.crop_pct > 0:
        raise UserError(f"'crop_pct' of {where} must be above 0, and is {short(image.crop_pct)}")
    return image


def check_folder(folder: Path, bounded: bool = False) -> None:
    """UserError where a folder of transformers files names code; bounded: or numbers that no model has."""
    for name in (CONFIG, TOKENIZER):
        if (folder / name).is_file():
            check_config(read_json(folder / name), str(folder / name))
    if (folder / TOKENIZER).is_file():
        _check_tokenizer(read_json(folder / TOKENIZER), folder / TOKENIZER)
    if bounded:
        plain(read_json(folder / CONFIG), str(folder / CONFIG))
        _check_numbers(read_json(folder / CONFIG), str(folder / CONFIG))


def check_config(config: JsonValue, where: str) -> None:
    """UserError where a configuration of transformers names code, wherever in it."""
    if isinstance(config, dict):
        for key, value in config.items():
            if key.lstrip("_").startswith(CODE):
                raise UserError(
                    f"{where} holds '{key}', which chooses code to run: only models that transformers has "
                    "itself are read, so take it out"
                )
            check_config(value, where)
    elif isinstance(config, list):
        for value in config:
            check_config(value, where)


def _check_tokenizer(config: JsonValue, path: Path) -> None:
    from transformers import PreTrainedTokenizerBase
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    name = config.get("tokenizer_class") if isinstance(config, dict) else config
    if isinstance(config, dict) and name is None:
        return
    cls = tokenizer_class_from_name(name) if isinstance(name, str) and name.isidentifier() else None
    if not (isinstance(cls, type) and issubclass(cls, PreTrainedTokenizerBase)):
        raise UserError(f"{path} needs a tokenizer that transformers has itself, and names {short(name)}")


def _check_numbers(config: JsonValue, where: str) -> None:
    for key, value in config.items() if isinstance(config, dict) else ():
        most = MOST_BY_NAME.get(key, MOST)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > most:
            raise UserError(f"'{key}' of {where} must be at most {most}, and is {short(value)}")
        _check_numbers(value, where)


def check_weights(folder: Path) -> None:
    """UserError for a folder of transformers weights that has them as pickles alone, as adapters, or quantized."""
    files = {p.name for p in folder.iterdir()}
    pickled = sorted(name for name in files if name.endswith(PICKLED) and name != "training_args.bin")
    if pickled and not any(name.endswith((".safetensors", ".gguf")) for name in files):
        raise UserError(
            f"{folder} has its weights as {pickled[0]} alone, a pickled file, which could run code: "
            "convert them where you trust them (model.save_pretrained(FOLDER) of transformers writes "
            "safetensors)"
        )
    if "adapter_config.json" in files:
        raise UserError(
            f"{folder} holds adapters (adapter_config.json), and whole models are read: merge them first "
            "(merge_and_unload of peft)"
        )
    for name in sorted(name for name in files if name.endswith(".safetensors")):
        check_floats(folder / name)


def check_floats(path: Path) -> None:
    """UserError where a safetensors file has weights that are no floats of 16 bits or more: quantized ones would be
    read without their scales."""
    from safetensors import safe_open

    with with_reason(f"{path} cannot be read"):
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            kinds = {key: file.get_slice(key).get_dtype() for key in file.keys()}  # noqa: SIM118  (no mapping)
    if odd := [key for key, kind in kinds.items() if key.endswith(".weight") and kind not in FLOATS]:
        raise UserError(
            f"{path} holds quantized weights ({odd[0]} in {kinds[odd[0]]}), and floats are read: save the model with "
            "its weights as floats"
        )
