"""Sets of the hub, and folders like one, that hold what few sets hold: read as they are, or refused by name."""

import json
import os

import numpy as np
import pytest
from conftest_models import tokenizer
from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, Value
from PIL import Image as Picture

from cgf.data.task import ImageInput, Inputs
from cgf.data.tasks import task_from_node
from cgf.errors import UserError

GREY = Inputs(image=ImageInput((1, 8, 8), (0.5,), (0.5,)))
WORDS = Inputs(tokenizer=tokenizer("pad", pad_token="pad"))
NAMED = Features({"text": Value("string"), "label": ClassLabel(names=["1", "2", "3"])})


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def table(folder, name="train.csv", rows=("a,x", "b,y") * 10, header="text,label"):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def saved(folder, **splits):
    DatasetDict(splits).save_to_disk(str(folder))
    return str(folder)


def texts(count=20, classes=2, **more):
    made = {"text": [f"text {i}" for i in range(count)], "label": [i % classes for i in range(count)]}
    return Dataset.from_dict({**made, **more})


def drawn(folder, count, different, seed=0):
    """Paths of images, of which only so many differ."""
    folder.mkdir()
    draw = np.random.default_rng(seed)
    pixels = [draw.integers(0, 256, (8, 8), dtype=np.uint8) for _ in range(different)]
    for i in range(count):
        Picture.fromarray(pixels[i % different]).save(folder / f"{i}.png")
    return [str(folder / f"{i}.png") for i in range(count)]


def images(folder, count=20, different=5, feature=Image):
    features = Features({"image": feature(), "label": ClassLabel(names=["cat", "dog"])})
    labels = [i % different % 2 for i in range(count)]
    return Dataset.from_dict({"image": drawn(folder, count, different), "label": labels}, features=features)


def test_a_file_of_other_rows_and_the_same_time_is_read_anew(make, tmp_path):
    path = table(tmp_path / "set")
    before = os.stat(path)
    assert make("hub", name=str(tmp_path / "set")).class_names == ["x", "y"]
    table(tmp_path / "set", rows=("a,good", "b,poor") * 10)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert make("hub", name=str(tmp_path / "set")).class_names == ["good", "poor"]


@pytest.mark.parametrize("where", ["another folder", "behind a link", "saved"])
def test_data_that_lie_elsewhere_are_refused(make, tmp_path, where):
    """No hash of the folder would say that they were changed."""
    table(tmp_path / "real"), table(tmp_path / "real", "test.csv")
    folder = tmp_path / "set"
    if where == "saved":
        texts().save_to_disk(str(folder))
        state = json.loads((folder / "state.json").read_text())
        (kept,) = state["_data_files"]
        (folder / kept["filename"]).rename(tmp_path / "real" / "a.arrow")
        (folder / "state.json").write_text(json.dumps({**state, "_data_files": [{"filename": "../real/a.arrow"}]}))
    else:
        folder.mkdir()
        place = "../real" if where == "another folder" else "data"
        if place == "data":
            (folder / "data").symlink_to(tmp_path / "real")
        files = "".join(f"  - split: {s}\n    path: {place}/{s}.csv\n" for s in ("train", "test"))
        (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}---\n")
    with pytest.raises(UserError, match=r"needs to hold its data itself, and names .*(real|data/)"):
        make("hub", name=str(folder)).class_names  # noqa: B018


def test_values_of_a_csv_file_are_read_as_they_are_written(make, tmp_path):
    table(tmp_path / "set", rows=["null,01", "b,1", "NA,NA", *(f"{i},1" for i in range(20))])
    task = make("hub", name=str(tmp_path / "set"))
    assert task.class_names == ["01", "1", "NA"]
    assert {"null", "b", "NA", "0"} < {text for split in task._task._splits.values() for text in split[0]}
    table(tmp_path / "twice", rows=("a,x,1", "b,y,2") * 10, header="text,label,label")
    with pytest.raises(UserError, match="needs the column label once"):
        _ = make("hub", name=str(tmp_path / "twice")).class_names


