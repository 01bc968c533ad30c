from collections import Counter

import pytest
import torch

from cgf.data.task import Inputs
from cgf.errors import UserError


@pytest.fixture(scope="module")
def tasks(make, data_root):
    return {name: make(name, data_root) for name in ("clinc150", "banking77", "sst2")}


@pytest.mark.parametrize(
    ("name", "classes", "train", "val", "test"),
    [("clinc150", 150, 15000, 3000, 4500), ("banking77", 77, 9003, 1000, 3080), ("sst2", 2, 60535, 6814, 872)],
)
def test_counts(tasks, name, classes, train, val, test):
    task = tasks[name]
    assert task.num_classes == len(set(task.class_names)) == classes
    count = {split: len(labels) for split, (_, labels) in task._splits.items()}
    # Repeated sentences stay on one side, so the cut may miss its share by a few.
    slack = 0 if name == "clinc150" else 25
    assert abs(count["train"] - train) <= slack and abs(count["val"] - val) <= slack
    assert count["train"] + count["val"] == train + val and count["test"] == test
    for _, labels in task._splits.values():
        assert set(labels) == set(range(classes))


@pytest.mark.parametrize("name", ["banking77", "sst2"])
def test_val_is_a_fixed_stratified_part_of_train(tasks, make, data_root, name):
    task = tasks[name]
    texts, labels = task._splits["val"]
    rest, rest_labels = task._splits["train"]
    assert not set(texts) & set(rest)
    again = make(name, data_root)
    assert again._splits == task._splits and again.revision() == task.revision()
    other, _ = make(name, data_root, seed=43)._splits["val"]
    assert other != texts
    share = len(texts) / (len(texts) + len(rest))
    for label, count in Counter(rest_labels + labels).items():
        assert Counter(labels)[label] == pytest.approx(share * count, abs=0.01 * count + 2)


def test_test_rows_do_not_touch_the_choice(make, data_root, tmp_path):
    import gzip

    folder = tmp_path / "banking77"
    folder.mkdir()
    source = data_root / "banking77"
    (folder / "train.csv.gz").write_bytes((source / "train.csv.gz").read_bytes())
    test = gzip.decompress((source / "test.csv.gz").read_bytes()).decode().splitlines()
    (folder / "test.csv").write_text("\n".join(test[:20]))
    cut, whole = make("banking77", tmp_path), make("banking77", data_root)
    assert cut._splits["train"] == whole._splits["train"] and cut._splits["val"] == whole._splits["val"]
    assert cut.class_names == whole.class_names  # without categories.json the labels of train serve


def test_sst2_sentences_are_stripped(tasks):
    assert tasks["sst2"].class_names == ["negative", "positive"]
    texts, labels = tasks["sst2"]._splits["test"]
    assert (texts[0], labels[0]) == ("it 's a charming and often affecting journey .", 1)


def test_clinc_out_of_scope_and_variants(make, data_root):
    task = make("clinc150", data_root, oos=True)
    assert task.num_classes == 151 and task.class_names[-1] == "oos"
    assert [len(task._splits[split][0]) for split in ("train", "val", "test")] == [15100, 3100, 5500]
    assert len(make("clinc150", data_root, variant="small")._splits["train"][0]) == 7500
    assert list(task.revision()) == ["clinc150/data_full.json.gz"]


def test_items_collate_and_truncation(make, data_root, text_inputs):
    task = make("clinc150", data_root, max_length=12, limit={"train": 300, "val": 5, "test": 150})
    train = task.dataset("train", text_inputs)
    assert len(train) == 300 and set(Counter(train.labels).values()) == {2}
    assert train.lengths == [len(train[i]["input_ids"]) for i in range(300)]
    assert max(train.lengths) == 12 and min(train.lengths) < 12
    items = [train[i] for i in range(40)]
    batch = task.collate(text_inputs)(items)
    longest = max(train.lengths[:40])
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (40, longest)
    assert {value.dtype for value in batch.values()} == {torch.int64}
    for row, item in enumerate(items):
        count = len(item["input_ids"])
        assert batch["input_ids"][row, :count].tolist() == item["input_ids"]
        assert (batch["input_ids"][row, count:] == text_inputs.tokenizer.pad_token_id).all()
        assert batch["attention_mask"][row].sum() == count and batch["attention_mask"][row, :count].all()
    assert batch["labels"].tolist() == [item["label"] for item in items]
    whole = make("clinc150", data_root)
    assert set(task._splits["train"][0]) == set(whole._splits["train"][0])


def test_decoded_text_is_the_sentence(make, data_root, text_inputs):
    task = make("banking77", data_root, limit={"test": 3})
    data = task.dataset("test", text_inputs)
    own = task._splits["test"][0]
    for i in range(3):
        decoded = text_inputs.tokenizer.decode(data[i]["input_ids"], skip_special_tokens=True).strip()
        assert decoded in {text.strip() for text in own}


