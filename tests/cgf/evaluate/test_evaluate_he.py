"""eval_he.py from end to end on a small trained ViT: against the clear run, killed, and with corrupted decryption."""

import json
import os
import shutil
import signal
import time

import numpy as np
import pytest
import torch
from digits_checkpoint import call, started
from resealed import reseal

from cgf.approx.exponential_json import exponential_from_json
from cgf.approx.fit import with_fit
from cgf.errors import UserError
from cgf.evaluate.he_batches import chosen_samples
from cgf.he.engines.sim import SimOwner
from cgf.results import read_lines

KEYS = {
    "accuracy",
    "accuracy_plain",
    "accuracy_exact",
    "agreement",
    "max_error",
    "mean_error",
    "levels",
    "levels_counted",
    "ops",
    "seconds",
    "ring_slots",
    "outside_domain",
    "beyond_guard",
    "samples",
}


def evaluate(checkpoint, *arguments, name="result", code=0):
    """The result file of an eval_he.py run, and the lines beside it: one a sample, then one for their batch."""
    out = checkpoint / "eval" / f"{name}.json"
    done = call("eval_he", f"ckpt={checkpoint}", f"out={out}", *arguments)
    assert done.returncode == code, done.stderr
    return json.loads(out.read_text()), read_lines(out.with_suffix(".jsonl"))


def logits(lines):
    return {line["index"]: line["logits"] for line in lines if "index" in line}


def batches(lines):
    return [line["batch"] for line in lines if "batch" in line]


def clear_logits(checkpoint, samples):
    """Logits of the same samples with the plan's polynomial, by the host's own forward and no encryption code."""
    from cgf.config import task_maker
    from cgf.evaluate.open_checkpoint import open_checkpoint
    from cgf.plan.load import read_plan

    opened = open_checkpoint(str(checkpoint), "test", task_maker(None))
    for softmax in opened.softmaxes:
        softmax.exponential = read_plan(checkpoint).exponential
    opened.host.model.eval()
    batch = opened.collate([opened.dataset[i] for i in samples])
    labels = batch.pop("labels")
    with torch.inference_mode():
        return opened.host.logits(batch), labels


def test_the_simulator_equals_the_clear_run(checkpoint):
    result, lines = evaluate(checkpoint, "he=sim", "he.samples=30")
    found = logits(lines)
    expected, labels = clear_logits(checkpoint, sorted(found))
    np.testing.assert_allclose([found[i] for i in sorted(found)], expected.numpy(), atol=1e-4)
    right = (expected.argmax(-1) == labels).double().mean().item()
    assert result["accuracy"] == result["accuracy_plain"] == pytest.approx(right)
    assert result["agreement"] == 1.0 and result["max_error"] < 1e-9
    assert len(found) == result["samples"] == 30
    assert set(result) >= KEYS


def test_levels_are_those_of_the_plan_in_the_smallest_ring(checkpoint):
    plan = json.loads((checkpoint / "plan.json").read_text())
    result, _ = evaluate(checkpoint, "he=sim", "he.samples=4")
    assert plan["rows"] == "full"
    assert result["levels"] == result["levels_counted"] == plan["levels"]
    assert result["ring_slots"] == (8192 if plan["levels"] <= 7 else 16384)
    paper, _ = evaluate(checkpoint, "he=sim", "he.samples=4", "he.circuit=paper", name="paper")
    assert paper["levels"] == plan["levels"] + 1 and paper["circuit"] == "paper"


def test_real_ciphertexts(checkpoint):
    result, lines = evaluate(checkpoint, "he=desilo", "he.samples=2", "he.owner.mode=cpu")
    assert set(result) >= KEYS
    assert result["levels"] == result["levels_counted"] > 0
    assert 0 < result["mean_error"] < result["max_error"] <= 1e-4  # above zero: it did go through ciphertexts
    assert result["agreement"] == 1.0
    expected, _ = clear_logits(checkpoint, sorted(logits(lines)))
    np.testing.assert_allclose([logits(lines)[i] for i in sorted(logits(lines))], expected.numpy(), atol=1e-2)
    # 16 keys a row, 4 heads, 16 queries, 2 samples, 4 layers
    assert result["entries"] == 16 * 4 * 16 * 2 * 4
    assert {"total", "model", "pack", "encrypt", "circuit", "decrypt", "compare"} <= set(result["seconds"])
    assert (
        result["scope"] == "softmax under CKKS, all else in the clear"
        and result["peak_mib"] >= result["worker_mib"] > 100
    )
    assert result["us_per_entry"] == pytest.approx(1e6 * result["seconds"]["total"] / result["entries"])
    heads = [layer["heads"]["max_error"] for layer in result["layers"]]
    assert np.shape(heads) == (4, 4) and np.max(heads) == result["max_error"] and np.min(heads) > 0
    assert (checkpoint / "eval" / "result.png").read_bytes().startswith(b"\x89PNG")
    assert result["ops"]["cmult"] > 0 and len(result["layers"]) == 4


