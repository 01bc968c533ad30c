"""The chain in the loop: its training reading, its constants by layer and by head, and what it reads as afterwards."""

import copy
import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from cgf.approx.chain import SquareChain
from cgf.approx.fit import chain, chebyshev, fitted, limit, with_fit
from cgf.approx.head_chain import HeadChain
from cgf.errors import UserError
from cgf.softmax.cgf import CGF
from cgf.softmax.chain_cgf import ChainCGF
from cgf.softmax.load import softmax_from_json
from cgf.softmax.poly_cgf import PolynomialCGF

H = 3
SETS = ("layer", "head")


def draw(*shape, scale=1.5, seed=0, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, scale, shape)).to(dtype)


def made(trainable="layer", seed=4, **options):
    """A ChainCGF of H heads whose constants have moved from the fit, each by its own amount."""
    softmax = ChainCGF(**{"k": 3, "trainable": trainable, **options})
    softmax.sized(H)
    generator = torch.Generator().manual_seed(seed)
    for parameter in softmax.parameters():
        parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    softmax.load_tensors(softmax.tensors())  # moved by hand, so read anew
    return softmax


def by_hand(softmax, y):
    """The recursion on the kept tensors; y (B, H, Q, K)."""
    kept = {name: value.numpy() for name, value in softmax.tensors().items()}
    z = kept["alpha"] * y + kept["beta"]
    for constant in kept["constants"]:
        z = z**2 + constant
    return z


def exponent(x):
    return x - x.mean(-1, keepdims=True) - x.var(-1, keepdims=True) / 2 - np.log(x.shape[-1])


def train_mode(softmax, on=True):
    softmax.training = on
    return softmax


@pytest.mark.parametrize("trainable", SETS)
def test_gradients_of_the_constants_and_the_scores(trainable):
    softmax, x = train_mode(made(trainable)), draw(2, H, 4, 5).requires_grad_()
    beta, constants = softmax.parameters()
    assert beta.shape == ((H, 1, 1) if trainable == "head" else ())
    assert constants.shape == ((3, H, 1, 1) if trainable == "head" else (3,))

    def weights(x, *_):
        return softmax.weights(x, torch.ones(4, 5, dtype=torch.bool).tril())

    assert torch.autograd.gradcheck(weights, (x, beta, constants), atol=1e-5)


@pytest.mark.parametrize("trainable", SETS)
@pytest.mark.parametrize("training", [True, False])
def test_both_readings_are_the_recursion(trainable, training):
    softmax, x = train_mode(made(trainable), training), draw(2, H, 6, 6)
    np.testing.assert_allclose(softmax.weights(x).detach().numpy(), by_hand(softmax, exponent(x.numpy())), rtol=1e-10)


@pytest.mark.parametrize("k, tolerance", [(3, 1e-5), (4, 2e-5), (5, 4e-5)])
def test_single_precision_serves_up_to_five_squarings(k, tolerance):
    """Weights reach e^1.2; the fits themselves are off by 4e-2, 1e-3 and 1e-5."""
    softmax, x = train_mode(ChainCGF(k=k)), draw(8, H, 16, 16, scale=2.5, dtype=torch.float32)
    weights = softmax.weights(x)
    assert weights.dtype == torch.float32
    assert float((weights - softmax.weights(x.double())).abs().max().detach()) < tolerance


def test_more_squarings_are_computed_in_float64():
    assert train_mode(ChainCGF(k=6)).needs_double() and not train_mode(ChainCGF(k=5)).needs_double()
    assert train_mode(PolynomialCGF()).needs_double()


def test_training_cuts_the_exponent_off_and_evaluation_does_not():
    softmax, seen = made(domain=[-6.0, 0.5], below=1.0, above=0.25), []
    softmax.observers.append(lambda s, y, w, v: seen.append(y.detach().numpy()))
    x = draw(2, H, 6, 12)
    x[0] *= 3
    x[1, :, :, 0] += 9  # an outlier in a row of 12 lifts its own exponent
    x.requires_grad_()
    y = exponent(x.detach().numpy())
    low, high = y < -7.0, y > 0.75
    assert low.any() and high.any() and (~low & ~high).any()
    train_mode(softmax).weights(x).sum().backward()
    np.testing.assert_allclose(train_mode(softmax).weights(x).detach(), by_hand(softmax, y.clip(-7.0, 0.75)), rtol=1e-9)
    np.testing.assert_allclose(train_mode(softmax, False).weights(x).detach(), by_hand(softmax, y), rtol=1e-9)
    np.testing.assert_allclose(seen[0], y, rtol=1e-9, atol=1e-12)  # a range penalty sees all of it


def test_what_was_cut_off_has_no_gradient():
    softmax, x = train_mode(made(domain=[-6.0, 0.5])), draw(1, H, 1, 4).requires_grad_()
    shifted = []
    softmax.observers.append(lambda s, y, w, v: (y.retain_grad(), shifted.append(y)))
    softmax.weights(x * 6).sum().backward()
    y = shifted[0]
    cut = (y < -6.0) | (y > 0.6)
    assert cut.any() and (~cut).any() and (y.grad[cut] == 0).all() and (y.grad[~cut] != 0).all()


