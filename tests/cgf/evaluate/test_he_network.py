"""eval_he.py he.scope=network from files to result: against both readings in the clear, stopped, in shards, refused."""

import dataclasses
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from digits_checkpoint import call
from filelock import FileLock
from friendly_hosts import bert

from cgf.config import compose
from cgf.errors import UserError
from cgf.evaluate.he_lines import SampleLog
from cgf.evaluate.he_scope import MEMORY_MIB
from cgf.evaluate.network_eval import BatchInTheClear, NetworkEvaluation, features_of
from cgf.evaluate.network_predicted import row as row_of_prediction
from cgf.evaluate.network_summary import network_summary
from cgf.evaluate.token_counts import ByTokens, chosen
from cgf.he.engines.sim import SimOwner
from cgf.he.session import Session
from cgf.models.network import network_of
from cgf.network.program import program_of
from cgf.network.twin import twin
from cgf.plan import op_times
from cgf.report.network import told
from cgf.report.network_predicted import table as table_of_predictions
from cgf.results import read_lines

SCOPE = "whole network under CKKS: nothing is decrypted between input and logits"
TRAINED = ("norm=batch", "activation=square", "softmax=cgf_chain", "softmax.k=2", "softmax.domain=[-10.0,1.2]")
FIELDS = (
    *("accuracy", "accuracy_plain", "accuracy_exact", "agreement", "max_error", "levels", "levels_counted"),
    *("ring_slots", "bootstraps", "samples", "core_s", "wall_s", "s_per_sample", "latency_s", "stages", "peak_mib"),
    *("bytes_up", "bytes_down", "key_bytes", "workers"),
)
SMALL = ("model.options.depth=1", "model.options.embed_dim=4", "model.options.num_heads=1")


@pytest.fixture(scope="session")
def network_run(tmp_path_factory):
    """Run folder of a ViT of one block, 4 wide, whose every layer is polynomial; trained once a test run."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "network"
    shared.mkdir(exist_ok=True)
    with FileLock(str(shared / "lock")):
        if not (shared / "done").exists():
            few = (
                "train.epochs=4",
                "train.lr=3e-3",
                "task.limit={train: 640, val: 60, test: 60}",
                "task.augment=false",
            )
            trained = call("train", f"outputs={shared}", "run=whole", *TRAINED, *SMALL, *few, "penalty.weight=1.0")
            assert trained.returncode == 0, trained.stderr
            (shared / "done").touch()
    return shared / "whole"


@pytest.fixture
def whole(network_run, tmp_path):
    """A copy of its checkpoint, to change at will."""
    best = network_run / json.loads((network_run / "best.json").read_text())["checkpoint"]
    return shutil.copytree(best, tmp_path / "checkpoint", ignore=shutil.ignore_patterns("eval"))


def clear_logits(checkpoint, samples):
    """Logits of the model as it was trained, by the host's own forward and no code of networks."""
    from cgf.config import task_maker
    from cgf.evaluate.open_checkpoint import open_checkpoint

    opened = open_checkpoint(str(checkpoint), "test", task_maker(None))
    opened.host.model.eval()
    batch = opened.collate([opened.dataset[i] for i in samples])
    batch.pop("labels")
    with torch.inference_mode():
        return opened.host.logits(batch).numpy()


def run(checkpoint, *arguments, name="network", code=0):
    """(result, logits of each sample, what was printed) of an evaluation of the whole network."""
    out = checkpoint / "eval" / f"{name}.json"
    done = call("eval_he", f"ckpt={checkpoint}", "he.scope=network", f"out={out}", *arguments)
    assert done.returncode == code, done.stderr
    if code == 2:
        assert not out.exists()
        return done.stderr
    lines = read_lines(out.with_suffix(".jsonl"))
    return json.loads(out.read_text()), {x["index"]: x["logits"] for x in lines if "index" in x}, done.stdout


