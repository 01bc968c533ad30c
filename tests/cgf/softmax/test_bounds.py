"""What every published method computes under encryption, against its definition: within the bound that it states.

At the numbers of its yaml. The bound holds for scores in ``domain`` and denominators in the stated interval; rows here
are checked to lie there, and a method that is not given its interval by a field has none to leave.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from cgf.config import build
from cgf.softmax.exact import Exact
from cgf.softmax.published.base import Published
from cgf.softmax.published.comparison import Comparison
from cgf.softmax.published.quotient import StablePower
from cgf.softmax.published.standard import FixedMax
from cgf.softmax.published.the_x import TheX

FOLDER = Path(__file__).parents[3] / "configs" / "softmax"
METHODS = {p.stem: build(OmegaConf.load(p)) for p in sorted(FOLDER.glob("*.yaml"))}
METHODS = {name: softmax for name, softmax in METHODS.items() if isinstance(softmax, Published)}
APPROXIMATIONS = [name for name, softmax in METHODS.items() if type(softmax).weights is Published.weights]
ROUNDING = 1e-11  # of float64, multiplied by what a division by iteration loses


def scores(softmax, spread, n, seed=0):
    """(2, 3, 20, n) of the given standard deviation, in the interval of scores that the method states."""
    x = torch.from_numpy(np.random.default_rng(seed).normal(0, spread, (2, 3, 20, n)))
    low, high = softmax.domain
    if softmax.maximum == "bound":  # the interval is that of scores less their estimated maximum
        return x
    return (x + (high - 3 * spread if softmax.maximum == "fixed" else (low + high) / 2)).clamp(low, high)


def masks(n):
    """Full rows, queries of n / 2 to n keys, and two samples of which one is padded to its half."""
    last = torch.linspace(n // 2, n - 1, 20).long()
    return {
        "full": None,
        "causal": torch.arange(n) <= last[:, None],
        "padded": torch.arange(n) < torch.tensor([n // 2, n])[:, None, None, None],
    }


@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("name", APPROXIMATIONS)
def test_the_reading_of_an_approximation_is_exact_softmax_within_its_bound(name, spread):
    softmax = METHODS[name]
    bound, n = softmax.error_bound(), softmax.n
    assert 0 < bound < 0.5  # a bound that says something
    x = scores(softmax, spread, n)
    for mask, valid in masks(n).items():
        found, wanted = softmax.reading(x, valid), Exact().weights(x, valid)
        assert float((found - wanted).abs().max()) <= bound + ROUNDING, mask
        assert valid is None or not found[~valid.expand(x.shape)].any()
        assert float(wanted.amax()) > 2 / n  # rows of which an entry stands out


@pytest.mark.parametrize("name", [name for name in METHODS if name not in APPROXIMATIONS])
def test_the_reading_of_a_replacement_is_its_definition_within_its_bound(name):
    softmax = METHODS[name]
    n = getattr(softmax, "n", 128)
    x = scores(softmax, 1.0, n, seed=1) + (0.5 if name.startswith("power") else 0.0)
    for mask, valid in masks(n).items():
        found, wanted = softmax.reading(x, valid), softmax.weights(x, valid)
        assert float((found - wanted).abs().max()) <= softmax.error_bound() + ROUNDING, mask
        assert float((wanted.abs().amax(-1) / wanted.abs().mean(-1)).min()) > 1.2


def test_the_weights_of_an_approximation_are_those_of_exact_softmax():
    x = scores(METHODS["standard"], 1.0, 16)
    valid = masks(16)["causal"]
    assert torch.equal(METHODS["standard"].weights(x, valid), Exact().weights(x, valid))


@pytest.mark.parametrize("above, least", [(1, 1e-3), (8, 0.01), (127, 0.2)])
def test_the_bound_of_a_fixed_maximum_holds_for_rows_of_two_levels(above, least):
    """One entry at u and ``above`` others below it: what tells them apart is lost most where the row's sum is least."""
    softmax, worst = METHODS["fixed_max"], 0.0
    for u in np.linspace(-10.0, 0.0, 30):
        x = torch.from_numpy(u - np.linspace(0.0, 8.0, 30)[:, None] * np.ones(above + 1) + softmax.shift)
        x[:, 0] = u + softmax.shift
        x = x[(x - softmax.shift).exp().sum(-1) >= softmax.least]
        if len(x):
            worst = max(worst, float((softmax.reading(x) - Exact().weights(x)).abs().max()))
    assert 0.005 < worst <= softmax.error_bound() < 0.33


