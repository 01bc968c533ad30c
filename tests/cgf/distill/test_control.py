"""Range and row-sum penalties against numpy, and what they do to a training."""

import copy
import json
import math

import numpy as np
import pytest
import torch
from digits_checkpoint import call

from cgf.distill.range_control import RangeControl
from cgf.errors import UserError
from cgf.results import read_lines
from cgf.softmax.bpmax import BPMax
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact
from cgf.softmax.taylor import TaylorCGF

B, H, Q, K = 2, 3, 4, 6
LN2 = math.log(2)


def draw(scale=3.0, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(B, H, Q, K, generator=generator, dtype=torch.float64) * scale).to(dtype)


def masked():
    """Causal rows, a padded sample, and a row without any valid entry."""
    valid = torch.ones(B, 1, Q, K, dtype=torch.bool).tril(1)
    valid[1, ..., 3:] = False
    valid[1, 0, 2] = False
    return valid


def pass_through(control, scores, valid, softmaxes=None):
    softmaxes = softmaxes or [CGF()]
    for softmax in softmaxes:
        softmax.training = True
    control.watch(softmaxes)
    for softmax in softmaxes:
        softmax.weights(scores, valid)
    return softmaxes


def exponents(scores, valid):
    """(sample, head, row) -> y of its valid entries, by the definition of CGF-softmax."""
    x = scores.detach().double().numpy()
    keep = np.ones(x.shape, bool) if valid is None else np.broadcast_to(valid.numpy(), x.shape)
    rows = {i: x[i][keep[i]] for i in np.ndindex(B, H, Q) if keep[i].any()}
    return {i: r - r.mean() - r.var() / 2 - math.log(len(r)) for i, r in rows.items()}


def range_reference(y, bound, high=1.0, worst=0.02):
    every = np.concatenate(list(y.values()))
    low, up = np.maximum(-every - 0.85 * bound, 0), np.maximum(every - high + 0.5, 0)
    return (low**2).mean() / bound + (up**2).mean() + worst * (low.max() / bound + up.max())


def row_sum_reference(y, low=0.5, high=2.0):
    worst = np.zeros((B, H))
    for (b, h, _), row in y.items():
        r = math.log(np.exp(row).sum())
        worst[b, h] = max(worst[b, h], r - math.log(high), math.log(low) - r)
    return (worst**2).sum() / max(1, (worst > 0).sum())


