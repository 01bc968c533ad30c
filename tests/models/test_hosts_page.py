"""docs/hosts.md says of every model that is tried what happens to it: a softmax goes in, or it is refused by name."""

import warnings

import pytest

from scripts.repo import hosts

CASES = hosts.cases()
WORKS = {
    *(
        "GPT2",
        "Mistral",
        "Qwen3",
        "Gemma3Text",
        "Phi",
        "OPT",
        "Roberta",
        "DistilBert",
        "ModernBert",
        "ViT",
        "DeiT",
        "Dinov2",
    ),
    *("vit_tiny_patch16_224", "deit_tiny_patch16_224", "deit3_small_patch16_224", "pit_ti_224"),
}
PAGE = hosts.PAGE.read_text()


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_the_page_says_what_happens(case):
    name = case[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = hosts.row(case, CASES[case])
    assert row in PAGE.splitlines(), "python scripts/repo/hosts.py"
    assert name not in WORKS or row.endswith("| works |")


def test_the_page_has_no_other_rows_and_names_what_is_refused():
    rows = [line for line in PAGE.splitlines() if line.startswith(("| transformers", "| timm"))]
    assert len(rows) == len(CASES)
    assert sum("soft" in row and "refused" in row for row in rows) >= 2  # soft caps among them
