"""Images in one archive beside a table of labels."""

import csv
import zipfile
from collections import Counter

import pytest

from cgf.errors import UserError


def test_tiny_imagenet(make, data_root, colour):
    task = make("tiny_imagenet", data_root)
    assert task.num_classes == 200 and "go-kart" in task.class_names
    train, val, test = (task.dataset(split, colour) for split in ("train", "val", "test"))
    assert (len(train), len(val), len(test)) == (7000, 1000, 2000)
    assert set(Counter(test.labels).values()) == {10} and set(Counter(val.labels).values()) == {5}
    assert sorted(train.own + val.own + test.own) == list(range(10_000))
    assert make("tiny_imagenet", data_root).dataset("val", colour).own == val.own
    with (data_root / "tiny_imagenet" / "val_labels.csv").open() as table:
        records = {row["file"]: int(row["label"]) for row in csv.DictReader(table)}
    assert all(records[test.source.keys[i]] == label for i, label in zip(test.own, test.labels, strict=True))
    assert test[0]["pixel_values"].shape == (3, 32, 32)
    assert sorted(task.revision()) == ["tiny_imagenet/val_64px.zip", "tiny_imagenet/val_labels.csv"]
    assert len(make("tiny_imagenet", data_root, limit={"train": 400}).dataset("train", colour)) == 400


@pytest.fixture
def small(data_root, tmp_path):
    """Twenty real images of two classes; returns a function that writes the table with these rows."""
    folder = tmp_path / "tiny_imagenet"
    folder.mkdir()
    whole, part = data_root / "tiny_imagenet" / "val_64px.zip", folder / "val_64px.zip"
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(part, "w") as target:
        for i in range(20):
            target.writestr(f"val_{i}.JPEG", source.read(f"val_{i}.JPEG"))

    def write(records, columns="file,label,name"):
        (folder / "val_labels.csv").write_text("\n".join([columns, *records]) + "\n")
        return tmp_path

    return write


GOOD = [f"val_{i}.JPEG,{i % 2},{'ab'[i % 2]}" for i in range(20)]


def test_a_small_archive_is_split_by_class(make, small, colour):
    task = make("tiny_imagenet", small(GOOD))
    counts = {s: Counter(task.dataset(s, colour).labels) for s in ("train", "val", "test")}
    assert counts == {"train": {0: 7, 1: 7}, "val": {0: 1, 1: 1}, "test": {0: 2, 1: 2}}


@pytest.mark.parametrize(
    "records, columns, says",
    [
        (
            GOOD,
            "file,klass,name",
            "needs rows with the columns file, label and name, and it has 20 rows with file, klass",
        ),
        ([], "file,label,name", "it has 0 rows"),
        ([*GOOD, "val_99.JPEG,0,a"], "file,label,name", "lacks 1, val_99.JPEG for one"),
        ([*GOOD[:-1], "val_19.JPEG,x,b"], "file,label,name", "needs a whole number as the label of val_19.JPEG"),
        ([*GOOD[:-1], "val_19.JPEG,1,c"], "file,label,name", "needs one name for a class, and class 1 is 'b' and 'c'"),
        (
            [line.replace(",b", ",a") for line in GOOD],
            "file,label,name",
            "a name of its own for each class, and has 'a'",
        ),
        ([*GOOD[:-1], "val_19.JPEG,5,c"], "file,label,name", "needs labels from 0 without a gap"),
    ],
)
def test_a_bad_table_is_one_sentence(make, small, colour, records, columns, says):
    with pytest.raises(UserError, match=says):
        make("tiny_imagenet", small(records, columns)).dataset("train", colour)


def test_bad_settings(make, small, colour, monkeypatch):
    root = small(GOOD)
    with pytest.raises(UserError, match=r"task.test_fraction needs to lie between 0 and 1, and it is 1"):
        make("tiny_imagenet", root, test_fraction=1)
    with pytest.raises(UserError, match=r"task.augment needs to be one of"):
        make("tiny_imagenet", root, augment="mixup")
    monkeypatch.delenv("CGF_DATA_ROOT", raising=False)
    with pytest.raises(UserError, match="needs a data root"):
        make("tiny_imagenet").read("train")
    (root / "tiny_imagenet" / "val_labels.csv").unlink()
    with pytest.raises(UserError, match=r"needs .*val_labels.csv, and there is no such file"):
        make("tiny_imagenet", root).dataset("test", colour)
