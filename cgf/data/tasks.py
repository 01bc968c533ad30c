"""From the task that a checkpoint was trained on back to a Task: looked up by name, its settings checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cgf.data.labelled import LabelledArchiveTask
from cgf.data.own_hub import HubTask
from cgf.data.own_images import OwnFolderTask
from cgf.data.own_text import FileTask
from cgf.data.task import Task
from cgf.data.text import IntentsTask, TableTask
from cgf.data.vision import DigitsTask, ImageFolderTask
from cgf.errors import UserError
from cgf.former import current_name
from cgf.named import arguments, short
from cgf.types import Json, JsonValue

# what ``_target_`` of a checkpoint's task may read: a name in this table, never a path that is imported from
TASKS: dict[str, type[Task]] = {
    "cgf.data.labelled.LabelledArchiveTask": LabelledArchiveTask,
    "cgf.data.own_hub.HubTask": HubTask,
    "cgf.data.own_images.OwnFolderTask": OwnFolderTask,
    "cgf.data.own_text.FileTask": FileTask,
    "cgf.data.text.IntentsTask": IntentsTask,
    "cgf.data.text.TableTask": TableTask,
    "cgf.data.vision.DigitsTask": DigitsTask,
    "cgf.data.vision.ImageFolderTask": ImageFolderTask,
}
INSIDE = ("name", "archive", "table", "class_file", "files", "folders")  # files and folders below the data root
OWN = (FileTask, OwnFolderTask, HubTask)  # of a user's own files, wherever they lie: believed by their hashes
HUB = ("hub", "hub_config", "hub_revision")


def task_from_node(node: JsonValue, root: str | None) -> Task:
    """The task of the node that a checkpoint kept; root takes the place of its data folder.

    A user's own files are read where the checkpoint says that they lie, or below root by their last name, and only if
    they are those whose hashes the checkpoint kept: it cannot have another file read. A checkpoint does not say where
    files are written: its ``cache`` is left out, and texts are tokenised anew. Raises UserError for a task that is not
    in the table, settings that it does not have or of another type, files outside the data root, and a hub data set
    that is not owner/name.
    """
    if not isinstance(node, Mapping):
        raise UserError(f"a checkpoint's task must be an object of settings, and is {short(node)}")
    target = current_name(node.get("_target_"))
    if not isinstance(target, str) or target not in TASKS:
        raise UserError(f"a checkpoint's task must be one of {', '.join(TASKS)}, and is {short(target)}")
    what = f"the checkpoint's task ({TASKS[target].__name__})"
    given = arguments(TASKS[target], {k: v for k, v in node.items() if k != "_target_"}, what)
    if "cache" in given:
        given["cache"] = None
    if TASKS[target] in OWN:
        return TASKS[target](**_own(TASKS[target], given, root, what))
    for key in INSIDE:
        _inside(given.get(key), f"'{key}' of {what}")
    for key in HUB:
        _on_the_hub(given.get(key), f"'{key}' of {what}")
    return TASKS[target](**{**given, "root": root or None})


def _own(task: type[Task], given: Json, root: str | None, what: str) -> Json:
    """The settings of a task of a user's own files; without their hashes nothing is read but the hub."""
    if task is HubTask and not given.get("folder"):
        for key in ("name", "hub_revision"):
            _on_the_hub(given.get(key), f"'{key}' of {what}")
        if (config := given.get("config")) is not None and not re.fullmatch(
            r"[^/\\\x00-\x1f~.][^/\\\x00-\x1f]*", config
        ):
            raise UserError(f"'config' of {what} must be a name without a path, and is {short(config)}")
        if Path(str(given.get("name"))).exists():
            raise UserError(f"{what} names a folder, {short(given['name'])}, and keeps no hash of it")
        return {**given, "root": None}
    if not given.get("sha256"):
        raise UserError(f"{what} needs 'sha256', the hashes of its files, and it is not given")
    keys = {FileTask: ("train", "test", "validation"), OwnFolderTask: ("root",), HubTask: ("folder",)}[task]
    if root:
        base = Path() if task is FileTask else Path(root).expanduser()
        given |= {key: str(base / Path(given[key]).name) for key in keys if given.get(key)}
    return given if task is OwnFolderTask else {**given, "root": root or None}


def _inside(value: JsonValue, what: str) -> None:
    for path in value.values() if isinstance(value, Mapping) else [value]:
        if path is not None and (path.startswith(("/", "~")) or "\\" in path or ".." in path.split("/")):
            raise UserError(f"{what} must lie below the data root, and is {short(path)}")


def _on_the_hub(value: JsonValue, what: str) -> None:
    if value is not None and not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)*", value):
        raise UserError(f"{what} must be a name on the hub, and is {short(value)}")
