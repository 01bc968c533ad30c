"""The circuit follows from the definition: a subclass that changes it never runs the circuit of its parent."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the readings in the clear are tensors")
from cgf.approx import fit  # noqa: E402
from cgf.approx.chain import SquareChain  # noqa: E402
from cgf.approx.head_chain import HeadChain  # noqa: E402
from cgf.errors import UserError  # noqa: E402
from cgf.he.circuits import BUILDERS, circuit_for  # noqa: E402
from cgf.he.encrypted import Encrypted  # noqa: E402
from cgf.he.engines.sim import SimOwner  # noqa: E402
from cgf.he.score_rows import Rows  # noqa: E402
from cgf.he.session import Session  # noqa: E402
from cgf.softmax.base import ExponentialSoftmax, Softmax  # noqa: E402
from cgf.softmax.bpmax import BPMax  # noqa: E402
from cgf.softmax.cgf import CGF  # noqa: E402
from cgf.softmax.chain_cgf import ChainCGF  # noqa: E402
from cgf.softmax.exact import Exact  # noqa: E402
from cgf.softmax.poly_cgf import PolynomialCGF  # noqa: E402
from cgf.softmax.published.gaussian import GaussianKernel  # noqa: E402
from cgf.softmax.published.pointwise import ScaledReLU, ScaledSigmoid  # noqa: E402
from cgf.softmax.published.quotient import Power  # noqa: E402
from cgf.softmax.published.standard import Standard  # noqa: E402
from cgf.softmax.published.the_x import TheX  # noqa: E402
from cgf.softmax.taylor import TaylorCGF  # noqa: E402

B, H, N = 2, 3, 12
CHAIN = fit.limit(-16.0, 1.0, 5)
BY_HEAD = HeadChain(
    "head_chain", tuple(SquareChain("chain", 2.0**-3, 0.9 + 0.05 * h, (0.02 * h, -0.01, 0.03)) for h in range(H))
)
PADDED = (torch.arange(N) < torch.tensor([9, 12])[:, None])[:, None, None]
MASKS = {
    "full": None,
    "causal": torch.ones(N, N, dtype=torch.bool).tril(),
    "padded": PADDED,
    "causal and padded": torch.ones(N, N, dtype=torch.bool).tril() & PADDED,
}


@dataclass(eq=False)
class Wider(CGF):
    factor: float = 1.5

    def exponent(self, x):
        centred = x - x.row_mean()
        return (centred - centred.square().row_mean() * (self.factor / 2)).minus_log_count()


@dataclass(eq=False)
class Unrelated(ExponentialSoftmax):
    order: int = 2  # of nothing that CGF-softmax has
    plain: ClassVar[bool] = True

    def exponent(self, x):
        return (x * 0.5 - x.square() * 0.1).minus_log_count()


class Halved(GaussianKernel):
    def exponent(self, x):
        return x * 0.5 - 1.0


class Squared(CGF):
    def apply_exponential(self, y):
        return super().apply_exponential(y).square()


class SquaredInTheLoop(PolynomialCGF):
    def apply_exponential(self, y):
        return super().apply_exponential(y).square()


class WithFormula(CGF):
    def formula(self, x):
        return super().formula(x) * 0.25 + 0.5

    def weights(self, scores, valid=None):
        return Softmax.weights(self, scores, valid)


def by_hand(softmax, row):
    """ln of the weights of one row, with exp itself, in numpy."""
    if isinstance(softmax, Halved):
        return row * 0.5 - 1.0
    if isinstance(softmax, Unrelated):
        return row * 0.5 - row**2 * 0.1 - np.log(len(row))
    factor = softmax.factor if isinstance(softmax, Wider) else 1.0
    y = row - row.mean() - factor * row.var() / 2 - np.log(len(row))
    if isinstance(softmax, WithFormula):
        return np.log(np.exp(y) * 0.25 + 0.5)
    return 2 * y if isinstance(softmax, Squared) else y


CHANGED = [Wider, Unrelated, Halved, Squared, WithFormula]


def scores():
    return torch.from_numpy(np.random.default_rng(3).normal(0.4, 1.1, (B, H, N, N)))


def encrypted(softmax, valid=None, x=None):
    slot = Encrypted(softmax, Session(lambda max_level: SimOwner(max_level, outside="raise")))
    return slot.weights(scores() if x is None else x, valid), slot.record


def agrees(softmax, valid, circuit=None):
    weights, record = encrypted(softmax, valid)
    wanted = softmax.reading(scores(), valid)
    np.testing.assert_allclose(weights, wanted, rtol=0, atol=1e-9 * max(1.0, float(wanted.abs().max())))
    assert record.levels == record.levels_counted
    assert circuit is None or set(record.circuits) == {circuit}


@pytest.mark.parametrize("e", [CHAIN, BY_HEAD], ids=["one chain", "a chain a head"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("make", CHANGED)
def test_a_changed_definition_is_what_runs_under_encryption(make, mask, e):
    softmax = make()
    softmax.exponential = e
    agrees(softmax, MASKS[mask], "formula")


@pytest.mark.parametrize("make", CHANGED)
@pytest.mark.parametrize("mask", MASKS)
def test_a_changed_definition_is_what_runs_in_the_clear(make, mask):
    x, valid = scores().numpy(), MASKS[mask]
    keep = np.broadcast_to(True if valid is None else valid.numpy(), x.shape)
    softmax, seen = make(), make()
    for dtype, most in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        weights = softmax.weights(scores().to(dtype), valid).double().numpy()
        for place in np.ndindex(B, H, N):
            own = keep[place]
            np.testing.assert_allclose(weights[place][own], np.exp(by_hand(softmax, x[place][own])), rtol=most)
            assert not weights[place][~own].any()
    seen.training = True
    torch.testing.assert_close(seen.weights(scores(), valid), softmax.weights(scores(), valid))


@pytest.mark.parametrize("mask", MASKS)
def test_in_the_loop_too(mask):
    agrees(SquaredInTheLoop(method="limit", k=4), MASKS[mask], "formula")


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("order", [2, 3, 4])
def test_a_chain_a_head_is_right_in_every_circuit(order, mask):
    softmax = CGF(order=order)
    softmax.exponential = BY_HEAD
    agrees(softmax, MASKS[mask])
    gaussian = GaussianKernel()
    gaussian.exponential = BY_HEAD
    agrees(gaussian, MASKS[mask], "plain")


def test_a_method_of_one_object_alone_counts():
    softmax = CGF()
    softmax.exponent = lambda x: Wider.exponent(Wider(), x)
    torch.testing.assert_close(softmax.weights(scores()), Wider().weights(scores()))
    softmax.exponential = CHAIN
    agrees(softmax, None, "formula")


@pytest.mark.parametrize(
    "softmax, circuit",
    [
        (CGF(), "folded"),
        (TaylorCGF(), "folded"),
        (ChainCGF(), "folded"),
        (PolynomialCGF(), "folded"),
        (GaussianKernel(), "plain"),
        (CGF(order=3), "formula"),
        (BPMax(), "rooted"),
        (Standard(), "formula"),
    ],
)
def test_the_definitions_at_hand_keep_their_circuits(softmax, circuit):
    if softmax.uses_exponential and softmax.exponential is None:
        softmax.exponential = CHAIN
    assert circuit_for(softmax, Rows((1, 1, N, N), 0, None, np.full(N, float(N))), False).name == circuit


@pytest.mark.parametrize("method", ["public_scale", "roots", "denominators", "typical"])
def test_a_bpmax_of_ones_own_computes_under_encryption_what_it_computes_in_the_clear(method):
    """Whatever it changes of what the formula or the circuit puts together."""
    changed = {
        "public_scale": lambda self, count: 0.5 * BPMax.public_scale(self, count),
        "roots": lambda self, queries: 1.1 * BPMax.roots(self, queries),
        "denominators": lambda self, queries: 2.0 * BPMax.denominators(self, queries),
        "typical": property(lambda self: 3.0),
    }
    softmax = make_class(BPMax, **{method: changed[method]})()
    softmax.denominator = torch.full((H, N, 1), 4000.0)
    agrees(softmax, None, "formula" if method in ("public_scale", "roots") else "rooted")


def test_a_definition_gets_a_circuit_by_one_row(monkeypatch):
    softmax = Wider()
    softmax.exponential = CHAIN
    monkeypatch.setitem(BUILDERS, Wider.exponent, lambda softmax, rows, padded, style: (softmax, rows, padded, style))
    rows = Rows((1, 1, N, N), 0, None, np.full(N, float(N)))
    assert circuit_for(softmax, rows, True, "paper") == (softmax, rows, True, "paper")


def test_a_public_scale_is_on_the_scores_in_the_clear_too():
    class Scaled(Softmax):
        def public_scale(self, count):
            return 0.5 / (count or 1)

        def formula(self, x):
            return x + 1.0

    for valid in MASKS.values():
        agrees(Scaled(), valid, "formula")


def make_class(base, **methods):
    return type(f"New{base.__name__}", (base,), methods)


def anything(self, *args):
    raise AssertionError


@pytest.mark.parametrize(
    "base, methods, says",
    [
        (
            CGF,
            ["formula"],
            "NewCGF changes formula, and the weights of CGF, which it keeps, do not follow from formula",
        ),
        (ExponentialSoftmax, ["formula", "exponent"], "changes formula, and the weights of ExponentialSoftmax"),
        (ChainCGF, ["formula"], "the weights of ChainCGF"),
        (GaussianKernel, ["formula"], "the weights of Exponential"),
        (BPMax, ["formula"], "the weights of BPMax"),
        (Exact, ["formula"], "the weights of Exact"),
        (Power, ["formula"], "the definition of Power, which it keeps, does not follow from formula"),
        (TheX, ["formula"], "the definition of TheX"),
        (CGF, ["weights"], "NewCGF changes weights and keeps the exponent, which an encrypted run computes, of CGF"),
        (ChainCGF, ["weights"], "keeps the apply_exponential, which an encrypted run computes, of LoopCGF"),
        (GaussianKernel, ["weights"], "keeps the exponent, which an encrypted run computes, of GaussianKernel"),
        (BPMax, ["weights"], "keeps the formula, which an encrypted run computes, of BPMax: it must give formula too"),
        (Power, ["weights"], "NewPower changes weights and keeps the formula"),
        (Standard, ["weights"], "keeps the formula"),
        (ScaledReLU, ["activation"], "changes activation and keeps a polynomial"),
        (ScaledSigmoid, ["activation"], "keeps a polynomial"),
        (ScaledReLU, ["formula"], "the definition of ScaledReLU"),
        (
            Power,
            ["definition"],
            "NewPower changes definition and keeps the formula, which an encrypted run computes, of Power",
        ),
        (ScaledReLU, ["definition"], "changes definition and keeps the formula"),
        (
            CGF,
            ["definition"],
            "changes definition, and the weights of CGF, which it keeps, do not follow from definition",
        ),
        (Standard, ["definition"], "the weights of Published"),
        (BPMax, ["definition"], "the weights of BPMax"),
        (CGF, ["uses_exponential"], "states uses_exponential"),
        (Softmax, ["uses_exponential"], "states uses_exponential"),
    ],
)
def test_half_a_definition_is_refused_when_the_class_is_made(base, methods, says):
    with pytest.raises(TypeError, match=says):
        make_class(base, **dict.fromkeys(methods, anything))
    mixin = type("Mixin", (), dict.fromkeys(methods, anything))
    if methods != ["uses_exponential"]:
        with pytest.raises(TypeError, match="changes"):
            type("Mixed", (mixin, base), {})


def test_a_whole_definition_is_taken():
    make_class(CGF, formula=anything, weights=anything)
    make_class(Standard, formula=anything)  # another approximation of the same softmax
    make_class(Power, formula=anything, weights=anything)
    make_class(Power, formula=anything, definition=anything)
    make_class(Exact, weights=anything)  # never encrypted: there is no formula that could part from them
    make_class(CGF, weights=anything, weights_follow=("exponent", "apply_exponential"))
    own = make_class(CGF, formula=anything, weights=anything)
    make_class(own, formula=anything, weights=anything)
    with pytest.raises(TypeError, match="changes exponent"):  # weights of its own may follow from anything
        make_class(own, exponent=anything)


def test_a_ciphertext_cannot_be_cut_off():
    class Cut(CGF):
        def exponent(self, x):
            return super().exponent(x).clamp(-8.0, 0.0)

    softmax = Cut()
    softmax.exponential = CHAIN
    with pytest.raises(UserError, match="a ciphertext cannot be cut off"):
        encrypted(softmax)
