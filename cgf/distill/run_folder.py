"""The folder of a training run: who may use it, what is in it, how its checkpoints are written."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cgf.checkpoint import TrainingState, read, resolve, save
from cgf.checks import is_whole
from cgf.data.task import Task
from cgf.distill.model_card import model_card
from cgf.errors import UserError
from cgf.former import current_names
from cgf.lock import locked
from cgf.models.host import Host
from cgf.models.replace import parts_of
from cgf.results import read_json, read_lines, run_info, write_text
from cgf.run_checkpoints import complete_checkpoints, ended
from cgf.seal import RUN, hashes
from cgf.softmax.base import Softmax
from cgf.types import Json, JsonValue

# settings that may differ between a run and its continuation
FREE = ("outputs", "run", "resume", "overwrite", "data", "tracker")
ORIGINS = {"ckpt": "ckpt", "teacher": "distill.teacher"}
OFF: tuple[object, ...] = (None, False, 0, "none", {}, [])
ABSENT = object()  # of a setting that a run does not know; null is one that it does
# what was done before there was a setting for it
AS_BEFORE: Json = {
    "train.accumulate": 1,
    "train.length_pool": 50,
    "train.keep": "accuracy",
    "tune.head": True,
    "norm": {"_target_": "cgf.norm.base.ExactNorms"},
    "activation": {"_target_": "cgf.activation.base.ExactActivations"},
}


# what a run writes into its folder
OWN = re.compile(
    r"ckpt-\d+|\.ckpt-\d+\.(part|before)|metrics\.(jsonl|part)|best\.json|run\.txt|wandb|\.\w+\.\w+\.\d+\.tmp"
)
# what one may leave that ended before its mark was there; earlier versions had none
FIRST = re.compile(r"metrics\.jsonl|\.ckpt-\d+\.(part|before)|\.run\.txt\.\d+\.tmp")
MARKER, MARK = "run.txt", "A training run of cgf-softmax: overwrite=true removes its checkpoints and logs.\n"
LONGEST = 240  # bytes of a name, of the 255 that file systems take: the lock's is longer


def run_path(outputs: str, name: str) -> Path:
    """The folder of the run ``name`` below ``outputs``; UserError unless the name is that of one folder."""
    if not name.strip() or name.startswith(".") or re.search(r"[/\\]", name) or not name.isprintable():
        raise UserError(
            "run must be the name of one folder (no separator, no leading dot, no control character), "
            f"and {name!r} was given"
        )
    if (size := len(name.encode())) > LONGEST:
        raise UserError(
            f"run must be a name of at most {LONGEST} bytes, and this one has {size}: run=NAME gives a shorter one"
        )
    return Path(outputs).expanduser() / name


def held(path: Path) -> AbstractContextManager[object]:
    """Keeps other processes from training in a run folder; UserError where another is at work there."""
    real = path.resolve()
    return locked(
        real.with_name(f".{real.name}.lock"),
        f"another process trains in {path}: wait for it, stop it, or take another run=NAME",
    )


@dataclass(frozen=True)
class RunFolder:
    """A run's folder; newest is the checkpoint to go on from, finished says that there is nothing to do.

    kept     whether the folder was there before, and empty: it stays when a run fails
    origins  digests of the checkpoints that the run starts from ('ckpt') and learns from ('teacher'); of a teacher that
             is no checkpoint, its weights ('teacher_weights')
    """

    path: Path
    newest: Path | None = None
    finished: bool = False
    overwrite: bool = False
    kept: bool = False
    origins: Json = field(default_factory=dict)

    @classmethod
    def claim(
        cls, outputs: str, name: str, config: Json, resume: bool, overwrite: bool, origins: Json | None = None
    ) -> RunFolder:
        """The folder for this configuration.

        A folder with checkpoints of the same configuration is gone on with. UserError if it holds another
        configuration's, a run that began with other ``origins``, or if resume is false, unless overwrite is true; if it
        holds something else than a run of this
        project, whatever overwrite is; and for a name that is no folder's. Nothing is created here.
        """
        path = run_path(outputs, name)
        there = _entries(path)
        if there and not _is_run(path):
            raise UserError(
                f"{path} is no training run of this project (it holds {', '.join(there[:3])}"
                f"{', ...' if there[3:] else ''}) and is left as it is: take another run=NAME"
            )
        checkpoints = complete_checkpoints(path) if there else []
        if overwrite or not checkpoints:
            return cls(path, overwrite=overwrite, kept=path.is_dir() and not there, origins=origins or {})
        newest = checkpoints[-1]
        run = _told(newest)
        if not resume:
            raise UserError(f"{path} holds checkpoints already: overwrite=true, resume=true or another run=NAME")
        changed = sorted(_differences(_bound(current_names(run["config"])), _bound(config)))
        if changed:
            raise UserError(
                f"{path} was trained with other settings ({', '.join(changed[:5])}): "
                "overwrite=true trains it anew, run=NAME makes another"
            )
        before = {what: digest for what, digest in run.get("origins", {}).items() if what in ORIGINS}
        other = sorted(what for what, digest in before.items() if (origins or {}).get(what) != digest)
        if other:
            raise UserError(
                f"{path} was trained with other weights of {' and '.join(ORIGINS[what] for what in other)}, which were "
                "trained on or anew since: overwrite=true trains it anew, run=NAME makes another"
            )
        if not run["progress"]["finished"] and not (newest / "state").is_dir():
            raise UserError(f"{newest} has no training state to go on from: overwrite=true trains it anew")
        return cls(path, newest, bool(run["progress"]["finished"]), origins=run.get("origins", {}))

    def begin(self) -> None:
        """Clears what is to be overwritten and marks the folder as a run's; called once all else is in order."""
        if self.overwrite:
            self._clear()
        elif self.newest is None:
            # a run that was stopped before its first checkpoint leaves only its log
            (self.path / "metrics.jsonl").unlink(missing_ok=True)
        if not (self.path / MARKER).exists():
            write_text(self.path / MARKER, MARK)

    def keep_teacher(self, identity: Callable[[], str]) -> None:
        """Keeps a hash of a teacher that is a model and no checkpoint, which ``origins_of`` knows already.

        UserError where the run that is gone on with began with another; one of an earlier version does not say.
        """
        if "teacher" in self.origins:
            return
        if self.newest is None:
            self.origins["teacher_weights"] = identity()
        elif self.origins.get("teacher_weights", ABSENT) not in (ABSENT, identity()):
            raise UserError(
                f"{self.path} was trained by a teacher of other weights, which were replaced since: overwrite=true "
                "trains it anew, run=NAME makes another"
            )

    def check_starts(self, starts: Sequence[JsonValue]) -> None:
        """UserError where what is to be overwritten holds a checkpoint of ``starts``, that the training begins with."""
        own = self.path.resolve()
        for start in starts:
            named = self.overwrite and isinstance(start, str) and start != "self"
            if named and resolve(start).resolve().is_relative_to(own):
                raise UserError(
                    f"overwrite=true would remove {start}, which this training starts or learns from: take another "
                    "run=NAME"
                )

    def abandon(self) -> None:
        """Removes what a run without any checkpoint left: one that failed at once leaves nothing behind.

        The folder goes with it where nothing else is in it.
        """
        if not self.path.is_dir() or complete_checkpoints(self.path):
            return
        self._clear()
        if _entries(self.path) == [MARKER]:
            (self.path / MARKER).unlink()
        if not self.kept:
            with suppress(OSError):  # not empty: what is left is not the run's, and its mark stays
                self.path.rmdir()

    def _clear(self) -> None:
        """Removes what runs write, but for the mark, and nothing else."""
        for name in _entries(self.path):
            path = self.path / name
            if not OWN.fullmatch(name) or name == MARKER:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def saver(
        self, host: Host, softmaxes: list[Softmax], config: Json, seed: int, task: Task
    ) -> Callable[[Path, Json, TrainingState], Path]:
        """The function that writes a checkpoint of this run, for the Trainer."""
        about = {**run_info(config, seed, task.revision(), host.source), "origins": self.origins}
        if self.newest is not None:  # what an earlier part was trained by stays known
            about["git"], about["git_before"] = _joined(about["git"], read_json(self.newest / "run.json"))

        def write(folder: Path, progress: Json, state: TrainingState) -> Path:
            run = {**about, **host.describe(), "task": task.name, "config": config, "progress": progress}
            parts = parts_of(host.model).described()
            card = model_card(run, softmaxes[0], len(softmaxes), parts)
            return save(folder, host.state(), softmaxes, run, host.write_surroundings, state, parts=parts, card=card)

        return write


