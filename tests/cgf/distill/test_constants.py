"""A softmax's own constants: trained beside the host, kept in checkpoints, read by both evaluations."""

import json

import pytest
import torch
from digits_checkpoint import call
from resealed import reseal, reseal_softmax
from safetensors.torch import load_file
from test_trainer import Host, trainer
from torch import nn

from cgf.approx.exponential_json import exponential_from_json
from cgf.approx.fit import chain, with_fit
from cgf.checkpoint import read
from cgf.errors import UserError
from cgf.models.load import from_checkpoint
from cgf.results import read_lines
from cgf.softmax.chain_cgf import ChainCGF

FIT = chain(-18.0, 1.2, 3)
SMALL = (
    "task.limit={train: 64, val: 32, test: 16}",
    "train.batch_size=16",
    "train.log_every=1000",
    "train.lr=1e-3",
    "model.options.depth=2",
)


# -- the training loop ----------------------------------------------------------------------------------


class Rows(Host):
    """Logits are the attention weights of a row of two scores; the scores come from a linear layer."""

    def __init__(self, softmax, frozen=True):
        torch.manual_seed(1)
        super().__init__(nn.Linear(3, 2))
        self.model.requires_grad_(not frozen)
        self.softmax = softmax

    def forward(self, model, batch):
        self.softmax.training = model.training
        weights = self.softmax.weights(model(batch["x"])[:, None, None])[:, 0, 0]
        return weights * torch.tensor([4.0, 2.0])  # unequal, else a sum to both would change no loss


def small(tmp_path, softmax=None, frozen=True, **options):
    softmax = softmax or ChainCGF(domain=[-18.0, 1.2])
    student = Rows(softmax, frozen)
    return trainer(tmp_path, student, softmaxes=[softmax], **options)[0], softmax, student


def moved(softmax):
    beta, constants = softmax.parameters()
    start = torch.tensor([FIT.b, *FIT.constants], dtype=torch.float64)
    return torch.cat([beta.detach().reshape(1), constants.detach()]) - start


def test_steps_move_the_constants_and_lower_the_loss(tmp_path):
    made, softmax, student = small(tmp_path, epochs=8, lr=0.02)
    before = student.model.weight.clone()
    made.fit()
    losses = [row["loss"] for row in read_lines(tmp_path / "run" / "metrics.jsonl") if "loss" in row]
    assert sum(losses[-3:]) < sum(losses[:3]) - 0.05
    assert (moved(softmax) != 0).all() and torch.equal(student.model.weight, before)


@pytest.mark.parametrize("scale", [0.0, 0.5, 3.0])
def test_they_learn_at_a_rate_of_their_own(scale, tmp_path):
    """AdamW's first step is its learning rate long, whatever the gradient."""
    made, softmax, student = small(
        tmp_path,
        frozen=False,
        max_steps=1,
        softmax_lr=scale,
        lr=0.01,
        grad_norm=0,
        schedule="constant",
        weight_decay=0.0,
    )
    before = student.model.weight.detach().clone()
    made.fit()
    assert moved(softmax).abs().tolist() == pytest.approx([0.01 * scale] * 4, rel=1e-4, abs=1e-12)
    step = (student.model.weight.detach() - before).abs()
    torch.testing.assert_close(step, torch.full((2, 3), 0.01), rtol=1e-3, atol=0)


def test_no_decay_and_a_clipping_of_their_own(tmp_path):
    made, softmax, student = small(tmp_path, frozen=False, max_steps=1, grad_norm=1e-5)
    norms = []

    def note(optimizer, *_):
        norms.extend(
            torch.cat([p.grad.reshape(-1).double() for p in ps]).norm()
            for ps in (student.model.parameters(), softmax.parameters())
        )

    made.optimizer.optimizer.register_step_pre_hook(note)
    made.fit()
    assert [float(n) for n in norms] == pytest.approx([1e-5, 1e-5], rel=1e-2)
    group = made.optimizer.param_groups[-1]
    assert group["weight_decay"] == 0.0 and {id(p) for p in group["params"]} == {id(p) for p in softmax.parameters()}
    assert not any("constants" in name for name in student.model.state_dict())


def test_a_bad_multiplier_is_one_sentence(tmp_path):
    for bad in (-1.0, "fast", float("inf")):
        with pytest.raises(UserError, match=r"train\.softmax_lr must be a number of at least 0"):
            small(tmp_path, softmax_lr=bad)


# -- train.py, its checkpoints, both evaluations --------------------------------------------------------