def test_the_simulator_equals_the_clear_run(whole):
    result, logits, printed = run(whole, "he=sim", "he.samples=null")
    clear = clear_logits(whole, sorted(logits))
    np.testing.assert_allclose([logits[i] for i in sorted(logits)], clear, rtol=0, atol=1e-4)
    assert (result["levels"], result["levels_counted"], result["ring_slots"]) == (9, 9, 16384)
    assert result["scope"] == "whole network simulated, nothing encrypted" in printed
    assert result["agreement"] == result["agreement_exact"] == 1.0 and result["red"] == [] and result["green"]
    assert result["max_error"] < 1e-9 * result["largest_logit"] and result["unfolded_error"] < 1e-9
    assert result["accuracy"] == result["accuracy_plain"] == result["accuracy_exact"]
    assert (result["samples"], result["sets"], result["bootstraps"]) == (60, 1, 0)
    assert [stage["stage"] for stage in result["stages"]][::6] == ["encrypt", "decrypt"]
    assert result["core_s"] == pytest.approx(result["client_s"] + result["server_s"])
    assert result["s_per_sample"] == pytest.approx(result["core_s"] / 60)
    assert result["bytes_up"] is None  # nothing is encrypted
    assert [row["batches"] for row in result["made_by"]] == [1] and "dirty" in result["made_by"][0]


def test_as_trained_is_with_the_exponential_that_it_was_trained_with(whole, tmp_path):
    from cgf.config import task_maker
    from cgf.evaluate.open_checkpoint import open_checkpoint

    opened = open_checkpoint(str(whole), "test", task_maker(None))
    opened.put_in_place({"method": "limit", "k": 3, "range": [-10.0, 1.2]})
    lines = SampleLog(tmp_path / "lines.jsonl")
    clear = NetworkEvaluation(opened, Session(SimOwner), list(range(20)), lines).clear(list(range(20)))
    np.testing.assert_allclose(clear.exact, clear_logits(whole, range(20)), rtol=0, atol=1e-6)
    assert np.abs(clear.plain - clear.exact).max() > 1e-4 and clear.unfolded < 1e-9


