"""A user's own files: what is read, how it is split, and every fault in one sentence."""

import csv
import json
from types import SimpleNamespace

import datasets
import numpy as np
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, Value
from PIL import Image as Picture

from cgf.data.columns import in_order, read_columns
from cgf.data.pairs import joined, parted
from cgf.data.task import Inputs
from cgf.data.tasks import task_from_node
from cgf.data.told import told
from cgf.errors import UserError

ROWS = [(f"word{i} of class {i % 3}", ("low", "mid", "high")[i % 3]) for i in range(60)]
WITHIN = "is not what the checkpoint was trained with"  # of own data whose hash differs


def write_csv(path, records, header=("text", "label")):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerows([header, *records])
    return path


@pytest.fixture
def files(tmp_path):
    return {
        "train": str(write_csv(tmp_path / "train.csv", ROWS)),
        "test": str(write_csv(tmp_path / "test.csv", [("a new text", "low"), ("another, with a comma", "high")])),
    }


def test_every_format_gives_the_same_rows(tmp_path):
    import pandas

    records = [('a "quoted" text', "1"), ("commas, and\nlines", "0"), ("naïve", "1")]
    frame = pandas.DataFrame(records, columns=["said", "is"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_json(tmp_path / "a.json", orient="records")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.astype({"is": int}).to_parquet(tmp_path / "a.parquet")
    for suffix in ("csv", "json", "jsonl", "parquet"):
        assert read_columns(tmp_path / f"a.{suffix}", ["said", "is"]) == records, suffix
    (tmp_path / "a.tsv").write_text('is\tsaid\r\n1\ta "quoted" text\r\n')
    assert read_columns(tmp_path / "a.tsv", ["said", "is"]) == records[:1]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", b"text,mark\nhello,1\n", "needs the column label, and it has text, mark"),
        ("a.csv", b"a;b\nhello;1\n", "needs the columns text, label, and it has a;b"),
        ("a.csv", b"text,text,label\na,b,1\n", "needs the column text once, and has it 2 times"),
        ("a.csv", b"text,label\n", "needs rows, and it has none"),
        ("a.csv", b"", "and it has none"),
        ("a.csv", b"text,label\na,1\nhello, you,1\n", "needs 2 values in every row, and line 3 has 3"),
        ("a.csv", b"text,label\na,1\n ,1\n", "needs a value of 'text' in every row, and line 3 has none"),
        ("a.csv", "text,label\nnaïve,1\n".encode("latin-1"), "needs to be UTF-8 text"),
        ("a.jsonl", b'{"text": "a", "label": 1}\n{"text": "b"}\n', "line 2 of"),
        ("a.jsonl", b'{"text": "a", "label": null}\n', "needs a value of 'label'"),
        ("a.jsonl", b'{"text": "a", "label"\n', "needs to be JSON lines"),
        ("a.json", b'{"text": "a"}', "needs to be a list of objects"),
        ("a.parquet", b"not one", "needs to be a parquet file"),
        ("a.xlsx", b"", "needs to be one of .csv, .tsv, .jsonl, .json, .parquet"),
    ],
)
def test_a_table_that_cannot_be_used(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_columns(tmp_path / name, ["text", "label"])
    assert says in str(caught.value) and name in str(caught.value) and "\n" not in str(caught.value)


def test_numbers_are_sorted_as_numbers():
    assert in_order({"10", "2", "0"}) == ["0", "2", "10"] and in_order({"b", "10", "a"}) == ["10", "a", "b"]
    for odd in ("nan", "inf"):  # one order, whatever the set's own
        assert in_order({"2", odd, "0", "1"}) == in_order({"1", "0", odd, "2"}) == ["0", "1", "2", odd]


def test_splits_are_fixed_stratified_and_apart(make, files):
    task = make("csv", **files)
    assert task.class_names == ["high", "low", "mid"] and task.kind == "text"
    parts = task._splits
    assert {split: len(labels) for split, (_, labels) in parts.items()} == {"train": 54, "val": 6, "test": 2}
    assert sorted(parts["val"][1]) == [0, 0, 1, 1, 2, 2]
    assert not set(parts["train"][0]) & set(parts["val"][0])
    assert sorted(parts["train"][0] + parts["val"][0]) == sorted(text for text, _ in ROWS)
    assert make("csv", **files)._splits == parts and make("csv", **files, seed=1)._splits != parts
    alone = make("csv", train=files["train"])
    assert {k: len(v[1]) for k, v in alone._splits.items()} == {"train": 43, "test": 12, "val": 5}
    seen = [text for texts, _ in alone._splits.values() for text in texts]
    assert sorted(seen) == sorted(text for text, _ in ROWS)


def test_a_root_that_does_not_hold_the_file_is_not_where_it_is_sought_alone(make, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights").mkdir()
    task = make("csv", tmp_path / "weights", train="train.csv")
    assert task.kept()["train"] == files["train"] and len(task._splits["train"][1]) == 43
    write_csv(tmp_path / "weights" / "train.csv", ROWS[:30])
    assert make("csv", tmp_path / "weights", train="train.csv").kept()["train"] == str(
        tmp_path / "weights" / "train.csv"
    )
    refused(lambda: make("csv", tmp_path / "weights", train="no.csv").class_names, "weights/no.csv")


def test_the_order_of_rows_has_no_say(make, files, tmp_path):
    shuffled = str(write_csv(tmp_path / "other.csv", ROWS[::-1]))
    one, other = make("csv", train=files["train"]), make("csv", train=shuffled)
    for split in ("train", "val", "test"):
        assert sorted(one._splits[split][0]) == sorted(other._splits[split][0])


def test_pairs_are_tokenised_together(make, tmp_path, text_inputs):
    records = [(f"first {i}", f"second {i}", i % 2) for i in range(20)]
    path = write_csv(tmp_path / "pairs.csv", records, ("a", "b", "same"))
    task = make("csv", train=str(path), text="a", text_pair="b", label="same")
    text, label = task._splits["train"][0][0], task._splits["train"][1][0]
    (first,), (second,) = parted([text])
    number = int(first.split()[1])
    assert second == f"second {number}" and label == number % 2
    item = task.dataset("train", text_inputs)[0]
    assert item["input_ids"] == text_inputs.tokenizer(first, second)["input_ids"]
    assert "token_type_ids" not in item  # this model takes none
    assert joined("a\x1fb", "c").count("\x1f") == 1


def refused(build, says):
    with pytest.raises(UserError) as caught:
        build()
    assert says in str(caught.value) and "\n" not in str(caught.value), str(caught.value)


def test_faults_of_files_are_refused(make, files, tmp_path):
    refused(lambda: make("csv"), "task=csv needs task.train=FILE")
    refused(lambda: make("csv", **{**files, "train": "none.csv"}).class_names, "task.train needs a file")
    refused(lambda: make("csv", **files, label="mark").class_names, "needs the column mark, and it has text, label")
    refused(lambda: make("csv", **files, label="text"), "must differ")
    copy = tmp_path / "copy.csv"
    copy.write_bytes((tmp_path / "train.csv").read_bytes())
    refused(lambda: make("csv", **{**files, "test": str(copy)}).class_names, "hold the same")
    one = str(write_csv(tmp_path / "one.csv", [("a", "x"), ("b", "x")]))
    refused(lambda: make("csv", train=one).class_names, "needs at least two classes, and every row has the label 'x'")
    odd = str(write_csv(tmp_path / "odd.csv", [("a", "low"), ("b", "huge")]))
    refused(lambda: make("csv", **{**files, "test": odd})._splits, "row 2 has 'huge'")
    free = str(write_csv(tmp_path / "free.csv", [(f"t{i}", f"{i / 7}") for i in range(30)]))
    refused(lambda: make("csv", train=free).class_names, "is task.label the right column?")


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("place", [0, 1])
def test_the_mark_of_pairs_is_refused_in_every_split_and_place(make, files, tmp_path, split, place):
    """One in the first text would make all of a split pairs."""
    records = [*ROWS] if split == "train" else [("a new text", "low"), ("another", "high")]
    records[place] = ("half\x1fand half", records[place][1])
    given = {**files, split: str(write_csv(tmp_path / "marked.csv", records))}
    refused(lambda: make("csv", **given)._splits, f"the control character '\\x1f', and row {place + 1} of")


def test_half_a_character_is_refused_by_its_line(make, tmp_path):
    for column, record in (("text", {"text": "a \ud800", "label": "x"}), ("label", {"text": "a", "label": "\ud800"})):
        path = tmp_path / f"{column}.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in ({"text": "b", "label": "y"}, record)))
        refused(lambda path=path: read_columns(path, ["text", "label"]), f"'{column}' of line 2 holds half a character")


def test_a_text_without_a_token_is_refused(make, tmp_path, text_inputs, monkeypatch):
    task = make("csv", train=str(write_csv(tmp_path / "t.csv", ROWS)))
    monkeypatch.setattr("cgf.data.text_task.tokenized", lambda texts, *_: [[], *([1] for _ in texts[1:])])
    refused(lambda: task.dataset("train", text_inputs), "needs texts of one token at least, and 'word")


def test_a_column_may_be_called_by_a_number(make, tmp_path):
    """pandas numbers columns without names, and a command line reads task.text=0 as a number."""
    table = write_csv(tmp_path / "numbered.csv", ROWS)
    table.write_text(table.read_text().replace("text,label", "0,1", 1))
    task = make("csv", train=str(table), text=0, label=1)
    assert task.class_names == ["high", "low", "mid"] and (task.text, task.label) == ("0", "1")
    refused(lambda: make("csv", train=str(table), text=0, label=2).class_names, "needs the column 2, and it has 0, 1")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"text": None}, "task.text must be the name of a column, and None was given"),
        ({"label": True}, "task.label must be the name of a column, and True was given"),
        ({"train": ["a.csv", "b.csv"]}, "task.train must be the name of one file"),
        ({"max_length": None}, "task.max_length needs a count of tokens of at least 1, and it is None"),
        ({"val_fraction": None}, "task.val_fraction needs to lie between 0 and 1, and it is None"),
    ],
)
def test_settings_of_another_kind_are_refused(make, files, given, says):
    refused(lambda: make("csv", **{**files, **given}), says)


