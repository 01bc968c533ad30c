"""Where a training run is, and which of its checkpoints stay."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from cgf.checkpoint import complete_checkpoints
from cgf.results import write_json


@dataclass
class Progress:
    """Where a run is; everything here goes into a checkpoint."""

    step: int = 0
    epoch: int = 0
    position: int = 0  # batches of the epoch that are done
    best: float = -1.0
    best_step: int = 0
    since_best: int = 0
    seconds: float = 0.0  # wall clock of all training steps, over every part of a resumed run; without validation
    finished: bool = False

    def epochs(self, batches: int) -> float:
        """Epochs that are done, of ``batches`` each; the one under way counts in part."""
        return self.epoch + self.position / batches

    def judge(self, accuracy: float, loss: float) -> bool:
        """Counts a validation; returns whether its accuracy is the best so far. One whose loss is no finite number is
        never the best: some sample's logits are no numbers."""
        better = math.isfinite(loss) and accuracy > self.best
        if better:
            self.best, self.best_step, self.since_best = accuracy, self.step, 0
        else:
            self.since_best += 1
        return better


def write_best(folder: Path, progress: Progress, samples: int) -> None:
    """best.json of a run: the checkpoint that ``progress`` has just come to, judged on so many validation samples."""
    best = {"checkpoint": f"ckpt-{progress.step}", "step": progress.step, "val_accuracy": progress.best}
    write_json(folder / "best.json", {**best, "val_samples": samples})


def prune(folder: Path, best_step: int) -> None:
    """Keeps the best, the newest, and any checkpoint with evaluations; optimizer state only in the newest."""
    for old in complete_checkpoints(folder)[:-1]:
        if old.name == f"ckpt-{best_step}" or (old / "eval").exists():
            shutil.rmtree(old / "state", ignore_errors=True)
        else:
            shutil.rmtree(old)