def test_a_block_of_a_real_llama_trained_and_evaluated_whole(data_root, tmp_path):
    """The first block of stories260k: causal, rotary, two queries a key, its gate a product; a set a length."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, cut = data_root / "weights" / "stories260k" / "hf", tmp_path / "cut"
    model = AutoModelForCausalLM.from_pretrained(source)
    model.model.layers = model.model.layers[:1]
    model.config.num_hidden_layers = 1
    model.save_pretrained(cut), AutoTokenizer.from_pretrained(source).save_pretrained(cut)
    where = (f"model.path={cut}", "model.subfolder=", f"data.root={data_root}", f"outputs={tmp_path}", "run=llama")
    small = ("task.limit={train: 256, val: 64, test: 64}", "train.epochs=1", "train.batch_size=32", "train.lr=1e-3")
    own = ("softmax=cgf_chain", "softmax.k=2", "softmax.domain=[-10,1.2]", "norm=batch", "activation=product")
    guard = ("penalty.weight=1.0", "penalty.bound=10.0", "penalty.high=1.2")
    trained = call("train", "model=stories260k", "task=clinc150", *where, *small, *own, *guard)
    assert trained.returncode == 0, trained.stderr
    assert "3 norms by 'batch', 1 activations by 'product'" in trained.stdout
    evaluated = (f"ckpt={tmp_path}/llama", "he=sim", "he.scope=network", "approx=exact", "he.samples=4")
    done = call("eval_he", *evaluated, f"data.root={data_root}", f"out={tmp_path}/r.json")
    result = json.loads((tmp_path / "r.json").read_text())
    assert done.returncode == bool(result["red"]), done.stderr
    assert (result["levels"], result["levels_counted"], result["ring_slots"]) == (12, 12, 16384)
    assert result["agreement"] == result["agreement_exact"] == 1.0 and result["unfolded_error"] < 1e-9
    assert result["max_error"] < 1e-9 * result["largest_logit"] and 1 <= result["sets"] <= 4
    alone = call("eval_he", *evaluated, "he.alone=true", f"data.root={data_root}", f"out={tmp_path}/a.json")
    assert alone.returncode == 2 and "over all tokens and without rotary positions" in alone.stderr


def test_a_result_of_other_stages_than_are_predicted_is_refused():
    """It ended in a KeyError."""
    stages = tuple(SimpleNamespace(name=name, seconds=1.0) for name in ("block 1 head 1", "block 1 s1", "logits"))
    predicted = SimpleNamespace(tokens=4, stages=stages)
    result = {"sets": 1, "stages": [{"stage": name, "core_s": 1.0} for name in ("encrypt", "block 1 head 1", "s1")]}
    with pytest.raises(UserError, match="the stages that are predicted, and 'block 1 s1' is missing: evaluate it anew"):
        row_of_prediction(result, {4: 1}, [predicted], 1)


def test_what_was_predicted_is_held_against_the_run(whole, tmp_path):
    result, *_ = run(whole, "he=sim", "he.samples=12")
    path, out = whole / "eval" / "network.json", tmp_path / "predicted.json"
    he, result["encrypted"] = result["run"]["config"]["he"], True  # as if it had been, which takes longer
    path.write_text(json.dumps(result))
    times = tmp_path / "times.json"
    by_kind = {kind: {"0": 1.0, "40": 1.0} for kind in op_times.KINDS}
    keys = {"relinearize": 2**20, "rotate": 2**21, "public": 1}
    sizes = {str(top): {"slots": slots, "key_bytes": keys, "ms": by_kind} for top, slots in ((9, 16384), (17, 16384))}
    table = {"engine": "desilo", "threads": 1, "sizes": sizes, "run": {"hardware": {"cpu": "one"}}}
    times.write_text(json.dumps(table))
    asked = (f"ckpts=[{whole}]", f"results=[{path}]", f"times={times}", f"out={out}")
    done = call("network_predicted", *asked)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())["networks"]
    assert row["levels"] == {"predicted": 9, "measured": 9, "ratio": 1.0} and (row["sets"], row["processes"]) == (1, 1)
    assert row["core_s"]["measured"] == result["core_s"] and row["mib"]["measured"] == result["peak_mib"]
    assert row["core_s"]["ratio"] == pytest.approx(row["core_s"]["predicted"] / result["core_s"])
    named = [stage["stage"] for stage in result["stages"]]
    assert list(row["stages"]) == named[1:-1]  # all but encryption and decryption
    assert sum(both["predicted"] for both in row["stages"].values()) < row["core_s"]["predicted"]
    assert "levels, predicted / used" in table_of_predictions(json.loads(out.read_text()))
    for change, says in (
        ({"kind": "eval_he"}, "he.scope=network in one piece, and this is none"),
        ({"shards": 2}, "he.scope=network in one piece, and this is none"),
        ({"checkpoint_sha256": "0"}, "must hold the weights that the result is of, and they differ"),
        ({"encrypted": False}, "one set of ciphertexts at a time: encrypted, by he.workers=1"),
        ({"workers": 2}, "one set of ciphertexts at a time: encrypted, by he.workers=1"),
        ({"workers": [1, 2]}, "one set of ciphertexts at a time: encrypted, by he.workers=1"),
        ({"processes": [1, 2]}, "one set of ciphertexts at a time: encrypted, by he.workers=1 and one he.processes"),
        ({"run": {"config": {"he": {**he, "max_level": 17}}}}, "of an evaluation without he.max_level"),
        ({"run": {"config": {"he": {**he, "check": True}}}}, "of an evaluation without he.check"),
        ({"sets": 2}, "the result is of 2 sets of ciphertexts, and 1 were planned"),
    ):
        path.write_text(json.dumps({**result, **change}))
        done = call("network_predicted", *asked)
        assert done.returncode == 2 and says in done.stderr
    for arguments, says in (
        (asked[1:], "each result needs its ckpt: 1 results and 0 ckpts were given"),
        ((asked[0], *asked[2:]), "each result needs its ckpt: 0 results and 1 ckpts were given"),
        ((asked[0], f"results={path}", *asked[2:]), "results must be a list"),
    ):
        done = call("network_predicted", *arguments)
        assert done.returncode == 2 and says in done.stderr


def test_each_sample_alone(whole):
    """The same logits by another circuit: a set a sample, two levels more, and lines of its own."""
    together, logits, _ = run(whole, "he=sim", "he.samples=3", name="together")
    result, own, _ = run(whole, "he=sim", "he.samples=3", "he.alone=true", name="alone")
    assert sorted(own) == sorted(logits)
    np.testing.assert_allclose([own[i] for i in sorted(own)], [logits[i] for i in sorted(logits)], rtol=0, atol=1e-6)
    assert (result["sets"], together["sets"], result["levels"], result["levels_counted"]) == (3, 1, 11, 11)
    assert [stage["stage"] for stage in result["stages"]] == [
        *("encrypt", "attention", "outputs", "hidden layer", "logits", "decrypt")
    ]
    assert result["agreement"] == 1.0 and result["red"] == [] and result["max_error"] < 1e-9 * result["largest_logit"]
    for arguments, says in (
        (("he.alone=yes",), "he.alone must be true or false, and 'yes' was given"),
        (("he.alone=true", "he.scope=softmax"), "he.alone=true is about he.scope=network"),
        (("he.processes=2",), "he.processes needs he=desilo on a processor without he.owner.threads"),
        (("he.processes=0",), "he.processes must be a whole number from 1"),
        (("he.processes=null",), "he.processes must be a whole number from 1"),
    ):
        done = call("eval_he", f"ckpt={whole}", "he.scope=network", "he=sim", *arguments)
        assert done.returncode == 2 and says in done.stderr


@pytest.mark.parametrize("shared", [(), ("he.processes=2",)], ids=["one process", "two processes"])
def test_real_ciphertexts(whole, shared):
    if shared and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two processes need two cores")
    result, logits, printed = run(whole, "he=desilo", "he.samples=12", "he.owner.mode=cpu", *shared)
    assert result["processes"] == 1 + len(shared)
    assert result["scope"] == SCOPE and SCOPE in printed
    assert (
        0 < result["max_error"] < 1e-5 * result["largest_logit"] and result["levels"] == result["levels_counted"] == 9
    )
    clear = clear_logits(whole, sorted(logits))
    np.testing.assert_allclose([logits[i] for i in sorted(logits)], clear, rtol=0, atol=1e-3)
    assert result["red"] == [] and result["agreement"] == 1.0
    assert result["bytes_up"] > result["bytes_down"] > 10 * 16384 * 8  # ten logits at level 0
    assert [name for name in FIELDS if result.get(name) is None] == []
    assert result["key_bytes"] > 6 * 2**20 and result["latency_s"] >= result["core_s"] / 4


def test_committed_results_have_every_field():
    files = sorted((Path(__file__).parents[3] / "results" / "he" / "network").glob("*.json"))
    assert files
    for path in files:
        result = json.loads(path.read_text())
        assert [name for name in FIELDS if result.get(name) is None] == [], path.name
        assert ("of the 4,198 samples of 16 tokens in the split" in told(result)) == (
            path.name == "bert_tiny-clinc150.json"
        )


def test_shards_workers_and_a_second_run_give_the_same_predictions(whole):
    first, logits, _ = run(whole, "he=sim", "he.samples=12", "he.batch=4")
    _, again, printed = run(whole, "he=sim", "he.samples=12", "he.batch=4")
    assert "12 samples are done already" in printed and again == logits and first["sets"] == 3
    _, shared, _ = run(whole, "he=sim", "he.samples=12", "he.batch=4", "he.workers=2", name="shared")
    parts = [whole / "eval" / f"part-shard{part}of2.json" for part in (1, 2)]
    for part in (1, 2):
        out = f"out={whole}/eval/part.json"
        asked = ("he=sim", "he.scope=network", "he.samples=12", "he.batch=4", f"he.shard={part}/2")
        assert call("eval_he", f"ckpt={whole}", out, *asked).returncode == 0
    done = call("merge_shards", f"shards=[{parts[0]},{parts[1]}]", f"out={whole}/eval/m.json")
    assert done.returncode == 0, done.stderr
    merged = json.loads((whole / "eval" / "m.json").read_text())
    for key in ("kind", "scope", "accuracy", "agreement", "levels", "sets", "ops", "by_class"):
        assert merged[key] == first[key], key
    for i, row in logits.items():
        np.testing.assert_allclose(shared[i], row, rtol=0, atol=1e-8)


def test_a_shard_goes_on_in_its_own_batches_alone(whole):
    """In others its samples would be the other shard's too; all in one piece go on in any."""
    asked = ("he=sim", "he.samples=12")
    for name, shard in (("part", ("he.shard=1/2",)), ("piece", ())):
        out = whole / "eval" / f"{name}.json"
        lines = whole / "eval" / ("part-shard1of2.jsonl" if shard else "piece.jsonl")
        given = (f"ckpt={whole}", "he.scope=network", f"out={out}", *asked, *shard)
        assert call("eval_he", *given, "he.batch=2").returncode == 0
        lines.with_suffix(".json").unlink()
        lines.write_text("".join(lines.read_text().splitlines(keepends=True)[:6]))  # two batches
        done = call("eval_he", *given, "he.batch=3")
        if not shard:
            assert done.returncode == 0 and "4 samples are done already" in done.stdout, done.stderr
            continue
        assert done.returncode == 2 and "a shard needs the batches that it began with" in done.stderr
        assert "he.batch" in done.stderr and done.stderr.count("\n") == 1
        assert call("eval_he", *given, "he.batch=2").returncode == 0


