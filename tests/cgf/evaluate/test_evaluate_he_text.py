"""eval_he.py on text hosts, from files to result: a small causal LLaMA with grouped queries, and a small BERT."""

import json

import numpy as np
import pytest
import torch
from conftest_models import small_bert, small_llama
from digits_checkpoint import call

from cgf.models.host import Host
from cgf.results import read_lines

HOSTS = {
    "llama": (small_llama, ["model=stories260k"], {"masked"}),
    "bert": (small_bert, ["model=minilm", "model.package=null"], {"paper", "masked"}),
}
HEADS, LAYERS, SAMPLES = 4, 3, 8
APPROX = {"method": "limit", "k": 6, "range": [-60.0, 4.0]}


@pytest.fixture(name="checkpoint", params=HOSTS)
def checkpoint_fixture(request, tmp_path, monkeypatch):
    """(checkpoint, data root, the circuits its rows take) of a host on twenty texts of 3 to 9 words."""
    monkeypatch.chdir(tmp_path)
    make, options, circuits = HOSTS[request.param]
    host = make()
    host.model.save_pretrained(tmp_path / "host")
    host.inputs.tokenizer.save_pretrained(tmp_path / "host")
    random, data = np.random.default_rng(0), tmp_path / "data" / "banking77"
    data.mkdir(parents=True)
    for split, count in (("train", 20), ("test", SAMPLES)):
        texts = [" ".join(f"w{w}" for w in random.integers(3, 50, random.integers(3, 10))) for _ in range(count)]
        lines = [f"{text},{'ab'[i % 2]}" for i, text in enumerate(texts)]
        (data / f"{split}.csv").write_text("\n".join(["text,category", *lines]) + "\n")
    (data / "categories.json").write_text(json.dumps(["a", "b"]))
    done = call(
        "train",
        *options,
        f"++model.path={tmp_path}/host",
        "task=banking77",
        f"data.root={tmp_path}/data",
        "softmax=cgf",
        "train.epochs=0",
        "run=text",
    )
    assert done.returncode == 0, done.stderr
    best = json.loads((tmp_path / "outputs" / "text" / "best.json").read_text())["checkpoint"]
    return tmp_path / "outputs" / "text" / best, tmp_path / "data", circuits


def clear_logits(folder, root):
    """Each sample by itself, so that nothing is padded, by the host's own forward with the same polynomial."""
    from cgf.config import task_maker
    from cgf.evaluate.open_checkpoint import open_checkpoint

    opened = open_checkpoint(str(folder), "test", task_maker(str(root)))
    opened.put_in_place(APPROX)
    opened.host.model.eval()
    found = {}
    for i in range(len(opened.dataset)):
        batch = opened.collate([opened.dataset[i]])
        batch.pop("labels")
        with torch.inference_mode():
            found[i] = opened.host.logits(batch)[0].tolist()
    return found, opened.dataset.lengths


def test_a_text_host_under_the_simulator_equals_its_clear_run(checkpoint):
    folder, root, circuits = checkpoint
    out = folder / "eval" / "text.json"
    done = call(
        "eval_he",
        f"ckpt={folder}",
        f"out={out}",
        "he=sim",
        "he.samples=null",
        "he.circuit=paper",
        f"data.root={root}",
        "approx=limit",
        f"approx.k={APPROX['k']}",
        f"approx.range={APPROX['range']}",
    )
    result = json.loads(out.read_text())
    expected, lengths = clear_logits(folder, root)
    found = {row["index"]: row["logits"] for row in read_lines(out.with_suffix(".jsonl")) if "index" in row}
    assert len(set(lengths)) > 2 and set(found) == set(expected) == set(range(SAMPLES))
    for i, logits in expected.items():
        np.testing.assert_allclose(found[i], logits, atol=2e-3, err_msg=f"sample {i}")
    assert result["agreement"] == 1.0 and result["max_error"] < 1e-6 and result["ruined"] == 0
    ran = result["circuits"]
    assert sum(ran.values()) == result["entries"]
    other = result["entries"] - ran.get("paper", 0)
    assert f"{other} of {result['entries']} entries went through another" in done.stdout
    # full rows of some lengths are packed with padding columns, which Algorithm 1 as written does not take
    assert set(ran) == circuits
    if "paper" in circuits:  # texts of one length go together: no text is padded
        assert result["entries"] == HEADS * LAYERS * sum(n * n for n in lengths)
    else:  # causal rows, of padded queries too
        assert result["entries"] >= HEADS * LAYERS * sum(n * (n + 1) // 2 for n in lengths) and result["batches"] < 4


@pytest.mark.parametrize(
    "script, arguments", [("eval_plain", ["samples=null"]), ("eval_he", ["he=sim", "he.samples=null"])]
)
def test_full_rows_are_never_padded(checkpoint, monkeypatch, script, arguments):
    """What the model is given, in the clear and under the simulator: padding only where rows are masked anyway."""
    folder, root, circuits = checkpoint
    seen, honest = [], Host.logits

    def spied(host, batch):
        seen.append(batch["attention_mask"])
        return honest(host, batch)

    monkeypatch.setattr(Host, "logits", spied)
    done = call(
        script,
        f"ckpt={folder}",
        *arguments,
        "approx=limit",
        f"approx.k={APPROX['k']}",
        f"approx.range={APPROX['range']}",
        f"data.root={root}",
        f"out={folder}/eval/rows.json",
    )
    assert done.returncode == 0, done.stderr
    assert max(len(mask) for mask in seen) > 1
    assert all(bool(mask.all()) for mask in seen) == ("paper" in circuits)
