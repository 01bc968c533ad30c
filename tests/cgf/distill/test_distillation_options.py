"""Hidden-state and attention matching, staged replacement: each does what it says, and is off by default."""

import json

import numpy as np
import pytest
import torch
from digits_checkpoint import call
from resealed import reseal
from safetensors.torch import load_file, save_file

from cgf.config import build, compose
from cgf.distill.curriculum import Curriculum, LayerStage
from cgf.distill.matching import Matching, WeightsTap, layers_of
from cgf.distill.range_control import RangeControl
from cgf.distill.teacher import softmaxes_of
from cgf.errors import UserError
from cgf.models.install import install, install_copies, installed_softmaxes
from cgf.softmax.bpmax import BPMax
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact
from cgf.softmax.published.gaussian import GaussianKernel

SMALL = ["train.batch_size=16", "task.limit={train: 48, val: 16, test: 16}", "train.precision=no"]


def digits(seed=0, softmax=None):
    torch.manual_seed(seed)
    host = build(compose("train").model, num_classes=10)
    return host, install_copies(host.model, softmax or CGF())


def images():
    return {"pixel_values": torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(5))}


def passed(matching, student, teacher):
    matching.start()
    with torch.no_grad():
        teacher.forward(teacher.model, images())
    student.forward(student.model, images())
    return matching.take()


def test_matching_is_the_error_layer_by_layer():
    (student, own), (teacher, theirs) = digits(), digits(1, Exact())
    states, weights = {}, {}
    for name, host, slots in (("student", student, own), ("teacher", teacher, theirs)):
        states[name], weights[name] = [], []
        for block in host.model.blocks:
            block.register_forward_hook(lambda m, i, out, to=states[name]: to.append(out.detach().numpy().copy()))
        for slot in slots:
            before = slot.weights
            slot.weights = lambda s, v=None, before=before, to=weights[name]: (
                to.append(before(s, v).detach().numpy().copy()),
                before(s, v),
            )[1]
    matching = Matching(hidden=0.7, attention=0.3)
    matching.watch(student.model, own, teacher.model, theirs)
    got = passed(matching, student, teacher)
    hidden = np.mean([((a - b) ** 2).mean() for a, b in zip(states["student"], states["teacher"], strict=True)])
    attention = np.mean(
        [((a - b) ** 2).sum(-1).mean() for a, b in zip(weights["student"], weights["teacher"], strict=True)]
    )
    assert len(states["student"]) == len(weights["teacher"]) == 4 and hidden > 0 and attention > 0
    assert float(got.detach()) == pytest.approx(0.7 * hidden + 0.3 * attention, rel=1e-5)
    got.backward()
    assert student.model.blocks[0].attn.qkv.weight.grad.abs().sum() > 0
    assert all(p.grad is None for p in teacher.model.parameters())


@pytest.mark.parametrize("option", ["hidden", "attention"])
def test_a_teacher_that_agrees_adds_nothing(option):
    (student, own), (teacher, theirs) = digits(0, Exact()), digits(0, Exact())
    for host in (student, teacher):
        host.model.eval()
    matching = Matching(**{option: 1.0})
    matching.watch(student.model, own, teacher.model, theirs)
    assert float(passed(matching, student, teacher)) == 0.0
    with torch.no_grad():
        student.model.blocks[1].attn.qkv.weight.mul_(1.5)
    assert float(passed(matching, student, teacher)) > 1e-8


def test_a_pass_outside_of_a_step_leaves_nothing():
    """A validation keeps no hidden states and weights of all its batches, and what follows is matched as before."""
    (student, own), (teacher, theirs) = digits(), digits(1, Exact())
    matching = Matching(hidden=0.7, attention=0.3)
    matching.watch(student.model, own, teacher.model, theirs)
    first = passed(matching, student, teacher)
    for _ in range(3):
        student.forward(student.model, images())
    assert [kept for side in matching._taken.values() for kept in side] == [[], [], [], []]
    assert float(passed(matching, student, teacher)) == float(first)


