"""The seam to Hydra: compose, check, build. Read by entry points only; nothing below imports hydra."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable
from functools import partial, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import InstantiationException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cgf.ending import UNREAD, quiet
from cgf.errors import UserError, memory_is_out, sentence, shortage
from cgf.help import text as help_text
from cgf.overrides import CONFIGS as CONFIGS
from cgf.overrides import NAMES as NAMES
from cgf.overrides import check_overrides as check_overrides
from cgf.overrides import compose as compose
from cgf.overrides import first_line, repeated
from cgf.overrides import swept as swept_of
from cgf.stopping import ends_at_once
from cgf.types import Built, Json, JsonValue

if TYPE_CHECKING:
    from cgf.data.task import Task

# settings that end as others do, and stand with their whole names in that of a run
LONG = ("penalty.row_sum.", "penalty.inputs.", "calibrate.")
# arguments of Hydra's that name no file; its others take configurations, which say what is called, and pickles
FLAGS = re.compile(r"-m|--multirun|--version|--resolve|--(cfg|info)=\w+")
SWEPT = "CGF_SWEPT"  # the variable that tells jobs, in whatever process, which keys their sweep gives several values


def entry(config_name: str) -> Callable[[Callable[[DictConfig], None]], Callable[[], None]]:
    """Decorator of an entry point's main: Hydra's command line, and one sentence for bad input (exit 2)."""

    def decorate(main: Callable[[DictConfig], None]) -> Callable[[], None]:
        def guarded(cfg: DictConfig) -> None:
            try:
                main(cfg)
            except UserError as error:
                ended(2, error)
            except OmegaConfBaseException as error:
                ended(2, UserError(f"the configuration does not hold together: {first_line(error)}"))
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
    overrides = [a for a in sys.argv[1:] if not a.startswith("-")]
    try:
        check_flags([a for a in sys.argv[1:] if a.startswith("-")])
        check_overrides(config_name, overrides)
    except UserError as error:
        fail(error)
    for key, left_out in repeated(overrides):
        print(f"{key} was given more than once: the last holds, and {', '.join(left_out)} has no effect")
    os.environ[SWEPT] = ",".join(swept_of(overrides))
    hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=config_name)(guarded)()


def check_flags(flags: list[str]) -> None:
    """UserError for an argument with a dash that is none of ``FLAGS``."""
    for flag in flags:
        if not FLAGS.fullmatch(flag):
            raise UserError(
                f"settings are given as key=value, beside --help, --multirun, --cfg=job, --resolve and --version, and "
                f"{flag!r} was given: no configuration is read from elsewhere"
            )


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


def build(node: DictConfig | Json, **more: object) -> Built:
    """hydra.utils.instantiate, with a UserError for names and values that do not fit.

    For the project's own configs and the command line alone: what a node names is imported and called, so none that
    came out of a file may reach it.
    """
    try:
        return hydra.utils.instantiate(node, **more)
    except InstantiationException as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, UserError) or memory_is_out(cause):
                raise cause from None
            cause = cause.__cause__
        target = node.get("_target_", "?")
        raise UserError(f"{target} cannot be built from its configuration: {_innermost(error)}") from None


def built(group: str) -> dict[str, Built]:
    """What every choice of a group makes, by the choice's name: the objects of configs/<group>/*.yaml."""
    # mypy: a file of configs is a mapping
    return {path.stem: build(OmegaConf.load(path)) for path in sorted((CONFIGS / group).glob("*.yaml"))}  # type: ignore[arg-type]


def task_maker(root: str | None) -> Callable[[Json], Task]:
    """Builds a task from the node that a checkpoint kept; root, where given, replaces its data folder.

    The node comes out of a file, so Hydra never sees it: ``cgf.data.tasks`` looks its class up by name.
    """
    from cgf.data.tasks import task_from_node  # loads torch: not before the command line was checked

    return partial(task_from_node, root=root)


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)


def resolved(cfg: DictConfig) -> Json:
    """The config as plain containers, interpolations filled in."""
    plain = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(plain, dict)
    return {str(k): v for k, v in plain.items()}


def changed(config_name: str, cfg: DictConfig, keys: tuple[str, ...], but: tuple[str, ...] = ()) -> Json:
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


def _flat(node: JsonValue, name: str = "") -> Json:
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


def given() -> list[str]:
    """Dotted names of the settings and groups that the command line names, also where they are as their files say."""
    parser = OverridesParser.create()
    return [parser.parse_override(text).get_key_element().lstrip("+~") for text in HydraConfig.get().overrides.task]


def given_below(*parts: str) -> list[str]:
    """The arguments of the command line, as written, whose settings lie below one of these parts, such as 'runs'."""
    texts = zip(HydraConfig.get().overrides.task, given(), strict=True)
    return [text for text, key in texts if key.partition(".")[0] in parts]


def run_name(cfg: DictConfig, model: str | None = None) -> str:
    """cfg.run, or a name made of the choices and of every other override, so that sweeps do not collide.

    A start and an experiment are part of it where a sweep has several of them, and the command line names no run.
    model: of the checkpoint that a run starts from, where the command line names none. UserError for one given name of
    several jobs that overwrite each other.
    """
    hydra_cfg = HydraConfig.get()
    swept = [key for key in os.environ.get(SWEPT, "").split(",") if key] if hydra_cfg.mode == RunMode.MULTIRUN else []
    one_name = "run" in given() and not any(
        key in swept or OmegaConf.is_interpolation(cfg, key) for key in ("run", "outputs")
    )
    if swept and one_name and cfg.overwrite:
        raise UserError(
            f"run={cfg.run} names the folder of every job of this sweep over {', '.join(swept)}, and overwrite=true "
            "has each remove the one before: leave run out, and each job has a name of its own"
        )
    if cfg.run is not None:
        return "-".join([str(cfg.run), *([] if "run" in given() else _of_sweep(cfg, swept))])
    choices, groups = dict(hydra_cfg.runtime.choices), ("model", "task", "softmax", "distill", "tune")
    if model is not None and "model" not in given():
        choices["model"] = model
    parts = [str(choices[g]) for g in groups if str(choices[g]) not in ("none", "full")]
    own = ("norm", "activation")  # named where they are replaced
    parts += [str(choices[g]) for g in own if str(choices.get(g, "exact")) != "exact"]
    known = {*groups, *own, "resume", "overwrite", "outputs", "data.root", "experiment", "ckpt"}
    for text in hydra_cfg.overrides.task:
        key, _, value = text.partition("=")
        if (key := key.lstrip("+")) not in known:
            short = value if len(value) <= 12 else hashlib.sha256(value.encode()).hexdigest()[:8]
            parts.append(f"{key if key.startswith(LONG) else key.rpartition('.')[2]}={short}")
    return re.sub(r"[^A-Za-z0-9_.=-]+", "_", "-".join([*parts, *_of_sweep(cfg, swept)]))


def _of_sweep(cfg: DictConfig, swept: list[str]) -> list[str]:
    """The parts of a run's name that tell jobs of a sweep over starts or experiments apart."""
    parts = [f"experiment={chosen('experiment')}"] if "experiment" in swept else []
    if "ckpt" in swept and cfg.ckpt is not None:
        start = Path(str(cfg.ckpt))
        run = start.parent.name if re.fullmatch(r"ckpt-\d+", start.name) else start.name
        # the hash: runs in two folders, and two checkpoints of a run, may have one name
        run = re.sub(r"[^A-Za-z0-9_.=-]+", "_", run)[:60]
        parts.append(f"ckpt={run}-{hashlib.sha256(str(start).encode()).hexdigest()[:8]}")
    return parts