def stable(result):
    """A result without what no two runs share: times, memory, provenance, and the name of its file of predictions."""
    other = (
        "seconds",
        "samples_per_s",
        "us_per_entry",
        "peak_mib",
        "worker_mib",
        "run",
        "shards",
        "workers",
        "lines_sha256",
    )
    same = {key: value for key, value in result.items() if key not in other}
    return {**same, "predictions": result["predictions"]["sha256"]}


def rounded(result):
    """To 9 digits: sums in another order differ in the last ones."""
    return json.loads(json.dumps(stable(result)), parse_float=lambda x: float(f"{float(x):.9g}"))


def test_a_run_on_ciphertexts_goes_on_where_it_was(checkpoint):
    arguments = ["he=desilo", "he.samples=5", "he.batch=1", "he.owner.mode=cpu"]
    whole, lines = evaluate(checkpoint, *arguments)
    path = checkpoint / "eval" / "result.jsonl"
    assert [next(iter(row)) for row in lines] == ["index", "batch"] * 5
    before = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(before[:4]) + before[4])  # two batches, and a sample whose batch did not end
    again, after = evaluate(checkpoint, *arguments)
    assert path.read_bytes().startswith(b"".join(before[:5])) and len(after) == 5 + 6
    assert batches(after) == batches(lines)
    for key in ("accuracy", "agreement", "entries", "ops", "levels", "samples", "batches"):
        assert again[key] == whole[key]


def test_shards_make_one_result(checkpoint):
    """Two shards as a sweep, merged, are the evaluation in one piece; a set that is not whole is refused."""
    common = [f"ckpt={checkpoint}", "he=sim", "he.samples=30", "he.batch=4"]
    whole, _ = evaluate(checkpoint, *common[1:])
    out = checkpoint / "eval" / "part.json"
    done = call("eval_he", "--multirun", "hydra/launcher=parallel", "he.shard=1/2,2/2", f"out={out}", *common)
    assert done.returncode == 0, done.stderr
    first, second = (checkpoint / "eval" / f"part-shard{i}of2.json" for i in (1, 2))
    one, two = (json.loads(p.read_text()) for p in (first, second))
    assert (
        one["samples"] + two["samples"] == 30 == one["samples_of_all_shards"]
        and abs(one["samples"] - two["samples"]) <= 4
    )

    def merge(*shards, to="merged.json"):
        return call("merge_shards", f"shards=[{','.join(map(str, shards))}]", f"out={checkpoint}/eval/{to}")

    assert merge(first, second).returncode == 0
    merged = json.loads((checkpoint / "eval" / "merged.json").read_text())
    assert rounded(merged) == rounded(whole) and merged["shards"] == 2 and len(merged["run"]["shards"]) == 2
    assert merge(first, second).returncode == 0  # again: it is its own
    alone = (checkpoint / "eval" / "result.json").read_bytes()
    refused = merge(first, second, to="result.json")  # of one piece, with seconds of its own
    assert refused.returncode == 2 and "result.json holds another result" in refused.stderr
    assert (checkpoint / "eval" / "result.json").read_bytes() == alone
    for shards, sentence in (
        ((first,), "needs each of the 2 shards once, and got 1/2"),
        ((first, first), "needs each of the 2 shards once, and got 1/2, 1/2"),
        ((first, checkpoint / "eval" / "result.json"), "one that is not a shard"),
    ):
        refused = merge(*shards, to="refused.json")
        assert refused.returncode == 2 and sentence in refused.stderr
    for change, sentence in (
        ({"digest": "other"}, "differ in checkpoint, polynomial, engine or samples: 1/2, 2/2"),
        ({"split_by": {"batch": 5}}, "differ in batching"),
        ({"polynomial": None}, "differ in 'polynomial': 1/2, 2/2"),
    ):
        second.write_text(json.dumps({**two, **change}))
        refused = merge(first, second, to="refused.json")
        assert refused.returncode == 2 and sentence in refused.stderr
    second.write_text(json.dumps(two))
    lines = second.with_suffix(".jsonl")
    lines.write_bytes(b"".join(lines.read_bytes().splitlines(keepends=True)[:-1]))
    refused = merge(first, second, to="short.json")
    assert refused.returncode == 2 and "part-shard2of2.jsonl was changed after part-shard2of2.json" in refused.stderr
    second.write_text(json.dumps({key: value for key, value in two.items() if key != "lines_sha256"}))
    refused = merge(first, second, to="short.json")  # a result of before does not say what its lines were
    assert refused.returncode == 2 and "need to hold 30 samples, each once, and hold" in refused.stderr
    assert not (checkpoint / "eval" / "short.json").exists()