def test_padding_counts_in_neither():
    layers = [torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)) for _ in range(2)]
    matching = Matching(hidden=1.0)
    matching.watch(layers[0], [1, 2], layers[1], [1, 2])
    x, padding = torch.randn(3, 4, 2), torch.tensor([[1, 1, 0, 0]]).expand(3, 4)
    results = []
    for junk in (0.0, 1e3):
        matching.start()
        at = torch.where(padding[..., None].bool(), x, torch.tensor(junk))
        for model in layers:
            model(at)
        results.append(float(matching.take(padding)))
    assert results[0] == pytest.approx(results[1], rel=1e-6) and results[0] > 0


def test_what_is_logged_of_a_batch_in_pieces_is_of_the_whole_batch(tmp_path):
    seen = {}
    for count in (1, 4):
        options = ["softmax=cgf", "penalty.weight=0.1", "penalty.bound=2.83", "train.max_steps=1", "train.log_every=1"]
        ended = call("train", *SMALL, *options, f"train.accumulate={count}", f"outputs={tmp_path}", f"run={count}")
        assert ended.returncode == 0, ended.stderr
        rows = [json.loads(line) for line in (tmp_path / str(count) / "metrics.jsonl").read_text().splitlines()]
        seen[count] = [row for row in rows if "range_min" in row]
    assert len(seen[1]) == len(seen[4]) == 1
    for whole, pieces in zip(seen[1], seen[4], strict=True):
        for name in ("range_min", "range_max", "range_outside", "row_sum_min", "row_sum_max", "row_sum_outside"):
            assert pieces[name] == pytest.approx(whole[name], rel=1e-3, abs=1e-6), name
        assert 0 < whole["range_outside"] < 1


def test_off_unless_asked_for():
    host, slots = digits()
    matching, curriculum = Matching(), Curriculum()
    matching.watch(host.model, slots, None, [])
    assert curriculum.watch(slots) is slots and matching.take() is None
    assert all(a is b for a, b in zip(installed_softmaxes(host.model), slots, strict=True))
    assert not any(block._forward_hooks for block in host.model.blocks)
    cfg = compose("train", ["distill=kd"])
    assert (cfg.distill.hidden, cfg.distill.attention, cfg.train.staged, cfg.train.label_smoothing) == (0, 0, 0, 0)


def test_what_is_matched_are_the_weights_of_the_stage_and_the_flags_reach_the_softmax():
    (student, own), (teacher, theirs) = digits(), digits(1, Exact())
    curriculum, matching = Curriculum(1.0), Matching(attention=1.0)
    install(student.model, (stages := curriculum.watch(own)).__getitem__)
    matching.watch(student.model, stages, teacher.model, theirs)
    slots = installed_softmaxes(student.model)
    assert [(type(s), type(s.inner), s.softmax) for s in slots] == [
        (WeightsTap, LayerStage, softmax) for softmax in own
    ]
    curriculum.at(0.0)
    student.model.train()
    passed(matching, student, teacher)
    assert all(softmax.training for softmax in own) and [slot.layer for slot in slots] == [0, 1, 2, 3]
    sums = [slot.weights(slot.scores(*torch.randn(2, 1, 2, 5, 3) * 3, 1.0)).sum(-1) for slot in slots]
    exact = [torch.allclose(s, torch.ones_like(s), atol=1e-5) for s in sums]
    assert exact == [False, True, True, True]  # the first layer is replaced, and CGF's rows do not sum to 1
    student.model.eval()
    student.forward(student.model, images())
    assert not any(softmax.training for softmax in own)


def test_matching_refuses_what_does_not_match():
    (student, own), (teacher, theirs) = digits(), digits(1)
    with pytest.raises(UserError, match=r"need a teacher, and distill\.teacher is null"):
        Matching(hidden=1.0).watch(student.model, own, None, [])
    with pytest.raises(UserError, match=r"as many layers as the student \(4\), and it has 3"):
        Matching(attention=1.0).watch(student.model, own, teacher.model, theirs[:3])
    with pytest.raises(UserError, match="weights of at least 0"):
        Matching(hidden=-1.0)
    with pytest.raises(UserError, match="no list of 9 layers"):
        layers_of(student.model, 9)


def test_a_plain_teacher_gets_exact_softmaxes_that_compute_the_same():
    torch.manual_seed(0)
    host = build(compose("train").model, num_classes=10)
    host.model.eval()
    before = host.forward(host.model, images())
    assert [s.name for s in softmaxes_of(host)] == ["exact"] * 4
    torch.testing.assert_close(host.forward(host.model, images()), before)