def test_splits_of_a_set_are_named_by_part(make):
    refused(lambda: make("hub", name="owner/set", splits=["train"]), "task.splits needs a split by its part, such as")
    refused(lambda: make("hub", name="owner/set", label=[1]), "task.label must be the name of a column, and [1] was")


def test_a_limit_that_is_no_count_by_split_is_refused(make, files):
    refused(lambda: make("csv", **files, limit=300), "task.limit needs a count by split, such as")


def test_what_is_told_before_training(make, files, tmp_path, text_inputs):
    write_csv(tmp_path / "test.csv", [ROWS[0], ("another", "high")])
    task = make("csv", **files, max_length=6)
    lines = told(task, {"train": task.dataset("train", text_inputs), "val": task.dataset("val", text_inputs)}, 6)
    assert lines[0].startswith("csv train: 54 samples: high 18, low 18, mid 18; 6 to 6 tokens, 6 in the middle, 54 of")
    assert lines[1].startswith("csv val: 6 samples: high 2, low 2, mid 2")
    assert "csv: no validation split: 10% of train, by class and fixed by task.seed, is val" in lines
    assert "csv: 1 of 2 texts of test are in train too, word for word" in lines
    own = str(write_csv(tmp_path / "val.csv", [("another", "high"), ("a third", "low")]))
    assert "1 of 2 texts of test are in val too, word for word" in make("csv", **files, validation=own).notes()