def test_what_was_cut_off_is_done_again(whole):
    _, logits, _ = run(whole, "he=sim", "he.samples=12", "he.batch=4")
    lines = whole / "eval" / "network.jsonl"
    whole_lines = lines.read_text().splitlines()
    lines.write_text("\n".join(whole_lines[:7]) + "\n")  # a batch, and two samples of the next
    result, again, printed = run(whole, "he=sim", "he.samples=12", "he.batch=4")
    assert "4 samples are done already" in printed and result["samples"] == 12
    for i, row in logits.items():
        np.testing.assert_allclose(again[i], row, rtol=0, atol=1e-12)


def test_corrupted_decryption_is_red(whole, monkeypatch):
    plain = SimOwner.decrypt
    monkeypatch.setattr(SimOwner, "decrypt", lambda self, ct: -plain(self, ct))
    wrong, *_ = run(whole, "he=sim", "he.samples=10", name="wrong", code=1)
    assert wrong["wrong"] == 100 and wrong["agreement"] < 0.5 and not wrong["green"]
    assert "100 logits came back further from" in wrong["red"][0] and "predicted otherwise" in wrong["red"][1]
    monkeypatch.setattr(SimOwner, "decrypt", lambda self, ct: plain(self, ct) * np.nan)
    lost, *_ = run(whole, "he=sim", "he.samples=10", name="lost", code=1)
    assert lost["ruined"] == 10 and lost["accuracy"] == 0.0