@pytest.mark.parametrize("text", ["0/2", "3/2", "1/0", "half", "1"])
def test_a_shard_is_one_of_n(checkpoint, text):
    done = call("eval_he", f"ckpt={checkpoint}", "he=sim", "he.samples=2", f"he.shard={text}")
    assert done.returncode == 2 and "he.shard must be i/n with 1 <= i <= n" in done.stderr


def test_other_settings_do_not_take_over_lines(checkpoint):
    """The same file for another polynomial, other samples or another checkpoint is refused, and every line stays."""
    first, lines = evaluate(checkpoint, "he=sim", "he.samples=6")
    again, same = evaluate(checkpoint, "he=sim", "he.samples=6")
    assert same == lines and again["max_error"] == first["max_error"]
    out = checkpoint / "eval" / "result.json"
    kept = [out.read_bytes(), out.with_suffix(".jsonl").read_bytes()]

    def refused(*arguments):
        done = call("eval_he", f"ckpt={checkpoint}", f"out={out}", "he=sim", *arguments)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
        told = "another result (eval_he, checkpoint checkpoint, softmax cgf, split test, samples 6)"
        assert f"error: {out} holds {told} and is not overwritten: give another out=, or remove the file" in done.stderr
        assert [out.read_bytes(), out.with_suffix(".jsonl").read_bytes()] == kept

    refused("he.samples=6", "approx=limit", "approx.k=3", "approx.range=[-7,1]")
    refused("he.samples=4")
    refused("he.samples=6", "seed=7")
    refused("he.samples=6", "he.owner.outside=raise")
    run = (checkpoint / "run.json").read_text()
    reseal(checkpoint, time_utc="another")
    done = call("eval_he", f"ckpt={checkpoint}", f"out={out}", "he=sim", "he.samples=6")
    assert done.returncode == 2 and "plan.json was made for the checkpoint" in done.stderr
    assert [out.read_bytes(), out.with_suffix(".jsonl").read_bytes()] == kept
    (checkpoint / "run.json").write_text(run)
    other, others = evaluate(
        checkpoint, "he=sim", "he.samples=6", "approx=limit", "approx.k=3", "approx.range=[-7,1]", name="other"
    )
    assert other["levels"] == 1 + 3 and logits(others) != logits(lines)
    # a stopped evaluation has lines alone
    out.unlink()
    stopped = call("eval_he", f"ckpt={checkpoint}", f"out={out}", "he=sim", "he.samples=6", "seed=7")
    assert stopped.returncode == 2 and "result.jsonl holds 6 samples of another evaluation" in stopped.stderr
    assert "give another out=, or remove it and result.json" in stopped.stderr
    assert out.with_suffix(".jsonl").read_bytes() == kept[1] and not out.exists()