# -- from a checkpoint ----------------------------------------------------------------------------------


def node_of(target, task, **more):
    return {"_target_": target, **more, **task.kept()}


def test_a_checkpoint_reads_the_very_files_it_was_trained_on(make, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = make("csv", train="train.csv", test="test.csv")
    node, splits = node_of("cgf.data.own_text.FileTask", task), task._splits
    monkeypatch.chdir("/")
    assert task_from_node(node, None)._splits == splits
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).rename(moved / name)
    refused(lambda: task_from_node(node, None).class_names, "needs a file, and there is none at")
    assert task_from_node(node, str(moved))._splits == splits
    with (moved / "test.csv").open("a") as stream:
        stream.write("one more,low\n")
    refused(lambda: task_from_node(node, str(moved)).class_names, WITHIN)


def test_a_checkpoint_cannot_have_another_file_read(make, files, tmp_path):
    secret = write_csv(tmp_path / "secret.csv", [("my own", "1"), ("yours", "2")])
    target = "cgf.data.own_text.FileTask"
    refused(lambda: task_from_node({"_target_": target, "train": str(secret)}, None), "needs 'sha256'")
    guessed = {"_target_": target, "train": str(secret), "sha256": {"train": "0" * 64}}
    refused(lambda: task_from_node(guessed, None).class_names, WITHIN)
    hub = "cgf.data.own_hub.HubTask"
    refused(lambda: task_from_node({"_target_": hub, "name": str(tmp_path)}, None), "a name on the hub")
    with_folder = {"_target_": hub, "name": "x", "folder": str(tmp_path)}
    refused(lambda: task_from_node(with_folder, None), "needs 'sha256'")
    refused(lambda: task_from_node({**with_folder, "sha256": {"files": "0"}}, None).class_names, WITHIN)
    images = {"_target_": "cgf.data.own_images.OwnFolderTask", "root": str(tmp_path)}
    refused(lambda: task_from_node(images, None), "needs 'sha256'")


