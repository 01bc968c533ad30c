"""Tables whose classes, values and lines are odd: what is told of them, and what is refused in words that hold."""

import csv
import json
import os
from collections import Counter
from decimal import Decimal
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest

from cgf.data.columns import read_columns
from cgf.data.hub import hub_records
from cgf.data.own_text import FileTask
from cgf.data.task import Task, choose
from cgf.data.told import near, told
from cgf.errors import UserError


class LimitedTask(Task):
    """A task whose splits nobody reads."""

    kind, class_names, dataset, collate, revision = "text", (), None, None, None


@pytest.mark.parametrize(
    ("names", "alike"),
    [
        (["caf\u00e9", "cafe\u0301", "tea"], ["caf\u00e9", "cafe\u0301"]),
        (["Spam", "ham", "spam"], ["Spam", "spam"]),
        (["a b", "a\u00a0b"], ["a b", "a\u00a0b"]),
        (["01", "1", "1.0", "2"], ["01", "1", "1.0"]),
        (["1", "10", "a", "b"], []),
        (["inf", "-inf", "1e999", "nan", "NaN"], ["nan", "NaN"]),
    ],
)
def test_classes_of_nearly_the_same_name_are_found(names, alike):
    assert near(names) == alike


def test_what_is_told_names_them_and_moves_no_terminal():
    task = SimpleNamespace(name="csv", class_names=["\x1b[31mred", "caf\u00e9", "cafe\u0301"], notes=list)
    data = type("Data", (list,), {"labels": [0, 1, 2, 2]})(range(4))
    lines = told(task, {"train": data})
    assert lines[0] == "csv train: 4 samples: \\x1b[31mred 1, caf\u00e9 1, cafe\u0301 2"
    assert lines[1] == r"csv: 'caf\xe9', 'cafe\u0301' are classes of their own, and nearly the same name"
    assert len(lines) == 2


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_value_of_any_length_is_read(tmp_path, suffix):
    most, long = csv.field_size_limit(), "x " * 70000 + "x"
    (tmp_path / f"long{suffix}").write_text(f"text,label\n{long},a\n".replace(",", {".csv": ",", ".tsv": "\t"}[suffix]))
    assert read_columns(tmp_path / f"long{suffix}", ["text", "label"]) == [(long, "a")]
    assert csv.field_size_limit() == most


def test_a_value_that_is_no_text_is_named(tmp_path):
    lines = tmp_path / "lists.jsonl"
    lines.write_text("\n".join(json.dumps({"text": "a", "label": [i, 0]}) for i in range(3)))
    with pytest.raises(UserError, match=r"a text or a number in 'label' of every row, and line 1 has \[0, 0\]"):
        read_columns(lines, ["text", "label"])
    table = tmp_path / "decimal.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"], "label": [Decimal(1)]}), table)
    with pytest.raises(UserError, match=r"and line 1 has Decimal\('1'\)"):
        read_columns(table, ["text", "label"])


def test_an_object_with_a_key_twice_is_refused(tmp_path):
    lines = tmp_path / "twice.jsonl"
    lines.write_text('{"text": "first", "text": "second", "label": "a"}\n')
    with pytest.raises(UserError, match=r"needs to be JSON lines, and is not: an object has 'text' twice"):
        read_columns(lines, ["text", "label"])


class Rows(dict):
    """Columns of a set of the hub, whose labels have no names."""

    features = {"text": None, "label": None}
    column_names = ("text", "label")


@pytest.mark.parametrize(
    ("text", "label", "told"),
    [(None, "a", "'text'"), (" ", "a", "'text'"), ("good", None, "'label'"), ("good", "", "'label'")],
)
def test_a_missing_value_of_a_set_of_the_hub_is_refused(text, label, told):
    """They became the text 'None', an empty text and a class 'None'."""
    with pytest.raises(
        UserError, match=f"hub dataset o/n needs a value of {told}, .* in every row, and row 1 has none"
    ):
        hub_records("t", "o/n", Rows(text=["fine", text], label=["a", label]), "text", "label")
    rows = hub_records("t", "o/n", Rows(text=[" fine ", 3.5], label=["a", 2]), "text", "label")
    assert rows == [("fine", "a"), ("3.5", "2")]
    odd = hub_records("t", "o/n", Rows(text=["x"] * 2, label=[True, Decimal(1)]), "text", "label")
    assert odd == [("x", "True"), ("x", "1")]  # as classes of checkpoints of before are called
    with pytest.raises(UserError, match=r"'text', .* row 0 has b'abc'"):
        hub_records("t", "o/n", Rows(text=[b"abc"], label=["a"]), "text", "label")


