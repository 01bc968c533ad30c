"""The four cards of evaluations: figures of the files, gaps named as such, simulators never shown as encryption."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cgf.report.cards import CARDS, all_cards, cards, table_rows, unknown
from cgf.results import read_json
from cgf.stats.intervals import wilson

ROOT = Path(__file__).resolve().parents[3]
SET = ROOT / "results" / "he" / "minilm-sst2-cgf_chain.json"
NETWORK = ROOT / "results" / "he" / "network" / "vit_digits-digits-2_blocks.json"


def test_the_cards_of_a_whole_test_set_hold_its_figures():
    result = read_json(SET)
    made = cards(result)
    assert list(made) == list(CARDS)
    assert made["model"]["name"] == "minilm" and made["model"]["attention_layers"] == 6
    assert made["model"]["exponential"] == "chain" and made["model"]["exponential_domain"] == [-34.0, 1.2]
    assert made["model"]["exponential_max_error"] == max(p["max_error"] for p in result["polynomial"])
    crypto = made["crypto"]
    assert (crypto["scheme"], crypto["library"], crypto["ring_dimension"]) == ("CKKS", "desilofhe 2.0.0", 16384)
    assert crypto["levels"] == 6 and crypto["bootstraps"] == 0 and crypto["operations"]["cmult"] == 33888
    assert made["system"]["cpu"] == "AMD EPYC" and made["system"]["gpu"] == "none"
    assert made["system"]["seconds"]["total"] == result["seconds"]["total"]
    application = made["application"]
    assert (
        application["accuracy_95_percent_interval"] == list(wilson(761, 872))
        and application["agreement_with_the_same_polynomials_in_the_clear"] == 1
    )
    assert application["the_key_holder_sees"] == "scores and weights of each layer"
    assert unknown(made) == [
        "model.checkpoint_sha256",
        "model.trained_with",
        "crypto.evaluation_key_bytes",
        "system.cpu_model",
        "system.latency_wall_seconds",
        "system.bytes_to_the_server",
        "system.bytes_to_the_client",
    ]


def test_one_polynomial_of_all_layers_is_told_as_one_of_each():
    result = read_json(SET) | {"layers": None}
    one = result["polynomial"][0]
    made = cards(result | {"polynomial": one})["model"]
    told = {key: made[key] for key in ("exponential", "exponential_domain", "exponential_max_error")}
    assert told == {
        "exponential": "chain",
        "exponential_domain": one["domain"],
        "exponential_max_error": one["max_error"],
    }
    assert made["attention_layers"] is None  # one polynomial does not say how many layers have it


def test_the_cards_of_a_whole_network_tell_bytes_and_sides():
    made = cards(read_json(NETWORK))
    assert made["crypto"]["encrypted"] == "network" and made["crypto"]["evaluation_key_bytes"] == 436733457
    assert made["system"]["bytes_to_the_server"] == 234882900 and set(made["system"]["seconds"]) == {
        "total",
        "client",
        "server",
    }
    assert made["application"]["the_key_holder_sees"] == "logits" and made["model"]["attention_layers"] == 2
    assert unknown(made) == ["crypto.circuit", "system.microseconds_an_attention_weight"]


@pytest.mark.parametrize("path", [SET, NETWORK])
def test_a_simulation_is_not_shown_as_encryption(path):
    crypto = cards(read_json(path) | {"engine": "sim", "encrypted": False})["crypto"]
    assert crypto["scheme"].startswith("none: simulated")
    assert crypto["library"] is crypto["security"] is crypto["encrypted"] is None


def test_a_red_evaluation_says_so_and_a_clear_one_has_no_cards():
    result = read_json(SET)
    assert cards(result)["application"]["not_to_be_believed"] == []
    (reason,) = cards(result | {"red": ["3 entries lay beyond"]})["application"]["not_to_be_believed"]
    assert reason == "3 entries lay beyond"
    assert all_cards([{"kind": "eval_plain"}, {"kind": "friendly"}]) == []


def test_every_result_of_the_repository_has_cards_and_little_of_a_file_is_enough():
    there = [read_json(p) for p in sorted((ROOT / "results" / "he").rglob("*.json"))]
    made = all_cards(there)
    assert len(made) == sum(r["kind"] in ("eval_he", "eval_network") for r in there) > 10
    assert all(one["application"]["samples"] > 0 and one["crypto"]["levels"] > 0 for one in made)
    json.dumps(made, allow_nan=False)
    bare = {"kind": "eval_he", "_path": "a.json"}
    (row,) = table_rows([bare])
    assert row["evaluation"] == "a.json" and row["system: cpu"] == "not recorded"
    assert row["application: accuracy 95 % interval"] == "not recorded"


def test_the_command_writes_cards_and_the_page_shows_them(tmp_path):
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "he.json").write_text(SET.read_text())
    out = tmp_path / "cards.json"
    command = [sys.executable, "scripts/report.py", str(tmp_path), "--cards", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (one,) = read_json(out)["cards"]
    assert one == {"result": "eval/he.json", **cards(read_json(SET))} and str(out) in done.stdout
    page = (tmp_path / "report.html").read_text()
    assert "Cards of model, cryptography, system and application" in page and "crypto: ring dimension" in page