# -- images ---------------------------------------------------------------------------------------------


def pictures(root, splits, classes=("cat", "dog"), count=10):
    draw = np.random.default_rng(0)
    for split in splits:
        for label, name in enumerate(classes):
            folder = root / split / name
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = draw.integers(0, 100, (8, 8), dtype=np.uint8) + np.uint8(100 * label)
                Picture.fromarray(pixels).save(folder / f"{split}{i}.png")
    return root


def test_an_image_folder_with_and_without_val_and_test(make, tmp_path, grey):
    task = make("image_folder", root=str(pictures(tmp_path / "a", ["train"])))
    sizes = {split: len(task.dataset(split, grey)) for split in ("train", "val", "test")}
    assert sizes == {"train": 14, "val": 2, "test": 4} and task.class_names == ["cat", "dog"]
    own = [i for split in sizes for i in task.read(split)[1]]
    assert sorted(own) == list(range(20))
    assert sorted(task.dataset("test", grey).labels) == [0, 0, 1, 1]
    whole = make("image_folder", root=str(pictures(tmp_path / "b", ["train", "validation", "test"])))
    assert [len(whole.dataset(split, grey)) for split in ("train", "val", "test")] == [20, 20, 20]
    assert whole.notes() == [] and len(task.notes()) == 2
    assert set(whole.revision()) == {f"{name}/" for name in ("train", "validation", "test")}
    told = [set(task.identities(split)) for split in sizes]
    assert [len(one) for one in told] == [*sizes.values()] and len(set().union(*told)) == 20
    item = whole.dataset("val", grey)[0]
    assert item["pixel_values"].shape == (1, 8, 8) and item["label"] == 0


def test_files_that_are_not_read_are_told(make, tmp_path):
    root = pictures(tmp_path / "a", ["train", "val", "test"], count=2)
    assert make("image_folder", root=str(root)).notes() == []
    (root / "train" / "cat" / "notes.txt").write_text("x")
    (root / "train" / "dog" / "more").mkdir()
    (root / "train" / "dog" / "train0.png").rename(root / "train" / "dog" / "more" / "train0.png")
    (note,) = make("image_folder", root=str(root)).notes()
    assert note.startswith("2 files of train/ are not read, train/cat/notes.txt for one: images are train/CLASS/FILE")


