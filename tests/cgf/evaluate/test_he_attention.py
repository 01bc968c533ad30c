"""eval_he.py he.scope=attention from files to result: against the clear run, stopped, in shards, with bad settings."""

import json

import numpy as np
import pytest
from digits_checkpoint import call
from test_evaluate_he import clear_logits

from cgf.he.engines.engine import ring_for
from cgf.he.engines.sim import SimOwner
from cgf.plan import op_times
from cgf.predictions import read_encrypted
from cgf.report.tables import engine_name
from cgf.results import read_lines

SCOPE = (
    "attention under CKKS; projections, norms and activations in the clear; one round with the key holder a layer, "
    "who sees that layer's outputs"
)


def run(checkpoint, *arguments, name="attention", code=0):
    """(result, logits of each sample, what was printed) of a whole-attention evaluation."""
    out = checkpoint / "eval" / f"{name}.json"
    done = call("eval_he", f"ckpt={checkpoint}", "he.scope=attention", f"out={out}", *arguments)
    assert done.returncode == code, done.stderr
    if code == 2:
        assert not out.exists()
        return done.stderr
    lines = read_lines(out.with_suffix(".jsonl"))
    return json.loads(out.read_text()), {x["index"]: x["logits"] for x in lines if "index" in x}, done.stdout


def test_the_simulator_equals_the_clear_run(checkpoint):
    result, logits, _ = run(checkpoint, "he=sim", "he.samples=20")
    np.testing.assert_allclose(
        [logits[i] for i in sorted(logits)], clear_logits(checkpoint, sorted(logits))[0].numpy(), rtol=0, atol=1e-4
    )
    plan = json.loads((checkpoint / "plan.json").read_text())
    assert result["levels"] == result["levels_counted"] == plan["levels"] + 2  # the two products around the softmax
    assert result["scope"] == "attention simulated, nothing encrypted" and result["agreement"] == 1.0
    # 16 tokens, 4 heads and layers, 16 features of keys and as many of values
    assert result["entries"] == 20 * 4 * 4 * 16 * 16 and result["macs"] == 32 * result["entries"]
    assert result["max_error"] < 1e-9 and sum(result["layout"].values()) == 4 and result["red"] == []
    assert result["circuits"] == {"folded": result["entries"]}  # each entry went through one circuit
    assert engine_name(result) == "simulator, whole attention"
    paper = engine_name({**result, "circuit_asked": "paper"})
    assert paper == "simulator, he.circuit=paper, whole attention"
    of_before = {key: value for key, value in result.items() if key != "circuit_asked"}
    assert engine_name(of_before) == "simulator, whole attention"
    assert engine_name({**of_before, "circuit": "paper"}) == paper


def test_real_ciphertexts(checkpoint):
    result, logits, printed = run(checkpoint, "he=desilo", "he.samples=1", "he.owner.mode=cpu")
    assert result["scope"] == SCOPE and SCOPE in printed
    assert 0 < result["mean_error"] < result["max_error"] < 1e-4 and result["levels"] == result["levels_counted"]
    np.testing.assert_allclose(
        [logits[i] for i in sorted(logits)], clear_logits(checkpoint, sorted(logits))[0].numpy(), rtol=0, atol=1e-2
    )
    assert result["client_s"] > 0 and result["server_s"] > 0 and result["ops"]["conjugate"] > 0
    core_s = result["client_s"] + result["server_s"]
    assert result["us_per_mac"] == pytest.approx(1e6 * core_s / result["macs"])
    assert result["ms_per_head"] == pytest.approx(1e3 * core_s / (4 * 4))


def test_shards_workers_and_a_second_run_give_the_same_predictions(checkpoint):
    whole, logits, _ = run(checkpoint, "he=sim", "he.samples=12", "he.batch=3")
    _, again, printed = run(checkpoint, "he=sim", "he.samples=12", "he.batch=3")
    assert "12 samples are done already" in printed and again == logits
    _, shared, _ = run(checkpoint, "he=sim", "he.samples=12", "he.batch=3", "he.workers=2", name="shared")
    parts = [checkpoint / "eval" / f"part-shard{part}of2.json" for part in (1, 2)]
    for part in (1, 2):
        out = f"out={checkpoint}/eval/part.json"
        asked = ("he=sim", "he.scope=attention", "he.samples=12", "he.batch=3", f"he.shard={part}/2")
        assert call("eval_he", f"ckpt={checkpoint}", out, *asked).returncode == 0
    done = call("merge_shards", f"shards=[{parts[0]},{parts[1]}]", f"out={checkpoint}/eval/m.json")
    assert done.returncode == 0, done.stderr
    merged = json.loads((checkpoint / "eval" / "m.json").read_text())
    for key in ("scope", "accuracy", "agreement", "levels", "macs", "entries"):
        assert merged[key] == whole[key], key
    together, one = (
        read_encrypted(checkpoint / "eval", name, told["predictions"])
        for name, told in (("m", merged), ("attention", whole))
    )
    assert one.index.tolist() == sorted(logits) and one.right().mean() == whole["accuracy"]
    for name, classes in vars(one).items():
        assert np.array_equal(vars(together)[name], classes), name
    for i, row in logits.items():
        np.testing.assert_allclose(shared[i], row, rtol=0, atol=1e-5)


