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
FOUND = hosts.measured()


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_the_page_says_what_happens(case):
    name = case[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = hosts.row(case, CASES[case], FOUND.get(case))
    assert row in PAGE.splitlines(), "python scripts/repo/hosts.py"
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert name not in WORKS or cells[2:8] == ["works", *["ok"] * 5]


def test_the_page_has_no_other_rows_and_names_what_is_refused():
    table_rows = [line for line in PAGE.splitlines() if line.startswith(("| transformers", "| timm"))]
    assert len(table_rows) == len(CASES)
    assert sum("soft" in row and "refused" in row for row in table_rows) >= 2  # soft caps among them


def test_what_the_commands_made_of_a_model_is_what_putting_a_softmax_in_says():
    """A model that takes a softmax went through all five; one that does not was refused by the first, in a sentence."""
    assert set(FOUND) == set(CASES), "python -m scripts.repo.host_commands"
    for case, found in FOUND.items():
        outcomes = [found["commands"][command]["outcome"] for command in hosts.COMMANDS]
        if outcomes == ["ok"] * 5:
            assert found["agreement"] == 1.0 and not found["red"] and found["samples"] == 4, case
            assert 0 <= found["levels_used"] - found["levels_planned"] <= 1, case
        else:
            assert case[1] not in WORKS and outcomes[0].startswith("refused: "), case
            assert outcomes[1:] == ["not reached"] * 4
