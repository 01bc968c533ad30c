"""When a result is red, and that a table, a page and a terminal show it so."""

import io
import json

import pytest
from fine_result import FINE, HEADS
from rich.console import Console

from cgf.errors import UserError
from cgf.report import levels_figure, page, plots, tables
from cgf.report.collect import ReportInputs, collect
from cgf.report.encrypted import circuits, where
from cgf.report.red import complaints, judged, reasons


def counted(key, count=4):
    heads = {**HEADS, key: [0, count]}
    return {**FINE, {"beyond": "beyond_guard"}.get(key, key): count, "layers": [{"layer": 0, "heads": heads}]}


@pytest.mark.parametrize(
    "key, says",
    [
        ("beyond", "4 entries lay beyond the plan's guard"),
        ("ruined", "4 of 100 samples are ruined"),
        ("wrong", "4 weights came back further"),
        ("inexact", "4 weights of the polynomials in the clear are further"),
    ],
)
def test_each_reason_names_layer_and_head(key, says):
    result = judged(counted(key), "plan")
    assert not result["green"] and len(result["red"]) == 1
    assert result["red"][0].startswith(says) and "layer 0 head 1 (4)" in result["red"][0]


def test_a_result_without_a_reason_is_green():
    assert judged(FINE, "plan")["green"] is True and judged(FINE, "plan")["red"] == []
    assert judged({"kind": "eval_plain", "samples": 5, "beyond_guard": None}, "plan")["green"] is True


@pytest.mark.parametrize(
    "share, samples, differ, red",
    [
        (0.99, 100, 1, False),
        (0.99, 100, 2, True),
        (0.99, 20, 1, False),
        (0.99, 20, 2, True),
        (0.99, 9, 1, True),
        (0.99, 4500, 45, False),
        (0.99, 4500, 46, True),
        (1.0, 100, 1, True),
        (1.0, 100, 0, False),
        (0.0, 100, 11, True),
        (0.0, 100, 10, False),
    ],
)
def test_agreement_is_fair_to_few_samples_and_strict_to_one_in_ten(share, samples, differ, red):
    result = {**FINE, "samples": samples, "agreement": (samples - differ) / samples, "agreement_asked": share}
    found = complaints(result, "plan")
    assert bool(found) is red
    if red:
        assert found[0].startswith(f"{differ} of {samples} samples are predicted otherwise")
        assert "the largest error, 3.00e-06, is in layer 0 head 1" in found[0]


NETWORK = {
    "kind": "eval_network",
    "engine": "desilo",
    "samples": 100,
    "noise_stated": 1e-4,
    "agreement_asked": 0.99,
    "agreement": 1.0,
    "ruined": 0,
    "wrong": 0,
    "max_error": 2e-6,
    "largest_logit": 4.0,
    "layers": [],
    "unfolded_error": 1e-14,
    "levels": 9,
    "levels_counted": 9,
}


@pytest.mark.parametrize(
    "change, says",
    [
        ({}, None),
        ({"unfolded_error": 3.9e-6}, None),  # of logits of 4
        ({"unfolded_error": 4.1e-6}, "the largest difference is 4.10e-06, and 4e-06 may be"),
        ({"unfolded_error": 2e-6, "largest_logit": 0.1}, "the largest difference is 2.00e-06, and 1e-06 may be"),
        ({"unfolded_error": float("nan")}, "the largest difference is nan"),
        ({"unfolded_error": float("inf")}, "the largest difference is inf"),
        ({"levels": 8}, "the ciphertexts lost 8 levels, and the dry run of the same circuit counted 9"),
    ],
)
def test_a_network_that_is_read_otherwise_than_the_model_computes_is_red(change, says):
    """Logits under CKKS agreed with a program that was not the model's, and the result was green."""
    result = judged({**NETWORK, **change}, "plan")
    assert result["green"] is (says is None)
    assert not says or (len(result["red"]) == 1 and says in result["red"][0])


@pytest.mark.parametrize(
    "key, says",
    [
        ("ruined", "counted as wrong: their logits came back as no finite numbers; plan on more samples"),
        ("wrong", "stated for desilo, 0.0001 of the largest logit; the largest error is 2.00e-06"),
    ],
)
def test_a_red_network_is_told_of_logits_and_of_no_place(key, says):
    """Nothing is opened on the way: the sentence named weights, and then a place that was empty."""
    (told,) = judged({**NETWORK, key: 4}, "plan")["red"]
    assert says in told and "weight" not in told.replace("penalty.weight", "")