def test_names_hold_what_differs_from_the_defaults(checkpoint):
    """Another seed or setting of the owner leaves the earlier result and its lines; the defaults' name is as ever."""
    for arguments in ([], ["seed=42"], ["seed=7"], ["he.owner.outside=raise"], ["he.batch=2"]):
        done = call("eval_he", f"ckpt={checkpoint}", "he=sim", "he.samples=4", *arguments)
        assert done.returncode == 0, done.stderr
    stems = sorted(p.stem for p in (checkpoint / "eval").glob("*.json"))
    plan = json.loads((checkpoint / "plan.json").read_text())["exponential"]
    default = f"he-sim-folded-{plan['method']}-k{plan['k']}-test-4"
    assert len(stems) == 3 and stems[0] == default and all(stem.startswith(f"{default}-") for stem in stems[1:])
    assert "4 samples are done already" in done.stdout  # how samples are batched is no other evaluation
    samples = [set(logits(read_lines(checkpoint / "eval" / f"{stem}.jsonl"))) for stem in stems]
    assert sorted(map(len, samples)) == [4, 4, 4] and len(set(map(frozenset, samples))) == 2
    for arguments in ([], ["seed=7"], ["seed=7", "samples=60"], ["domain=[-3,0]"]):
        assert call("eval_plain", f"ckpt={checkpoint}", "samples=4", *arguments).returncode == 0
    plain = sorted(p.stem for p in (checkpoint / "eval").glob("plain-*.json"))
    assert [stem.count("-") for stem in plain] == [3, 4, 4, 3] and plain[0] == "plain-exact-test-4"
    assert plain[-1] == "plain-exact-test-60"  # of the whole split no seed chooses


def test_a_result_is_written_where_nothing_else_is_lost(checkpoint):
    """Figures and lines have names of their own, and what is no result of this evaluation stays."""
    eval_ = checkpoint / "eval"
    eval_.mkdir()
    he = ["eval_he", f"ckpt={checkpoint}", "he=sim", "he.samples=2"]
    plain = ["eval_plain", f"ckpt={checkpoint}", "samples=2"]
    (eval_ / "notes.jsonl").write_text('{"mine": 1}')
    os.mkfifo(eval_ / "fifo.json")
    (eval_ / "link.json").symlink_to(eval_ / "fifo.json")
    (eval_ / "folder.json").mkdir()
    (eval_ / "a.json").write_text("[1]")
    before = {p: p.is_file() and p.read_bytes() for p in checkpoint.rglob("*")}
    for call_, out, says in (
        (he, "r.png", "out must name a file that ends in .json, and '"),
        (he, "q.jsonl", "that ends in .json"),
        (plain, "r.png", "out must name a file that ends in .json"),
        (plain, "none", "out must name a file"),
        (he, "notes.json", "notes.jsonl holds no lines of an evaluation"),
        (he, "fifo.json", "must be a regular file to be written to, and is a fifo"),
        (plain, "link.json", "must be a regular file to be written to, and is a fifo"),
        (plain, "folder.json", "must be a regular file to be written to, and is a folder"),
        (plain, "../plan.json", "plan.json holds something else than a result and is not overwritten"),
        (he, "../plan.json", "plan.json holds something else than a result and is not overwritten"),
        (plain, "a.json", "a.json holds something else than a result and is not overwritten"),
    ):
        done = call(*call_, f"out={eval_ / out}")
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and says in done.stderr, done.stderr
    assert {p: p.is_file() and p.read_bytes() for p in checkpoint.rglob("*")} == before
    merged = call("merge_shards", "shards=[]", f"out={eval_}/r.png")
    assert merged.returncode == 2 and "ends in .json" in merged.stderr


