"""The checkpoints of a training run's folder, and whether the run came to its end; read without loading any weights."""

from __future__ import annotations

from pathlib import Path

from cgf.results import read_json
from cgf.seal import RUN


def complete_checkpoints(run: Path) -> list[Path]:
    """Complete checkpoints of a run folder, oldest first."""
    complete = [p for p in run.glob("ckpt-*") if (p / RUN).is_file() and p.name[5:].isdigit()]
    return sorted(complete, key=lambda p: int(p.name[5:]))


def ended(run: Path) -> bool:
    """Whether the training of a run folder came to its end; false for one that was stopped, or is at work.

    Such a run has a best checkpoint too: the best so far.
    """
    complete = complete_checkpoints(run)
    return bool(complete) and bool(read_json(complete[-1] / RUN)["progress"]["finished"])
