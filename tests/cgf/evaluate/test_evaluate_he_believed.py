"""Results that are not to be believed are red, and numbers of other weights, lines or engines are not handed on."""

import json

import pytest
import torch
from resealed import reseal
from safetensors.torch import load_file, save_file
from test_evaluate_he import call, evaluate

from cgf.checkpoint import read
from cgf.results import read_json

SIM = ["he=sim", "he.samples=4"]


def widened(checkpoint):
    """The checkpoint's weights of queries and keys twice as large: its scores leave every domain."""
    path = checkpoint / "model.safetensors"
    tensors = load_file(path)
    grown = {k: v * (2.0 if "qkv.weight" in k else 1.0) for k, v in tensors.items()}
    assert any("qkv.weight" in k for k in tensors)
    save_file(grown, path)
    reseal(checkpoint)


@pytest.mark.parametrize("softmax", ["relu", "sigmoid"])
def test_scores_beyond_a_polynomial_that_is_no_exponential_are_red(checkpoint, softmax):
    widened(checkpoint)
    out = checkpoint / "eval" / "red.json"
    done = call("eval_he", f"ckpt={checkpoint}", f"out={out}", *SIM, f"softmax={softmax}", "approx=exact")
    result = read_json(out)
    assert done.returncode == 1 and result["green"] is False
    assert result["beyond_guard"] > 0 and 0 < result["outside_domain"] < 1
    assert result["red"][0].startswith(f"{result['beyond_guard']} entries lay beyond") and " layer " in result["red"][0]
    assert [line.removeprefix("error: ") for line in done.stderr.splitlines() if "error" in line[:6]] == result["red"]
    assert f"was trained with softmax 'cgf', and '{softmax}' stands in its place untrained" in done.stderr
    assert result["trained_with"] == "cgf" and result["replaced"]
    out = out.with_name("plain.json")
    plain = call("eval_plain", f"ckpt={checkpoint}", f"out={out}", "samples=4", f"softmax={softmax}", "approx=exact")
    assert plain.returncode == 1 and read_json(out)["beyond_guard"] > 0


def test_a_run_that_is_right_is_green_and_says_that_nothing_was_encrypted(checkpoint):
    result, _ = evaluate(checkpoint, *SIM)
    assert result["green"] is True and result["red"] == [] and (result["wrong"], result["inexact"]) == (0, 0)
    assert (result["engine"], result["encrypted"]) == ("sim", False)
    assert result["scope"] == "softmax simulated, nothing encrypted"
    assert result["plan_checked"] == "coefficients and checkpoint" and not result["replaced"]
    refused = call("eval_he", f"ckpt={checkpoint}", *SIM, "he.engine=desilo")
    assert refused.returncode == 2 and "he.engine must name the engine of he.owner, sim, and 'desilo'" in refused.stderr
    refused = call("eval_he", f"ckpt={checkpoint}", *SIM, "he.agreement=1.5")
    assert refused.returncode == 2 and "he.agreement must be a share of the samples" in refused.stderr


def test_lines_of_other_weights_are_not_handed_on(checkpoint):
    """The digest is of the files that a result depends on, each of them."""
    _, before = evaluate(checkpoint, *SIM)
    digests, first = {before[0]["digest"]}, read(checkpoint).digest
    assert first == read(checkpoint).digest
    plan = read_json(checkpoint / "plan.json")
    (checkpoint / "plan.json").write_text(
        json.dumps({k: v for k, v in plan.items() if k not in ("checkpoint", "seal")})
    )
    path = checkpoint / "model.safetensors"
    tensors = load_file(path)
    swapped = {k: torch.flip(v, [0]) if k.endswith("head.weight") else v for k, v in tensors.items()}
    save_file(swapped, path)
    told = call("eval_he", f"ckpt={checkpoint}", f"out={checkpoint}/eval/result.json", *SIM)
    assert told.returncode == 2 and "model.safetensors was changed or damaged after the checkpoint" in told.stderr
    reseal(checkpoint)
    told = call("eval_he", f"ckpt={checkpoint}", f"out={checkpoint}/eval/result.json", *SIM)
    assert told.returncode == 2 and "result.json holds another result" in told.stderr
    result, after = evaluate(checkpoint, *SIM, name="swapped")
    digests.add(after[0]["digest"])
    assert {row["logits"] is None for row in after if "index" in row} == {False}
    assert after[0]["logits"] != before[0]["logits"] and len(digests) == 2
    assert result["checkpoint_sha256"] == read(checkpoint).digest != first
    old = read(checkpoint).digest
    (checkpoint / "softmax.json").write_text((checkpoint / "softmax.json").read_text() + "\n")
    reseal(checkpoint)
    assert read(checkpoint).digest != old
    old = read(checkpoint).digest
    reseal(checkpoint, time_utc="another")
    assert read(checkpoint).digest != old


def test_a_line_that_was_edited_is_refused_by_its_number(checkpoint):
    result, lines = evaluate(checkpoint, *SIM)
    path = checkpoint / "eval" / "result.jsonl"
    lines[2]["prediction"] = lines[2]["label"] = 9
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = call("eval_he", f"ckpt={checkpoint}", f"out={checkpoint}/eval/result.json", *SIM)
    assert done.returncode == 2 and "result.jsonl line 3 was changed after it was written" in done.stderr
    told = read_json(checkpoint / "eval" / "result.json")
    assert told["lines_sha256"] == result["lines_sha256"] and told["digest"] == lines[0]["digest"]


@pytest.mark.parametrize(
    "field, value, says",
    [("guard", [-4000.0, 200.0], "states a guard of"), ("domain", [-4000.0, 200.0], "states an error of")],
)
def test_a_checkpoints_own_exponential_is_held_against_its_coefficients(tmp_path, field, value, says):
    from cgf.checkpoint import save
    from cgf.errors import UserError
    from cgf.softmax.chain_cgf import ChainCGF

    run = {"model": "m", "task": "digits", "num_classes": 10, "family": "vit", "source": {}, "config": {}}
    folder = save(tmp_path / "ckpt-1", {"w": torch.zeros(1)}, [ChainCGF(k=3, trainable="none")], run)
    read(folder)
    data = json.loads((folder / "softmax.json").read_text())
    data["exponential"][field] = value
    (folder / "softmax.json").write_text(json.dumps(data))
    reseal(folder)
    with pytest.raises(UserError, match=rf"softmax\.json {says}"):
        read(folder)
    del data["exponential"]["domain"]
    (folder / "softmax.json").write_text(json.dumps(data))
    reseal(folder)
    with pytest.raises(UserError, match=r"softmax\.json needs the domain and the guard of its chain, and has none"):
        read(folder)
