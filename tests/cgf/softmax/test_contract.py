"""Every yaml in configs/softmax honours the contract of cgf/softmax/base.py."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from cgf.config import build
from cgf.errors import UserError
from cgf.softmax.bpmax import BPMax, CalibratedBPMax
from cgf.softmax.cgf import CGF
from cgf.softmax.load import softmax_from_json
from cgf.softmax.published.base import Published
from cgf.softmax.published.normalize_square import NormalizeSquare, Thor
from cgf.softmax.published.quotient import Power, Quad, StablePower

CONFIGS = sorted((Path(__file__).parents[3] / "configs" / "softmax").glob("*.yaml"))
B, H, Q, K = 2, 3, 6, 6


def approximates_exact(path):
    """A published way to compute exact softmax: its weights are exact's, its reading is tested in test_bounds.py."""
    return type(build(OmegaConf.load(path))).weights is Published.weights


@pytest.fixture(params=CONFIGS, ids=lambda p: p.stem)
def softmax(request):
    return build(OmegaConf.load(request.param))


@pytest.fixture(params=[p for p in CONFIGS if not approximates_exact(p)], ids=lambda p: p.stem)
def defined(request):
    """One that has a definition of its own."""
    return build(OmegaConf.load(request.param))


def draw(dtype=torch.float64, scale=1.0):
    return (torch.randn(B, H, Q, K, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * scale).to(dtype)


def causal_and_padded():
    valid = torch.ones(B, 1, Q, K, dtype=torch.bool).tril()
    valid[1, ..., 4:] = False
    valid[1, 0, 0] = False  # a row without any valid entry
    return valid


def exact(softmax, row):
    e = np.exp(row - row.max())
    return e / e.sum()


def exponent(softmax, row):
    mean = row.mean()
    m2, m3, m4 = (((row - mean) ** j).mean() for j in (2, 3, 4))
    K1 = mean + m2 / 2 + (m3 / 6 if softmax.order >= 3 else 0) + ((m4 - 3 * m2**2) / 24 if softmax.order >= 4 else 0)
    return row - K1 - np.log(len(row))


def taylor(softmax, row):
    y, term, total = exponent(softmax, row), np.ones(len(row)), np.zeros(len(row))
    for i in range(softmax.degree + 1):
        total, term = total + np.exp(softmax.x0) * term, term * (y - softmax.x0) / (i + 1)
    return total


def bpmax(softmax, row):
    return (row + softmax.c) ** softmax.p  # its denominator is 1 until training measured one


def quotient(softmax, row):
    e = (row + softmax.c) ** softmax.p
    return e / (softmax.eps + e.sum())


def stable_quotient(softmax, row):
    z = (row + softmax.c) / (np.abs(row + softmax.c).max() + softmax.delta)
    return z**softmax.p / (softmax.eps + (z**softmax.p).sum())


def the_x(softmax, row):
    return row / (softmax.eps + (np.maximum(row / 2 + 1, 0) ** 3).sum())


def two_relu(softmax, row):
    active = np.maximum(row, 0)
    return (active + softmax.eps / len(row)) / (active.sum() + softmax.eps)


def chain(softmax, row):
    kept = softmax.tensors()
    z = float(kept["alpha"]) * exponent(softmax, row) + float(kept["beta"])
    for constant in kept["constants"].tolist():
        z = z**2 + constant
    return z


def polynomial(softmax, row):
    e = softmax.exponential
    return np.polyval(e.coefficients[::-1], e.a * exponent(softmax, row) + e.b) ** (2**softmax.k)


def shared(weights):
    """What the row misses of a sum of one, in equal parts to its entries."""
    return weights + (1 - weights.sum()) / len(weights)


# the definition of each softmax on one full row of float64, in numpy: a new one adds its row here
REFERENCES = {
    "exact": exact,
    "cgf": lambda softmax, row: np.exp(exponent(softmax, row)),
    "bpmax": bpmax,
    "bpmax_calibrated": bpmax,
    "taylor": taylor,
    "power": quotient,
    "power_stable": stable_quotient,
    "quad": quotient,
    "relu": lambda softmax, row: np.maximum(row, 0) / len(row) ** softmax.scale,
    "sigmoid": lambda softmax, row: 1 / (1 + np.exp(-row)) / len(row) ** softmax.scale,
    "the_x": the_x,
    "two_relu": two_relu,
    "gaussian": lambda softmax, row: np.exp(row),
    "cgf_chain": chain,
    "cgf_poly": polynomial,
    "cgf_unit": lambda softmax, row: shared(np.exp(exponent(softmax, row))),
    "cgf_chain_unit": lambda softmax, row: shared(chain(softmax, row)),
}


def reference(softmax, row):
    if softmax.name not in REFERENCES:
        pytest.fail(f"REFERENCES needs a row with the definition of softmax '{softmax.name}'")
    return REFERENCES[softmax.name](softmax, row)


def test_every_reference_and_every_yaml_has_its_counterpart():
    """A yaml that is gone leaves a reference that nothing runs; cgf3 and cgf4 are further yamls of one definition."""
    named = {p.stem: build(OmegaConf.load(p)).name for p in CONFIGS}
    approximations = {p.stem for p in CONFIGS if approximates_exact(p)}
    assert {name for stem, name in named.items() if stem not in approximations} == set(REFERENCES)
    assert {stem for stem, name in named.items() if stem != name} == {"cgf3", "cgf4"}
    assert approximations == {"standard", "fixed_max", "arion", "tricycle", "cho", "thor", "hetal"}


def test_full_rows_follow_the_definition(defined):
    softmax = defined
    scores = draw()
    weights = softmax.weights(scores)
    wanted = np.apply_along_axis(lambda row: reference(softmax, row), -1, scores.numpy())
    assert weights.dtype == torch.float64 and weights.shape == scores.shape
    np.testing.assert_allclose(weights.numpy(), wanted, rtol=1e-9, atol=1e-14)


def test_masked_rows_are_those_of_their_valid_entries_alone(defined):
    softmax = defined
    scores, valid = draw(), causal_and_padded()
    junk = scores.masked_fill(~valid, 1e4)  # what stands at invalid entries must not matter
    for given_scores in (scores, junk):
        weights = softmax.weights(given_scores, valid)
        where = valid.expand(scores.shape).numpy()
        assert (weights.numpy()[~where] == 0).all()
        for index in np.ndindex(B, H, Q):
            own = where[index]
            if own.any():
                wanted = reference(softmax, scores.numpy()[index][own])
                np.testing.assert_allclose(weights.numpy()[index][own], wanted, rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("shape", [(0, 2, 5, 5), (2, 2, 0, 5), (2, 0, 5, 5)])
def test_no_rows_have_no_weights(softmax, shape):
    scores = torch.zeros(shape, requires_grad=True)
    weights = softmax.weights(scores, torch.ones(5, dtype=torch.bool))
    weights.sum().backward()
    assert weights.shape == shape and scores.grad.shape == shape


@pytest.mark.parametrize("softmax", [Power(eps=0.0, c=2.0), Quad(), StablePower(eps=0.0, c=2.0)])
def test_a_row_of_zero_over_zero_weighs_nothing_and_an_overflow_is_seen(softmax):
    none = torch.full((1, 4), -softmax.c)
    assert torch.equal(softmax.weights(none), torch.zeros(1, 4))
    if softmax.name == "power":  # sums below the normal numbers of float32
        small = Power(p=8, c=0.0, eps=0.0).weights(torch.tensor([[1e-5, 0.0, 0.0], [1.0, 0.0, 0.0]]))
        assert torch.allclose(small, torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    huge = softmax.weights(torch.tensor([[3e30, 0.0, 1.0, -1.0]]))  # its square is beyond float32
    assert (
        torch.equal(huge, torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
        if softmax.name == "power_stable"
        else huge.isnan().any()
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(defined, dtype):
    softmax = defined
    scores = draw(dtype)
    weights = softmax.weights(scores, causal_and_padded())
    exact = softmax.weights(scores.double(), causal_and_padded())
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.double(), exact, rtol=2e-5, atol=1e-7)


def test_gradients_are_right_and_finite(defined):
    softmax = defined
    scores, valid = draw().requires_grad_(), causal_and_padded()
    assert torch.autograd.gradcheck(lambda s: softmax.weights(s, valid), (scores,), atol=1e-5)
    far = (draw() * 3 + torch.where(valid, 0.0, -400.0)).requires_grad_()
    softmax.weights(far, valid).sum().backward()
    assert torch.isfinite(far.grad).all() and (far.grad[~valid.expand(far.shape)] == 0).all()


def test_json_round_trip(softmax):
    text = json.loads(json.dumps(softmax.to_json()))
    again = softmax_from_json(text)
    assert type(again) is type(softmax) and again.params() == softmax.params()
    assert torch.equal(again.weights(draw()), softmax.weights(draw()))


def test_rows_of_any_length_are_read_again():
    softmax = NormalizeSquare(n=1024, fewest=577)
    assert softmax_from_json(json.loads(json.dumps(softmax.to_json()))).params() == softmax.params()


@pytest.mark.parametrize("make", [lambda: NormalizeSquare(k=0, degrees=()), lambda: Thor(temperature=1024)])
def test_published_numbers_that_no_file_could_bring_back_are_refused(make):
    with pytest.raises(UserError, match="must be a whole number"):
        make()


@pytest.mark.parametrize(
    "data",
    [
        {"_target_": "os.system"},
        {"_target_": "cgf.softmax.cgf.UserError"},
        {"_target_": "cgf.softmax.nope.X"},
        {},
        {"_target_": "cgf.softmax.cgf.CGF", "misspelt": 1},
        {"_target_": "cgf.softmax..cgf.CGF"},
    ],
)
def test_softmax_json_builds_nothing_else(data):
    with pytest.raises(UserError, match=r"softmax\.json"):
        softmax_from_json(data)


@pytest.mark.parametrize("make", [lambda: CGF(order=5), lambda: CGF(order=1), lambda: BPMax(p=4), lambda: BPMax(p=-1)])
def test_parameters_out_of_range(make):
    with pytest.raises(UserError, match="was given"):
        make()


ROWS = st.lists(st.floats(-6, 6), min_size=2, max_size=24)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.floats(-50, 50))
def test_cgf_properties(row, shift):
    """P1 positivity, P2 order and pairwise ratios, P3 shift invariance, P4 domain scaling."""
    x = torch.tensor(row, dtype=torch.float64)[None]
    w = CGF().weights(x)[0]
    assert (w > 0).all()
    torch.testing.assert_close(w[:, None] / w[None, :], (x[0][:, None] - x[0][None, :]).exp(), rtol=1e-9, atol=0)
    torch.testing.assert_close(CGF().weights(x - shift)[0], w, rtol=1e-8, atol=0)
    y = w.log()
    torch.testing.assert_close((y / 2**5).exp() ** 2**5, w, rtol=1e-9, atol=0)


def test_bpmax_denominator_is_the_batch_maximum_over_all_keys():
    softmax, scores, valid = BPMax(p=3, c=4.0), draw().requires_grad_(), causal_and_padded()
    softmax.training = True
    weights = softmax.weights(scores, valid)
    powers = (scores + 4.0) ** 3
    denominator = powers.sum(-1, keepdim=True).amax(0)  # (H, Q, 1), invalid keys included
    wanted = torch.where(valid, powers / (denominator + 1e-10), 0.0)
    torch.testing.assert_close(weights, wanted)
    probe = torch.randn(weights.shape, dtype=torch.float64)
    gradient = torch.autograd.grad((weights * probe).sum(), scores, retain_graph=True)[0]
    torch.testing.assert_close(gradient, torch.autograd.grad((wanted * probe).sum(), scores)[0])
    last = draw(scale=0.5)
    softmax.weights(last, valid)
    torch.testing.assert_close(softmax.tensors()["denominator"], ((last + 4) ** 3).sum(-1, keepdim=True).amax(0))
    softmax.training = False
    frozen = softmax.weights(scores.detach()[:1], valid[:1])
    wanted = (scores.detach()[:1] + 4) ** 3 / ((last + 4) ** 3).sum(-1, keepdim=True).amax(0)
    torch.testing.assert_close(frozen, torch.where(valid[:1], wanted, 0.0))


def test_bpmax_buffer_grows_with_the_longest_batch():
    softmax = BPMax()
    softmax.training = True
    softmax.weights(draw()[..., :4, :4])
    first = softmax.denominator.clone()
    softmax.weights(draw(scale=0.1)[..., :2, :2])
    assert softmax.denominator.shape == (H, 4, 1)
    assert torch.equal(softmax.denominator[:, 2:], first[:, 2:])
    assert not torch.equal(softmax.denominator[:, :2], first[:, :2])
    softmax.training = False
    longer = softmax.weights(draw())  # positions that no batch reached keep R = 1
    torch.testing.assert_close(longer[:, :, 4:], (draw()[:, :, 4:] + 5) ** 5, rtol=1e-9, atol=0)


def test_calibrated_bpmax_runs_a_mean_over_valid_keys():
    softmax, valid = CalibratedBPMax(p=3, c=4.0, momentum=0.75), torch.ones(B, 1, Q, K, dtype=torch.bool).tril()
    softmax.training = True
    batches = [draw(), draw(scale=0.3)]
    means = [torch.where(valid, (s + 4) ** 3, 0.0).sum(-1, keepdim=True).mean(0) for s in batches]
    scores = batches[0].clone().requires_grad_()
    first = softmax.weights(scores, valid)
    torch.testing.assert_close(softmax.denominator, means[0])
    first.sum().backward()  # no gradient through the denominator
    wanted = torch.where(valid, 3 * (batches[0] + 4) ** 2 / (means[0] + 1e-10), 0.0)
    torch.testing.assert_close(scores.grad, wanted)
    softmax.weights(batches[1], valid)
    torch.testing.assert_close(softmax.denominator, 0.75 * means[0] + 0.25 * means[1])
