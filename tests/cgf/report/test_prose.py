"""Figures that prose types by hand are found, whatever stands around them; those of results come by reference."""

import pytest

from cgf.errors import UserError
from cgf.report.prose import check, typed

TEXT = """# Page
It takes 1.5 s and is off by 2e-7, as [this](page-1.2.md) says; LLaMA-3.2-1B and desilofhe 2.0.0 are names.
By reference <!-- value: file a.json b .1f -->0.7<!-- end -->, in code `lr=1.0e-3`, and the end of a line is -0.25.
A set of 16,384 slots takes 13 to 17 levels, 4, 5 and 7 % of
memory, 3 squarings, five seeds, w (1 - s) / n, 2^17 times, 224-pixel images and 60
s, 13 seeds, 24 draws, 180 validation images, images of 64 pixels, 40
epochs, on 2026-11-28, seed 42;
12 <!-- value: file a.json b .0f -->31<!-- end --> minutes.
| a table typed by hand | 3.14 |
<!-- table: cost -->
| 9.99 |
<!-- end -->
```
train.lr=2.5
```
"""
FIGURES = [  # in the order of the text; whole numbers with the word behind, where one is
    *("1.5", "2e-7", "-0.25", "16,384", "13 to 17 levels", "4, 5 and 7 %", "224", "60 s", "13 seeds", "24 draws"),
    *("180 validation images", "64 pixels", "40 epochs", "42", "12"),
]


def test_figures_of_sentences_alone_are_found():
    assert typed(TEXT) == FIGURES


def test_a_figure_between_backticks_and_a_table_of_results_are_no_hiding_place():
    assert typed("It reaches `99.7 %` of `softmax=exact` with `train.lr=0.5`, `python 3.11` and `13 seeds`.") == [
        "99.7",
        "13 seeds",
    ]
    table = "| llama | 99.71 % |"
    assert typed(table) == [] and typed(table, tables=True) == ["99.71"]
    check("docs/hosts.md", table, {})
    for page in ("README.md", "docs/results/training.md"):
        with pytest.raises(UserError, match=rf"^{page} types the figure 99\.71 by hand"):
            check(page, table, {})


def test_each_is_listed_with_a_reason_and_nothing_else_is():
    listed = {"a.md": dict.fromkeys(FIGURES, "x")}
    check("a.md", TEXT, listed)
    with pytest.raises(UserError, match=r"^b\.md types the figure -0\.25 by hand: write it as"):
        check("b.md", TEXT, listed)
    with pytest.raises(UserError, match=r"lists 7\.5 of a\.md, which has it no more"):
        check("a.md", TEXT, {"a.md": {**listed["a.md"], "7.5": "x"}})
