"""The checkpoints of a training run's folder, and whether the run came to its end; read without loading any weights."""

from __future__ import annotations

from pathlib import Path

from cgf.results import read_json
from cgf.seal import RUN


def complete_checkpoints(run: Path) -> list[Path]:
    """Complete checkpoints of a run folder, oldest first."""
    complete = [p for p in run.glob("ckpt-*") if (p / RUN).is_file() and is_step(p)]
    return sorted(complete, key=lambda p: int(p.name[5:]))


def is_step(checkpoint: Path) -> bool:
    """Whether a folder is called as the checkpoint of a step is, ckpt-N."""
    number = checkpoint.name.removeprefix("ckpt-")
    return number.isascii() and number.isdecimal() and number != checkpoint.name


def ended(run: Path) -> bool:
    """Whether the training of a run folder came to its end; false for one that was stopped, or is at work.

    Such a run has a best checkpoint too: the best so far.
    """
    complete = complete_checkpoints(run)
    told = read_json(complete[-1] / RUN) if complete else None
    progress = told.get("progress") if isinstance(told, dict) else None
    return isinstance(progress, dict) and bool(progress.get("finished"))
