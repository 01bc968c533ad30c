"""Tables of searches: what was trained of the budget, what was found, and whole grids of p and c."""

import pytest

from cgf.errors import UserError
from cgf.report import searches
from cgf.results import append_line

HEAD = {"grid": "bpmax", "size": 960, "axes": {}, "factors": {}, "rounds": [[3, 1], [2, None]], "drawn": [4, 8, 1]}
WHOLE = {**HEAD, "size": 4, "drawn": [3, 1, 0, 2], "rounds": [[4, None]]}
PLACE = {"host": "digits", "task": "digits"}
AXES = {"softmax.p": [1, 3], "softmax.c": [5.0, 20.0]}


def write(folder, name, head, trials):
    path = folder / "search" / f"digits-digits-{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    for line in ({**PLACE, **head, "grid": name}, *trials):
        append_line(path, line)


def trial(number, index, validation, *options):
    return {"round": number, "configuration": index, "options": list(options), "validation": validation}


def test_a_search_says_how_much_was_trained_and_what_was_found(tmp_path):
    first = [trial(0, 4, 0.9, "softmax=bpmax", "softmax.p=1"), trial(0, 8, None, "softmax=bpmax", "softmax.p=3")]
    first.append(trial(0, 1, 0.8, "softmax=bpmax", "softmax.p=5"))
    last = [trial(1, 4, 0.91, *first[0]["options"]), trial(1, 1, 0.93, *first[2]["options"])]
    write(tmp_path, "bpmax", HEAD, first + last)
    write(tmp_path, "exact", HEAD, first + last[:1])
    write(tmp_path, "quad", HEAD, [*first, {"taken_from": 0, **first[0], "round": 1}, {**last[1], "taken_from": 0}])
    lines = searches.table(tmp_path).splitlines()[2:]
    assert lines[0] == "| digits | digits | bpmax | 960 | 3 x 1, 2 x full | 5 of 5 | 1 | 93.00 % | `softmax.p=5` |"
    assert lines[1] == "| digits | digits | exact | 960 | 3 x 1, 2 x full | 4 of 5 | 1 | – | – |"
    assert lines[2] == "| digits | digits | quad | 960 | 3 x 1, 2 x full | 3 of 3 | 1 | 93.00 % | `softmax.p=5` |"


def test_a_whole_grid_has_a_cell_for_every_pair_and_marks_the_best(tmp_path):
    trials = [
        trial(0, 0, 0.5, "softmax=bpmax", "softmax.p=1", "softmax.c=5"),
        trial(0, 1, 0.75, "softmax=bpmax", "softmax.p=3", "softmax.c=5"),
        trial(0, 3, None, "softmax=bpmax", "softmax.p=3", "softmax.c=20"),
    ]
    write(tmp_path, "bpmax_whole", {**WHOLE, "axes": AXES}, trials)
    write(tmp_path, "exact", HEAD, [])
    assert searches.whole_grids(tmp_path).splitlines()[2:] == [
        "| digits | `bpmax` | 1 | 50.0 | – |",
        "| digits | `bpmax` | 3 | **75.0** | ran off |",
    ]
    assert len(searches.table(tmp_path).splitlines()) == 3  # the whole grid is not among the searches


def test_no_search_and_other_axes_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"needs searches in .*search, and it has none"):
        searches.table(tmp_path)
    write(tmp_path, "exact_whole", {**HEAD, "axes": {"softmax.p": [1]}}, [])
    with pytest.raises(UserError, match=r"a whole grid has p and c alone, and exact_whole has softmax\.p"):
        searches.whole_grids(tmp_path)


@pytest.mark.parametrize("part", [{"drawn": [3, 1]}, {"rounds": [[4, 1]]}, {"rounds": [[4, 1], [2, None]]}])
def test_a_grid_that_was_trained_in_part_is_no_whole_one(tmp_path, part):
    write(tmp_path, "bpmax_whole", {**WHOLE, "axes": AXES, **part}, [])
    with pytest.raises(UserError, match=r"one round of all its configurations at full length, rounds=\[\[4,null\]\]"):
        searches.whole_grids(tmp_path)
