"""A student's weights and teacher must not have seen its validation or test samples: other splits are refused."""

from __future__ import annotations

from cgf.checkpoint import Checkpoint, read
from cgf.errors import UserError
from cgf.types import Json, JsonValue

# settings of a task that say how much of train is validated or tested on, with what held before there were these
SHARES: Json = {
    "test_fraction": 0.2,
    "val_fraction": 0.1,
    "test_sentences": 0,
    "val_sentences": False,
    "share_of_rows": False,
    "equal_together": False,
}
TOGETHER = "equal_together"  # of images; null and none say no
FILES = {"train", "val", "test"}  # splits that may have a file of their own


def check_same_split(ckpt: str | None, teacher: JsonValue, task: Json, images: bool) -> None:
    """UserError where the checkpoint or teacher that a training starts from was trained on another split of its task.

    ckpt: checkpoint or run folder, or None;  teacher: ``distill.teacher``;  task: the node of the task, with what the
    task keeps;  images: whether its samples are images. Compared are the seed of the split, the fold, the parts of
    train that are validated and tested on and, of images, whether equal ones go together, where both are of one task:
    what trained one is in the test set of another.
    """
    for what, path in (("checkpoint", ckpt), ("teacher", teacher if teacher != "self" else None)):
        if isinstance(path, str):
            _check(what, read(path), task, images)


def _check(what: str, checkpoint: Checkpoint, task: Json, images: bool) -> None:
    trained = checkpoint.run["config"].get("task") or {}
    if trained.get("name") != task["name"]:
        return
    if images:
        trained, task = (node | {TOGETHER: bool(node.get(TOGETHER))} for node in (trained, task))
    else:  # of texts equal ones always do
        trained, task = ({k: v for k, v in node.items() if k != TOGETHER} for node in (trained, task))
    if parts := sorted(_cut(task, trained)):
        raise UserError(
            f"{what} {checkpoint.path} was trained on samples of task {task['name']} that are cut off here as "
            f"{' and '.join(parts)}, since other splits had files of their own there: take one that was trained on the "
            "same files, or give this training the splits"
        )
    if _all_given(task, trained):
        trained, task = ({k: v for k, v in node.items() if k not in SHARES} for node in (trained, task))
    if split_of(trained) != split_of(task):
        raise UserError(
            f"{what} {checkpoint.path} was trained on another split of task {task['name']} ({_told(trained)}; here "
            f"{_told(task)}), so that it may have seen this one's validation or test samples: take one of the same "
            "split"
        )


def _all_given(task: Json, trained: Json) -> bool:
    """Whether both have files of their own, the same ones, for every split, so that no share of train is cut off."""
    given, before = (node.get("sha256") or {} for node in (task, trained))
    return bool(given.keys() >= FILES and given == before)


def _cut(task: Json, trained: Json) -> set[str]:
    """Splits that a task of files cuts off from train, and that the training before did not cut off so.

    val is cut off from what test leaves, so that it is the same one only where test is cut off in both or in neither.
    """
    given, before = (node.get("sha256") or {} for node in (task, trained))
    if given.get("train") is None or given["train"] != before.get("train"):  # of other data, or none of files
        return set()
    cut, same = FILES - set(given), FILES - set(before)
    return {part for part in cut if part not in same or (part == "val" and ("test" in cut) != ("test" in same))}


def split_of(task: Json) -> tuple[JsonValue, ...]:
    """What decides which samples are in which part: the seed, fold and folds where it is cut in them, and shares."""
    fold = task.get("fold")
    shares = (task.get(name, before) for name, before in SHARES.items())
    return (task.get("seed"), fold, None if fold is None else task.get("folds"), *shares, task.get("splits") or None)


def _told(task: Json) -> str:
    seed, fold, folds, *shares, splits = split_of(task)
    told = [f"task.{name}={share}" for name, share in zip(SHARES, shares, strict=True) if name in task]
    if splits is not None:
        told.append(f"task.splits={splits}")
    return " ".join([f"task.seed={seed}", *([] if fold is None else [f"task.fold={fold} task.folds={folds}"]), *told])