def test_entries_beyond_a_guard_are_red(whole):
    """Queries and keys ten thousand times as large: the chain explodes, and so does the clear run."""
    from resealed import reseal
    from safetensors.torch import load_file, save_file

    tensors = load_file(whole / "model.safetensors")
    tensors["blocks.0.attn.qkv.weight"][:8] *= 1e4
    save_file(tensors, whole / "model.safetensors")
    reseal(whole)
    result, *_ = run(whole, "he=sim", "he.samples=10", code=1)
    assert result["beyond_guard"] > 0 and result["beyond_at"][0]["layer"] == 0
    assert "beyond the polynomial's guard" in result["red"][0]


@pytest.mark.parametrize(
    "setting, says",
    [
        ("he.rows_at_once=64", "he.rows_at_once is about he.scope=softmax, and 64 was given with he.scope=network"),
        ("he.memory_mib=100", "he.memory_mib is about he.scope=attention, and 100 was given with he.scope=network"),
        ("he.max_level=true", "he.max_level must be a whole number or null, and True was given"),
        ("he.circuit=paper", "he.scope=network has one circuit, folded, and he.circuit=paper was given"),
        ("he.max_level=8", "needs 9 levels, and he.max_level=8 was given"),
        ("he.batch=0", "a batch must hold a whole number of samples, at least 1, and 0 was given"),
        ("he.shard=1/2", "he.shard=1/2 needs at least 2 batches, one a shard, and there are 1"),
        ("he.batch=true", "a batch must hold a whole number of samples, at least 1, and True was given"),
    ],
)
def test_bad_settings_are_one_sentence(whole, setting, says):
    assert says in run(whole, "he=sim", "he.samples=2", setting, code=2)


