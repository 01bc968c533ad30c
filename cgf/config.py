"""The seam to Hydra: compose, check, build. Read by entry points only; nothing below imports hydra."""

from __future__ import annotations

import hashlib
import math
import os
import re
import sys
from collections.abc import Callable
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, InstantiationException
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cgf.checks import whole
from cgf.ending import UNREAD, quiet
from cgf.errors import UserError, sentence, shortage
from cgf.help import known, nearest
from cgf.help import text as help_text
from cgf.stopping import ends_at_once

CONFIGS = Path(__file__).resolve().parent / "configs"
NAMES = ("run", "ckpt", "out", "outputs", "data.root", "times", "cache", "compare")  # of runs, files and folders
WHOLE = ("", "train", "data", "temper", "calibrate", "tracker")  # what has no setting but those of its file
MOST_SEED = 2**32 - 1  # numpy takes no greater one, and none below 0
LISTED = ("penalty.bound", "margin")  # numbers that may also be given as a list: one a layer, [below, above]


def entry(config_name: str) -> Callable[[Callable[[DictConfig], None]], Callable[[], None]]:
    """Decorator of an entry point's main: Hydra's command line, and one sentence for bad input (exit 2)."""

    def decorate(main: Callable[[DictConfig], None]) -> Callable[[], None]:
        def guarded(cfg: DictConfig) -> None:
            try:
                main(cfg)
            except UserError as error:
                ended(2, error)
            except OmegaConfBaseException as error:
                ended(2, UserError(f"the configuration does not hold together: {_first_line(error)}"))
            except SystemExit as end:
                ended(end.code)
            except BrokenPipeError:  # Hydra would tell it as a failure of the job
                sys.exit(UNREAD)
            except Exception as error:
                if (short_of := shortage(error)) is None:
                    raise
                ended(2, short_of)

        def run() -> None:
            with quiet(), ends_at_once():
                if {"-h", "--help"} & set(sys.argv[1:]):
                    _help(config_name, main.__globals__["__doc__"] or "")
                else:
                    _checked_run(config_name, guarded)

        # run.__wrapped__ is the command on a configuration that is composed already
        return update_wrapper(run, update_wrapper(guarded, main))

    return decorate


def _help(config_name: str, about: str) -> None:
    program = sys.argv[0] if sys.argv[0].startswith("cgf ") else f"python {os.path.relpath(sys.argv[0])}"
    print(help_text(config_name, about, program, [a for a in sys.argv[1:] if not a.startswith("-")]))


def _checked_run(config_name: str, guarded: Callable[[DictConfig], None]) -> None:
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        check_overrides(config_name, [a for a in sys.argv[1:] if not a.startswith("-")])
    except UserError as error:
        fail(error)
    hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=config_name)(guarded)()


class FailedJob(Exception):
    """A job of a sweep that ended with an exit code other than 0."""


def fail(error: Exception) -> None:
    """Prints the sentence and ends with exit code 2."""
    print(sentence(error), file=sys.stderr)
    sys.exit(2)


def ended(code: str | int | None, error: Exception | None = None) -> None:
    """Ends this process; a job of a sweep ends alone, as Hydra's launchers take SystemExit for the end of all jobs."""
    if error is not None:
        print(sentence(error), file=sys.stderr)
    if code and HydraConfig.get().mode == RunMode.MULTIRUN:
        raise FailedJob(f"exit code {code}")
    sys.exit(code)


