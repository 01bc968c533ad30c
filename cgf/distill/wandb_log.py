"""What wandb is given at the end of a run beside its scalars: a table of the layers, the checkpoint as artifact."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from cgf.checks import one_of
from cgf.types import Json

if TYPE_CHECKING:
    from accelerate.tracking import WandBTracker

CARD = ("README.md", "run.json", "softmax.json", "norm.json", "activation.json", "plan.json")
WEIGHTS = ("model.safetensors", "host/**/*")
ARTIFACTS: dict[str, tuple[str, ...]] = {"none": (), "card": CARD, "checkpoint": (*CARD, *WEIGHTS)}
LAYERS = "layers"
TRACKERS, MODES = ("none", "wandb"), ("online", "offline", "disabled")


def check_tracker(tracker: Json) -> None:
    """UserError unless tracker.name, and where that is wandb its mode and artifact, are of what there is."""
    if one_of("tracker.name", tracker["name"], TRACKERS) == "wandb":
        one_of("tracker.mode", tracker["mode"], MODES)
        one_of("tracker.artifact", tracker["artifact"], tuple(ARTIFACTS))


def log_layers(tracker: WandBTracker, layers: list[dict[str, float]], step: int) -> None:
    """A table with a line a layer, through accelerate's tracker; nothing where there is no row."""
    if layers:
        columns = list(layers[0])
        tracker.log_table(
            LAYERS, columns=columns, data=[[layer[key] for key in columns] for layer in layers], step=step
        )


def log_checkpoint(tracker: WandBTracker, folder: Path, wanted: str) -> None:
    """The files of a checkpoint that ``wanted`` (a key of ARTIFACTS) names, as an artifact of type model."""
    import wandb

    paths = sorted({path for pattern in ARTIFACTS[wanted] for path in folder.glob(pattern) if path.is_file()})
    if not paths:
        return
    name = re.sub(r"[^\w.-]", "-", folder.parent.name)[:100]  # what wandb takes as a name
    artifact = wandb.Artifact(name, type="model", metadata={"checkpoint": folder.name})
    for path in paths:
        artifact.add_file(str(path), name=path.relative_to(folder).as_posix())
    tracker.tracker.log_artifact(artifact)