def test_a_result_of_another_checkpoint_is_kept(checkpoint, tmp_path):
    """By the digest of its run.json; a result of an earlier version is known by its names and where it is from."""
    other, out = tmp_path / "other" / "checkpoint", tmp_path / "out.json"
    shutil.copytree(checkpoint, other)
    reseal(other, time_utc="another")
    arguments = ["samples=2", f"out={out}"]
    assert call("eval_plain", f"ckpt={checkpoint}", *arguments).returncode == 0
    assert call("eval_plain", f"ckpt={checkpoint}", *arguments).returncode == 0  # made again
    for more in (
        "approx=plan",
        "split=val",
        "samples=3",
        "softmax=relu",
        "seed=7",
        "domain=[-3,1]",
        "not_finite=wrong",
    ):
        kept = out.read_bytes()
        done = call("eval_plain", f"ckpt={checkpoint}", *arguments, more)
        assert done.returncode == 2 and out.read_bytes() == kept, more
        assert "holds another result (eval_plain, checkpoint checkpoint, softmax cgf, split test" in done.stderr
    limit = [f"ckpt={checkpoint}", "samples=2", f"out={tmp_path / 'limit.json'}", "approx=limit", "approx.range=[-7,1]"]
    assert call("eval_plain", *limit, "approx.k=3").returncode == 0
    kept = (tmp_path / "limit.json").read_bytes()
    assert call("eval_plain", *limit, "approx.k=5").returncode == 2 and (tmp_path / "limit.json").read_bytes() == kept
    early = {k: v for k, v in json.loads(out.read_text()).items() if k != "checkpoint_sha256"}
    for _ in range(2):
        kept = out.read_bytes()
        done = call("eval_plain", f"ckpt={other}", *arguments)
        assert done.returncode == 2 and out.read_bytes() == kept
        assert f"{out} holds another result (eval_plain, checkpoint checkpoint, softmax cgf" in done.stderr
        out.write_text(json.dumps(early))
    assert call("eval_plain", f"ckpt={checkpoint}", *arguments).returncode == 0


def test_a_second_evaluation_into_the_same_lines_is_refused(checkpoint):
    """While the first is at work; a real one that is killed keeps nobody out."""
    out = checkpoint / "eval" / "result.json"
    lock = out.with_name(".result.jsonl.lock")
    arguments = [f"ckpt={checkpoint}", "he=sim", "he.samples=60", "he.batch=1", "he.workers=2", f"out={out}"]
    process = started("eval_he", *arguments, cwd=checkpoint)
    deadline = time.monotonic() + 300
    lines = out.with_suffix(".jsonl")
    while not (lines.exists() and lines.stat().st_size) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)  # it stays where it is, and holds on
    second = call("eval_he", *arguments)
    assert process.poll() is None and lock.exists()
    process.kill()
    process.wait()
    assert second.returncode == 2 and second.stderr == (
        f"error: another process evaluates into {out.with_suffix('.jsonl')}: wait for it, stop it, or give another "
        "out=\n"
    )
    again = call("eval_he", *arguments)
    assert again.returncode == 0 and "samples are done already" in again.stdout and not lock.exists(), again.stderr
    seen = [i for batch in batches(read_lines(out.with_suffix(".jsonl"))) for i in batch]
    assert sorted(seen) == list(range(60)), "every batch once"


def test_a_batch_at_a_time_gives_the_same(checkpoint):
    together, one = evaluate(checkpoint, "he=sim", "he.samples=5")
    (checkpoint / "eval" / "result.jsonl").unlink()
    apart, three = evaluate(checkpoint, "he=sim", "he.samples=5", "he.batch=2")
    assert [len(b) for b in batches(one)] == [5]
    assert sorted(len(b) for b in batches(three)) == [1, 2, 2]
    assert apart["entries"] == together["entries"] and apart["levels"] == together["levels"]
    for i, row in logits(one).items():
        np.testing.assert_allclose(logits(three)[i], row, atol=1e-4)


@pytest.mark.parametrize("engine, samples, tolerance", [("sim", 30, 1e-4), ("desilo", 4, 1e-2)])
def test_two_workers_give_what_one_gives(checkpoint, engine, samples, tolerance):
    alone, one = evaluate(checkpoint, "he=sim", f"he.samples={samples}")
    shared, two = evaluate(
        checkpoint, f"he={engine}", f"he.samples={samples}", "he.workers=2", "he.rows_at_once=900", name="shared"
    )
    assert shared["workers"] == 2 and alone["workers"] == 1
    assert shared["entries"] == alone["entries"] and shared["levels"] == alone["levels"]
    assert shared["accuracy"] == alone["accuracy"]
    # 4 heads of 16 queries: 64 rows a sample, so 900 rows are 14 samples
    assert sorted(len(b) for b in batches(two)) == ([2, 14, 14] if samples == 30 else [4])
    for i, row in logits(one).items():
        np.testing.assert_allclose(logits(two)[i], row, atol=tolerance)


