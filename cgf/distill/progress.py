"""Where a training run is, and which of its checkpoints stay."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, fields
from pathlib import Path

from cgf.results import read_json, write_json
from cgf.run_checkpoints import complete_checkpoints, is_step


@dataclass
class Progress:
    """Where a run is; everything here goes into a checkpoint."""

    step: int = 0
    epoch: int = 0
    position: int = 0  # batches of the epoch that are done
    best: float = -1.0  # validation accuracy of the epoch that is kept
    best_loss: float | None = None  # and its validation loss
    best_step: int = 0
    since_best: int = 0
    seconds: float = 0.0  # wall clock of all training steps, over every part of a resumed run; without validation
    finished: bool = False
    val_samples: int = 0  # of the last validation

    def epochs(self, batches: int) -> float:
        """Epochs that are done, of ``batches`` each; the one under way counts in part."""
        return self.epoch + self.position / batches

    def judge(self, accuracy: float, loss: float, keep: str = "accuracy") -> bool:
        """Counts a validation; returns whether it is the best so far, by its accuracy or by its loss (``keep``).

        A later one of equal accuracy, or loss, is no better. One whose loss is no finite number is never the best: some
        sample's logits are no numbers.
        """
        if keep == "loss":
            better = math.isfinite(loss) and (self.best_loss is None or loss < self.best_loss)
        else:
            better = math.isfinite(loss) and accuracy > self.best
        if better:
            self.best, self.best_loss, self.best_step, self.since_best = accuracy, loss, self.step, 0
        else:
            self.since_best += 1
        return better


def write_best(folder: Path, progress: Progress) -> None:
    """best.json of a run: the best checkpoint so far, and the validation samples that it was judged on."""
    best = {"checkpoint": f"ckpt-{progress.best_step}", "step": progress.best_step, "val_accuracy": progress.best}
    write_json(folder / "best.json", {**best, "val_samples": progress.val_samples})


def mend_best(folder: Path, newest: Path) -> None:
    """best.json of a run as its newest checkpoint has it: one that ended between the two has that of before, or none.

    Checkpoints of earlier versions do not say how many samples they were judged on, and change nothing.
    """
    told = read_json(newest / "run.json")["progress"]
    progress = Progress(**{field.name: told[field.name] for field in fields(Progress) if field.name in told})
    there = folder / "best.json"
    said = read_json(there) if there.is_file() else None
    named = said.get("step") if isinstance(said, dict) else None
    if progress.val_samples and progress.best_step not in (0, named):
        write_best(folder, progress)
    if progress.finished and progress.best_step:  # a run that was killed while it removed older ones
        prune(folder, progress.best_step)


def prune(folder: Path, best_step: int) -> None:
    """Keeps the best, the newest, and any checkpoint with evaluations; optimizer state only in the newest."""
    for old in complete_checkpoints(folder)[:-1]:
        if old.name == f"ckpt-{best_step}" or (old / "eval").exists():
            shutil.rmtree(old / "state", ignore_errors=True)
        else:
            shutil.rmtree(old, ignore_errors=True)  # another process of this training may be at it too
    complete = set(complete_checkpoints(folder))
    for left in folder.glob("ckpt-*"):  # one whose removal was stopped lacks run.json, which is written last
        if left not in complete and is_step(left) and not (left / "eval").exists():
            shutil.rmtree(left, ignore_errors=True)
