"""A student that starts from a checkpoint is the checkpoint's model: settings of another model are refused."""

from __future__ import annotations

from collections.abc import Sequence

from cgf.checkpoint import Checkpoint
from cgf.errors import UserError
from cgf.named import short
from cgf.types import Json

CHANGEABLE = ("img_size", "drop_path")  # what a timm model takes anew with the weights that it has


def model_of(checkpoint: Checkpoint, asked: Json, named: Sequence[str]) -> tuple[Json, Json]:
    """(node of the student's model as run.json is to keep it, settings that the checkpoint's model takes anew).

    asked: the node ``model`` of the configuration;  named: settings and groups that the command line or an experiment
    names. What they do not name is the checkpoint's. UserError for another model, and for a named setting that is
    another in the checkpoint: its weights are of one model, whose size of images and rate of dropped branches alone
    can change.
    """
    own: Json = checkpoint.run["config"].get("model") or {}
    if own.get("name") != checkpoint.run["model"]:  # of before: a default that the run did not take
        own = {"name": checkpoint.run["model"]}
    which = {"model", "experiment"} & set(named)  # groups of settings: they say which model, the rest is of a file
    settings = {name.split(".")[1] for name in named if name.startswith("model.")} | ({"name"} if which else set())
    different = sorted(key for key in settings if asked.get(key) != own.get(key))
    for key in different:
        if key == "name":
            _refuse(checkpoint, f"model={asked.get('name')}", f"it is {own['name']}")
        if key not in CHANGEABLE:
            _refuse(checkpoint, f"model.{key}={short(asked.get(key))}", f"it has {short(own.get(key))}")
    changes = {key: asked[key] for key in different}
    return {**own, **changes}, changes


def _refuse(checkpoint: Checkpoint, asked: str, has: str) -> None:
    raise UserError(
        f"a checkpoint keeps its model, and {asked} was given with ckpt={checkpoint.path}, where {has}: leave one of "
        "the two out"
    )