def test_the_memory_that_nobody_set_is_that_of_the_configuration():
    """A value that differs from it is known to be given, and refused where nothing reads it."""
    assert compose("eval_he", ["ckpt=x"]).he.memory_mib == MEMORY_MIB


def test_hosts_that_do_not_stay_encrypted_are_refused_by_name(checkpoint):
    says = run(checkpoint, "he=sim", "he.samples=2", code=2)
    assert "LayerNorm at blocks.0.norm1 stays exact: norm=batch" in says or "softmax" in says


def test_the_plan_of_a_network_is_what_then_runs(whole, tmp_path):
    kinds = {kind: {"0": 1.0} for kind in op_times.KINDS}
    keys = {"relinearize": 2**20, "rotate": 2**20, "public": 1}
    size = {"slots": 16384, "key_bytes": keys, "ms": kinds}
    table = tmp_path / "times.json"
    table.write_text(json.dumps({"engine": "desilo", "mode": "cpu", "threads": 1, "sizes": {"10": size}}))
    asked = (f"ckpt={whole}", "scope=network", "split=test", "samples=null", f"times={table}")
    done = call("plan", *asked)
    assert done.returncode == 0, done.stderr
    plan = json.loads((whole / "network_plan.json").read_text())
    result, *_ = run(whole, "he=sim", "he.samples=null")
    assert (plan["levels"], plan["samples"]) == (result["levels"], 60)
    (one,) = plan["sets"]
    assert [s["name"] for s in one["stages"]] == [s["stage"] for s in result["stages"][1:-1]]
    total = {kind: sum(s["ops"].get(kind, 0) for s in one["stages"]) for kind in result["ops"]}
    assert total == result["ops"]
    assert f"16 tokens: 1024 samples a set in 16384 slots, 9 levels, {one['client_s']:.0f} +" in done.stdout
    for change, says in (
        (("ckpt=null",), "scope=network needs ckpt=RUN or shape"),
        (("rows=8",), "scope=network plans no polynomial, and rows=8 is about one"),
        (("shape={blocks:1}",), "scope=network needs ckpt=RUN or shape"),
        (("shape={blocks:1}", "scope=softmax"), "shape is of a whole network, and scope=softmax was given"),
    ):
        assert says in call("plan", *asked, *change).stderr
    shape = "shape={blocks:1,width:4,heads:1,mlp:16,tokens:16,features:4,classes:10,k:2}"
    done = call("plan", shape, "scope=network", f"times={table}", f"out={tmp_path}")
    assert done.returncode == 0, done.stderr
    alone = json.loads((tmp_path / "network_plan.json").read_text())
    assert alone["sets"][0]["stages"] == one["stages"]  # of the same shape


# -- texts -----------------------------------------------------------------------------------------


class Texts:
    """Token ids of texts of several lengths, as a data set."""

    def __init__(self, lengths):
        draw = np.random.default_rng(3)
        self.ids = [torch.from_numpy(draw.integers(1, 30, n)) for n in lengths]
        self.lengths = list(lengths)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": index % 3}


def collate(samples):
    longest = max(len(s["input_ids"]) for s in samples)
    ids = torch.stack([torch.nn.functional.pad(s["input_ids"], (0, longest - len(s["input_ids"]))) for s in samples])
    return {
        "input_ids": ids,
        "attention_mask": (ids > 0).long(),
        "labels": torch.tensor([s["labels"] for s in samples]),
    }


def test_texts_of_one_length_share_a_set(tmp_path):
    host, texts = bert(1, dim=4, heads=1), Texts([5, 7, 5, 8, 7, 7, 8])
    opened = SimpleNamespace(host=host, dataset=texts, collate=collate, replaced=None, softmaxes=[], trained=[])
    lines = SampleLog(tmp_path / "x.jsonl", "2:d", {})
    evaluation = NetworkEvaluation(opened, Session(SimOwner), list(range(7)), lines, say=lambda text: None)
    finished = evaluation.run()
    assert sorted(sorted(b["batch"]) for b in finished.batches) == [[0, 2], [1, 4, 5], [3, 6]]
    summary = network_summary(finished, False)
    assert summary["agreement"] == 1.0 and summary["max_error"] < 1e-9 and summary["levels"] == 12
    network, table = network_of(host)
    alone = twin(program_of(network, 7), table.prepared(texts.ids[4].numpy()[None]))
    np.testing.assert_allclose(finished.samples[4]["logits"], alone[0], rtol=0, atol=1e-7)


