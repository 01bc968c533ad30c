"""What a command line may say: choices and keys that there are, and values of the kind of their defaults."""

from __future__ import annotations

import math
import re
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cgf.checks import whole
from cgf.errors import UserError
from cgf.help import known, nearest
from cgf.types import Config

CONFIGS = Path(__file__).resolve().parent / "configs"
NAMES = ("run", "ckpt", "out", "outputs", "data.root", "times", "cache", "compare")  # of runs, files and folders
# what has no setting but those of its file; so has approx, but where a plan of any method may be given a k
WHOLE = ("", "train", "data", "temper", "calibrate", "tracker", "tune")
MOST_SEED = 2**32 - 1  # numpy takes no greater one, and none below 0
LISTED = ("penalty.bound", "margin")  # numbers that may also be given as a list: one a layer, [below, above]


def _quoted(value: str) -> str:
    """A value that holds = as an override may have it: quoted, or as a list of quoted entries. A list within another
    is quoted as a whole."""
    if value.startswith("[") and value.endswith("]") and not set(value[1:-1]) & set("[]{}\"'"):
        return "[" + ",".join(f'"{entry.strip()}"' for entry in value[1:-1].split(",")) + "]"
    return f'"{value}"'


def check_overrides(config_name: str, overrides: list[str]) -> None:
    """Raises UserError for a group choice or a key that does not exist; sweeps are checked choice by choice."""
    groups = {p.name for p in CONFIGS.iterdir() if p.is_dir()}
    plain, singles = [], []
    for text in overrides:
        try:
            override = OverridesParser.create().parse_override(text)
        except HydraException:
            name, _, rest = text.partition("=")
            quoted = (
                f"; a value that holds = goes in quotes of its own: '{name}={_quoted(rest)}'" if "=" in rest else ""
            )
            raise UserError(f"an override reads key=value, and {text!r} was given{quoted}") from None
        if not override.key_or_group:
            raise UserError(f"an override reads key=value, and {text!r} was given")
        if override.key_or_group == "hydra" or override.key_or_group.startswith("hydra.searchpath"):
            raise UserError(f"configurations are read from {CONFIGS} alone, and {text!r} may name others")
        value: object = override.value()
        swept = override.is_sweep_override()
        values = getattr(value, "list", [value])  # a sweep over choices has a list of them
        if not swept:
            _check_name_of(text)
        choices = [str(v) for v in values] if override.key_or_group in groups else []
        for choice in choices:
            check_choice(override.key_or_group, choice)
        if override.is_hydra_override():
            continue
        if swept and not choices:
            singles += _values(override)
        else:
            plain.append(f"{override.get_key_element()}={choices[0]}" if swept else text)
    given = compose(config_name, plain)
    defaults = _defaults(config_name, tuple(p for p in plain if p.split("=")[0] in groups))
    for text in plain:
        if text.split("=")[0].lstrip("+~") not in groups:
            _check_value(config_name, text, defaults, given)
    for text in singles:
        _check_name_of(text)
        _check_value(config_name, text, defaults, compose(config_name, [*plain, text]))


def swept(overrides: list[str]) -> list[str]:
    """The keys and groups that are given several values, of overrides that were checked."""
    parsed = [OverridesParser.create().parse_override(text) for text in overrides]
    return [each.get_key_element().lstrip("+") for each in parsed if each.is_sweep_override()]


def repeated(overrides: list[str]) -> list[tuple[str, list[str]]]:
    """Keys and groups that are given more than once, and of each all arguments but the last; checked overrides."""
    by_key: dict[str, list[str]] = {}
    for text in overrides:
        by_key.setdefault(OverridesParser.create().parse_override(text).get_key_element().lstrip("+"), []).append(text)
    return [(key, texts[:-1]) for key, texts in by_key.items() if len(texts) > 1]


def _values(override: Override) -> list[str]:
    """The values of a sweep, each as the override of its job; the ends of a range, whose values are of one kind.

    None for a sweep that Hydra's sweeper refuses itself.
    """
    if not (override.is_choice_sweep() or override.is_range_sweep()):
        return []
    values = [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]
    return values if override.is_choice_sweep() else [*values[:1], *values[1:][-1:]]


def _check_name_of(text: str) -> None:
    """UserError where an override of a name has a value that is read as something else."""
    override = OverridesParser.create().parse_override(text)
    if override.get_key_element() in NAMES:
        check_name(override.get_key_element(), text.partition("=")[2], override.value())


