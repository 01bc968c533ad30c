"""A teacher or a start of another split of the task is refused; the same split, and another task, are not."""

from types import SimpleNamespace

import pytest
from PIL import Image

from cgf.data.own_hub import HubTask
from cgf.data.own_images import OwnFolderTask
from cgf.data.own_text import FileTask
from cgf.distill import same_split
from cgf.distill.same_split import check_not_seen
from cgf.distill.same_split import check_same_split as check
from cgf.errors import UserError

OWN = {"name": "digits", "seed": 42, "fold": None, "folds": 5}


def check_same_split(ckpt, teacher, task):
    check(ckpt, teacher, task, images=False)


@pytest.mark.parametrize("before", [{}, {"equal_together": None}, {"equal_together": False}])
def test_equal_images_that_were_parted_are_another_split(trained, before):
    """Their copies were in the teacher's training part, and in the student's test set."""
    own = {"name": "image_folder", "seed": 42}
    trained({**own, **before})
    now = {**own, "equal_together": True}
    with pytest.raises(UserError, match=r"trained on another split of task image_folder .*equal_together=True"):
        check("runs/teacher", None, now, images=True)
    check("runs/teacher", None, {**own, "equal_together": False}, images=True)
    check("runs/teacher", None, now, images=False)  # a set of the hub, of texts


def test_shares_say_nothing_where_every_split_has_the_same_files(trained):
    own = {"name": "image_folder", "seed": 42, "sha256": {"train": "a", "val": "b", "test": "c"}}
    now = {**own, "equal_together": True, "share_of_rows": True}
    trained(own)
    check("runs/teacher", None, now, images=True)
    for other in ({"train": "a", "val": "b", "test": "d"}, {"train": "a", "val": "b"}):
        trained({**own, "sha256": other})
        with pytest.raises(UserError):
            check("runs/teacher", None, now, images=True)


@pytest.fixture
def trained(monkeypatch):
    """trained(task): every checkpoint was trained on it; the configuration as run.json has it."""

    def told(task):
        checkpoint = SimpleNamespace(path="runs/teacher", run={"config": {"task": task}})
        monkeypatch.setattr(same_split, "read", lambda path: checkpoint)

    return told


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 7},
        {"fold": 0},
        {"fold": 3},
        {"fold": 1, "folds": 10},
        {"seed": 7, "fold": 1},
        {"test_fraction": 0.4},
        {"val_fraction": 0.2},
        {"test_sentences": 1000},
        {"val_sentences": True},
    ],
)
@pytest.mark.parametrize("place", ["ckpt", "teacher"])
def test_another_split_is_refused(trained, other, place):
    trained({**OWN, "fold": 1})
    given = {"ckpt": None, "teacher": "self", place: "runs/teacher"}
    task = {**OWN, "fold": 1, **other}
    what = "checkpoint" if place == "ckpt" else "teacher"
    with pytest.raises(
        UserError, match=f"{what} runs/teacher was trained on another split of task digits .task.seed=42 "
    ):
        check_same_split(given["ckpt"], given["teacher"], task)


@pytest.mark.parametrize(
    ("before", "now", "cut"),
    [
        ("train test", "train", "test and val"),
        ("train", "train test", "val"),  # from all of train, where the teacher left a part of it to its test
        ("train val", "train", "val"),
        ("train val", "train test", "val"),
    ],
)
def test_what_is_cut_off_from_files_must_have_been_cut_off_before(trained, before, now, cut):
    def of(splits):
        return {"name": "csv", "seed": 42, "sha256": {split: f"hash of {split}" for split in splits.split()}}

    trained(of(before))
    with pytest.raises(UserError, match=f"samples of task csv that are cut off here as {cut}, since other splits"):
        check_same_split("runs/teacher", "self", of(now))
    for same in (before, "train val test"):  # all splits have files of their own: nothing is cut off
        check_same_split("runs/teacher", "self", of(same))
    other = {**of(now), "sha256": {**of(now)["sha256"], "train": "of other data"}}
    check_same_split("runs/teacher", "self", other)
    trained({"name": "csv", "seed": 42})  # of before hashes were kept
    check_same_split("runs/teacher", "self", of(now))


def test_named_splits_of_a_set_are_compared(trained):
    trained({"name": "own/set", "seed": 42, "splits": {"train": "train", "test": "test"}})
    with pytest.raises(UserError, match=r"here task.seed=42 task.splits=\{'train': 'test', 'test': 'train'\}"):
        check_same_split(
            "runs/t", "self", {"name": "own/set", "seed": 42, "splits": {"train": "test", "test": "train"}}
        )


def test_the_own_split_is_not_and_old_checkpoints_know_no_folds(trained):
    trained({"name": "digits", "seed": 42})  # of before there were folds
    check_same_split("runs/teacher", "runs/teacher", OWN)
    check_same_split("runs/teacher", "self", {**OWN, "folds": 9})  # folds say nothing without a fold
    with pytest.raises(UserError, match=r"task.seed=42; here task.seed=42 task.fold=2 task.folds=5"):
        check_same_split("runs/teacher", "self", {**OWN, "fold": 2})
    check_same_split("runs/teacher", "self", {**OWN, "val_fraction": 0.1, "test_sentences": 0})  # as it was before
    with pytest.raises(UserError, match=r"task.seed=42; here task.seed=42 task.test_sentences=4000\)"):
        check_same_split("runs/teacher", "self", {**OWN, "test_sentences": 4000})
    trained({"name": "other", "seed": 7})
    check_same_split("runs/teacher", "runs/teacher", OWN)  # another task's samples are none of these
    check_same_split(None, {"_target_": "cgf.models.vit.load"}, OWN)