def test_texts_that_are_filled_up_share_a_set(tmp_path):
    """By the tokens that the network sees; and he.tokens takes those of one count, whatever their labels."""
    host, texts = bert(1, dim=4, heads=1), Texts([5, 7, 4, 8, 3, 9])
    opened = SimpleNamespace(host=host, dataset=texts, collate=collate, replaced=None, softmaxes=[], trained=[])
    lines = SampleLog(tmp_path / "x.jsonl", "2:d", {})
    evaluation = NetworkEvaluation(opened, Session(SimOwner), list(range(6)), lines, say=lambda text: None)
    evaluation.inputs = dataclasses.replace(evaluation.inputs, multiple=4)
    samples = ByTokens(texts, evaluation.inputs)
    assert samples.lengths == [8, 8, 4, 8, 4, 12] and samples[1] is not None and len(samples) == 6
    evaluation.plan = dataclasses.replace(evaluation.plan, dataset=samples)
    batches = evaluation.plan.of(list(range(6)))
    assert sorted(map(sorted, batches)) == [[0, 1, 3], [2, 4], [5]]
    features = features_of(evaluation.inputs, collate([texts[i] for i in (0, 1, 3)]))
    np.testing.assert_array_equal(features[0], evaluation.inputs.prepared(texts.ids[0].numpy()[None])[0])


def test_samples_of_one_count_of_tokens():
    opened = SimpleNamespace(
        host=bert(1, dim=4, heads=1), dataset=Texts([5, 7] * 20), task=SimpleNamespace(name="t"), samples=lambda n, s: n
    )
    he = SimpleNamespace(scope="network", samples=6, tokens=7)
    few, choice = chosen(opened, he, 42)
    assert choice == {"tokens": 7, "of_so_many": 20, "of_split": 40}
    assert len(few) == 6 and all(i % 2 for i in few) and few == sorted(few)
    he.samples = 9
    assert set(few) < set(chosen(opened, he, 42)[0]) and few != chosen(opened, he, 43)[0]
    he.samples = None
    assert chosen(opened, he, 42)[0] == list(range(1, 40, 2))
    he.tokens = 6
    with pytest.raises(UserError, match=r"he.tokens=6 fits no sample of the split, whose texts have 5, 7 tokens"):
        chosen(opened, he, 42)
    he.tokens, he.scope = 7, "softmax"
    with pytest.raises(UserError, match=r"he.tokens is about he.scope=network, and 7 was given with he.scope=softmax"):
        chosen(opened, he, 42)
    he.tokens = None
    assert chosen(opened, he, 42) == (None, {})


@pytest.mark.parametrize("largest, allowed", [(1e-3, 1e-8), (0.0, 1e-11)])
def test_logits_that_are_small_are_held_against_the_largest_of_them(largest, allowed):
    """They were held against 1: logits of 1e-3 that were off by all of themselves counted as noise."""
    evaluation = object.__new__(NetworkEvaluation)
    evaluation.session = SimpleNamespace(noise=1e-6)
    clear = BatchInTheClear(np.zeros(1), np.array([[largest, 0.0]]), np.zeros((1, 2)), 0.0, {})
    for factor, wrong in ((0.9, 0), (1.1, 1)):
        assert evaluation._errors(clear, np.array([[largest, factor * allowed]]))["wrong"] == wrong