@pytest.mark.parametrize("valid", [None, masked()], ids=["full", "masked"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_each_term_is_its_definition(valid, dtype):
    scores = draw(dtype=dtype)
    junk = scores if valid is None else scores.masked_fill(~valid, 1e4)  # what stands there must not matter
    y, close = exponents(scores, valid), 1e-9 if dtype == torch.float64 else 2e-5
    for node, wanted in (
        ({"weight": 2.0, "bound": 4.0, "worst": 0.1}, 2 * range_reference(y, 4.0, worst=0.1)),
        ({"row_sum": {"weight": 3.0}}, 3 * row_sum_reference(y)),
        ({"row_sum": {"weight": 1.0, "low": 0.3, "high": 5.0}}, row_sum_reference(y, 0.3, 5.0)),
        (
            {"weight": 0.5, "bound": 6.0, "high": 0.3, "row_sum": {"weight": 3.0}},
            0.5 * range_reference(y, 6.0, high=0.3) + 3 * row_sum_reference(y),
        ),
    ):
        control = RangeControl(**node)
        pass_through(control, junk, valid)
        assert float(control.take()) == pytest.approx(wanted, rel=close) and wanted > 0.05
        assert control.take() is None


def test_the_row_sum_threshold_is_sharp_and_two_sided():
    """Rows of two equal groups at +-a sum to cosh(a) exp(-a^2 / 2) <= 1; rows with one high entry to more."""
    low = torch.tensor([[[[2.0, -2.0, 2.0, -2.0]]]], dtype=torch.float64)
    high = torch.tensor([[[[3.0] + [0.0] * 9]]], dtype=torch.float64)
    for scores, log_sum in ((low, math.log(math.cosh(2)) - 2), (high, math.log((math.e**3 + 9) / 10) - 0.3 - 0.405)):
        for edge in (abs(log_sum) - 1e-6, abs(log_sum) + 1e-6):
            control = RangeControl(row_sum={"weight": 1.0, "low": math.exp(-edge), "high": math.exp(edge)})
            pass_through(control, scores, None)
            assert (float(control.take()) > 0) == (edge < abs(log_sum))


def test_one_violating_head_is_not_diluted_by_the_others():
    scores = torch.zeros(B, H, Q, K, dtype=torch.float64)
    scores[1, 2, 3] = torch.tensor([4.0, -4, 4, -4, 4, -4])
    control = RangeControl(row_sum={"weight": 1.0})
    pass_through(control, scores, None)
    alone = float(control.take())
    assert alone == pytest.approx((8 - math.log(math.cosh(4)) - LN2) ** 2)
    scores[0] = scores[1]
    control = RangeControl(row_sum={"weight": 1.0})
    pass_through(control, scores, None)
    assert float(control.take()) == pytest.approx(alone)


def test_layers_are_summed_for_the_range_and_averaged_for_the_row_sum():
    y, scores = exponents(draw(), None), draw()
    control = RangeControl(weight=1.0, bound=[4.0, 8.0, 2.0], row_sum={"weight": 1.0})
    pass_through(control, scores, None, [CGF(), CGF(), CGF()])
    wanted = sum(range_reference(y, b) for b in (4.0, 8.0, 2.0)) + row_sum_reference(y)
    assert float(control.take()) == pytest.approx(wanted, rel=1e-9)


def test_gradients_narrow_the_range_and_bring_row_sums_back():
    for node, far in (
        ({"weight": 1.0, "bound": 4.0}, lambda y: max(-r.min() for r in y.values())),
        ({"row_sum": {"weight": 1.0}}, lambda y: max(abs(math.log(np.exp(r).sum())) for r in y.values())),
    ):
        scores, valid = draw().requires_grad_(), masked()
        control = RangeControl(**node)
        pass_through(control, scores, valid)
        control.take().backward()
        assert torch.isfinite(scores.grad).all() and (scores.grad[~valid.expand(scores.shape)] == 0).all()
        step = scores.detach() - 0.05 * scores.grad / scores.grad.norm()
        assert far(exponents(step, valid)) < far(exponents(scores, valid)) - 1e-3


def test_gradients_are_those_of_the_terms():
    valid = masked()

    def value(scores):
        control = RangeControl(weight=1.0, bound=3.0, row_sum={"weight": 1.0})
        pass_through(control, scores, valid)
        return control.take()

    assert torch.autograd.gradcheck(value, (draw(2.0).requires_grad_(),), atol=1e-5)


@pytest.mark.parametrize("scale", [14.4, 30.0, 300.0])  # a subnormal sum, and none at all
def test_row_sums_that_underflow_still_have_a_gradient(scale):
    scores = (torch.tensor([1.0, -1, 1, -1]).expand(1, 1, 2, 4) * scale).clone().requires_grad_()
    control = RangeControl(row_sum={"weight": 1.0})
    softmax = pass_through(control, scores, None)[0]
    assert float(softmax.weights(scores).detach().max()) < 1e-39
    control._terms["row_sum_penalty"].pop()
    value = control.take()
    wanted = scale**2 / 2 - scale + LN2 - LN2  # -ln cosh(a) + a^2 / 2, less the margin of ln 2
    assert float(value.detach()) == pytest.approx(wanted**2, rel=1e-5)
    value.backward()
    assert torch.isfinite(scores.grad).all() and (scores.grad * scores.detach() > 0).all()


def test_a_polynomial_below_zero_gives_a_finite_penalty():
    scores, softmax = draw(6.0).requires_grad_(), TaylorCGF(degree=3, x0=-1.0)
    control = RangeControl(row_sum={"weight": 1.0})
    pass_through(control, scores, masked(), [softmax])
    assert float(softmax.weights(scores.detach(), masked()).sum(-1).min()) < 0
    value = control.take()
    value.backward()
    assert math.isfinite(float(value.detach())) and torch.isfinite(scores.grad).all()


def test_evaluation_adds_nothing():
    control, softmax = RangeControl(weight=1.0, bound=1.0, row_sum={"weight": 1.0}), CGF()
    control.watch([softmax])
    softmax.weights(draw())
    assert control.take() is None


def test_the_ramp_is_a_function_of_the_share_of_steps():
    values = []
    for ramp, progress in ((0.0, 0.01), (0.2, 0.05), (0.2, 0.2), (0.2, 0.9), (1.0, 0.5)):
        control = RangeControl(weight=1.0, bound=4.0, row_sum={"weight": 1.0}, ramp=ramp)
        pass_through(control, draw(), None)
        values.append(float(control.take(progress)))
    assert np.array(values) / values[0] == pytest.approx([1, 0.25, 1, 1, 0.5])


def test_the_report_is_of_the_measured_pass_alone():
    scores, valid = draw(), masked()
    y = exponents(scores, valid)
    control = RangeControl(weight=2.0, bound=[4.0, 6.0], row_sum={"weight": 3.0}, ramp=0.5)
    softmaxes = pass_through(control, scores, valid, [CGF(), CGF()])
    control.take()
    assert control.report() == {}
    control.measuring = True
    for softmax in softmaxes:
        softmax.weights(scores, valid)
    whole = float(control.take(0.25))
    report, every = control.report(), np.concatenate(list(y.values()))
    sums = np.array([np.exp(row).sum() for row in y.values()])
    assert report == pytest.approx(
        {
            "range_penalty": sum(range_reference(y, b) for b in (4.0, 6.0)),
            "row_sum_penalty": 1.5 * row_sum_reference(y),
            "range_min": every.min(),
            "range_max": every.max(),
            "range_outside": np.mean([(every < -b) | (every > 1) for b in (4.0, 6.0)]),
            "row_sum_min": sums.min(),
            "row_sum_max": sums.max(),
            "row_sum_outside": ((sums < 0.5) | (sums > 2)).mean(),
        },
        rel=1e-6,
    )
    assert 0 < report["range_outside"] < 1 and 0 < report["row_sum_outside"] < 1
    assert report["range_penalty"] + report["row_sum_penalty"] == pytest.approx(whole)
    json.dumps(report, allow_nan=False)


@pytest.mark.parametrize("softmax", [BPMax(), Exact()], ids=lambda s: s.name)
def test_a_softmax_without_an_exponent_is_refused_only_with_a_weight(softmax):
    with pytest.raises(UserError, match=r"penalty\.weight needs a softmax with an exponent, and '"):
        RangeControl(weight=1.0).watch([softmax])
    with pytest.raises(UserError, match=r"penalty\.row_sum\.weight needs a softmax whose rows can be observed"):
        RangeControl(row_sum={"weight": 1.0}).watch([softmax])
    control = RangeControl()
    control.watch([softmax])
    assert not softmax.observers


def test_bounds_are_one_or_one_a_layer():
    RangeControl(weight=1.0, bound=[8]).watch([CGF()])
    for bounds in ([8.0], [8.0, 8.0, 8.0]):
        with pytest.raises(UserError, match=rf"one a layer \(2 for this model\), and has {len(bounds)}$"):
            RangeControl(weight=1.0, bound=bounds).watch([CGF(), CGF()])


@pytest.mark.parametrize(
    "bad",
    [
        {"weight": -1},
        {"bound": 0},
        {"worst": -1},
        {"weight": math.nan},
        {"high": math.inf},
        {"bound": [8, 0]},
        {"bound": []},
        {"bound": [8, None]},
        {"bound": "8"},
        {"weight": None},
        {"ramp": -0.1},
        {"ramp": 1.5},
        {"ramp": None},
        {"row_sum": {"weight": -1}},
        {"row_sum": {"low": 0}},
        {"row_sum": {"low": 1.2}},
        {"row_sum": {"high": 0.9}},
        {"row_sum": {"high": math.inf}},
        {"row_sum": {"wieght": 1}},
        {"row_sum": 1.0},
    ],
    ids=str,
)
def test_a_penalty_of_nonsense_is_refused(bad):
    with pytest.raises(UserError, match=r"the penalty needs|penalty\.(row_sum|ramp)") as error:
        RangeControl(**bad)
    assert "\n" not in str(error.value)


def test_what_is_watched_can_be_copied_without_its_watcher():
    control, softmax = RangeControl(weight=1.0, bound=1.0), CGF()
    control.watch([softmax])
    softmax.training = True
    copy.deepcopy(softmax).weights(draw())
    assert control.take() is None, "a copy must not feed the run's penalty"


# -- a real training ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def students(tmp_path_factory):
    """Digits: a teacher, and two students of it that differ in the row-sum penalty alone."""
    outputs = tmp_path_factory.mktemp("students")
    common = (
        "task.augment=false",
        "train.batch_size=64",
        "train.log_every=10",
        "model.options.depth=2",
        f"outputs={outputs}",
    )
    done = call("train", *common, "run=teacher", "softmax=exact", "train.epochs=6", "train.lr=3e-3")
    assert done.returncode == 0, done.stderr
    for name, weight in (("without", 0), ("with", 1)):
        done = call(
            "train",
            *common,
            f"run={name}",
            "softmax=cgf",
            "distill=kd",
            f"ckpt={outputs / 'teacher'}",
            "train.epochs=2",
            "train.lr=1e-3",
            f"penalty.row_sum.weight={weight}",
            "penalty.ramp=0.1",
        )
        assert done.returncode == 0, done.stderr
        done = call("eval_plain", f"ckpt={outputs / name / 'ckpt-40'}", "split=val", f"out={outputs / name}.json")
        assert done.returncode == 0, done.stderr
    return outputs


def test_the_penalty_brings_row_sums_of_a_trained_model_towards_one(students):
    """On images it was not trained on. Measured: 0.0015 .. 6.2 without the term, 0.52 .. 2.3 with it."""
    found = {name: json.loads((students / f"{name}.json").read_text()) for name in ("without", "with")}
    reach = {n: max(-math.log(r["row_sum"]["min"]), math.log(r["row_sum"]["max"])) for n, r in found.items()}
    assert reach["without"] > 3 and reach["with"] < 1.5
    assert found["with"]["accuracy"] > found["without"]["accuracy"] - 0.08  # measured: 0.683 and 0.694 of 180


def test_terms_and_ranges_are_in_the_log(students):
    records = {n: [r for r in read_lines(students / n / "metrics.jsonl") if "loss" in r] for n in ("without", "with")}
    measured = {n: [r for r in found if "row_sum_max" in r] for n, found in records.items()}
    assert all([r["step"] for r in found] == [10, 20, 30, 40] for found in measured.values())
    assert not any(k in r for r in records["without"] for k in ("penalty", "row_sum_penalty", "range_penalty"))
    assert all(r["row_sum_penalty"] == pytest.approx(r["penalty"]) for r in measured["with"])
    assert all(r["range_min"] < r["range_max"] and 0 <= r["range_outside"] <= 1 for r in measured["with"])
    outside = {n: np.mean([r["row_sum_outside"] for r in found[1:]]) for n, found in measured.items()}
    assert outside["without"] > 0.04 and outside["with"] < 0.01  # measured: 0.068 and 0.0006


def test_the_report_by_layer_names_each_layer_that_showed_rows():
    control, valid = RangeControl(), masked()
    control.measuring = True
    scores = [draw(seed=seed) for seed in range(3)]
    softmaxes = [CGF(), Exact(), CGF()]
    for softmax in softmaxes:
        softmax.training = True
    control.watch(softmaxes)
    for softmax, one in zip(softmaxes, scores, strict=True):
        softmax.weights(one, valid)
    assert control.by_layer() == []  # until the pass is taken
    control.take()
    layers, whole = control.by_layer(), control.report()
    for layer, at in zip(layers, (0, 2), strict=True):
        y = np.concatenate(list(exponents(scores[at], valid).values()))
        assert (
            layer["layer"] == at and np.isclose(layer["range_min"], y.min()) and np.isclose(layer["range_max"], y.max())
        )
    assert whole["row_sum_max"] == max(layer["row_sum_max"] for layer in layers)
    control.take()  # a pass that nobody measured: the last one stays
    assert control.report() == {} and control.by_layer() == layers
