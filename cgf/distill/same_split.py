"""A student's weights and teacher must not have seen its validation or test samples: other splits are refused."""

from __future__ import annotations

from cgf.checkpoint import Checkpoint, read
from cgf.data.task import Task
from cgf.data.tasks import OWN, task_from_node
from cgf.errors import UserError
from cgf.former import current_name
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
# what says that a user's own data are the same as before, and lie in the same places of them
STATES = ("_target_", "name", "sha256", "hub_revision", "config", "text", "text_pair", "image", "label")
OWN_TARGETS = {f"{cls.__module__}.{cls.__qualname__}" for cls in OWN}
CHANCE = 0.01  # share of a split's samples that may be in other data by chance


def check_same_split(ckpt: str | None, teacher: JsonValue, task: Json, images: bool) -> None:
    """UserError where the checkpoint or teacher that a training starts from was trained on another split of its task.

    ckpt: checkpoint or run folder, or None;  teacher: ``distill.teacher``;  task: the node of the task, with what the
    task keeps;  images: whether its samples are images. Compared are the seed of the split, the fold, the parts of
    train that are validated and tested on and, of images, whether equal ones go together, where both are of one task:
    what trained one is in the test set of another.
    """
    for what, path in _sources(ckpt, teacher):
        _check(what, read(path), task, images)


def check_not_seen(ckpt: str | None, teacher: JsonValue, node: Json, task: Task) -> list[str]:
    """UserError where the checkpoint or teacher was trained on samples that ``task`` validates or tests on.

    For a user's own data, which may lie in other files, under another name or in other columns than before, so that the
    settings of a split say nothing. node: the task's configuration with what it keeps. Texts are compared word for
    word, images byte for byte. Samples that are in two splits of one of the two data sets anyway are told elsewhere,
    and no more than the share ``CHANCE`` of a split, such as a phrase that unrelated texts have too, is a line.
    Returns such lines, and one for each that cannot be compared.
    """
    lines = []
    for path, what in {path: what for what, path in _sources(ckpt, teacher)}.items():
        checkpoint = read(path)
        trained = checkpoint.run["config"].get("task") or {}
        trained = {**trained, "_target_": current_name(trained.get("_target_"))}
        if trained["_target_"] not in OWN_TARGETS or all(trained.get(key) == node.get(key) for key in STATES):
            continue
        try:
            before = task_from_node(trained, None)
            if before.has_images != task.has_images:
                continue
            seen, tested = (before.identities(split) for split in ("train", "test"))
            why = "its samples are not told apart"
            if trained.get("sha256") == node.get("sha256") and _columns(trained) != _columns(node):
                seen, why = None, "it read other columns of the same files"
        except UserError as error:
            seen, tested, why = None, None, str(error)
        if seen is None:
            lines.append(
                f"{what} {checkpoint.path} may have been trained on other data than these; whether it saw validation "
                f"or test samples of them is not known: {why}"
            )
            continue
        new = set(seen) - set(tested or ()) - set(task.identities("train") or ())
        for split in ("val", "test"):
            of_split = task.identities(split) or []
            if not (count := sum(one in new for one in of_split)):
                continue
            told = (
                f"{what} {checkpoint.path} was trained on {count} of the {len(of_split)} samples that are {split} here"
            )
            if count > CHANCE * len(of_split):
                raise UserError(f"{told}: take one that did not see them, or leave these samples out")
            lines.append(told)
    return lines


def _columns(task: Json) -> list[JsonValue]:
    """The columns that its samples stand in."""
    return [task.get(key) for key in ("text", "text_pair", "image")]


def _sources(ckpt: str | None, teacher: JsonValue) -> list[tuple[str, str]]:
    """What a student starts from or learns from, with its path."""
    both = (("checkpoint", ckpt), ("teacher", None if teacher == "self" else teacher))
    return [(what, path) for what, path in both if isinstance(path, str)]


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