def test_the_cap_of_one_sample_in_ten_is_told_where_it_decides():
    """'and 0 may be (he.agreement=0)' contradicts itself."""
    told = {
        share: complaints({**FINE, "samples": 9, "agreement": 0.0, "agreement_asked": share}, "plan")[0]
        for share in (0.0, 1.0)
    }
    assert "9 of 9 samples" in told[0.0] and "0 may be (he.agreement=0, and one sample in ten at most):" in told[0.0]
    assert "0 may be (he.agreement=1):" in told[1.0]


def test_a_ruined_sample_is_not_counted_again_as_one_that_disagrees():
    assert len(complaints({**counted("ruined", 5), "agreement": 0.95}, "plan")) == 1


def test_an_evaluation_in_the_clear_says_what_lay_beyond_and_where():
    result = {
        "kind": "eval_plain",
        "beyond_guard": 5,
        "samples": 9,
        "range": [-9.0, 3.0],
        "beyond_at": [{"layer": 2, "head": 1, "entries": 5}],
    }
    assert (
        "5 entries lay beyond the plan's guard, so their ciphertexts would be ruined: layer 2 head 1 (5);"
        in (complaints(result, "plan")[0])
    )
    assert "the range is [-9.0, 3.0]" in reasons({k: v for k, v in result.items() if k != "beyond_at"})[0]  # of before


def test_a_red_row_is_red_in_the_terminal_in_markdown_and_on_the_page():
    bad = {**judged(counted("beyond"), "plan"), "softmax": "bad"}
    shown = tables.table_rows([FINE, bad])
    assert [row["engine"] for row in shown] == ["CKKS (desilo), red", "CKKS (desilo)"]
    assert "CKKS (desilo), red" in tables.markdown(shown)
    html = page.page(ReportInputs("f", results=[FINE, bad]))
    assert html.count("<tr class=red>") == 1 and "eval/a.json: 4 entries lay beyond" in html
    out = io.StringIO()
    Console(file=out, force_terminal=True, width=300).print(tables.terminal(shown))
    assert any("\x1b[31m" in line and "bad" in line for line in out.getvalue().splitlines())


def test_a_red_result_is_red_in_the_figures_of_the_page():
    bad = judged(counted("beyond"), "plan")
    fine, red = levels_figure.points([FINE, bad])
    assert (fine[4], red[4]) == ("ckks", "ckks red") and red[5] == fine[5] + ", red"
    image = levels_figure.figure([FINE, bad])
    assert image.count("<circle") == image.count('class="cross"') == 1 and ", red</title>" in image
    drawn = [plots.accuracy_bars([result]) for result in (FINE, bad, {**bad, "kind": "eval_plain"})]
    assert [b", red" in one for one in drawn] == [b"<pattern" in one for one in drawn] == [False, True, True]


def test_a_simulation_is_never_shown_as_encrypted():
    simulated = {**FINE, "engine": "sim", "encrypted": False}
    old = {k: v for k, v in FINE.items() if k != "encrypted"}
    mislabelled = {**old, "run": {"config": {"he": {"owner": {"_target_": "cgf.he.engines.sim.SimOwner"}}}}}
    assert [tables.under_ckks(r) for r in (FINE, simulated, old, mislabelled)] == [True, False, True, False]
    assert tables.engine_name(mislabelled) == "simulator"
    assert page.scope([simulated]) == "Softmax simulated, nothing encrypted." and page.scope([FINE]) == page.SCOPE
    assert where(simulated) == "simulated (sim, nothing encrypted)" and where(FINE) == "under CKKS (desilo)"


def test_what_ran_is_held_against_what_was_asked_for_in_new_files_and_in_old_ones():
    ran = {**FINE, "circuit": "masked", "circuits": {"masked": 8}, "entries": 8}
    assert "he.circuit=folded was asked for, and 8 of 8 entries" in circuits({**ran, "circuit_asked": "folded"})
    assert "he.circuit=folded was asked for" in circuits({**ran, "circuit": "folded"})


def test_a_report_refuses_a_result_whose_lines_were_changed(tmp_path):
    folder = tmp_path / "run" / "eval"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text("{}\n")
    (folder / "a.json").write_text(json.dumps({**FINE, "lines_sha256": "0" * 64}))
    with pytest.raises(UserError, match=r"a\.jsonl was changed after a\.json was made of it"):
        collect(tmp_path)
    (folder / "a.jsonl").unlink()
    assert len(collect(tmp_path).results) == 1