def test_rows_at_once_are_a_whole_number(checkpoint):
    done = call("eval_he", f"ckpt={checkpoint}", "he=sim", "he.samples=2", "he.rows_at_once=0")
    assert done.returncode == 2 and "he.rows_at_once must be a whole number of at least 1" in done.stderr


def test_a_corrupted_decryption_changes_the_predictions(checkpoint, monkeypatch):
    """The weights that go on into the model come from decryption alone."""
    honest = SimOwner.decrypt
    _, clean = evaluate(checkpoint, "he=sim", "he.samples=30")
    clean_logits = logits(clean)
    for wrong in (lambda self, ct: 0 * honest(self, ct), lambda self, ct: honest(self, ct)[::-1].copy()):
        monkeypatch.setattr(SimOwner, "decrypt", wrong)
        monkeypatch.setattr(
            SimOwner,
            "decrypt_pair",
            lambda self, ct, wrong=wrong: (
                wrong(self, ct),
                wrong(self, type(ct)(ct.values.imag, ct.level, ct.polynomials)),
            ),
        )
        (checkpoint / "eval" / "result.jsonl").unlink()
        result, lines = evaluate(checkpoint, "he=sim", "he.samples=30", code=1)
        assert result["wrong"] > 0 and not result["green"]
        changed = logits(lines)
        assert all(np.abs(np.subtract(changed[i], clean_logits[i])).max() > 1e-3 for i in clean_logits)
        assert any(np.argmax(changed[i]) != np.argmax(clean_logits[i]) for i in clean_logits)
        assert result["agreement"] < 1.0 and result["max_error"] > 1e-2


def test_entries_beyond_the_guard_are_red(checkpoint):
    path = checkpoint / "plan.json"
    plan = {key: value for key, value in json.loads(path.read_text()).items() if key != "seal"}
    y = plan["calibrated"]
    guard = (y[0] * 0.5, max(y[1], 0.1))
    narrow = with_fit(exponential_from_json(plan["exponential"]), guard).fit
    facts = {"domain": guard, "guard": guard, "max_error": narrow.max_error}  # a guard too narrow is conservative
    plan = {**plan, **facts, "exponential": {**plan["exponential"], **facts}}
    path.write_text(json.dumps(plan))
    out = checkpoint / "eval" / "red.json"
    done = call("eval_he", f"ckpt={checkpoint}", f"out={out}", "he=sim", "he.samples=20")
    result = json.loads(out.read_text())
    assert result["beyond_guard"] > 0 and done.returncode == 1
    *warning, error = done.stderr.splitlines()
    assert error.startswith(f"error: {result['beyond_guard']} entries lay beyond the plan's guard")
    worst = max(
        (n, -layer["layer"], -head) for layer in result["layers"] for head, n in enumerate(layer["heads"]["beyond"])
    )
    assert f"ruined: layer {-worst[1]} head {-worst[2]} ({worst[0]})" in error
    assert sum(sum(layer["heads"]["beyond"]) for layer in result["layers"]) == result["beyond_guard"]
    assert len(warning) == 1
    assert warning[0].startswith(f"warning: {result['outside_domain']:.2%} of the entries lay outside the plan's")
    assert f"layer {-worst[1]} head {-worst[2]} ({worst[0]})" in warning[0]
    out = checkpoint / "eval" / "plain.json"
    plain = call("eval_plain", f"ckpt={checkpoint}", f"out={out}", "approx=plan", "samples=20")
    red = json.loads(out.read_text())
    assert plain.returncode == 1 and red["beyond_guard"] == result["beyond_guard"] and red["green"] is False
    assert plain.stderr == "".join(f"error: {reason}\n" for reason in red["red"]) and len(red["red"]) == 1
    assert f"would be ruined: layer {-worst[1]} head {-worst[2]} ({worst[0]})" in red["red"][0]


def test_chosen_samples():
    assert chosen_samples(10, None, 0) == list(range(10)) == chosen_samples(10, 99, 0)
    few, more = chosen_samples(1000, 20, 42), chosen_samples(1000, 50, 42)
    assert len(few) == 20 and set(few) < set(more) and few == sorted(few)
    assert few != list(range(20)) and few != chosen_samples(1000, 20, 43)
    for wrong in (0, -3, "x", 1.5, True):
        with pytest.raises(UserError, match="at least 1"):
            chosen_samples(10, wrong, 0)
