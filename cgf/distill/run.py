"""The folder of a training run: who may use it, what is in it, how its checkpoints are written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cgf.distill.checkpoint import TrainingState, complete_checkpoints, save
from cgf.errors import UserError
from cgf.results import read_json, run_info

# settings that may differ between a run and its continuation
FREE = ("outputs", "run", "resume", "overwrite", "data", "tracker")
OFF: tuple[Any, ...] = (None, False, 0, "none", {}, [])
# what was done before there was a setting for it
AS_BEFORE = {"train.accumulate": 1, "train.length_pool": 50, "tune.head": True}


@dataclass(frozen=True)
class RunFolder:
    """A run's folder; newest is the checkpoint to go on from, finished says that there is nothing to do."""

    path: Path
    newest: Path | None = None
    finished: bool = False
    overwrite: bool = False

    @classmethod
    def claim(cls, outputs: str, name: str, config: dict[str, Any], resume: bool, overwrite: bool) -> RunFolder:
        """The folder for this configuration.

        A folder with checkpoints of the same configuration is gone on with. UserError if it holds another
        configuration's, or if resume is false, unless overwrite is true. Nothing is created here.
        """
        path = Path(outputs).expanduser() / name
        checkpoints = complete_checkpoints(path) if path.is_dir() else []
        if overwrite:
            return cls(path, overwrite=True)
        if not checkpoints:
            return cls(path)
        newest = checkpoints[-1]
        run = read_json(newest / "run.json")
        if not resume:
            raise UserError(f"{path} holds checkpoints already: overwrite=true, resume=true or another run=NAME")
        changed = sorted(_differences(_bound(run["config"]), _bound(config)))
        if changed:
            raise UserError(f"{path} was trained with other settings ({', '.join(changed[:5])}): "
                            "overwrite=true trains it anew, run=NAME makes another")
        if not run["progress"]["finished"] and not (newest / "state").is_dir():
            raise UserError(f"{newest} has no training state to go on from: overwrite=true trains it anew")
        return cls(path, newest, bool(run["progress"]["finished"]))

    def begin(self) -> None:
        """Clears what is to be overwritten; called once everything else is known to be in order."""
        if self.overwrite:
            shutil.rmtree(self.path, ignore_errors=True)
        elif self.newest is None:
            # a run that was stopped before its first checkpoint leaves only its log
            (self.path / "metrics.jsonl").unlink(missing_ok=True)

    def abandon(self) -> None:
        """Removes a folder without any checkpoint: a run that failed at once leaves nothing behind."""
        if self.path.is_dir() and not complete_checkpoints(self.path):
            shutil.rmtree(self.path)

    def saver(self, host: Any, softmaxes: list[Any], config: dict[str, Any], seed: int,
              task: Any) -> Callable[[Path, dict[str, Any], TrainingState], Path]:
        """The function that writes a checkpoint of this run, for the Trainer."""
        about = run_info(config, seed, task.revision(), host.source)

        def write(folder: Path, progress: dict[str, Any], state: TrainingState) -> Path:
            run = {**about, **host.describe(), "task": task.name, "config": config, "progress": progress}
            return save(folder, host.state(), softmaxes, run, host.write_surroundings, state)

        return write


def _bound(config: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in config.items() if k not in FREE}


def _differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Settings that differ; one that the old run did not know yet was off then."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [d for k in {*old, *new} for d in
                _differences(old.get(k), new.get(k), f"{where}.{k}" if where else str(k))
                if k not in ("root", "data_root", "cache") and f"{where}.{k}" != "distill.name"]
    unknown_then = old is None and (new in OFF or AS_BEFORE.get(where, old) == new)
    return [] if old == new or unknown_then else [where]