def test_logits_that_are_off_by_more_than_noise_are_counted():
    evaluation = object.__new__(NetworkEvaluation)
    evaluation.session = SimpleNamespace(noise=1e-6)
    plain = np.array([[4.0, -1.0], [2.0, 0.0], [1.0, 1.0]])
    clear = BatchInTheClear(np.zeros(3), plain, plain + 1.0, 0.25, {(0, 1): 2, (0, 0): 0})
    logits = plain + np.array([[3e-5, 5e-5], [0.0, -1e-3], [np.nan, 0.0]])  # tenfold the noise, of 4: 4e-5
    errors = evaluation._errors(clear, logits)
    assert (errors["wrong"], errors["logits"], errors["largest"], errors["unfolded"]) == (2, 4, 4.0, 0.25)
    assert errors["max_error"] == pytest.approx(1e-3) and errors["sum_error"] == pytest.approx(1.08e-3)
    assert errors["beyond"] == [[0, 1, 2]]


@pytest.mark.parametrize(
    "lost, unfolded, says",
    [
        ((3, 4), 0.0, "by the polynomials 3, 4"),
        ((), float("nan"), "by the model with the polynomials in place 0, 1, 2, 3, 4, 5"),
    ],
)
def test_samples_without_a_class_in_the_clear_are_refused_before_one_is_encrypted(tmp_path, lost, unfolded, says):
    """All of them at once; the last batch would come up after hours."""
    batches, encrypted = [[0, 1], [2, 3], [4, 5]], []

    def clear(batch):
        plain = np.array([[np.nan if index in lost else 1.0, 0.0] for index in batch])
        return BatchInTheClear(np.zeros(len(batch)), plain, np.zeros((len(batch), 2)), unfolded, {})

    evaluation = object.__new__(NetworkEvaluation)
    evaluation.lines, evaluation.indices, evaluation.shard = SampleLog(tmp_path / "lines.jsonl"), [], (1, 1)
    evaluation.plan, evaluation.say = SimpleNamespace(of=lambda indices: batches, work=len), lambda text: None
    evaluation.clear, evaluation._evaluate = clear, encrypted.append
    evaluation.session = SimpleNamespace(workers=1)
    with pytest.raises(UserError, match=f"finite logits in the clear, and {says} have none"):
        evaluation.run()
    assert not encrypted and not evaluation.lines.path.exists()


def test_a_batch_is_never_more_than_a_set_takes(tmp_path):
    """Whatever he.batch asks for."""
    host, texts = bert(1, dim=4, heads=1), Texts([5] * 4000)
    opened = SimpleNamespace(host=host, dataset=texts, collate=collate, replaced=None, softmaxes=[], trained=[])
    session, lines = Session(SimOwner), SampleLog(tmp_path / "x.jsonl", "2:d", {})
    evaluation = NetworkEvaluation(opened, session, list(range(4000)), lines, batch=4000, say=lambda text: None)
    most = session.party.network_needs(evaluation.network, 5).samples
    assert most < 4000
    assert sorted(map(len, evaluation.plan.of(list(range(4000))))) == sorted([most, 4000 - most])
    evaluation.plan = dataclasses.replace(evaluation.plan, size=3)
    assert [len(batch) for batch in evaluation.plan.of(list(range(7)))] == [1, 3, 3]


def test_pairs_with_token_types_are_refused():
    """The table of embeddings has one segment: logits would be those of other texts."""
    _, table = network_of(bert(1, dim=4, heads=1))
    batch = collate([Texts([5])[0]])
    same = features_of(table, {**batch, "token_type_ids": torch.zeros(1, 5, dtype=torch.long)})
    np.testing.assert_array_equal(same, features_of(table, batch))
    with pytest.raises(UserError, match="reads texts alone, and these are pairs, the second told by its token types"):
        features_of(table, {**batch, "token_type_ids": torch.tensor([[0, 0, 0, 1, 1]])})


def test_padded_texts_are_refused():
    _, table = network_of(bert(1, dim=4, heads=1))
    texts = Texts([5, 7])
    with pytest.raises(UserError, match="needs texts of one length in a set of ciphertexts, and these are padded"):
        features_of(table, collate([texts[0], texts[1]]))
    with pytest.raises(UserError, match="reads texts alone, and these are pairs"):
        features_of(table, {**collate([texts[0]]), "token_type_ids": torch.tensor([[0, 0, 0, 1, 1]])})
    features_of(table, {**collate([texts[0]]), "token_type_ids": torch.zeros(1, 5)})