def check_overrides(config_name: str, overrides: list[str]) -> None:
    """Raises UserError for a group choice or a key that does not exist; sweeps are checked choice by choice."""
    groups = {p.name for p in CONFIGS.iterdir() if p.is_dir()}
    plain = []
    for text in overrides:
        try:
            override = OverridesParser.create().parse_override(text)
        except HydraException:
            name, _, rest = text.partition("=")
            quoted = f"; a value that holds = goes in quotes of its own: '{name}=\"{rest}\"'" if "=" in rest else ""
            raise UserError(f"an override reads key=value, and {text!r} was given{quoted}") from None
        if not override.key_or_group:
            raise UserError(f"an override reads key=value, and {text!r} was given")
        value: Any = override.value()
        swept = override.is_sweep_override()
        values = getattr(value, "list", [value])  # a sweep over choices has a list of them
        if override.get_key_element() in NAMES and not swept:
            _check_name(override.get_key_element(), text.partition("=")[2], value)
        choices = [str(v) for v in values] if override.key_or_group in groups else []
        for choice in choices:
            _check_choice(override.key_or_group, choice)
        if not override.is_hydra_override():
            plain.append(f"{override.get_key_element()}={choices[0]}" if swept and choices else text)
    unswept = [p for p in plain if not OverridesParser.create().parse_override(p).is_sweep_override()]
    given, groups_only = compose(config_name, unswept), [p for p in unswept if p.split("=")[0] in groups]
    defaults = compose(config_name, groups_only)
    for text in unswept:
        key = text.split("=")[0].lstrip("+~")
        if key not in groups:
            if text.startswith("+"):
                _check_added(config_name, key, defaults)
            _check_type(key, _selected(defaults, key), _selected(given, key))


def _check_added(config_name: str, key: str, defaults: DictConfig) -> None:
    """UserError for +key=value where nothing would read it: at the top, and in a group whose settings are all there."""
    above, _, name = key.rpartition(".")
    node = OmegaConf.select(defaults, above) if above else defaults
    if above in WHOLE and isinstance(node, DictConfig) and name not in node:
        meant = nearest(name, [str(own) for own in node])
        raise UserError(f"unknown setting '{key}' for {config_name}{meant}")


def _selected(cfg: DictConfig, key: str) -> Any:
    """The value of a dotted key, None where there is none; UserError for a reference that leads nowhere."""
    try:
        return OmegaConf.select(cfg, key)
    except OmegaConfBaseException as error:
        raise UserError(f"{key} refers to what cannot be read: {_first_line(error)}") from None


def _check_name(key: str, text: str, value: Any) -> None:
    """UserError for a name that is read as something else, as of another folder; a run may have a whole number."""
    if (
        (value is None and key != "outputs")
        or isinstance(value, str)
        or (key == "run" and type(value) is int and str(value) == text)
    ):
        return
    raise UserError(f"{key} must be a name, and {text} is read as {value!r}: quoted it is one, \"{key}='{text}'\"")


def _check_type(key: str, default: Any, value: Any) -> None:
    """A setting whose default is a number or a truth value takes no other kind, but null; a group takes only a group.

    Numbers must be finite: comparisons with NaN are false, so that a check of an end further down may let it pass.
    """
    if isinstance(default, DictConfig) and not isinstance(value, DictConfig):
        raise UserError(f"{key} holds settings of its own ({', '.join(map(str, default))}), and {value!r} was given")
    if isinstance(default, str) and isinstance(value, DictConfig):
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
            _check_type(key, default, each)
        return
    if value is not None and (
        not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool and kind is not object)
    ):
        raise UserError(f"{key} must be {what}, and {value!r} was given")


def _check_choice(group: str, choice: str) -> None:
    there = sorted(p.stem for p in (CONFIGS / group).glob("*.yaml"))
    if choice not in there:
        raise UserError(f"unknown {group} '{choice}': there are {', '.join(there)}{nearest(choice, there)}")


def compose(config_name: str, overrides: list[str] | None = None) -> DictConfig:
    """A config as the command line would give it; UserError for a key that it does not have."""
    try:
        with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
            return hydra.compose(config_name, overrides or [])
    except (HydraException, OmegaConfBaseException) as error:
        text = str(error)
        key = re.search(r"(?:Could not override|Key|key) '([^']+)'", text)
        if key is None:
            raise UserError(_first_line(error)) from None
        meant = nearest(key.group(1), known(config_name, overrides or []))
        raise UserError(f"unknown setting '{key.group(1)}' for {config_name}{meant}") from None