def train(outputs, name, *arguments):
    done = call("train", *SMALL, f"outputs={outputs}", f"run={name}", *arguments)
    assert done.returncode == 0, done.stderr
    return outputs / name


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    return train(tmp_path_factory.mktemp("teacher"), "teacher", "softmax=exact", "train.max_steps=4")


def kept(run):
    tensors = load_file(read(run).path / "model.safetensors")
    return {k: v for k, v in tensors.items() if k.startswith("softmax.")}, set(tensors)


@pytest.mark.parametrize("tune", ["full", "attention", "lora"])
@pytest.mark.parametrize("trainable", ["layer", "head"])
def test_constants_are_trained_whatever_else_is(tune, trainable, teacher, tmp_path):
    run = train(
        tmp_path,
        "run",
        "softmax=cgf_chain",
        f"softmax.trainable={trainable}",
        f"tune={tune}",
        f"ckpt={teacher}",
        "train.max_steps=2",
    )
    own, keys = kept(run)
    assert set(own) == {f"softmax.{layer}.{n}" for layer in (0, 1) for n in ("alpha", "beta", "constants")}
    assert keys - set(own) == set(load_file(read(teacher).path / "model.safetensors"))
    for layer in (0, 1):
        assert float(own[f"softmax.{layer}.alpha"]) == FIT.a
        assert own[f"softmax.{layer}.beta"].dtype == torch.float64
        assert own[f"softmax.{layer}.beta"].numel() == (4 if trainable == "head" else 1)
        assert (own[f"softmax.{layer}.beta"] != FIT.b).all()
        first = torch.tensor(FIT.constants, dtype=torch.float64)[:, None]
        assert (own[f"softmax.{layer}.constants"].reshape(3, -1) != first).all()
    _, softmaxes = from_checkpoint(read(run))
    for layer, softmax in enumerate(softmaxes):
        found = softmax.tensors()
        assert all(torch.equal(found[n], own[f"softmax.{layer}.{n}"]) for n in found)
    told = json.loads((read(run).path / "softmax.json").read_text())["exponentials"]
    assert [e["beta"] for e in told] == [s.exponential.to_json()["beta"] for s in softmaxes]


def test_the_best_checkpoint_comes_with_its_own_constants(teacher, tmp_path):
    run = train(tmp_path, "run", "softmax=cgf_chain", f"ckpt={teacher}", "train.epochs=2", "train.save_every=3")
    checkpoints = sorted(p.name for p in run.glob("ckpt-*"))
    for name in checkpoints:
        own, _ = kept(run / name)
        _, softmaxes = from_checkpoint(read(run / name))
        assert softmaxes[1].exponential.b == float(own["softmax.1.beta"])
        assert list(softmaxes[1].exponential.constants) == own["softmax.1.constants"].tolist()


@pytest.mark.parametrize("variant", ["bpmax", "bpmax_calibrated"])
def test_denominators_go_on_from_those_of_a_checkpoint(variant, teacher, tmp_path):
    """Saved as it stands, a run of BPMax is what it was; without a training that measured it is refused at once."""
    first = train(tmp_path, "first", f"softmax={variant}", f"ckpt={teacher}", "train.max_steps=2")
    same = train(tmp_path, "same", f"softmax={variant}", f"ckpt={first}", "train.epochs=0")
    assert len(kept(first)[0]) == 2 and all(torch.equal(v, kept(same)[0][k]) for k, v in kept(first)[0].items())
    told = []
    for run in (first, same):
        assert call("eval_plain", f"ckpt={run}", f"out={tmp_path / 'out.json'}").returncode == 0
        told.append(json.loads((tmp_path / "out.json").read_text())["loss"])
        (tmp_path / "out.json").unlink()
    assert told[0] == told[1]
    for start in ([], [f"ckpt={teacher}"], [f"ckpt={first}", "softmax.p=3"]):
        fresh = (f"outputs={tmp_path}", "run=fresh", f"softmax={variant}", "train.epochs=0", *start)
        done = call("train", *SMALL, *fresh)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and not (tmp_path / "fresh").exists()
        assert f"'{variant}' needs 'denominator', which training measures, and train.epochs=0" in done.stderr