def _check_value(config_name: str, text: str, defaults: DictConfig, given: DictConfig) -> None:
    """UserError for an override whose value, as the configuration ``given`` has it, is of another kind than it was."""
    key = text.split("=")[0].lstrip("+~")
    if text.startswith("+"):
        _check_added(config_name, key, defaults)
    value = selected(given, key)
    if key in NAMES and "${" in text:  # a reference has the type of what it refers to
        check_name(key, text.partition("=")[2], value)
    check_type(key, selected(defaults, key), value)


@lru_cache(64)
def _defaults(config_name: str, choices: tuple[str, ...]) -> DictConfig:
    """What the settings are before any is given; composed once for the many commands of one process, and only read."""
    return compose(config_name, list(choices))


def _check_added(config_name: str, key: str, defaults: DictConfig) -> None:
    """UserError for +key=value where nothing would read it: at the top, and in a group whose settings are all there."""
    above, _, name = key.rpartition(".")
    node = OmegaConf.select(defaults, above) if above else defaults
    whole_node = above in WHOLE or (above == "approx" and config_name != "plan")
    if whole_node and isinstance(node, DictConfig) and name not in node:
        meant = nearest(name, [str(own) for own in node])
        raise UserError(f"unknown setting '{key}' for {config_name}{meant}")


def selected(cfg: DictConfig, key: str) -> Config:
    """The value of a dotted key, None where there is none; UserError for a reference that leads nowhere."""
    try:
        return OmegaConf.select(cfg, key)
    except OmegaConfBaseException as error:
        raise UserError(f"{key} refers to what cannot be read: {first_line(error)}") from None


def check_name(key: str, text: str, value: object) -> None:
    """UserError for a name that is read as something else, as of another folder; a run may have a whole number."""
    if (
        (value is None and key != "outputs")
        or isinstance(value, str)
        or (key == "run" and type(value) is int and str(value) == text)
    ):
        return
    raise UserError(f"{key} must be a name, and {text} is read as {value!r}: quoted it is one, \"{key}='{text}'\"")


def check_type(key: str, default: object, value: object) -> None:
    """A setting whose default is a number or a truth value takes no other kind, but null; a group takes only a group.

    Numbers must be finite: comparisons with NaN are false, so that a check of an end further down may let it pass.
    """
    if isinstance(default, DictConfig) and not isinstance(value, DictConfig):
        raise UserError(f"{key} holds settings of its own ({', '.join(map(str, default))}), and {value!r} was given")
    if isinstance(default, str) and isinstance(value, DictConfig | ListConfig):
        raise UserError(f"{key} must be a text, and {value!r} was given")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{key} must be finite, and {value!r} was given")
    if key.rpartition(".")[2] == "seed" and (value is None or isinstance(value, int)):
        whole(key, value, 0, MOST_SEED)
    if isinstance(default, ListConfig) and not isinstance(value, ListConfig | None):
        raise UserError(f"{key} must be a list, and {value!r} was given")
    kinds = {bool: ("true or false", bool), int: ("a whole number", int), float: ("a number", int | float)}
    what, kind = kinds.get(type(default), ("", object))
    if key in LISTED and isinstance(value, ListConfig):
        for each in value:
            check_type(key, default, each)
        return
    if value is not None and (
        not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool and kind is not object)
    ):
        raise UserError(f"{key} must be {what}, and {value!r} was given")


def check_choice(group: str, choice: str) -> None:
    """UserError for a choice that its group has no file of, with the nearest that it has."""
    there = sorted(p.stem for p in (CONFIGS / group).glob("*.yaml"))
    if choice not in there:
        raise UserError(f"unknown {group} '{choice}': there are {', '.join(there)}{nearest(choice, there)}")


def compose(config_name: str, overrides: list[str] | None = None) -> DictConfig:
    """A config as the command line would give it; UserError for a key that it does not have.

    Within a command, whose own configuration Hydra has composed from the same folder, that folder is set already.
    """
    inside = GlobalHydra.instance().is_initialized()
    try:
        with nullcontext() if inside else hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
            return hydra.compose(config_name, overrides or [])
    except (HydraException, OmegaConfBaseException) as error:
        text = str(error)
        key = re.search(r"(?:Could not override|Key|key) '([^']+)'", text)
        if key is None:
            raise UserError(first_line(error)) from None
        there = known(config_name, overrides or [])
        if key.group(1) in there:  # a group of settings, which is given one that it lacks
            raise UserError(f"{key.group(1)} takes further settings one by one: +{key.group(1)}.NAME=VALUE") from None
        meant = nearest(key.group(1), there)
        raise UserError(f"unknown setting '{key.group(1)}' for {config_name}{meant}") from None


def first_line(error: BaseException) -> str:
    """The first line of what an exception says, or its class where it says nothing."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip() if lines else type(error).__name__