def test_wrong_inputs(make, data_root, text_inputs):
    import copy

    task = make("clinc150", data_root)
    with pytest.raises(UserError, match="needs a model with a tokenizer"):
        task.dataset("train", Inputs())
    with pytest.raises(UserError, match="has the splits train, val, test, and 'dev'"):
        task.dataset("dev", text_inputs)
    bare = copy.deepcopy(text_inputs.tokenizer)
    bare.pad_token = None
    with pytest.raises(UserError, match="needs a tokenizer with a pad token"):
        task.collate(Inputs(tokenizer=bare))
    with pytest.raises(UserError, match=r"task.max_length=1 leaves no place for a text beside the 1 tokens that"):
        make("clinc150", data_root, max_length=1).dataset("train", text_inputs)
    for overrides in ({"limit": {"dev": 3}}, {"limit": {"train": 0}}, {"variant": "huge"}, {"max_length": 0}):
        with pytest.raises(UserError):
            make("clinc150", data_root, **overrides)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"needs the file .*train.csv \(or train.csv.gz\)"),
        ("", "needs the columns text, category, and it has none"),
        ("text,category\n", "needs rows, and it has none"),
        ("sentence,label\nhello,a\n", "needs the columns text, category, and it has sentence, label"),
        ("text,category\nhello\n", "needs 2 values in every row, and line 2 has 1"),
        ("text,category\nhello, world,a\n", "needs 2 values in every row, and line 2 has 3"),  # it was cut, and a lost
        ("text,category\n ,a\n", "needs a value of 'text' in every row, and line 2 has none"),
        ("text,category,text\nhello,a,bye\n", "needs the column text once, and has it 2 times"),
        ('text,category\n"hello,a\n', "needs to be a table"),
        (b"text,category\n\xff\xfe,a\n", "needs to be UTF-8"),
    ],
)
def test_bad_tables(make, tmp_path, content, message):
    folder = tmp_path / "banking77"
    folder.mkdir()
    (folder / "test.csv").write_text("text,category\nhello,a\n")
    if content is not None:
        (folder / "train.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=message) as caught:
        _ = make("banking77", tmp_path).class_names
    assert "train.csv" in str(caught.value) and "\n" not in str(caught.value)


def test_label_outside_the_classes(make, tmp_path):
    folder = tmp_path / "banking77"
    folder.mkdir()
    (folder / "train.csv").write_text("text,category\nhello,a\ngood day,a\nbye,b\nsee you,b\n")
    (folder / "test.csv").write_text("text,category\nhello,a\nwhat,c\n")
    with pytest.raises(UserError, match=r"test.csv needs labels out of the 2 classes.*row 2 has 'c'"):
        _ = make("banking77", tmp_path)._splits


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "needs to be an object of splits"),
        ("{", "needs to be JSON"),
        ('{"train": [["hi", "a"]], "val": []}', "needs rows in 'val', and it has train, val"),
        ('{"train": [["hi"]]}', r"needs \[text, intent\] in every row"),
    ],
)
def test_bad_intents(make, tmp_path, content, message):
    (tmp_path / "clinc150").mkdir()
    (tmp_path / "clinc150" / "data_full.json").write_text(content)
    with pytest.raises(UserError, match=message):
        _ = make("clinc150", tmp_path).class_names


def test_broken_gzip_and_missing_root(make, data_root, tmp_path):
    (tmp_path / "clinc150").mkdir()
    whole = (data_root / "clinc150" / "data_full.json.gz").read_bytes()
    (tmp_path / "clinc150" / "data_full.json.gz").write_bytes(whole[:5000])
    with pytest.raises(UserError, match=r"data_full.json.gz needs to be .* text that can be read"):
        _ = make("clinc150", tmp_path).class_names
    with pytest.raises(UserError, match=r"under data.root=.*there is no such folder"):
        _ = make("clinc150", tmp_path / "nowhere").class_names


def test_short_texts_are_left_out_of_training_alone(make, data_root, tasks):
    every, long = tasks["sst2"]._splits, make("sst2", data_root, min_words=15)._splits
    for split in ("train", "val"):
        kept = [(t, n) for t, n in zip(*every[split], strict=True) if len(t.split()) >= 15]
        assert list(zip(*long[split], strict=True)) == kept and 0 < len(kept) < len(every[split][0])
    assert long["test"] == every["test"] and min(len(t.split()) for t in long["test"][0]) < 15
    with pytest.raises(UserError, match=r"task.min_words needs to be a count of words, and it is -1"):
        make("sst2", data_root, min_words=-1)
    with pytest.raises(UserError, match="needs rows in train, and .* leaves none of at least 999 words"):  # noqa: RUF043
        _ = make("sst2", data_root, min_words=999)._splits


def test_a_file_serves_one_split(make, tmp_path):
    """A file under another name, as a link of either kind, is the same file."""
    folder = tmp_path / "banking77"
    folder.mkdir()
    records = [f"text {i},{'a' if i % 2 else 'b'}" for i in range(40)]
    (folder / "train.csv").write_text("\n".join(["text,category", *records]))
    (folder / "hard.csv").hardlink_to(folder / "train.csv")
    (folder / "link.csv").symlink_to("train.csv")
    (folder / "test.csv").write_text("\n".join(["text,category", *records[:10]]))  # rows may repeat: real sets' do
    for test in ("train.csv", "./train.csv", "hard.csv", "link.csv"):
        files = {"train": "train.csv", "test": test}
        with pytest.raises(UserError, match=r"own for each split, and .*train.csv for train and .* are the same"):
            make("banking77", tmp_path, files=files, class_file=None).class_names  # noqa: B018
    assert make("banking77", tmp_path, class_file=None).class_names == ["a", "b"]