def test_layers_are_replaced_one_after_another():
    curriculum = Curriculum(0.5)
    curriculum.watch([CGF() for _ in range(4)])
    counts = [curriculum.at(step / 12) for step in range(13)]
    assert counts == [1, 1, 2, 2, 3, 3, 4, 4, 4, 4, 4, 4, 4]
    with pytest.raises(UserError, match="share of the steps from 0 to 1"):
        Curriculum(1.5)


@pytest.mark.parametrize("make", [CGF, GaussianKernel, lambda: BPMax(p=3)], ids=["cgf", "gaussian", "bpmax"])
def test_a_layer_that_waits_is_exact_in_training_and_replaced_in_evaluation(make):
    q, k = torch.randn(2, 1, 2, 5, 3, generator=torch.Generator().manual_seed(1))
    curriculum = Curriculum(1.0)
    slots = curriculum.watch([make(), make()])

    def run(slot):
        return slot.weights(slot.scores(q, k, 0.5))

    for slot in slots:
        slot.training = True
    curriculum.at(0.0)
    plain = ((q @ k.transpose(-2, -1)) * 0.5).softmax(-1)
    reference = make()
    reference.training = True
    wanted = reference.weights(reference.scores(q, k, 0.5))
    torch.testing.assert_close(run(slots[1]), plain)
    torch.testing.assert_close(run(slots[0]), wanted)
    if reference.tensors():  # it measures while it waits
        torch.testing.assert_close(slots[1].softmax.denominator, reference.denominator)
    curriculum.at(1.0)
    torch.testing.assert_close(run(slots[1]), wanted)
    curriculum.at(0.0)
    slots[1].training = reference.training = False
    torch.testing.assert_close(run(slots[1]), reference.weights(reference.scores(q, k, 0.5)))


@pytest.mark.parametrize("make", [CGF, GaussianKernel], ids=["cgf", "gaussian"])
def test_a_layer_that_waits_shows_the_exponent_it_will_have(make):
    """A penalty draws its scores into the range before it is replaced: from its own scores, with their gradient."""
    seen = []
    for waits in (False, True):
        query, key = torch.randn(2, 1, 2, 5, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
        softmaxes = [make(), make()]
        curriculum, control = Curriculum(1.0), RangeControl(weight=1.0, bound=0.1, high=0.1)
        control.watch(softmaxes)
        slots = curriculum.watch(softmaxes)
        curriculum.at(0.0 if waits else 1.0)
        slots[1].training = True
        slots[1].weights(slots[1].scores(query, key, 0.5))
        penalty = control.take()
        seen.append((penalty.detach(), *torch.autograd.grad(penalty, (query, key))))
    torch.testing.assert_close(seen[1], seen[0])
    assert seen[0][0] > 0 and seen[0][1].abs().max() > 0


def losses(folder):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [record["loss"] for record in records if "loss" in record]


def sharpen(checkpoint):
    """Larger queries and keys: random ones give rows so near uniform that CGF and softmax agree bit by bit."""
    weights = load_file(checkpoint / "model.safetensors")
    for name, value in weights.items():
        if "qkv.weight" in name:
            value *= 20.0
    save_file(weights, checkpoint / "model.safetensors")
    reseal(checkpoint)


def test_a_run_with_each_option(tmp_path):
    common = ["distill=kd", f"ckpt={tmp_path}/teacher", f"outputs={tmp_path}", "train.max_steps=4", *SMALL]
    assert (
        call("train", "softmax=exact", "run=teacher", f"outputs={tmp_path}", "train.max_steps=2", *SMALL).returncode
        == 0
    )
    sharpen(tmp_path / "teacher" / "ckpt-2")
    found = {}
    options = {
        "plain": [],
        "hidden": ["distill.hidden=1"],
        "attention": ["distill.attention=1"],
        "staged": ["train.staged=1"],
        "smooth": ["train.label_smoothing=0.2"],
    }
    for name, option in options.items():
        done = call("train", f"run={name}", *option, *common)
        assert done.returncode == 0, done.stderr
        found[name] = losses(tmp_path / name)
    assert all(len(v) == 4 for v in found.values())
    assert all(found[n][0] > found["plain"][0] for n in ("hidden", "attention"))
    assert found["staged"][0] != found["plain"][0] and found["smooth"][0] != found["plain"][0]
