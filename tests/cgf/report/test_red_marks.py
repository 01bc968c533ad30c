"""Red results are marked in every table of results under CKKS."""

import json

import pytest
from test_whole import RESULT, folder  # noqa: F401

from cgf.report import whole_attention, whole_network
from cgf.report.whole import TITLES, lines


def test_a_red_result_is_marked_in_the_table_of_whole_sets(folder):  # noqa: F811
    (folder / "he" / "minilm.json").write_text(json.dumps({**RESULT, "kind": "eval_he", "red": ["a weight is wrong"]}))
    bpmax, chain, *_ = (line[TITLES.index("under CKKS")] for line in lines(folder))
    assert chain.endswith("] (red)") and bpmax.endswith("]")


@pytest.mark.parametrize("table, kind", [(whole_attention, "eval_he"), (whole_network, "eval_network")])
def test_a_red_result_is_marked_in_the_tables_of_attentions_and_networks(table, kind):
    (column,) = (column for column in table.COLUMNS if column.title == "under CKKS")
    result = {"kind": kind, "accuracy": 0.5, "red": ["7 logits are wrong"]}
    assert (column.cell(result), column.cell({**result, "red": []})) == ("50.00 % (red)", "50.00 %")
