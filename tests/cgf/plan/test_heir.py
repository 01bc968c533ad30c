"""The table of operation times in HEIR's shape: its keys, its levels, and that nothing is counted twice."""

import json
import sys

import pytest

from cgf.errors import UserError
from cgf.plan.heir import latency_table
from cgf.plan.op_times import table_of
from scripts.bench import heir_table

TIMES = table_of(None, "desilo")
KEYS = {"addCtCt", "addCtPt", "mulCtCt", "mulCtPt", "rotate", "negate", "rescale", "bootstrap"}


@pytest.mark.parametrize("max_level", [5, 10])
def test_every_key_has_a_number_a_level(max_level):
    table = latency_table(TIMES, max_level, 40_000.0)["latencyTable"]
    assert set(table) == KEYS and all(len(row) == max_level for row in table.values())
    assert all(ms >= 0 for row in table.values() for ms in row)
    assert table["rotate"][2] == TIMES.ms("rotate", max_level, 3)  # entry i is of level i + 1
    assert table["bootstrap"] == [40_000.0] * max_level


def test_a_product_and_its_rescaling_are_what_was_measured():
    table = latency_table(TIMES, 7, 1.0)["latencyTable"]
    for i in range(7):
        whole = TIMES.ms("cmult", 7, i + 1) + TIMES.ms("relinearize", 7, i)
        assert table["mulCtCt"][i] + table["rescale"][i] == pytest.approx(whole)
    assert table["rescale"][6] > 0


def test_bad_numbers_are_refused():
    with pytest.raises(UserError, match="bootstrap_ms"):
        latency_table(TIMES, 7, 0.0)
    with pytest.raises(UserError, match="max_level"):
        latency_table(TIMES, 0, 1.0)
    with pytest.raises(UserError, match="largest ring"):
        latency_table(TIMES, 99, 1.0)


def test_the_command(tmp_path, monkeypatch, capsys):
    out = tmp_path / "heir.json"
    monkeypatch.setattr(sys, "argv", ["heir_table.py", str(out), "--bootstrap-ms", "5", "--max-level", "4"])
    assert heir_table.main() == 0
    assert json.loads(out.read_text()) == latency_table(TIMES, 4, 5.0)
    monkeypatch.setattr(sys, "argv", ["heir_table.py", str(out), "--bootstrap-ms", "5", "--engine", "other"])
    assert heir_table.main() == 2 and "of another engine than other" in capsys.readouterr().err
