"""Rows that sum to one without a division: what they are, what they cost on ciphertexts, and who refuses them."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the readings in the clear are tensors")
from test_attention import CHAIN, encrypted, in_the_clear, layer  # noqa: E402

from cgf.errors import UserError  # noqa: E402
from cgf.he.circuits import circuit_for  # noqa: E402
from cgf.he.dryrun import dry_run  # noqa: E402
from cgf.he.encrypted import Encrypted, flatten  # noqa: E402
from cgf.he.engines.desilo import DesiloOwner  # noqa: E402
from cgf.he.score_rows import Rows  # noqa: E402
from cgf.he.session import Session  # noqa: E402
from cgf.models.network import exponential_of  # noqa: E402
from cgf.softmax.cgf import CGF  # noqa: E402
from cgf.softmax.unit_cgf import UnitCGF, UnitChainCGF  # noqa: E402

N = 16
CAUSAL = torch.ones(N, N, dtype=torch.bool).tril()
ONE_SHORT = (torch.arange(N) < N - 1).expand(N, N)  # every row has as many entries, and none has all


def with_chain(cls):
    softmax = cls()
    softmax.exponential = CHAIN
    return softmax


def needs(softmax, valid):
    _, mask, counts, shape = flatten(scores(), valid)
    return dry_run(softmax, Rows(shape, 0, mask, counts), N, "folded")


def scores(seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 0.7, (2, 3, N, N)))


@pytest.mark.parametrize("valid", [None, CAUSAL], ids=["full", "causal"])
def test_every_row_sums_to_one_and_keeps_its_order_and_differences(valid):
    x = scores()
    weights, plain = UnitCGF().weights(x, valid), CGF().weights(x, valid)
    there = torch.ones(N, N, dtype=torch.bool) if valid is None else valid
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, N, dtype=torch.float64))
    moved = (weights - plain)[..., there]
    shift = ((1 - plain.sum(-1)) / there.sum(-1))[..., None].expand(x.shape)[..., there]
    torch.testing.assert_close(moved, shift)
    assert float(weights[..., ~there].abs().sum()) == 0


def test_a_row_that_vanishes_is_the_mean_of_the_values():
    x = torch.tensor([[0.0] * (N - 1) + [200.0]], dtype=torch.float64)
    assert float(CGF().weights(x).sum()) == 0
    torch.testing.assert_close(UnitCGF().weights(x), torch.full((1, N), 1 / N, dtype=torch.float64))


def test_a_row_without_a_valid_entry_is_zero():
    assert float(UnitCGF().weights(scores(), torch.zeros(N, N, dtype=torch.bool)).abs().max()) == 0


def test_observers_have_the_exponentials_so_that_a_penalty_sees_what_strays():
    seen = []
    softmax = UnitCGF()
    softmax.observers.append(lambda _, y, p, valid: seen.append((y, p)))
    softmax.weights(scores())
    torch.testing.assert_close(seen[0][1], CGF().weights(scores()))
    torch.testing.assert_close(seen[0][1], seen[0][0].exp())


@pytest.mark.parametrize("cls", [UnitCGF, UnitChainCGF])
def test_the_operation_of_training_has_the_gradient_of_the_definition(cls):
    softmax, x = cls(), scores().requires_grad_()
    softmax.training = True
    assert torch.autograd.gradcheck(lambda s: softmax.weights(s, CAUSAL), (x,), atol=1e-5)


@pytest.mark.parametrize(("valid", "more"), [(None, 0), (CAUSAL, 1), (ONE_SHORT, 1)], ids=["full", "causal", "short"])
def test_no_level_more_on_full_rows_and_one_where_entries_do_not_count(valid, more):
    own, plain = needs(with_chain(UnitCGF), valid), needs(with_chain(CGF), valid)
    assert own.levels == plain.levels + more
    assert own.circuit.name == plain.circuit.name == ("folded" if valid is None else "masked")


@pytest.mark.parametrize("style", ["folded", "abreast", "paper"])
def test_every_circuit_of_full_rows_takes_it(style):
    softmax = with_chain(UnitCGF)
    layered = Encrypted(softmax, Session(DesiloOwner, style=style))
    np.testing.assert_allclose(layered.weights(scores()), softmax.reading(scores()), rtol=0, atol=1e-5)
    assert not layered.record.count("wrong") and layered.record.levels == layered.record.levels_counted


def test_a_formula_that_runs_as_it_stands_puts_its_rows_right_once():
    softmax = UnitCGF(order=3)
    softmax.exponential = CHAIN
    assert circuit_for(softmax, Rows((2, 3, N, N), 0, None, np.full(96, float(N))), False).run == softmax.formula


@pytest.mark.parametrize("n", [N, 13])
def test_whole_attention(n):
    heads = layer(2, 3, n, 4)
    outputs, asked, seen = encrypted(with_chain(UnitCGF), heads)
    np.testing.assert_allclose(outputs, in_the_clear(with_chain(UnitCGF), heads), rtol=0, atol=1e-9)
    assert asked.levels == seen.levels and seen.overflow == 0


def test_a_whole_network_does_not_take_it_for_its_chain():
    with pytest.raises(
        UserError, match="knows CGF-softmax of two cumulants alone, and layer 0 has 'chain of 3, unit row sums'"
    ):
        exponential_of(UnitChainCGF())
