"""Circuits of the published alternatives: simulator and ciphertexts against definitions written in numpy."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the readings in the clear are tensors")
from cgf.approx import fit, series  # noqa: E402
from cgf.errors import UserError  # noqa: E402
from cgf.he.encrypted import Encrypted  # noqa: E402
from cgf.he.engines.sim import SimOwner  # noqa: E402
from cgf.he.session import Session  # noqa: E402
from cgf.softmax.published.gaussian import GaussianKernel  # noqa: E402
from cgf.softmax.published.pointwise import ScaledReLU, ScaledSigmoid  # noqa: E402
from cgf.softmax.published.quotient import StablePower  # noqa: E402
from cgf.softmax.published.the_x import TheX  # noqa: E402
from cgf.softmax.published.two_relu import TwoReLU  # noqa: E402

N = 16
GAUSSIAN = GaussianKernel()
GAUSSIAN.exponential = fit.chain(-32.0, 0.0, 5)


def stable_power(x):
    z = x / (np.abs(x).max(-1, keepdims=True) + 1e-6)
    return z**4 / (1e-3 + (z**4).sum(-1, keepdims=True))


def two_relu(x):
    return np.maximum(x, 0) / np.maximum(x, 0).sum(-1, keepdims=True)


# softmax, its definition on full rows, levels of full rows, error of ciphertexts against the definition
CASES = {
    "relu": (ScaledReLU(), lambda x: np.maximum(x, 0) / np.sqrt(x.shape[-1]), 5, None),
    "sigmoid": (ScaledSigmoid(), lambda x: 1 / (1 + np.exp(-x)) / np.sqrt(x.shape[-1]), 5, None),
    "the_x": (
        TheX(n=N, degree=15, least=4, most=512, iterations=6),
        lambda x: x / (1 + (np.maximum(x / 2 + 1, 0) ** 3).sum(-1, keepdims=True)),
        10,
        None,
    ),
    "two_relu": (TwoReLU(n=N, least=10, most=64, iterations=5), two_relu, 10, None),
    "power_stable": (StablePower(least=1, most=2048, iterations=8), stable_power, 10, None),
    "gaussian": (GAUSSIAN, np.exp, 5, GAUSSIAN.exponential.fit.max_error),
}


def case(name, seed=0):
    softmax, definition, levels, bound = CASES[name]
    x = np.random.default_rng(seed).standard_normal((1, 2, 12, N)) * 1.3
    if name == "gaussian":
        x = -np.abs(x * 6)
    if name == "two_relu":  # enough positive scores in each row for the denominators that it states
        x = x + 2
    return softmax, definition, torch.from_numpy(x), levels, softmax.error_bound() if bound is None else bound


def check(softmax, got, truth, reading, bound, loss):
    assert np.abs(got - reading).max() < loss
    assert np.abs(got - truth).max() <= bound + loss
    assert bound < 0.1  # a bound that says something


@pytest.mark.parametrize("name", CASES)
def test_simulator(name):
    softmax, definition, x, levels, bound = case(name)
    encrypted = Encrypted(softmax, Session(lambda max_level: SimOwner(max_level, outside="raise")))
    got = encrypted.weights(x)
    check(softmax, np.asarray(got), definition(x.numpy()), np.asarray(softmax.reading(x)), bound, 1e-9)
    assert encrypted.record.levels == encrypted.record.levels_counted == levels


@pytest.mark.parametrize("name", CASES)
def test_real_ciphertexts(owner_of, name):
    softmax, definition, x, levels, bound = case(name)
    encrypted = Encrypted(softmax, Session(lambda max_level: owner_of("desilo", max_level)))
    got = encrypted.weights(x)
    check(softmax, np.asarray(got), definition(x.numpy()), np.asarray(softmax.reading(x)), bound, 1e-4)
    assert encrypted.record.levels == levels


@pytest.mark.parametrize("name", CASES)
def test_rows_of_different_lengths(name):
    softmax, definition, x, levels, bound = case(name)
    causal = torch.ones(1, 1, 12, N, dtype=torch.bool).tril()
    if name in ("the_x", "two_relu", "power_stable"):  # denominators of short rows leave the interval that was stated
        causal[:, :, :9] = causal[:, :, 9:10]
    causal[..., 0] = False  # padding on the left of all
    causal[..., 1] = True
    encrypted = Encrypted(softmax, Session(SimOwner))
    got = np.asarray(encrypted.weights(x, causal))
    if name in ("relu", "sigmoid"):  # 1 / sqrt(n) is public and waits for decryption
        assert encrypted.record.levels == encrypted.record.levels_counted == levels
    np.testing.assert_allclose(got, softmax.reading(x, causal), atol=1e-9)
    for q in range(12):
        own = causal[0, 0, q].numpy()
        truth = definition(x.numpy()[:, :, q][..., own])
        assert np.abs(got[:, :, q][..., own] - truth).max() <= bound + 1e-9
        assert not got[:, :, q][..., ~own].any()


def test_a_subclass_with_a_newer_formula_is_computed_by_it():
    """Its inherited last factor is that of another formula: on rows of different lengths too the new one counts."""

    class Doubled(ScaledReLU):
        def definition(self, x):
            return x.relu().times_count(-self.scale) * 2

        def formula(self, x):
            return super().formula(x) * 2

    x, causal = case("relu")[2], torch.ones(1, 1, 12, N, dtype=torch.bool).tril()
    softmax = Doubled()
    got = np.asarray(Encrypted(softmax, Session(SimOwner)).weights(x, causal))
    np.testing.assert_allclose(got, softmax.reading(x, causal), atol=1e-9)
    assert np.abs(got - 2 * np.asarray(ScaledReLU().reading(x, causal))).max() < 1e-9


def test_the_gaussian_score_is_half_the_squared_distance():
    rng = np.random.default_rng(1)
    q, k = rng.standard_normal((2, 3, 5, 8)), rng.standard_normal((2, 3, 7, 8))
    distance = ((q[..., :, None, :] - k[..., None, :, :]) ** 2).sum(-1)
    query, key = torch.from_numpy(q).requires_grad_(), torch.from_numpy(k)
    got = GaussianKernel().weights(GaussianKernel().scores(query, key, 8**-0.5))
    np.testing.assert_allclose(got.detach(), np.exp(-distance / (2 * np.sqrt(8))), rtol=1e-12)
    assert torch.autograd.gradcheck(lambda v: GaussianKernel().scores(v, key, 0.3), (query,))
    half = GaussianKernel().scores(query.detach().bfloat16() * 9, key.bfloat16() * 9, 8**-0.5)
    assert half.dtype == torch.float32 and float(half.max()) < 1e-3


@pytest.mark.parametrize(
    ("fitted", "f", "most"),
    [
        (series.relu(-8, 8, 30), lambda x: np.maximum(x, 0), 0.16 * 8 / 30),
        (series.sigmoid(-12, 12, 31), lambda x: 1 / (1 + np.exp(-x)), 4e-4),
        (series.relu_cubed(-8, 8, 15), lambda x: np.maximum(x / 2 + 1, 0) ** 3, 0.05),
    ],
    ids=["relu", "sigmoid", "relu_cubed"],
)
def test_absolute_minimax(fitted, f, most):
    """The stated error is the true one, and it equioscillates: degree + 2 extrema of about that size."""
    x = np.linspace(*fitted.domain, 40_001)
    error = fitted(x) - f(x)
    assert np.abs(error).max() <= 1.001 * fitted.max_error < most
    signs = np.sign(error[np.abs(error) > 0.9 * fitted.max_error])
    assert (signs[1:] != signs[:-1]).sum() + 1 >= fitted.degree + 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScaledReLU(bound=0),
        lambda: ScaledSigmoid(scale=-1),
        lambda: TheX(eps=0),
        lambda: StablePower(delta=0),
        lambda: TheX(least=5, most=4),
        lambda: StablePower(p=3),
        lambda: TwoReLU(eps=0),
        lambda: TwoReLU(degree=2.5),
    ],
)
def test_numbers_that_make_no_softmax(make):
    with pytest.raises(UserError, match="needs"):
        make()