def test_equal_images_go_together_where_a_split_is_cut_off(make, tmp_path):
    root = pictures(tmp_path / "a", ["train"], count=40)
    for i in range(20):  # every second cat twice
        (root / "train/cat" / f"again{i}.png").write_bytes((root / f"train/cat/train{2 * i}.png").read_bytes())
    task = make("image_folder", root=str(root))
    held = {}
    for split in ("train", "val", "test"):
        images, part = task.read(split)
        held[split] = {(root / images.keys[i]).read_bytes() for i in part}
    assert held["test"] and held["val"]
    assert not held["test"] & held["train"] and not held["val"] & held["train"] and not held["val"] & held["test"]
    assert not [note for note in task.notes() if "byte for byte" in note]
    node = node_of("cgf.data.own_images.OwnFolderTask", task, name="image_folder", share_of_rows=True)
    assert node["equal_together"] is True and task_from_node(node, None)._parts == task._parts
    before = {key: value for key, value in node.items() if key != "equal_together"}  # as a checkpoint of before has it
    old = task_from_node(before, None)
    assert old._parts != task._parts and old.kept()["equal_together"] is False
    both = {(root / old.read("train")[0].keys[i]).read_bytes() for i in old.read("train")[1]}
    images, part = old.read("test")
    count = sum((root / images.keys[i]).read_bytes() in both for i in part)
    assert count and f"{count} of {len(part)} images of test are in train too, byte for byte" in old.notes()


