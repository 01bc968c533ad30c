"""Results under CKKS of a changed tree are not shown, unless they say why it changed nothing."""

import pytest

from cgf.errors import UserError
from cgf.report.clean import clean
from cgf.results import write_json

CLEAN, CHANGED = {"commit": "a", "dirty": False}, {"commit": "b", "dirty": True}


@pytest.mark.parametrize("git, parts", [(CHANGED, [CLEAN]), (CLEAN, [CLEAN, {**CHANGED, "batches": 3}])])
def test_a_changed_tree_is_refused_whichever_part_it_made(git, parts, tmp_path):
    result = {"run": {"git": git}, "made_by": parts}
    write_json(tmp_path / "a.json", result)
    with pytest.raises(UserError, match="must come from a clean tree to be shown"):
        clean(tmp_path / "a.json")
    write_json(tmp_path / "a.json", {**result, "dirty_corrected": {"why": "a link"}})
    assert clean(tmp_path / "a.json")["made_by"] == parts


def test_a_clean_tree_is_shown_and_so_are_results_of_before(tmp_path):
    for result in ({"run": {"git": CLEAN}, "made_by": [CLEAN]}, {"run": {"git": CLEAN}}, {}):
        write_json(tmp_path / "a.json", result)
        assert clean(tmp_path / "a.json") == result