def origins_of(ckpt: str | None, teacher: JsonValue) -> Json:
    """Digests of the checkpoints that a training starts from and learns from, as they are now."""
    told = {"ckpt": ckpt, "teacher": ckpt if teacher == "self" else teacher}
    return {what: read(path).identity for what, path in told.items() if isinstance(path, str)}


def stopped_origins(ckpt: str | None, teacher: JsonValue) -> list[str]:
    """Run folders among them whose training has not come to its end, so that their best checkpoint may change."""
    folders = [Path(path).expanduser() for path in (ckpt, teacher) if isinstance(path, str) and path != "self"]
    return [str(f) for f in dict.fromkeys(folders) if not (f / "run.json").is_file() and not ended(f)]


def _joined(now: Json, before: Json) -> tuple[Json, list[Json]]:
    """git of a run that goes on: dirty where any part was; and what its earlier parts say, each once."""
    earlier = [*before.get("git_before", []), before["git"]]
    dirty = [part["dirty"] for part in (now, *earlier)]
    told = True if True in dirty else (None if None in dirty else False)
    return {**now, "dirty": told}, [part for i, part in enumerate(earlier) if part not in earlier[:i]]


def _entries(path: Path) -> list[str]:
    """Names in a folder, sorted; none where there is no such folder. UserError for what is no folder."""
    if not path.is_dir():
        if path.exists() or path.is_symlink():
            raise UserError(f"{path} must be a folder, and is none: take another run=NAME")
        return []
    return sorted(entry.name for entry in path.iterdir())


