"""BatchNorm: its statistics, its affine form, its start from a LayerNorm."""

import numpy as np
import pytest
import torch

from cgf.errors import UserError
from cgf.norm.base import NormPlace
from cgf.norm.batch import BatchNorm, BatchNorms
from cgf.norm.load import norms_from_json
from cgf.replacement import Tokens


def values(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 2 + 1


@pytest.mark.parametrize("mean", [True, False])
def test_evaluation_is_the_affine_map_that_it_tells(mean):
    norm = BatchNorm(6, 1e-5, mean=mean)
    norm.train()
    for seed in range(4):
        norm(values(5, 7, 6, seed=seed))
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2)
        norm.bias.uniform_(-1, 1)
    norm.eval()
    x = values(2, 3, 6, seed=9)
    scale, shift = norm.affine()
    assert scale.dtype == shift.dtype == np.float64
    np.testing.assert_allclose(norm(x).detach().numpy(), x.numpy() * scale + shift, rtol=1e-5, atol=1e-6)
    assert bool(norm.running_mean.any()) == mean


def test_it_is_torchs_batch_norm_where_nothing_is_padded():
    own, theirs = BatchNorm(6, 1e-5), torch.nn.BatchNorm1d(6)
    for seed in range(3):
        x = values(4, 5, 6, seed=seed)
        torch.testing.assert_close(own(x), theirs(x.reshape(-1, 6)).reshape(x.shape))
    torch.testing.assert_close(own.running_mean, theirs.running_mean)
    torch.testing.assert_close(own.running_var * 20 / 19, theirs.running_var + 0.9**3 / 19, atol=1e-5, rtol=1e-5)


def test_the_mean_square_is_that_of_the_real_tokens():
    norm, x = BatchNorm(6, 1e-5, mean=False, momentum=1.0), values(2, 4, 6)
    norm.tokens = Tokens()
    norm.tokens.valid = torch.tensor([[True, True, False, False], [True, True, True, False]])
    norm(x)
    torch.testing.assert_close(norm.running_var, x[norm.tokens.valid].square().mean(0))
    with pytest.raises(UserError, match=r"shape \(4, 2, 6\), and the mask of the batch is \(2, 4\)"):
        norm(x.transpose(0, 1))


def test_a_batch_of_one_row_is_normalised_by_the_running_statistics():
    norm, x = BatchNorm(6), values(1, 6)
    norm.train()
    torch.testing.assert_close(norm(x), x * (1 + 1e-5) ** -0.5)
    assert not norm.running_mean.any()


def test_frozen_goes_by_the_running_statistics_at_the_end_of_training_and_leaves_them():
    norm = BatchNorm(6, frozen=0.25)
    norm.train()
    norm(values(4, 5, 6))
    before, x = norm.running_mean.clone(), values(4, 5, 6, seed=3)
    norm.at(0.75)
    scale, shift = norm.affine()
    torch.testing.assert_close(norm(x), x * torch.tensor(scale).float() + torch.tensor(shift).float())
    assert torch.equal(norm.running_mean, before)
    norm.at(0.74)
    norm(x)
    assert not torch.equal(norm.running_mean, before)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("mean", [True, False])
def test_it_starts_as_the_nearest_affine_map_to_the_hosts_norm(centred, mean):
    norm = BatchNorms(mean=mean).make(NormPlace(6, 1e-6, centred))
    norm.take(torch.linspace(0.5, 2, 6), torch.linspace(-1, 1, 6))
    rows = values(400, 6) * torch.linspace(0.5, 2, 6)
    target = norm.host_norm(rows).detach()
    with torch.no_grad():
        norm.start(rows)
    norm.eval()
    error = (norm(rows).detach() - target).square().mean(0)
    design = torch.stack([rows, torch.ones_like(rows)], -1)  # (400, 6, 2)
    for i in range(6):
        fit = torch.linalg.lstsq(design[:, i], target[:, i, None]).solution
        best = (design[:, i] @ fit - target[:, i, None]).square().mean()
        assert float(error[i]) == pytest.approx(float(best), rel=1e-3)


def test_a_norm_that_waits_computes_the_hosts_own_and_measures():
    norm = BatchNorms(momentum=1.0).make(NormPlace(6, 1e-6, True))
    norm.train()
    norm.waits, x = True, values(3, 4, 6)
    torch.testing.assert_close(norm(x), torch.nn.functional.layer_norm(x, (6,), eps=1e-6))
    torch.testing.assert_close(norm.running_mean, x.reshape(-1, 6).mean(0))
    norm.eval()
    assert (norm(x) - torch.nn.functional.layer_norm(x, (6,))).abs().max() > 0.1


def test_a_second_computation_measures_nothing():
    norm, x = BatchNorm(6), values(3, 4, 6)
    norm.again = True
    norm(x)
    assert not norm.running_mean.any()


@pytest.mark.parametrize("keep", [None, 5, {"a": 1}, [""], [3]])
def test_names_of_norms_that_are_kept_are_a_list(keep):
    with pytest.raises(UserError, match="keep must be a list of names of modules, and "):
        BatchNorms(keep=keep)


def test_a_variant_comes_back_from_its_description():
    variant = BatchNorms(mean=False, frozen=0.5, keep=["embeddings.LayerNorm"])
    assert norms_from_json(variant.to_json(), "norm.json") == variant


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"variant": "os.mkdir"}, "one of exact, batch, short"),
        ([], "needs a variant"),
        ({"variant": "batch", "path": "x"}, "no setting 'path'"),
        ({"variant": "batch", "momentum": "much"}, "'momentum'"),
        ({"variant": "batch", "momentum": 0.0}, "above 0"),
        ({"variant": "batch", "start": "best"}, "one of fit, gains"),
        ({"variant": "batch", "_target_": "os.mkdir"}, "names code"),
        ({"variant": "batch", "frozen": 1.0}, "share of the steps"),
    ],
)
def test_what_a_file_says_of_norms_is_checked(given, message):
    with pytest.raises(UserError, match=message):
        norms_from_json(given, "norm.json")