def build(node: DictConfig | dict[str, Any], **more: Any) -> Any:
    """hydra.utils.instantiate, with a UserError for names and values that do not fit.

    For the project's own configs and the command line alone: what a node names is imported and called, so none that
    came out of a file may reach it.
    """
    try:
        return hydra.utils.instantiate(node, **more)
    except InstantiationException as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, UserError):
                raise cause from None
            cause = cause.__cause__
        target = node.get("_target_", "?")
        raise UserError(f"{target} cannot be built from its configuration: {_innermost(error)}") from None


def built(group: str) -> dict[str, Any]:
    """What every choice of a group makes, by the choice's name: the objects of configs/<group>/*.yaml."""
    # mypy: a file of configs is a mapping
    return {path.stem: build(OmegaConf.load(path)) for path in sorted((CONFIGS / group).glob("*.yaml"))}  # type: ignore[arg-type]


def task_maker(root: str | None) -> Callable[[Any], Any]:
    """Builds a task from the node that a checkpoint kept; root, where given, replaces its data folder.

    The node comes out of a file, so Hydra never sees it: ``cgf.data.tasks`` looks its class up by name.
    """
    from cgf.data.tasks import task_from_node  # loads torch: not before the command line was checked

    return partial(task_from_node, root=root)


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip() if lines else type(error).__name__


def resolved(cfg: DictConfig) -> dict[str, Any]:
    """The config as plain containers, interpolations filled in."""
    plain = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(plain, dict)
    return {str(k): v for k, v in plain.items()}


def changed(config_name: str, cfg: DictConfig, keys: tuple[str, ...], but: tuple[str, ...] = ()) -> dict[str, Any]:
    """Of the settings at and below ``keys`` those that differ from what the chosen files say, by dotted name.

    but: names that are left out.
    """
    files = OmegaConf.load(CONFIGS / f"{config_name}.yaml")
    assert isinstance(files, DictConfig)
    for group, choice in HydraConfig.get().runtime.choices.items():
        if group in keys and choice is not None:
            file = OmegaConf.load(CONFIGS / group / f"{choice}.yaml")
            files[group] = OmegaConf.merge(files.get(group) or {}, file)
    own, default = (_flat({key: resolved(each).get(key) for key in keys}) for each in (cfg, files))
    return {
        name: own.get(name)
        for name in sorted({*own, *default})
        if name not in but and own.get(name) != default.get(name)
    }


def _flat(node: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(node, dict) or not node:
        return {name: node}
    return {
        key: value
        for part, below in node.items()
        for key, value in _flat(below, f"{name}.{part}" if name else str(part)).items()
    }


def chosen(group: str) -> str:
    """The file that was chosen of a group: 'desilo_gpu' for he=desilo_gpu."""
    return str(HydraConfig.get().runtime.choices[group])


def run_name(cfg: DictConfig) -> str:
    """cfg.run, or a name made of the choices and of every other override, so that sweeps do not collide."""
    if cfg.run is not None:
        return str(cfg.run)
    hydra_cfg = HydraConfig.get()
    choices, groups = hydra_cfg.runtime.choices, ("model", "task", "softmax", "distill", "tune")
    parts = [str(choices[g]) for g in groups if str(choices[g]) not in ("none", "full")]
    own = ("norm", "activation")  # named where they are replaced
    parts += [str(choices[g]) for g in own if str(choices.get(g, "exact")) != "exact"]
    known = {*groups, *own, "resume", "overwrite", "outputs", "data.root", "experiment", "ckpt"}
    for text in hydra_cfg.overrides.task:
        key, _, value = text.partition("=")
        if key.lstrip("+") not in known:
            short = value if len(value) <= 12 else hashlib.sha256(value.encode()).hexdigest()[:8]
            parts.append(f"{key.lstrip('+').rpartition('.')[2]}={short}")
    return re.sub(r"[^A-Za-z0-9_.=-]+", "_", "-".join(parts))
