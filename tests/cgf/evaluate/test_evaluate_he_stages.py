"""A host whose layers differ in heads and tokens, from training to a trace: a pooling ViT (timm's PiT) on digits."""

import json

import pytest
from digits_checkpoint import call

from cgf.report.trace import draw

HEADS, SAMPLES = (1, 2, 4), 3
PIT = [
    "model=vit_digits",
    "model.timm_name=pit_ti_224",
    "~model.options",
    "+model.options={img_size: 8, patch_size: 2, stride: 2, in_chans: 1, base_dims: [8, 8, 8], depth: [1, 1, 1], "
    "heads: [1, 2, 4]}",
]


@pytest.fixture(name="result", scope="module")
def result_fixture(tmp_path_factory):
    """(eval_he.py's result on the simulator, the plan) of a run that was planned."""
    folder = tmp_path_factory.mktemp("pit")
    run, out = f"{folder}/pit", folder / "he.json"
    for script, *options in (
        (
            "train",
            *PIT,
            "softmax=cgf",
            "train.epochs=0",
            "task.limit={train: 16, val: 8, test: 8}",
            f"outputs={folder}",
            "run=pit",
        ),
        ("plan", f"ckpt={run}", "samples=8", "pareto=false"),
        ("eval_he", f"ckpt={run}", "he=sim", "approx=plan", f"he.samples={SAMPLES}", f"out={out}"),
    ):
        done = call(script, *options)
        assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), json.loads(next((folder / "pit").glob("ckpt-*/plan.json")).read_text())


def test_every_stage_is_planned_and_encrypted_with_its_own_heads(result):
    told, plan = result
    assert [len(layer["heads"]) for layer in plan["layers"]] == list(HEADS)
    assert [len(layer["heads"]["max_error"]) for layer in told["layers"]] == list(HEADS)
    tokens = (17, 5, 2)  # 4 x 4, 2 x 2 and one patch, with the class token
    assert told["entries"] == SAMPLES * sum(h * t * t for h, t in zip(HEADS, tokens, strict=True))
    assert told["samples"] == SAMPLES and told["agreement"] == 1.0 and told["max_error"] < 1e-9
    assert plan["packing"]["columns"] == tokens[0] and plan["packing"]["rows"] % tokens[0] == 0


def test_the_trace_leaves_blank_what_a_layer_does_not_have(result):
    drawn = draw(result[0])
    assert drawn.startswith(b"\x89PNG") and len(drawn) > 5000
