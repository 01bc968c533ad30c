"""Figures within sentences: made from the files, stale ones replaced, missing ones refused by name."""

import pytest

from cgf.errors import UserError
from cgf.report.values import value, with_values
from cgf.results import read_json, write_json


@pytest.fixture
def folder(tmp_path):
    for run, seed, accuracy in (("cgf", 42, 0.9), ("cgf", 43, 0.86), ("bpmax", 42, 0.91), ("bpmax", 43, 0.88)):
        levels = {"cgf": seed - 37, "bpmax": 4}[run]
        row = {"seed": seed, "accuracy": accuracy, "accuracy_exact": 0.93, "total_levels": levels, "softmax": run}
        row |= {"paired": {"both": 88, "neither": 12}}
        write_json(tmp_path / "train" / f"vit-digits-{run}-{seed}.json", row)
    write_json(
        tmp_path / "train" / "vit-digits-cgf-hidden-42.json",
        {"seed": 42, "accuracy": 0.0, "accuracy_exact": 1, "total_levels": None},
    )
    write_json(
        tmp_path / "bench" / "demo.json",
        {
            "seconds": {"total": 1234.5},
            "note": "x",
            "rows": [{"s": 1}, {"s": 2.5}],
            "same": [{"t": 0.31}, {"t": 0.29}],
            "none": [],
        },
    )
    return tmp_path


def test_a_stale_figure_is_made_anew_and_all_around_it_stays(folder):
    text = "lies <!-- value: points vit digits cgf -->9.9<!-- end --> below, <!-- list: a -->b<!-- end --> c"
    new = with_values(text, folder)
    assert new == text.replace("9.9", "5.0") and with_values(new, folder) == new


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("points vit digits cgf bpmax", "1.5"),
        ("points vit digits bpmax cgf", "-1.5"),
        ("seeds vit digits cgf", "2"),
        ("levels vit digits cgf", "5 to 6"),
        ("levels vit digits bpmax", "4"),
        ("file bench/demo.json seconds.total ,.0f", "1,234"),
        ("file bench/demo.json seconds.total .1f 0.0166666666666667", "20.6"),
        ("text bench/demo.json note", "x"),
        ("file bench/demo.json rows.1.s .2f", "2.50"),
        ("range bench/demo.json rows.*.s .1f", "1.0 to 2.5"),
        ("range bench/demo.json rows.*.s .0e", "1e+00 to 2e+00"),
        ("range bench/demo.json same.*.t .1f", "0.3"),
    ],
)
def test_values(folder, asked, shown):
    assert value(asked.split(), folder) == shown


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("points vit digits taylor", "rows of training of vit-digits-taylor"),
        ("levels vit digits cgf-hidden", "vit-digits-cgf-hidden has seeds without levels"),
        ("seeds vit digits taylor", "rows of training of vit-digits-taylor"),
        ("points vit digits", "the document asks for 'points vit digits'"),
        ("mean vit digits cgf", "a value is points"),
        ("file bench/demo.json seconds.most .0f", "has no seconds.most"),
        ("file bench/demo.json note .0f", "must have a number at note"),
        ("text bench/demo.json seconds.total", "must have words at seconds.total"),
        ("text bench/demo.json notes", "has no notes"),
        ("file bench/demo.json rows.2.s .2f", r"has no rows\.2\.s"),
        ("file bench/demo.json rows.s .2f", r"has no rows\.s"),
        ("file bench/demo.json seconds.total d", "a format for a float, such as ,.0f, and a document has d"),
        ("file bench/none.json note .0f", "there is no such file"),
        ("range bench/demo.json rows.0.s .2f", r"a \* in its key, and a document asks for rows\.0\.s"),
        ("range bench/demo.json rows.*.t .2f", r"has no rows\.\*\.t"),
        ("range bench/demo.json seconds.* .2f", r"has no seconds\.\*"),
        ("range bench/demo.json none.*.s .2f", r"has an empty list at none\.\*\.s"),
        ("range bench/demo.json rows.* .2f", r"must have a number at rows\.\*"),
    ],
)
def test_what_is_not_there_is_refused(folder, asked, said):
    with pytest.raises(UserError, match=said):
        value(asked.split(), folder)


@pytest.mark.parametrize("key", ["accuracy_exact", "accuracy_teacher"])
def test_runs_beside_another_exact_student_are_not_compared_in_prose_either(folder, key):
    path = folder / "train" / "vit-digits-bpmax-43.json"
    write_json(path, {**read_json(path), key: 0.94})
    with pytest.raises(UserError, match=r"cgf and bpmax need one teacher and one exact student a seed, .* on seed 43"):
        value(["points", "vit", "digits", "cgf", "bpmax"], folder)


def test_seeds_that_the_other_run_lacks_are_refused(folder):
    (folder / "train" / "vit-digits-bpmax-43.json").unlink()
    with pytest.raises(UserError, match=r"on its seeds \[42, 43\], and bpmax has \[42\] alone"):
        value(["points", "vit", "digits", "cgf", "bpmax"], folder)
    assert value(["points", "vit", "digits", "bpmax", "cgf"], folder) == "-1.0"