def test_training_goes_on_from_a_checkpoints_constants(teacher, tmp_path):
    first = train(tmp_path, "first", "softmax=cgf_chain", f"ckpt={teacher}", "train.max_steps=2")
    same = train(tmp_path, "same", "softmax=cgf_chain", f"ckpt={first}", "train.max_steps=1", "train.softmax_lr=0")
    other = train(
        tmp_path,
        "other",
        "softmax=cgf_chain",
        "softmax.below=1",
        f"ckpt={first}",
        "train.max_steps=1",
        "train.softmax_lr=0",
    )
    assert all(torch.equal(v, kept(same)[0][k]) for k, v in kept(first)[0].items())
    assert float(kept(other)[0]["softmax.0.beta"]) == FIT.b  # another softmax starts from its own fit


@pytest.mark.parametrize("trainable, levels", [("layer", 4), ("head", 4), ("none", 4)])
def test_both_evaluations_use_the_trained_chains_without_a_plan(trainable, levels, teacher, tmp_path):
    run = train(
        tmp_path,
        "run",
        "softmax=cgf_chain",
        f"softmax.trainable={trainable}",
        f"ckpt={teacher}",
        "train.max_steps=3",
        "train.softmax_lr=10",
    )
    out = tmp_path / "out.json"
    assert call("eval_plain", f"ckpt={run}", f"out={out}").returncode == 0
    plain = json.loads(out.read_text())
    own = [s.exponential for s in from_checkpoint(read(run))[1]]
    told = [e.to_json() for e in own]
    assert plain["polynomial"] == (told[0] if trainable == "none" else told)
    assert plain["approx"] == ("head_chain" if trainable == "head" else "chain")
    assert plain["domain"] == [-18.0, 1.2] and plain["outside_domain"] is not None and plain["beyond_guard"] == 0
    assert plain["guard"] == [max(e.fit.guard[0] for e in own), min(e.fit.guard[1] for e in own)]
    assert plain["max_error_exponential"] == max(e.fit.max_error for e in own)
    out = tmp_path / "he.json"
    for approx in ("plan", "exact"):
        done = call("eval_he", f"ckpt={run}", "he=sim", "he.samples=8", f"approx={approx}", f"out={out}")
        assert done.returncode == 0, done.stderr
        he = json.loads(out.read_text())
        assert he["levels"] == he["levels_counted"] == levels and he["agreement"] == 1.0 and he["max_error"] < 1e-9
        assert he["polynomial"] == plain["polynomial"] and he["outside_domain"] is not None


def test_another_polynomial_may_take_the_place(teacher, tmp_path):
    run = train(tmp_path, "run", "softmax=cgf_chain", f"ckpt={teacher}", "train.max_steps=1")
    done = call(
        "eval_he",
        f"ckpt={run}",
        "he=sim",
        "he.samples=4",
        "approx=limit",
        "approx.k=5",
        "approx.range=[-18,1]",
        f"out={tmp_path / 'o.json'}",
    )
    assert done.returncode == 0, done.stderr
    he = json.loads((tmp_path / "o.json").read_text())
    assert he["levels"] == 6 and he["approx"] == "limit"


def test_a_fixed_polynomial_in_the_loop(teacher, tmp_path):
    run = train(tmp_path, "run", "softmax=cgf_poly", f"ckpt={teacher}", "train.max_steps=2")
    assert kept(run)[0] == {}
    done = call("eval_he", f"ckpt={run}", "he=sim", "he.samples=4", f"out={tmp_path / 'o.json'}")
    assert done.returncode == 0, done.stderr
    he = json.loads((tmp_path / "o.json").read_text())
    assert he["levels"] == 1 + 3 + 1 and he["approx"] == "chebyshev" and he["max_error"] < 1e-9
    described = read(run).path / "softmax.json"
    told = json.loads(described.read_text())
    told["exponential"]["coefficients"][0] += 0.125  # what was trained with counts, not a new fit
    changed = exponential_from_json(told["exponential"])
    told["exponential"] = with_fit(changed, changed.fit.domain).to_json()  # with its error
    described.write_text(json.dumps(told))
    reseal(described.parent)
    _, softmaxes = from_checkpoint(read(run))
    assert all(s.exponential.coefficients[0] == told["exponential"]["coefficients"][0] for s in softmaxes)


def test_constants_of_another_softmax_are_one_sentence(teacher, tmp_path):
    run = train(tmp_path, "run", "softmax=cgf_chain", f"ckpt={teacher}", "train.max_steps=1")
    described = read(run).path / "softmax.json"
    reseal_softmax(described.parent, **{**json.loads(described.read_text())["softmax"], "trainable": "head"})
    done = call("eval_plain", f"ckpt={run}")
    assert done.returncode == 2 and "needs 'beta' of shape (4, 1, 1)" in done.stderr and done.stderr.count("\n") == 1