TARGET = {"_target_": "cgf.data.own_text.FileTask", "name": "csv"}


def rows(path, numbers):
    path.write_text("text,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in numbers))
    return str(path)


def node_of(task):
    return {**TARGET, "train": task.train, "test": task.test, **task.kept()}


def test_rows_that_a_teacher_was_trained_on_are_refused_wherever_they_lie_now(trained, tmp_path):
    """The same rows in other files: their hashes differ, and so did nothing that was compared before."""
    before = FileTask(train=rows(tmp_path / "a.csv", range(100)), test=rows(tmp_path / "a_test.csv", range(100, 140)))
    trained(node_of(before))
    assert check_not_seen("runs/teacher", "self", node_of(before), before) == []
    again = FileTask(train=rows(tmp_path / "b.csv", range(40, 140)), test=rows(tmp_path / "b_test.csv", range(40)))
    with pytest.raises(UserError, match=r"trained on \d+ of the 40 samples that are test here: take one"):
        check_not_seen("runs/teacher", "self", node_of(again), again)
    with pytest.raises(UserError, match=r"teacher runs/teacher was trained on"):
        check_not_seen(None, "runs/teacher", node_of(again), again)
    longer = FileTask(train=rows(tmp_path / "c.csv", range(400)))  # test is cut off from it
    with pytest.raises(UserError, match=r"samples that are (val|test) here"):
        check_not_seen("runs/teacher", "self", node_of(longer), longer)


def test_rows_that_a_teacher_did_not_see_may_be_new(trained, tmp_path):
    before = FileTask(train=rows(tmp_path / "a.csv", range(100)), test=rows(tmp_path / "t.csv", [0, *range(100, 140)]))
    trained(node_of(before))
    now = FileTask(
        train=rows(tmp_path / "b.csv", [*range(100), *range(200, 300)]),
        validation=rows(tmp_path / "v.csv", range(300, 330)),
        test=rows(tmp_path / "t2.csv", [0, *range(400, 440)]),  # text 0 is in train here too, which is told elsewhere
    )
    assert check_not_seen("runs/teacher", "self", node_of(now), now) == []
    (tmp_path / "a.csv").unlink()
    (line,) = check_not_seen("runs/teacher", "self", node_of(now), now)
    assert "whether it saw validation or test samples of them is not known" in line and "a.csv" in line


def test_names_columns_and_places_are_no_hiding_place(trained, tmp_path):
    own, test = rows(tmp_path / "a.csv", range(100)), rows(tmp_path / "t.csv", range(100, 140))
    trained(node_of(FileTask(train=own, test=test)))
    mine = FileTask(
        name="mine", train=rows(tmp_path / "b.csv", range(60, 160)), test=rows(tmp_path / "c.csv", range(60))
    )
    with pytest.raises(UserError, match=r"samples that are test here"):
        check_not_seen("runs/teacher", "runs/teacher", {**node_of(mine), "name": "mine"}, mine)
    folder = tmp_path / "set"
    folder.mkdir()
    rows(folder / "train.csv", range(60, 160))
    rows(folder / "test.csv", range(60))
    hub = HubTask(name=str(folder))
    with pytest.raises(UserError, match=r"samples that are test here"):
        check_not_seen("runs/teacher", None, {"_target_": "cgf.data.own_hub.HubTask", **hub.kept()}, hub)
    other = FileTask(train=own, test=test, text="label", label="text")
    (line,) = check_not_seen("runs/teacher", None, {**node_of(other), "text": "label", "label": "text"}, other)
    assert line.endswith("is not known: it read other columns of the same files")


def test_a_phrase_that_other_data_have_too_is_told_and_images_are_compared(trained, tmp_path):
    trained(
        node_of(FileTask(train=rows(tmp_path / "a.csv", range(100)), test=rows(tmp_path / "t.csv", range(100, 140))))
    )
    test = rows(tmp_path / "u.csv", [5, *range(500, 700)])
    apart = FileTask(train=rows(tmp_path / "b.csv", range(200, 300)), test=test)
    (line,) = check_not_seen("runs/teacher", None, node_of(apart), apart)
    assert line == "checkpoint runs/teacher was trained on 1 of the 201 samples that are test here"
    tasks = []
    for root, (first, last) in (("one", (0, 20)), ("two", (10, 30))):
        for i in range(first, last):
            path = tmp_path / root / "train" / "ab"[i % 2] / f"{root}{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (8, 8), 8 * i).save(path)
        tasks.append(OwnFolderTask(root=str(tmp_path / root)))
    nodes = [{"_target_": "cgf.data.own_images.OwnFolderTask", "name": t.name, **t.kept()} for t in tasks]
    trained(nodes[0])
    with pytest.raises(UserError, match=r"trained on \d+ of the \d+ samples that are (val|test) here"):
        check_not_seen("runs/teacher", None, nodes[1], tasks[1])
    assert check_not_seen("runs/teacher", None, node_of(apart), apart) == []  # of texts
    assert check_not_seen("runs/teacher", None, nodes[0], tasks[0]) == []