@pytest.mark.parametrize("trainable", SETS)
def test_what_stands_after_a_step_is_what_an_evaluation_reads(trainable):
    softmax, x = made(trainable), draw(2, H, 6, 6)
    before = softmax.exponential
    optimizer = torch.optim.AdamW(softmax.parameters(), lr=0.01)
    train_mode(softmax).weights(x).square().sum().backward()
    optimizer.step()
    train_mode(softmax, False)
    after = softmax.exponential
    assert after != before and after.a == before.a
    np.testing.assert_allclose(softmax.weights(x).numpy(), by_hand(softmax, exponent(x.numpy())), rtol=1e-10)
    assert softmax.exponential is after  # nothing moved: not measured again
    kind, chains = (HeadChain, after.chains) if trainable == "head" else (SquareChain, (after,))
    assert type(after) is kind
    assert [c.b for c in chains] == softmax.tensors()["beta"].reshape(-1).tolist()
    kept = softmax.tensors()["constants"].reshape(3, -1).T
    assert [list(c.constants) for c in chains] == kept.tolist()


@pytest.mark.parametrize("trainable", SETS)
def test_constants_that_are_changed_between_two_evaluations_are_seen(trainable):
    """By an average of weights that is put in, or by a step whose gradients were there before the first of them."""
    softmax, x = made(trainable), draw(2, H, 6, 6)
    optimizer = torch.optim.SGD(softmax.parameters(), lr=1e-3)
    train_mode(softmax).weights(x).sum().backward()
    before = train_mode(softmax, False).weights(x)
    optimizer.step()
    stepped = softmax.weights(x)
    with torch.no_grad():
        softmax.parameters()[1].mul_(0.9)
    averaged = softmax.weights(x)
    assert not torch.equal(before, stepped) and not torch.equal(stepped, averaged)
    np.testing.assert_allclose(averaged.numpy(), by_hand(softmax, exponent(x.numpy())), rtol=1e-10)


def test_a_compiled_evaluation_sees_constants_that_change():
    """Of copies too, of which nothing was asked before: else exp itself would stand in for the chain."""
    softmax, x = copy.deepcopy(made()), draw(2, H, 6, 6)
    compiled = torch.compile(softmax.weights, backend="eager")
    for _ in range(2):
        np.testing.assert_allclose(compiled(x).numpy(), by_hand(softmax, exponent(x.numpy())), rtol=1e-10)
        with torch.no_grad():
            softmax.parameters()[1].mul_(0.9)


def test_training_steps_do_not_measure_the_fit(monkeypatch):
    softmax = train_mode(made("head"))
    monkeypatch.setattr(ChainCGF, "fitted", lambda self: pytest.fail("measured in a training step"))
    for _ in range(2):
        softmax.weights(draw(2, H, 4, 5)).sum().backward()
    train_mode(softmax, False)
    with pytest.raises(pytest.fail.Exception):
        softmax.weights(draw(2, H, 4, 5))


def test_the_fit_is_measured_anew_on_the_domain():
    start, moved = ChainCGF(k=3).exponential, made().exponential
    assert start == chain(-18.0, 1.2, 3)
    y = np.linspace(-18.0, 1.2, 4001)
    error = (np.abs(moved(y) - np.exp(y)) * np.exp(-np.maximum(y, 0))).max()
    assert moved.fit.domain == (-18.0, 1.2) and moved.fit.max_error == pytest.approx(error, rel=1e-3)
    assert error > start.fit.max_error and moved.fit.guard != start.fit.guard


def test_the_fit_by_head_is_that_of_the_worst_head():
    e = made("head").exponential
    alone = [with_fit(c, (-18.0, 1.2)) for c in e.chains]
    assert e.fit.max_error == max(c.fit.max_error for c in alone)
    assert e.fit.guard[0] == pytest.approx(max(c.fit.guard[0] for c in alone), rel=1e-6)
    assert e.fit.guard[1] == pytest.approx(min(c.fit.guard[1] for c in alone), rel=1e-6)


def test_another_exponential_takes_its_place_until_the_constants_move():
    softmax, x, other = made(), draw(2, H, 6, 6), limit(-18.0, 1.2, 6)
    own = softmax.weights(x)
    softmax.exponential = other
    plain = CGF()
    plain.exponential = other
    assert torch.equal(softmax.weights(x), plain.weights(x)) and not torch.equal(own, softmax.weights(x))
    softmax.load_tensors(softmax.tensors())
    assert torch.equal(softmax.weights(x), own)


def test_untrained_constants_are_those_of_the_fit_and_stay():
    softmax, x = train_mode(ChainCGF(trainable="none")), draw(2, H, 6, 6).requires_grad_()
    softmax.weights(x).sum().backward()
    assert softmax.parameters() == [] and torch.isfinite(x.grad).all() and x.grad.any()
    assert softmax.exponential == chain(-18.0, 1.2, 3)


