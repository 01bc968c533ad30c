"""The short norm: its polynomial, its range, its levels."""

import numpy as np
import pytest
import torch

from cgf.errors import UserError
from cgf.norm.base import NormPlace
from cgf.norm.load import norms_from_json
from cgf.norm.short import ShortNorm, ShortNorms


def rows(spread=2.0, seed=0):
    draw = torch.Generator().manual_seed(seed)
    sizes = torch.exp((torch.rand(200, 1, generator=draw) - 0.5) * np.log(spread))
    return torch.randn(200, 64, generator=draw) * sizes + 0.5


def started(centred=True, degree=7, spread=2.0):
    norm = ShortNorms(degree=degree).make(NormPlace(64, 1e-5, centred))
    norm.take(torch.linspace(0.5, 2, 64), torch.linspace(-1, 1, 64))
    with torch.no_grad():
        norm.start(rows(spread))
    return norm


@pytest.mark.parametrize("centred", [True, False])
def test_it_is_near_the_hosts_norm_as_its_stated_error_says(centred):
    norm = started(centred)
    norm.eval()
    x = rows(seed=1)
    exact = norm.host_norm(x).detach() - norm.bias.detach()
    found = norm(x).detach() - norm.bias.detach()
    assert 1e-6 < norm.error < 0.05
    assert ((found - exact).norm(dim=-1) <= (norm.error + 1e-5) * exact.norm(dim=-1)).all()


def test_a_higher_degree_and_a_narrower_range_are_nearer():
    assert started(degree=3).error > started(degree=7).error > started(degree=15).error
    assert started(spread=16.0).error > started(spread=4.0).error


def test_levels_are_those_of_the_square_the_polynomial_and_the_product():
    assert [ShortNorm(NormPlace(4, 0.0, True), degree).levels for degree in (1, 3, 4, 7, 15)] == [3, 4, 5, 5, 6]


def test_variances_are_cut_off_and_observed_in_training_alone():
    norm, seen = started(), []
    norm.observers.append(lambda part, values, interval: seen.append((values.shape, interval)))
    far = rows() * 30
    norm.train()
    trained = norm(far).detach()
    assert seen == [((200, 1), (pytest.approx(np.log(float(norm.low))), pytest.approx(np.log(float(norm.high)))))]
    norm.eval()
    assert norm(far).detach().abs().max() > 100 * trained.abs().max()
    assert len(seen) == 1


def test_it_comes_back_with_its_range():
    norm, again = started(), ShortNorms().make(NormPlace(64, 1e-5, True))
    again.load_state_dict(norm.state_dict())
    assert torch.equal(again.eval()(rows()), norm.eval()(rows()))
    assert norms_from_json(ShortNorms(degree=5).to_json(), "norm.json") == ShortNorms(degree=5)


@pytest.mark.parametrize("given", [{"degree": 0}, {"degree": 64}, {"margin": 0.5}, {"margin": -1.0}])
def test_settings_are_checked(given):
    with pytest.raises(UserError, match=r"norm\.(degree|margin)"):
        ShortNorms(**given)