def two_levels(n, low):
    """Rows of n entries, 1 to n - 1 of them at zero and the others at u, for u from ``low`` to zero."""
    u = np.linspace(low, 0.0, 400)[:, None, None]
    return torch.from_numpy(np.where(np.arange(n) < np.arange(1, n)[:, None], 0.0, u).reshape(-1, n))


@pytest.mark.parametrize("r, least", [(3, 3.2), (4, 5.2), (4, 6.536), (8, 6.5), (8, 1.7)])
def test_the_bound_of_a_fixed_maximum_holds_for_rows_whose_sum_is_nearly_full(r, least):
    """Some entries at the maximum and the others far below it lose more than as many equal ones of their sum."""
    softmax = FixedMax(shift=0.0, low=-6.0, n=8, r=r, least=least, iterations=60)
    x = two_levels(8, -6.0)
    x = x[x.exp().sum(-1) >= least]
    worst = float((softmax.reading(x) - Exact().weights(x)).abs().max())
    assert 0.25 * softmax.error_bound() < worst <= softmax.error_bound() < 0.6


@pytest.mark.parametrize("eps, delta, least", [(0.01, 0.5, 0.05), (0.02, 0.1, 0.5), (0.01, 1e-6, 1.0)])
def test_the_bound_of_stable_power_holds_for_small_rows(eps, delta, least):
    softmax = StablePower(eps=eps, delta=delta, least=least, most=64.0, iterations=30)
    size = torch.linspace(least**0.25, 2.0, 50, dtype=torch.float64)[:, None]
    x = size * torch.tensor([[1.0, 0.3, -0.2, 0.0]], dtype=torch.float64)
    worst = float((softmax.reading(x) - softmax.weights(x)).abs().max())
    assert 0.3 * softmax.error_bound() < worst <= softmax.error_bound()


@pytest.mark.parametrize("softmax", [Comparison(gs=2, fs=1), Comparison(gs=0, fs=1), TheX(degree=3)])
def test_where_nothing_is_held_no_bound_is_stated(softmax):
    """Comparisons that do not find the maximum, and a polynomial as wrong as the sum that it gives."""
    assert softmax.error_bound() == np.inf


def test_what_comparisons_miss_of_the_maximum_is_counted():
    """Fewer of them leave more, and the reading stays within what is stated."""
    fewer = Comparison(gs=5, fs=2)
    assert METHODS["hetal"].missed() < 1e-3 < 5e-3 < fewer.missed() < np.log(1.1)
    x = scores(fewer, 1.0, fewer.n)
    assert float((fewer.reading(x) - Exact().weights(x)).abs().max()) <= fewer.error_bound() < 0.5


def test_arions_maximum_is_that_of_its_paper():
    """A wrong shift cancels in the weights, and shows only where exp leaves its interval: so it is read off itself."""
    softmax, seen = METHODS["arion"], []
    x = scores(softmax, 1.5, softmax.n)
    spy = type("Spy", (), {"core": lambda self, u: seen.append(u.data) or u, "a": softmax.exp.a, "b": softmax.exp.b})()
    watched = type(softmax)(**softmax.params())
    watched.__dict__["exp"] = spy
    watched.reading(x)
    maximum = x.mean(-1, keepdim=True) + 2.08 * (1.25 + 0.1 * x.var(-1, correction=0, keepdim=True))
    torch.testing.assert_close(seen[0], softmax.exp.a * (x - maximum) + softmax.exp.b, rtol=1e-9, atol=1e-9)
