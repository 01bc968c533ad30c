"""What an encrypted evaluation tells of itself: ruined samples, overflows, circuits, who made its lines."""

import json
import re

import numpy as np
import pytest
from test_evaluate_he import call, evaluate, logits

from cgf.evaluate.he_lines import checksum
from cgf.he import party
from cgf.he.engines.sim import SimCiphertext, SimEngine, SimOwner
from cgf.results import read_lines

HEADS, QUERIES, ENTRIES = 4, 16, 4 * 4 * 16 * 16  # of a layer; entries of a sample, all layers


@pytest.fixture(name="one_bad_slot")
def one_bad_slot_fixture(monkeypatch):
    """The first decryption of a run gives a NaN: sample 1 of the first batch, layer 0, head 2."""
    calls = []

    def spoilt(honest, slots):
        def decrypt(self, ct):
            found = honest(self, ct)
            if not calls:
                slots(found)[(1 * HEADS + 2) * QUERIES + 3] = np.nan
            calls.append(1)
            return found

        return decrypt

    monkeypatch.setattr(SimOwner, "decrypt", spoilt(SimOwner.decrypt, lambda found: found))
    monkeypatch.setattr(SimOwner, "decrypt_pair", spoilt(SimOwner.decrypt_pair, lambda found: found[0]))
    return calls


def test_a_ruined_sample_is_wrong_and_the_others_go_on(checkpoint, one_bad_slot, monkeypatch):
    out, arguments = checkpoint / "eval" / "ruined.json", ["he=sim", "he.samples=10", "he.batch=4"]
    done = call("eval_he", f"ckpt={checkpoint}", f"out={out}", *arguments)
    result, lines = json.loads(out.read_text()), read_lines(out.with_suffix(".jsonl"))
    bad = next(row["batch"][1] for row in lines if "batch" in row)
    by_index = {row["index"]: row for row in lines if "index" in row}
    assert done.returncode == 1 and len(by_index) == result["samples"] == 10
    assert [i for i, row in by_index.items() if row["prediction"] is None] == [bad] and by_index[bad]["logits"] is None
    assert result["ruined"] == 1 and result["agreement"] == 0.9
    assert result["accuracy"] == sum(r["prediction"] == r["label"] for r in by_index.values()) / 10
    error = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(error) == 1 and error[0].startswith("error: 1 of 10 samples are ruined, counted as wrong")
    assert "finite numbers: layer 0 head 2 (1);" in error[0]
    assert 0 < result["max_error"] < 1e-9 and result["entries"] == 10 * ENTRIES
    written = out.with_suffix(".jsonl").read_bytes()
    again = call("eval_he", f"ckpt={checkpoint}", f"out={out}", *arguments)  # nothing is left to do, and it stays red
    assert again.returncode == 1 and again.stderr == done.stderr
    assert out.with_suffix(".jsonl").read_bytes() == written
    assert {**json.loads(out.read_text()), "run": 0} == {**result, "run": 0}
    one_bad_slot.append(1)
    _, clean = evaluate(checkpoint, *arguments)
    for i, row in logits(clean).items():
        assert (i == bad) or row == by_index[i]["logits"]


def test_slots_beyond_what_a_ciphertext_holds_are_told(checkpoint):
    fine, _ = evaluate(checkpoint, "he=sim", "he.samples=4")
    assert fine["overflow"] == 0
    out = checkpoint / "eval" / "overflow.json"
    done = call("eval_he", f"ckpt={checkpoint}", f"out={out}", "he=sim", "he.samples=4", "+he.owner.bound=1e-4")
    result = json.loads(out.read_text())
    assert done.returncode == 1 and result["overflow"] > 0 and result["ruined"] == result["beyond_guard"] == 0
    assert done.stderr.startswith(f"error: {result['overflow']} slots of the simulator")
    assert len(done.stderr.splitlines()) == 1