@pytest.mark.parametrize("trainable", ["none", *SETS])
def test_saved_and_loaded_bit_for_bit(trainable, tmp_path):
    from safetensors.torch import load_file, save_file

    softmax = made(trainable)
    save_file({k: v.contiguous() for k, v in softmax.tensors().items()}, tmp_path / "t.safetensors")
    again = softmax_from_json(json.loads(json.dumps(softmax.to_json())))
    again.sized(H)
    held = again.parameters()
    again.load_tensors(load_file(tmp_path / "t.safetensors"))
    assert again.exponential == softmax.exponential
    assert all(a is b for a, b in zip(held, again.parameters(), strict=True)), "an optimizer holds these"
    assert all(torch.equal(again.tensors()[k], v) for k, v in softmax.tensors().items())


def test_a_loaded_chain_is_not_fitted_again(monkeypatch):
    """A fit may come out otherwise on another machine: all of a chain travels, alpha too."""
    softmax = made()
    again = ChainCGF(**softmax.params())
    monkeypatch.setattr("cgf.softmax.chain_cgf.chain", lambda *_: pytest.fail("fitted again"))
    again.load_tensors(softmax.tensors())
    assert again.exponential == softmax.exponential


def test_copies_have_constants_of_their_own():
    first = made()
    second = copy.deepcopy(first)
    second.parameters()[0].data += 1
    assert torch.equal(second.parameters()[0].detach(), first.parameters()[0].detach() + 1)


METHODS = {"chebyshev": chebyshev(-18.0, 1.2, 5, 2), "fitted": fitted(-18.0, 1.2, 5, 2), "limit": limit(-18.0, 1.2, 2)}


@pytest.mark.parametrize("method", METHODS)
def test_any_polynomial_in_the_loop(method):
    softmax, x = PolynomialCGF(method=method, degree=5, k=2, domain=[-18.0, 1.2]), draw(2, H, 6, 12, scale=3.5)
    e, y = METHODS[method], exponent(x.numpy())
    assert softmax.exponential == e and (y < -18.0).any()
    np.testing.assert_allclose(softmax.weights(x).numpy(), e(y), rtol=1e-9)
    np.testing.assert_allclose(train_mode(softmax).weights(x).numpy(), e(y.clip(-18.0, 1.3)), rtol=1e-9)


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: ChainCGF(k=0), r"softmax\.k must be a whole number from 1 to 12, and 0"),
        (lambda: ChainCGF(k=2.5), "2.5 was given"),
        (lambda: ChainCGF(k=True), "True was given"),
        (lambda: ChainCGF(trainable="heads"), "one of none, layer, head, and 'heads'"),
        (lambda: ChainCGF(domain=[1.0, -18.0]), r"softmax\.domain must be two numbers"),
        (lambda: ChainCGF(domain=[-18.0, -1.0]), "HI from 0"),
        (lambda: ChainCGF(domain=[-18.0]), "two numbers"),
        (lambda: ChainCGF(domain=["a", 1]), "two numbers"),
        (lambda: ChainCGF(domain=None), "two numbers"),
        (lambda: ChainCGF(domain=[float("-inf"), 0]), "two numbers"),
        (lambda: ChainCGF(above=-1), "at least 0"),
        (lambda: ChainCGF(below=None), "at least 0"),
        (lambda: ChainCGF(order=5), "order=5"),
        (lambda: PolynomialCGF(method="spline"), "one of chebyshev, fitted, limit, and 'spline'"),
        (lambda: PolynomialCGF(degree=0), r"softmax\.degree"),
        (lambda: PolynomialCGF(method="limit", k=0), r"softmax\.k"),
        (lambda: ChainCGF(trainable="head").parameters(), "count of heads"),
        (lambda: made("head").sized(5), "3 heads do not fit a layer of 5"),
        (lambda: made("head").weights(draw(2, 2, 4, 4)), "3 heads do not fit a layer of 2"),
        (lambda: made("head").weights(draw(4, 4)), r"needs scores \(..., H, Q, K\)"),
        (lambda: made().load_tensors({"beta": torch.ones(())}), r"the checkpoint has \['beta'\]"),
        (
            lambda: made().load_tensors(made("head").tensors()),
            r"'beta' of shape \(\), and the checkpoint has \(3, 1, 1\)",
        ),
        (lambda: made().load_tensors(made(k=4).tensors()), r"'constants' of shape \(3,\)"),
    ],
)
def test_bad_fields_are_one_sentence(make, says):
    with pytest.raises(UserError, match=says) as error:
        make()
    assert "\n" not in str(error.value)


def test_an_evaluation_does_not_load_the_compiler():
    """Which takes seconds, in every process with a chain."""
    lines = [
        "import sys, torch",
        "from cgf.softmax.chain_cgf import ChainCGF",
        "softmax = ChainCGF(k=2, domain=(-8.0, 1.0))",
        "softmax.parameters()",
        "softmax.weights(torch.randn(2, 3, 4, 4))",
        "print('torch._dynamo' in sys.modules)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