def test_a_column_whose_own_name_ends_so_is_no_second_one(make, tmp_path):
    made = texts().add_column("label.1", [1] * 20)
    assert make("hub", name=saved(tmp_path / "set", train=made)).class_names == ["0", "1"]


def test_a_csv_file_of_other_columns_than_train_is_told_by_its_cause(make, tmp_path):
    table(tmp_path / "set")
    table(tmp_path / "set", "test.csv", rows=("a;x",), header="text;label")
    with pytest.raises(UserError, match=r"loading it failed: (Couldn't cast|All the data files must).*text;label"):
        _ = make("hub", name=str(tmp_path / "set")).class_names


def test_equal_images_go_together_and_are_counted(make, tmp_path):
    path = saved(tmp_path / "set", train=images(tmp_path / "a"))
    task = make("hub", name=path)
    assert not [note for note in task.notes() if "byte for byte" in note]
    contents, parts = task._task._given["train"].contents, task._task._parts
    held = [{contents[i] for i in parts[split]} for split in ("train", "val", "test")]
    assert sum(map(len, held)) == len(set(contents)) == 5  # none is in two
    before = {"_target_": "cgf.data.own_hub.HubTask", **task.kept()}  # of a checkpoint that does not say
    assert any("byte for byte" in note for note in task_from_node(before, None).notes())


def test_a_split_with_images_of_train_is_told(make, tmp_path):
    made = images(tmp_path / "a")
    task = make("hub", name=saved(tmp_path / "set", train=made, test=made.select(range(4))))
    told = [note for note in task.notes() if "byte for byte" in note]  # all four: in train, or in what val takes of it
    assert sum(int(note.split()[0]) for note in told if "of test" in note) == 4


@pytest.mark.parametrize("formatted", [["image"], None])
def test_a_set_that_was_saved_with_a_format_is_read_without_it(make, tmp_path, formatted):
    made = images(tmp_path / "a")
    made.set_format("torch", columns=formatted)
    task = make("hub", name=saved(tmp_path / "set", train=made))
    assert task.class_names == ["cat", "dog"] and task.dataset("train", GREY)[0]["pixel_values"].shape == (1, 8, 8)


def test_images_that_are_stored_undecoded_are_decoded(make, tmp_path):
    made = images(tmp_path / "a", feature=lambda: Image(decode=False))
    task = make("hub", name=saved(tmp_path / "set", train=made))
    assert task.dataset("train", GREY)[0]["pixel_values"].shape == (1, 8, 8)


def test_a_set_that_was_saved_alone_is_train(make, tmp_path):
    texts().save_to_disk(str(tmp_path / "alone"))
    task = make("hub", name=str(tmp_path / "alone"))
    assert set(task._task._splits) == {"train", "val", "test"} and len(task._task._source.records["train"]) == 20


def test_a_test_split_without_the_label_column_counts_as_unlabelled(make, tmp_path):
    made = saved(tmp_path / "set", train=texts(), validation=texts(4), test=texts(6).remove_columns("label"))
    task = make("hub", name=made)
    assert task._names == {"train": "train", "test": "validation"}
    assert "splits that are not read: test" in task.notes()


def test_columns_and_splits_that_are_not_read_are_told(make, tmp_path):
    made = texts(question=["q"] * 20)
    task = make("hub", name=saved(tmp_path / "set", train=made, validation_matched=made))
    assert task.notes()[1:3] == ["columns that are not read: question", "splits that are not read: validation_matched"]