def test_the_circuit_that_ran_is_told(checkpoint):
    arguments = [f"ckpt={checkpoint}", "he=sim", "he.samples=3"]
    for style in ("paper", "folded"):
        out = checkpoint / "eval" / f"{style}.json"
        done = call("eval_he", *arguments, f"he.circuit={style}", f"out={out}")
        assert json.loads(out.read_text())["circuits"] == {style: 3 * ENTRIES}
        assert f"circuits: {style} ({3 * ENTRIES} entries)\n" in done.stdout and "was asked for" not in done.stdout


def test_lines_of_several_commits_and_of_before_all_this(checkpoint):
    """Who made a batch stands in its line; lines that tell nothing of it, nor of circuits, are gone on with."""
    arguments = ["he=sim", "he.samples=8", "he.batch=2"]
    whole, lines = evaluate(checkpoint, *arguments)
    assert [row["batches"] for row in whole["made_by"]] == [4]
    assert whole["made_by"][0]["commit"] == whole["run"]["git"]["commit"] and "desilofhe" in whole["made_by"][0]
    path = checkpoint / "eval" / "result.jsonl"
    old = []
    for row in lines[:6]:  # two batches, of 2 samples each
        row.pop("made_by", None)
        for layer in row.get("layers", ()):
            for key in ("circuits", "overflow", "lost"):
                layer.pop(key)
            layer["heads"].pop("ruined")
        old.append(row)
    other = {**lines[8], "made_by": {"commit": "f" * 40, "dirty": False, "desilofhe": "2.0.0"}}
    old = [{**row, "sha256": checksum(row)} for row in old]
    other["sha256"] = checksum(other)
    path.write_text("".join(json.dumps(row) + "\n" for row in (*old, *lines[6:8], other)))
    again, after = evaluate(checkpoint, *arguments)
    assert len(after) == 12 and after[:9] == [*old, *lines[6:8], other]
    assert again["made_by"] == [
        {"batches": 2},
        {**other["made_by"], "batches": 1},
        {**whole["made_by"][0], "batches": 1},
    ]
    assert again["circuits"] == {"folded": 4 * ENTRIES, "not recorded": 4 * ENTRIES}
    for key in ("accuracy", "agreement", "ops", "levels", "entries", "ruined", "overflow"):
        assert again[key] == whole[key]
    assert again["mean_error"] == pytest.approx(whole["mean_error"])


class Faulty(SimEngine):
    """A simulator whose squares are off by one part in ten thousand."""

    def _square(self, a):
        right = super()._square(a)
        return SimCiphertext(1.0001 * right.values, right.level, right.polynomials)


def test_a_checked_evaluation_is_green_and_a_fault_in_the_engine_is_named(checkpoint, monkeypatch):
    """The same lines as unchecked, each operation compared; a square that is off ends it with its place."""
    arguments = ["he=sim", "he.samples=2"]
    plain, lines = evaluate(checkpoint, *arguments, name="unchecked")
    result, same = evaluate(checkpoint, *arguments, "he.check=true", name="checked")
    assert logits(same) == logits(lines) and result["ops"] == plain["ops"] and result["levels"] == plain["levels"]
    assert result["checked"] == "every operation, against the simulator" and "checked" not in plain
    out = checkpoint / "eval" / "unchecked.json"
    mixed = call("eval_he", f"ckpt={checkpoint}", f"out={out}", *arguments, "he.check=true")
    assert (
        mixed.returncode == 2 and "unchecked.json" in mixed.stderr
    )  # lines that were not checked are not gone on with
    monkeypatch.setattr(party, "SimOwner", type("Reference", (SimOwner,), {"evaluator": SimOwner.evaluator}))
    monkeypatch.setattr(SimOwner, "evaluator", lambda self, rotations: Faulty(self.max_level, rotations=rotations))
    out = checkpoint / "eval" / "faulty.json"
    done = call("eval_he", f"ckpt={checkpoint}", f"out={out}", *arguments, "he.check=true")
    assert done.returncode == 2 and not out.exists() and len(done.stderr.splitlines()) == 1
    assert re.search(
        r"error: he\.check: the simulator and the engine sim part in softmax 'cgf' of layer 0 at operation \d+ "
        r"\(square\): slot \d+ holds \S+ and \S+ at level \d+, \S+ apart where \S+ is allowed$",
        done.stderr.strip(),
    )
