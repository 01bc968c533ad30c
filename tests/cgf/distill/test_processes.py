"""train.py in two processes on CPU: each sample once an epoch, one run on disk, the numbers of one process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from digits_checkpoint import ENVIRONMENT, call, spawn
from PIL import Image
from safetensors.torch import load_file
from transformers import CLIPConfig, CLIPForImageClassification, CLIPImageProcessor

from cgf.distill.processes import WORKS, refuse_single
from cgf.distill.range_control import together
from cgf.errors import UserError
from cgf.softmax.bpmax import BPMax, CalibratedBPMax

gloo = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch was built without gloo: two processes on CPU cannot speak to each other",
)
# batches of 8, 8, 8 and a single sample, in an order of their own each epoch
SMALL = [
    "task.limit={train: 25, val: 21}",
    "task.augment=false",
    "train.batch_size=8",
    "train.eval_batch_size=8",
    "train.lr=1e-3",
    "train.epochs=2",
    "train.log_every=2",
    "train.precision=no",
    "model.options.depth=2",
]
DROPOUT = [
    "softmax=cgf",
    "+model.options.proj_drop_rate=0.2",
    "train.save_every=3",
    "penalty.weight=0.1",
    "penalty.bound=2",
]
PLAIN = ["softmax=cgf_chain", "train.staged=0.8", "train.accumulate=2"]
BPMAX = ["softmax=bpmax_calibrated", "train.epochs=1", "train.patience=1"]


OWN = [*SMALL[3:-1], "softmax=cgf", "task.val_fraction=0.5", "task.test_fraction=0.2", "tune=full"]


def images(folder):
    """Thirty images of two classes."""
    noise = np.random.default_rng(0)
    for number in range(30):
        place = folder / "images" / "train" / ("dark", "bright")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise.integers(0, 128, (8, 8, 3), np.uint8) + np.uint8(number % 2 * 100)).save(
            place / f"{number}.png"
        )
    return folder / "images"


def clip(folder):
    """A classifier of images whose last norm stands behind a token that it does not use: no gradient reaches it."""
    part = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = CLIPConfig(text_config=part, vision_config={**part, "image_size": 8, "patch_size": 4}, num_labels=2)
    CLIPForImageClassification(config).save_pretrained(folder / "clip-weights")
    size = {"height": 8, "width": 8}
    CLIPImageProcessor(size={"shortest_edge": 8}, crop_size=size).save_pretrained(folder / "clip-weights")
    return folder / "clip-weights"


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Runs of two processes: {name: [what each noted]}, and their outputs' folder."""
    folder = tmp_path_factory.mktemp("two")
    settings = [
        ("unbroken", DROPOUT, None),
        ("broken", DROPOUT, 3),
        ("broken", DROPOUT, None),
        ("plain", PLAIN, None),
        ("bpmax", BPMAX, None),
        ("clip", ["task=image_folder", f"task.root={images(folder)}", "model=hf", f"model.path={clip(folder)}"], None),
    ]
    runs = [
        {
            "name": "torn" if stop else name,
            "stop": stop,
            "arguments": [*(OWN if name == "clip" else SMALL), *more, f"outputs={folder}", f"run={name}"],
        }
        for name, more, stop in settings
    ]
    (folder / "runs.json").write_text(json.dumps(runs))
    line = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node",
        "2",
        str(Path(__file__).with_name("process_driver.py")),
        str(folder),
    ]
    environment = {**os.environ, **ENVIRONMENT, "CUDA_VISIBLE_DEVICES": ""}  # and no word to accelerate
    environment.pop("ACCELERATE_USE_CPU", None)
    done = subprocess.run(line, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    notes = {
        row["name"]: [json.loads((folder / f"{row['name']}-{rank}.json").read_text()) for rank in (0, 1)]
        for row in runs
    }
    return folder, notes, done.stdout


def logged(run):
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [r for r in records if "loss" in r], [r for r in records if "val_loss" in r]


@gloo
@pytest.mark.alone
def test_each_sample_is_seen_once_an_epoch(two):
    _, notes, _ = two
    for name in ("unbroken", "plain", "bpmax"):
        ranks = notes[name]
        assert [r["count"] for r in ranks] == [2, 2] and len(set(ranks[0]["samples"])) == 25
        for epoch in ("0",) if name == "bpmax" else ("0", "1"):
            shown = [image for r in ranks for image in r["seen"][epoch]]
            assert sorted(shown) == sorted(ranks[0]["samples"])
        assert all(a + b == 1 for a, b in zip(ranks[0]["shares"], ranks[1]["shares"], strict=True))
        assert {0.5, 1.0} == set(ranks[0]["shares"])


@gloo
@pytest.mark.alone
def test_epochs_are_those_of_the_whole_batches_and_weights_are_shared(two):
    folder, notes, said = two
    for name, steps, epochs in (("unbroken", 8, 2), ("plain", 8, 2), ("bpmax", 4, 1)):
        first, second = notes[name]
        assert first["weights"] == second["weights"]
        progress = [{k: v for k, v in r["progress"].items() if k != "seconds"} for r in (first, second)]
        assert progress[0] == progress[1] and progress[0]["finished"]
        assert (progress[0]["step"], progress[0]["epoch"], progress[0]["position"]) == (steps, epochs, 0)
        losses, validations = logged(folder / name)
        assert [r["step"] for r in losses] == list(range(1, steps + 1)) and len(validations) == epochs
        assert (folder / name / f"ckpt-{steps}" / "run.json").is_file() and not list((folder / name).glob(".*"))
    assert said.count(f"best validation accuracy {notes['plain'][0]['progress']['best']:.4f}: {folder / 'plain'}") == 1


@gloo
@pytest.mark.alone
def test_a_torn_run_goes_on_as_an_unbroken_one(two):
    folder, notes, _ = two
    assert notes["torn"][0]["progress"]["step"] == 3 and notes["torn"][0]["progress"]["position"] == 3
    assert logged(folder / "broken") == logged(folder / "unbroken")
    assert {r["weights"] for name in ("broken", "unbroken") for r in notes[name]} == {notes["broken"][0]["weights"]}
    assert [len(r["shares"]) for r in notes["broken"]] == [5, 5]


@gloo
@pytest.mark.alone
def test_a_host_some_of_whose_weights_get_no_gradient(two):
    folder, notes, _ = two
    first, second = notes["clip"]
    assert first["count"] == 2 and first["weights"] == second["weights"] and first["progress"]["finished"]
    before, after = (
        load_file(path)
        for path in (
            folder / "clip-weights" / "model.safetensors",
            folder / "clip" / f"ckpt-{first['progress']['step']}" / "model.safetensors",
        )
    )
    moved = {name for name in before if name in after and not torch.equal(before[name], after[name])}
    norm = {f"vision_model.post_layernorm.{part}" for part in ("weight", "bias")}
    assert norm <= set(after) and not moved & norm and "vision_model.embeddings.class_embedding" in moved


@gloo
@pytest.mark.alone
def test_two_processes_train_what_one_does(two, tmp_path):
    folder, _, _ = two
    assert call("train", *SMALL, *PLAIN, f"outputs={tmp_path}", "run=plain").returncode == 0
    one, both = logged(tmp_path / "plain"), logged(folder / "plain")
    for own, theirs in zip([*one[0], *one[1]], [*both[0], *both[1]], strict=True):
        assert own == pytest.approx(theirs, rel=1e-3)
    ends = [load_file(f / "plain" / "ckpt-8" / "model.safetensors") for f in (tmp_path, folder)]
    assert ends[0].keys() == ends[1].keys()
    moved = max(float((ends[0][k] - ends[1][k]).abs().max()) for k in ends[0])
    assert moved < 2e-3  # Adam: a coordinate whose gradient is nearly 0 may turn, by a rate a step at most


def test_processes_that_would_not_know_of_each_other_are_refused(tmp_path):
    """What accelerate launch --cpu --num_processes 2 starts, and one process of a launch that tells no rank."""
    launched = {
        "ACCELERATE_USE_CPU": "True",
        "ACCELERATE_MIXED_PRECISION": "no",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }
    with pytest.raises(UserError, match=r"starts only one where there are no GPUs .*: torchrun --nproc"):
        refuse_single(launched)
    for fine in (
        {},
        {"MASTER_PORT": "29500"},
        {"ACCELERATE_MIXED_PRECISION": "no"},
        {**launched, "LOCAL_RANK": "0"},
        {**launched, "PMI_SIZE": "2"},
    ):
        refuse_single(fine)
    done = spawn("train", *SMALL, "run=alone", cwd=tmp_path, WORLD_SIZE="2", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2 and done.stderr == (
        f"error: 2 processes were started and would not know of each other: {WORKS}\n"
    )
    assert not list(tmp_path.iterdir())


def test_reports_of_shares_are_one_report():
    reports = [
        {"range_min": -3.0, "range_max": 1.0, "range_outside": 0.5, "range_penalty": 2.0},
        {"range_min": -1.0, "range_max": 4.0, "range_outside": 0.1, "range_penalty": 1.0},
    ]
    assert together(reports, [0.75, 0.25]) == {
        "range_min": -3.0,
        "range_max": 4.0,
        "range_outside": pytest.approx(0.4),
        "range_penalty": pytest.approx(1.75),
    }
    assert together(reports[:1], [1.0]) == reports[0]


@pytest.mark.parametrize("kind", [BPMax, CalibratedBPMax])
def test_denominators_of_shares_are_those_of_the_whole_batch(kind):
    torch.manual_seed(0)
    before, scores = torch.randn(6, 3, 5, 5), torch.randn(5, 3, 4, 4)

    def after(part):
        softmax = kind(p=3, c=4.0)
        softmax.training = True
        softmax.weights(before)
        softmax.weights(part)
        return softmax

    def pooled(*parts):
        softmaxes, shares = [after(part) for part in parts], [0.6, 0.4, 0.0]
        found = [softmax.measured() for softmax in softmaxes]
        for softmax in softmaxes:
            softmax.pool(found, shares)
        ends = [softmax.denominator.numpy() for softmax in softmaxes]
        assert all(np.array_equal(ends[0], end) for end in ends[1:]) and ends[0].shape == (3, 5, 1)
        return ends[0]

    stand_in = 9 * scores[:1, :, :2, :2]  # share 0: it must not count
    whole, long = after(scores).denominator.numpy(), after(scores[:3]).denominator.numpy()
    np.testing.assert_allclose(pooled(scores[:3], scores[3:], stand_in), whole, rtol=1e-6)
    short = pooled(scores[:3], scores[3:, :, :2, :2], stand_in)  # one share reaches 4 positions, the other 2
    np.testing.assert_allclose(short[:, 2:], long[:, 2:], rtol=1e-6)
    assert kind is BPMax or not np.allclose(short[:, :2], long[:, :2], rtol=1e-3)