def test_lines_of_softmaxes_are_no_lines_of_attentions(checkpoint):
    out = checkpoint / "eval" / "attention.json"
    assert call("eval_he", f"ckpt={checkpoint}", "he=sim", "he.samples=2", f"out={out}").returncode == 0
    before = out.read_bytes()
    done = call("eval_he", f"ckpt={checkpoint}", "he=sim", "he.samples=2", "he.scope=attention", f"out={out}")
    assert done.returncode == 2 and "holds another result" in done.stderr and out.read_bytes() == before


def test_results_of_both_scopes_have_names_of_their_own(checkpoint):
    for scope in ("softmax", "attention"):
        done = call("eval_he", f"ckpt={checkpoint}", "he=sim", "he.samples=2", f"he.scope={scope}")
        assert done.returncode == 0, done.stderr
    names = [path.name for path in (checkpoint / "eval").glob("he-sim-folded*.json")]
    assert len(names) == 2 and sum("attention" in name for name in names) == 1


def test_corrupted_decryption_changes_the_predictions(checkpoint, monkeypatch):
    right, logits, _ = run(checkpoint, "he=sim", "he.samples=10")
    plain = SimOwner.decrypt_pair
    monkeypatch.setattr(SimOwner, "decrypt_pair", lambda self, ct: tuple(-5 * part for part in plain(self, ct)))
    wrong, other, _ = run(checkpoint, "he=sim", "he.samples=10", name="wrong", code=1)
    assert np.abs(np.array(list(other.values())) - np.array(list(logits.values()))).max() > 0.1
    assert right["red"] == [] and wrong["red"] and wrong["wrong"] > 0


@pytest.mark.parametrize(
    "setting, says",
    [
        ("he.scope=everything", "he.scope must be one of softmax, attention, network, and 'everything' was given"),
        ("he.scope=null", "he.scope must be one of softmax, attention, network, and None was given"),
        ("he.memory_mib=0", "he.memory_mib must be a whole number of at least 1, and 0 was given"),
        ("he.memory_mib=nan", "he.memory_mib must be finite, and nan was given"),
        ("he.memory_mib=true", "he.memory_mib must be a whole number, and True was given"),
        ("he.rows_at_once=64", "he.rows_at_once is about he.scope=softmax, and 64 was given with he.scope=attention"),
        ("he.max_level=4", "needs more levels than there are (4)"),
    ],
)
def test_bad_settings_are_one_sentence(checkpoint, setting, says):
    assert says in run(checkpoint, "he=sim", "he.samples=2", setting, code=2)


def test_lanes_are_refused_by_name(checkpoint):
    says = run(checkpoint, "he=desilo_lanes", "he.samples=1", code=2)
    assert "lanes do not run conjugate: whole attention needs he=desilo, with he.workers for cores" in says


def test_the_plan_of_whole_attentions_is_what_then_runs(checkpoint, tmp_path):
    """Levels, layout and sets; the seconds are those of the table, here one millisecond an operation."""
    kinds = op_times.KINDS
    sizes = {
        top: {
            "slots": ring_for(top).slots,
            "key_bytes": {"relinearize": 1, "rotate": 1},
            "ms": {k: {0: 1} for k in kinds},
        }
        for top in range(3, 18)
    }
    table = {"engine": "desilo", "threads": 1, "sizes": sizes}
    (tmp_path / "times.json").write_text(json.dumps(table))
    (tmp_path / "two.json").write_text(json.dumps({**table, "threads": 2}))
    asked = (f"ckpt={checkpoint}", "scope=attention", "split=val", "samples=20")
    refused = call("plan", *asked)
    assert refused.returncode == 2 and "scope=attention needs ckpt=RUN and times=FILE" in refused.stderr
    for more, says in (
        (f"times={tmp_path}/two.json", "needs operation times of desilo on one thread"),
        ("approx=chebyshev", "approx=chebyshev was given: leave it out, and plan a polynomial without scope"),
        ("rows=64", "scope=attention plans no polynomial, and rows=64 is about one"),
        ("memory_mib=1", "or more memory than he.memory_mib=1 for 16 keys"),
    ):
        refused = call("plan", *asked, f"times={tmp_path}/times.json", more)
        assert refused.returncode == 2 and says in refused.stderr, refused.stderr
    done = call("plan", *asked, f"times={tmp_path}/times.json")
    assert done.returncode == 0, done.stderr
    plan = json.loads((checkpoint / "attention_plan.json").read_text())
    result, _, _ = run(checkpoint, "he=sim", "he.samples=20", name="planned")
    assert plan["levels"] == result["levels"] and {s["layout"] for s in plan["sets"]} == set(result["layout"])
    assert sum(s["batches"] for s in plan["sets"]) == result["batches"] and plan["samples"] == 20
    assert plan["server_s"] == pytest.approx(plan["wall_s"] - plan["client_s"]) and plan["mib"] > 300
    assert "20 samples in 1 sets of 8192 slots" in done.stdout