def test_shares_of_splits_that_are_given_and_settings_of_another_kind_have_no_effect(make, tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("text,label\n" + "".join(f"film {i},{'ab'[i % 2]}\n" for i in range(40)))
    both = {"name": "csv", "train": str(table)}
    assert make("csv", **both).without_effect() == {}
    assert make("csv", **both, test="t.csv").without_effect() == {"test_fraction": "test is given, and not cut off"}
    told = make("csv", **both, validation="v.csv").without_effect()
    assert told == {"val_fraction": "val is given, and not cut off"}
    folder = tmp_path / "own"
    folder.mkdir()
    for split in ("train", "test"):
        (folder / f"{split}.csv").write_text(table.read_text())
    hub = make("hub", name=str(folder))
    of_images = ["augment", "equal_together", "as_stored"]
    assert hub.kept()["as_stored"] is None  # of texts: a training of before goes on
    assert not hub.has_images and list(hub.without_effect()) == ["test_fraction", *of_images]
    images = make("hub", name=str(pictures(tmp_path / "b", ["train", "test"])))
    assert images.has_images and list(images.without_effect()) == ["test_fraction", "max_length", "cache"]
    assert list(make("image_folder", root=str(tmp_path / "b")).without_effect()) == ["test_fraction"]


def test_a_cut_without_equal_images_is_as_it_was(make, tmp_path):
    task = make("image_folder", root=str(pictures(tmp_path / "a", ["train"])))
    node = {**node_of("cgf.data.own_images.OwnFolderTask", task, name="image_folder"), "equal_together": False}
    assert task_from_node(node, None)._parts == task._parts


def test_equal_images_of_two_given_splits_are_told(make, tmp_path):
    root = pictures(tmp_path / "a", ["train", "val", "test"], count=4)
    for split, name in (("test", "train0"), ("val", "train1")):
        (root / split / "cat" / "b.png").write_bytes((root / "train" / "dog" / f"{name}.png").read_bytes())
    assert make("image_folder", root=str(root)).notes() == [
        "1 of 9 images of val are in train too, byte for byte",
        "1 of 9 images of test are in train too, byte for byte",
    ]


def test_a_folder_of_a_checkpoint(make, tmp_path, grey):
    task = make("image_folder", root=str(pictures(tmp_path / "a", ["train", "test"])))
    node = node_of("cgf.data.own_images.OwnFolderTask", task, name="image_folder")
    again = task_from_node(node, None)
    assert again._parts == task._parts and again.class_names == task.class_names
    (tmp_path / "a").rename(tmp_path / "c")
    refused(lambda: task_from_node(node, None).class_names, "task.root needs a folder")
    (tmp_path / "d").mkdir()
    (tmp_path / "c").rename(tmp_path / "d" / "a")
    assert task_from_node(node, str(tmp_path / "d"))._parts == task._parts
    image = next((tmp_path / "d" / "a" / "test" / "cat").iterdir())
    content = image.read_bytes()
    image.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # of the same size
    refused(lambda: task_from_node(node, str(tmp_path / "d")).class_names, WITHIN)


def test_faults_of_folders_are_refused(make, tmp_path, grey):
    for odd in ("maybe", 1):
        refused(lambda odd=odd: make("image_folder", root="x", equal_together=odd), "must be true, false or null")
    refused(lambda: make("image_folder"), "task=image_folder needs task.root=FOLDER")
    refused(lambda: make("image_folder", root=str(tmp_path / "none")).class_names, "needs a folder, and there is none")
    flat = pictures(tmp_path / "flat", ["cat", "dog"])
    refused(
        lambda: make("image_folder", root=str(flat)).class_names, "needs a folder train/ with a folder for each class"
    )
    one = pictures(tmp_path / "one", ["train"], classes=("cat",))
    refused(lambda: make("image_folder", root=str(one)).class_names, "at least two classes, and it has cat")
    more = pictures(tmp_path / "more", ["train"])
    pictures(more, ["test"], classes=("cat", "cow"))
    refused(
        lambda: make("image_folder", root=str(more)).dataset("train", grey), "needs the classes of train (cat, dog)"
    )
    twice = pictures(tmp_path / "twice", ["train"])
    (twice / "test").symlink_to(twice / "train")
    refused(lambda: make("image_folder", root=str(twice)).class_names, "source of its own for each split")
    empty = pictures(tmp_path / "empty", ["train"])
    for file in (empty / "train" / "dog").iterdir():
        file.unlink()
    refused(lambda: make("image_folder", root=str(empty)).dataset("train", grey), "in every class, and dog has none")


@pytest.mark.parametrize("fault", ["cut", "text", "deep"])
def test_images_that_cannot_be_read_are_refused(make, tmp_path, grey, fault):
    root = pictures(tmp_path / "a", ["train", "val", "test"], count=2)
    path = root / "train" / "cat" / "train0.png"
    if fault == "cut":
        path.write_bytes(path.read_bytes()[:-30])
    elif fault == "text":
        path.write_text("no image")
    else:
        Picture.fromarray(np.full((8, 8), 4000, dtype=np.uint16)).save(path)
    data = make("image_folder", root=str(root)).dataset("train", grey)
    refused(lambda: data[0], "needs 8 bits a channel" if fault == "deep" else "needs to be an image")


# -- the hub, as a folder and with its answer replaced ---------------------------------------------------


def rows_of(names, count=30, unlabelled=False):
    features = Features({"id": Value("string"), "text": Value("string"), "kind": ClassLabel(names=names)})
    label = [-1] * count if unlabelled else [i % len(names) for i in range(count)]
    data = {"id": [str(i) for i in range(count)], "text": [f"text {i}" for i in range(count)], "kind": label}
    return Dataset.from_dict(data, features=features)


@pytest.fixture
def answer(monkeypatch):
    def set_to(splits):
        monkeypatch.setattr(
            "huggingface_hub.HfApi.dataset_info",
            lambda self, repo, revision=None, timeout=None: SimpleNamespace(sha="c0ffee", siblings=[]),
        )
        monkeypatch.setattr("datasets.load_dataset", lambda *given, revision=None: DatasetDict(splits))

    return set_to


def test_any_set_of_the_hub(make, answer, text_inputs):
    answer({"train": rows_of(["z", "a"]), "validation": rows_of(["z", "a"], 4), "test": rows_of(["z", "a"], 5, True)})
    task = make("hub", name="someone/texts")
    assert task.class_names == ["z", "a"]  # the set's order
    assert [len(task.dataset(split, text_inputs)) for split in ("train", "val", "test")] == [27, 3, 4]
    assert task.revision() == {"someone/texts": "c0ffee"} and task.kept() == {"as_stored": None}
    assert task.notes()[0] == "columns text and kind; splits: train is train, test is validation"
    again = task_from_node({"_target_": "cgf.data.own_hub.HubTask", "name": "someone/texts"}, None)
    assert again._task._splits == task._task._splits


def test_a_checkpoint_keeps_the_commit_of_a_set_of_the_hub(make, answer, monkeypatch):
    answer({"train": rows_of(["z", "a"]), "test": rows_of(["z", "a"], 4)})
    asked, newest = [], "b" * 40
    monkeypatch.setattr(
        "huggingface_hub.HfApi.dataset_info",
        lambda self, repo, revision=None, timeout=None: SimpleNamespace(sha=revision or newest, siblings=[]),
    )
    load = datasets.load_dataset
    monkeypatch.setattr("datasets.load_dataset", lambda *given, revision=None: asked.append(revision) or load(*given))
    task = make("hub", name="someone/texts")
    assert task.revision() == {"someone/texts": newest} and task.kept() == {"hub_revision": newest, "as_stored": None}
    newest = "c" * 40  # the set has moved on since
    node = {"_target_": "cgf.data.own_hub.HubTask", "name": "someone/texts", **task.kept()}
    assert task_from_node(node, None).revision() == {"someone/texts": "b" * 40}
    pinned = make("hub", name="someone/texts", hub_revision="d" * 40)
    assert pinned.revision() == {"someone/texts": "d" * 40} == {"someone/texts": pinned.kept()["hub_revision"]}
    assert asked == ["b" * 40, "b" * 40, "d" * 40]


def test_a_set_that_leaves_a_choice(make, answer):
    pair = Dataset.from_dict({"one": [*"abcdefghijklmnopqr"], "two": ["c", "d"] * 9, "label": [0, 1] * 9})
    answer({"train": pair})
    refused(lambda: make("hub", name="someone/pairs").class_names, "needs task.text=COLUMN, one of one, two")
    task = make("hub", name="someone/pairs", text="one", text_pair="two")
    assert task.class_names == ["0", "1"] and set(task._task._splits) == {"train", "val", "test"}
    assert parted(task._task._splits["test"][0])[1] is not None
    refused(
        lambda: make("hub", name="someone/pairs", text="three").class_names, "needs the column three, and it has one"
    )
    answer({"all": pair})
    refused(lambda: make("hub", name="someone/pairs").class_names, "needs a split train or task.splits={train: NAME}")
    assert make("hub", name="someone/pairs", text="one", splits={"train": "all"}).class_names == ["0", "1"]
    answer({"train": Dataset.from_dict({"text": ["a", "b"], "score": [0.5, 0.2]})})
    refused(lambda: make("hub", name="someone/none").class_names, "needs task.label=COLUMN, one of text, score")
    answer({"train": Dataset.from_dict({"text": ["a", "b"], "label": [1, 1]})})
    refused(lambda: make("hub", name="someone/one").class_names, "needs at least two classes")


def test_a_folder_laid_out_like_a_set_of_the_hub(make, tmp_path, text_inputs, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "reviews"
    folder.mkdir()
    for split, count in (("train", 40), ("test", 6)):
        lines = [json.dumps({"text": f"{split} {i}", "label": ["no", "yes"][i % 2]}) for i in range(count)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines))
    task = make("hub", name=str(folder))
    assert task.name == "reviews" and task.class_names == ["no", "yes"]
    assert [len(task.dataset(split, text_inputs)) for split in ("train", "val", "test")] == [36, 4, 6]
    again = task_from_node({"_target_": "cgf.data.own_hub.HubTask", **task.kept()}, None)
    assert again.name == "reviews" and again._task._splits == task._task._splits
    node = {"_target_": "cgf.data.own_hub.HubTask", **task.kept()}
    (folder / "train.jsonl").write_text("")
    refused(lambda: task_from_node(node, None).class_names, WITHIN)


def test_images_of_a_saved_set(make, tmp_path, grey):
    source = pictures(tmp_path / "a", ["train"])
    files = sorted(str(path) for path in source.rglob("*.png"))
    features = Features({"picture": Image(), "animal": ClassLabel(names=["cat", "dog"])})
    data = Dataset.from_dict({"picture": files, "animal": [int("dog" in f) for f in files]}, features=features)
    DatasetDict({"train": data}).save_to_disk(str(tmp_path / "saved"))
    task = make("hub", name=str(tmp_path / "saved"))
    assert task.class_names == ["cat", "dog"] and len(task.dataset("train", grey)) == 14
    item = task.dataset("test", grey)[0]
    assert item["pixel_values"].shape == (1, 8, 8)
    refused(lambda: task.dataset("train", Inputs()), "needs a model that takes images")