def _is_run(path: Path) -> bool:
    """Whether a mark or a checkpoint says that this is a run of this project, or all there is is a run's log or draft.

    (A run of an earlier version that was stopped before its first checkpoint has its log alone.)
    """
    mark = path / MARKER
    if mark.is_file() and mark.read_bytes() == MARK.encode():
        return True
    for checkpoint in complete_checkpoints(path):
        run = read_json(checkpoint / "run.json")
        if isinstance(run, dict) and {"model", "task", "config", "progress"} <= run.keys():
            return True
    if not all(FIRST.fullmatch(name) for name in _entries(path)):
        return False
    log = read_lines(path / "metrics.jsonl")
    return not log or (isinstance(log[0], dict) and {"step", "epoch"} <= log[0].keys())


def _told(newest: Path) -> Json:
    """run.json of the checkpoint that a run goes on from, which also says what is removed of the run.

    UserError where it, or a small file that it has a hash of, was changed since, and where it says nothing of a run.
    """
    run, mend = read_json(newest / RUN), "overwrite=true trains the run anew"
    parts = [run.get(key, {}) for key in ("config", "progress", "origins")] if isinstance(run, dict) else []
    told = bool(parts) and all(isinstance(part, dict) for part in parts)
    if not told or "finished" not in parts[1] or not is_whole(parts[1].get("best_step", 0)):
        raise UserError(f"{newest / RUN} needs to say config and progress of a training run, and does not: {mend}")
    hashes(run, newest)
    return run


def _bound(config: Json) -> Json:
    return {k: v for k, v in config.items() if k not in FREE}


def _differences(old: object, new: object, where: str = "") -> list[str]:
    """Settings that differ; one that the old run did not know yet was off then, and so is one that is gone since."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            d
            for k in {*old, *new}
            for d in _differences(old.get(k, ABSENT), new.get(k, ABSENT), f"{where}.{k}" if where else str(k))
            if k not in ("root", "data_root", "cache") and f"{where}.{k}" != "distill.name"
        ]
    unknown_then = old is ABSENT and (_off(new) or AS_BEFORE.get(where, ABSENT) == new)
    return [] if old == new or unknown_then or (new is ABSENT and _off(old)) else [where]


def _off(value: object) -> bool:
    return value is ABSENT or value in OFF