def test_a_limit_keeps_every_class_and_as_many_rows_as_it_says():
    """Equal texts went together, so that a class of one text that repeats was lost."""
    task = LimitedTask(name="t", seed=1, share_of_rows=True, limit={"train": 299, "test": 150})
    keys = ["hi"] * 100 + [f"text {i}" for i in range(200)]
    labels = [0] * 100 + [1] * 100 + [2] * 100
    for split, kept in (("train", 299), ("test", 150)):
        counts = Counter(labels[i] for i in task.limited(split, keys, labels))
        assert counts.total() == kept and max(counts.values()) - min(counts.values()) <= 1
    once = [f"text {i}" for i in range(300)]
    before = LimitedTask(name="t", seed=1, share_of_rows=False, limit={"train": 150})
    assert before.limited("train", once, labels) == task.limited("test", once, labels)  # where no text repeats


@pytest.mark.parametrize("salt", range(20))
def test_a_text_that_is_most_of_its_class_stays_in_train(salt):
    """Where its hash came first, a split of a fifth took all thousand rows of it."""
    keys = ["ok"] * 1000 + ["fine"] + [f"text {i}" for i in range(1000)]
    chosen = choose(keys, [0] * 1001 + [1] * 1000, 400, salt, of_rows=True)
    assert Counter(keys[i] for i in chosen if i < 1001) == {"fine": 1} and len(chosen) == 201


@pytest.mark.parametrize("copies", [1, 2, 3, 5, 10])
def test_rows_that_repeat_take_no_larger_share_and_stay_together(copies):
    """A fifth of the different texts is more than a fifth of the rows, once their copies go with them."""
    keys = [f"text {i % (600 // copies)}" for i in range(600)]
    labels = [int(key.split()[1]) % 3 for key in keys]
    chosen, of_before = (choose(keys, labels, 120, 0, of_rows) for of_rows in (True, False))
    assert abs(len(chosen) - 120) <= 3 * copies / 2 and len(of_before) == min(600, 120 * copies)
    sides = [{keys[i] for i in range(600) if (i in set(chosen)) == inside} for inside in (True, False)]
    assert not sides[0] & sides[1] and set(chosen) <= set(of_before)
    assert copies > 1 or chosen == of_before


@pytest.mark.parametrize("share_of_rows", [True, False])
def test_a_file_of_repeats_is_cut_by_its_own_rule(tmp_path, share_of_rows):
    """A checkpoint of before does not say, and is evaluated on the rows that it was held against."""
    table = tmp_path / "few.csv"
    rows = [f"film {i % 40} was seen,{'ab'[i % 40 % 2]}" for i in range(120)]
    table.write_text("text,label\n" + "\n".join(rows) + "\n")
    task = FileTask(name="csv", train=str(table), text="text", label="label", share_of_rows=share_of_rows)
    sizes = {split: len(texts) for split, (texts, _) in task._splits.items()}
    assert sizes == ({"train": 84, "test": 24, "val": 12} if share_of_rows else {"train": 33, "test": 72, "val": 15})
    with pytest.raises(UserError, match=r"task\.share_of_rows must be true or false, and 1 was given"):
        FileTask(name="csv", train=str(table), share_of_rows=1)


def test_a_class_of_few_texts_that_repeat_is_in_the_test_split_too():
    keys = [f"a {i % 2}" for i in range(120)] + [f"b {i}" for i in range(120)]
    chosen = choose(keys, [0] * 120 + [1] * 120, 48, 0, of_rows=True)
    assert [sum(i < 120 for i in chosen), sum(i >= 120 for i in chosen)] == [60, 24]  # one of its two texts
    assert choose(["a"] * 2 + ["b"] * 8, [0] * 2 + [1] * 8, 5, 0, of_rows=True) == []  # only texts of their classes


def test_repeats_that_leave_a_split_empty_are_named(tmp_path):
    table = tmp_path / "few.csv"
    table.write_text("text,label\n" + 30 * "good film,a\nbad film,b\n")
    task = FileTask(name="csv", train=str(table), text="text", label="label", share_of_rows=True)
    with pytest.raises(UserError, match=r"its 60 rows hold 2 different texts, and equal ones stay in one split"):
        _ = task._splits


def test_a_packed_table_that_holds_far_more_than_it_weighs_is_refused(tmp_path):
    path = tmp_path / "bomb.parquet"
    column = pyarrow.array(["x" * 4096] * 40_000)
    pyarrow.parquet.write_table(pyarrow.table({"text": column, "label": ["a"] * 40_000}), path, compression="zstd")
    assert path.stat().st_size < 2**17
    with pytest.raises(UserError, match=r"bomb\.parquet may hold 67108864 bytes when unpacked, and holds more"):
        list(read_columns(path, ["text", "label"]))
    os.mkfifo(tmp_path / "pipe.parquet")
    with pytest.raises(UserError, match="must be a regular file"):
        list(read_columns(tmp_path / "pipe.parquet", ["text", "label"]))
