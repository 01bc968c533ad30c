"""Tables whose classes, values and lines are odd: what is told of them, and what is refused in words that hold."""

import csv
import json
from decimal import Decimal
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest

from cgf.data.columns import read_columns
from cgf.data.told import near, told
from cgf.errors import UserError


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