@pytest.mark.parametrize(
    ("splits", "settings", "says"),
    [
        ({"train": texts()}, {"text": "text", "text_pair": "label"}, "must differ, and are text, label, label"),
        ({"train": texts()}, {"text": "text", "text_pair": "text"}, "must differ, and are text, text, label"),
        ({"train": texts()}, {"config": "nonsense"}, "has no configurations: leave task.config out"),
        ({"train": texts()}, {"hub_revision": "nonsense"}, "is of a set of the hub, and .* is a folder"),
        ({"train": texts()}, {"image": "text"}, "needs images in 'text', and it is of Value"),
        ({"train": texts()}, {"image": "a", "text": "text"}, "task.image was given beside task.text"),
        (
            {"train": texts(), "validation": texts().remove_columns("text")},
            {},
            "test|validation of .* needs the column",
        ),
        (
            {"train": texts(9, 3).cast(NAMED), "test": texts(9, 3)},
            {},
            "has numbers in 'label', 0 for one, and train has names of classes",
        ),
        ({"train": Dataset.from_dict({"text": ["a"] * 4, "label": [0, 1, 0, None]})}, {}, "row 4 has None"),
        (
            {"train": Dataset.from_dict({"text": [["a"], ["b"]], "label": [0, 1]})},
            {"text": "text"},
            r"row 1 has \['a'\]",
        ),
    ],
)
def test_what_has_no_one_reading_is_refused(make, tmp_path, splits, settings, says):
    with pytest.raises(UserError, match=says):
        _ = make("hub", name=saved(tmp_path / "set", **splits), **settings).class_names


def test_images_in_one_split_and_paths_in_another_are_refused(make, tmp_path):
    made = images(tmp_path / "a")
    features = Features({"image": Value("string"), "label": made.features["label"]})
    paths = Dataset.from_dict({"image": ["a.png"] * 4, "label": [0, 1] * 2}, features=features)
    with pytest.raises(UserError, match="is of Image in train and of Value in test"):
        _ = make("hub", name=saved(tmp_path / "set", train=made, test=paths)).class_names


def test_a_fault_in_the_files_is_told_by_its_cause(make, tmp_path):
    (tmp_path / "set").mkdir()
    for split, line in (("train", {"text": "a", "label": "x"}), ("test", {"text": "a", "label": "x", "more": 1})):
        (tmp_path / "set" / f"{split}.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(UserError, match=r"loading it failed: (?!An error occurred)"):
        _ = make("hub", name=str(tmp_path / "set")).class_names


def test_pairs_that_would_run_together_are_refused(make, tmp_path):
    made = saved(tmp_path / "set", train=texts(other=["words"] * 20))
    task = make("hub", name=made, text="text", text_pair="other")
    with pytest.raises(UserError, match="puts no token between the two texts of a pair"):
        task.dataset("train", WORDS)
    typed = tokenizer("pad", pad_token="pad")
    typed.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    assert len(task.dataset("train", Inputs(tokenizer=typed, token_types=True))) == 14
    with pytest.raises(UserError, match="puts no token between"):
        task.dataset("train", Inputs(tokenizer=typed, token_types=False))  # of a model that takes no types


def test_a_checkpoint_of_a_configuration_of_any_name_is_read(monkeypatch):
    asked = []
    monkeypatch.setattr("cgf.data.own_hub.load_all", lambda *given: asked.append(given) or 1 / 0)
    node = {"_target_": "cgf.data.own_hub.HubTask", "name": "some/set", "config": "Arts & Crafts"}
    with pytest.raises(ZeroDivisionError):
        _ = task_from_node(node, None).class_names
    assert asked[0][2] == "Arts & Crafts"
    for odd in ("../x", "/etc", "~x", "a\\b"):
        with pytest.raises(UserError, match="must be a name without a path"):
            task_from_node({**node, "config": odd}, None)


def test_the_usual_names_of_folders_are_read_and_others_are_told(make, tmp_path):
    for number, split in enumerate(("train", "valid", "extra")):
        for label in ("cat", "dog"):
            (tmp_path / "set" / split).mkdir(parents=True, exist_ok=True)
            drawn(tmp_path / "set" / split / label, 6, 6, seed=number)
    task = make("image_folder", root=str(tmp_path / "set"))
    assert task._places == {"train": "train", "val": "valid"} and "folders that are not read: extra" in task.notes()
