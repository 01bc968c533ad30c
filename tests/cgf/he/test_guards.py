"""What an encrypted softmax notices of itself: scores beyond its guard, weights off the clear ones."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the readings in the clear are tensors")
from cgf.approx import fit  # noqa: E402
from cgf.approx.unit_size import of_unit_size  # noqa: E402
from cgf.errors import UserError  # noqa: E402
from cgf.he.encrypted import Encrypted  # noqa: E402
from cgf.he.engines.desilo import DesiloOwner  # noqa: E402
from cgf.he.engines.lanes import LanesOwner  # noqa: E402
from cgf.he.engines.library import library_of, named  # noqa: E402
from cgf.he.engines.sim import SimOwner  # noqa: E402
from cgf.he.session import Session  # noqa: E402
from cgf.softmax.base import Softmax  # noqa: E402
from cgf.softmax.bpmax import BPMax  # noqa: E402
from cgf.softmax.cgf import CGF  # noqa: E402
from cgf.softmax.exact import Exact  # noqa: E402
from cgf.softmax.published.comparison import Comparison  # noqa: E402
from cgf.softmax.published.normalize_square import NormalizeSquare, Thor  # noqa: E402
from cgf.softmax.published.pointwise import ScaledReLU, ScaledSigmoid  # noqa: E402
from cgf.softmax.published.quotient import Power, Quad, StablePower  # noqa: E402
from cgf.softmax.published.standard import FixedMax, Standard  # noqa: E402
from cgf.softmax.published.statistical import Arion, Tricycle  # noqa: E402
from cgf.softmax.published.the_x import TheX  # noqa: E402
from cgf.softmax.published.two_relu import TwoReLU  # noqa: E402
from cgf.softmax.taylor import TaylorCGF  # noqa: E402
from cgf.softmax.tensor import TensorRows  # noqa: E402

PUBLISHED = [
    Standard(),
    FixedMax(),
    ScaledReLU(),
    ScaledSigmoid(),
    Power(),
    Quad(),
    StablePower(),
    TheX(),
    TwoReLU(),
    Comparison(),
    NormalizeSquare(),
    Thor(),
    Arion(),
    Tricycle(),
]
X = torch.tensor(np.random.default_rng(3).uniform(-4.0, 1.0, (2, 2, 4, 16)))


def seen(softmax, scores, owner=SimOwner):
    encrypted = Encrypted(softmax, Session(owner))
    encrypted.weights(scores)
    return encrypted.record


@pytest.mark.parametrize("softmax", PUBLISHED, ids=lambda s: s.name)
def test_a_published_softmax_explodes_beyond_its_guard_and_not_inside_it(softmax):
    (low, high), (left, right) = softmax.intervals()
    assert left <= low < high <= right and np.isfinite([left, right]).all()
    if softmax.name == "hetal":
        return
    inside, most = np.linspace(low, high, 20_001), 1.0 + 1e-9
    largest = np.abs(softmax.first_polynomial(inside)).max()
    assert np.abs(softmax.first_polynomial(np.linspace(left, right, 999))).max() <= 2 * largest * most
    step = (high - low) / 100
    assert max(np.abs(softmax.first_polynomial(np.array([left - step, right + step])))) > 2 * largest


def test_scores_outside_the_domain_and_beyond_the_guard_are_counted_by_head():
    softmax, scores = ScaledReLU(), X.clone()
    scores[0, 1, 2, :3] = torch.tensor([8.1, 9.0, -20.0])
    record = seen(softmax, scores)
    assert record.heads.outside.tolist() == [0, 3] and record.heads.beyond.tolist() == [0, 2]
    assert (record.low, record.high) == (-20.0, 9.0)
    inside = seen(softmax, X)
    assert (inside.outside, inside.beyond, inside.count("wrong"), inside.count("inexact")) == (0, 0, 0, 0)


@pytest.mark.parametrize("softmax", [Arion(n=16), Tricycle(n=16)], ids=lambda s: s.name)
def test_a_domain_of_scores_less_an_estimated_maximum_does_not_move_with_them(softmax):
    y = softmax.argument(TensorRows.of(X, None)).data
    np.testing.assert_allclose(softmax.argument(TensorRows.of(X + 900.0, None)).data, y, atol=1e-6)
    assert float((X - y).amax()) > float(X.amax(-1).amax()) - 3  # a maximum, nearly, was taken off
    if softmax.name == "tricycle":  # the circuit of the other takes half a minute
        assert seen(softmax, X + 50.0).outside == 0


def test_weights_that_no_ciphertext_holds_are_beyond_where_no_interval_is_stated():
    softmax, scores = BPMax(), X.clone()
    assert seen(softmax, scores).beyond == 0
    scores[1, 0, 0, 5] = 10.0  # 15^5 is 2^19.5, and the denominator of a softmax that saw nothing is 1
    record = seen(softmax, scores)
    assert record.heads.beyond.tolist() == [1, 0] and record.low is None


class Noisy(SimOwner):
    """Decrypts one slot with an error a hundred times what the simulator states."""

    def decrypt(self, ct):
        slots = super().decrypt(ct)
        slots[5] += 1e-7
        return slots

    def decrypt_pair(self, ct):
        real, imaginary = super().decrypt_pair(ct)
        real[5] += 1e-7
        return real, imaginary


def test_weights_further_off_than_ten_times_the_stated_noise_are_wrong():
    assert seen(ScaledReLU(), X).count("wrong") == 0
    record = seen(ScaledReLU(), X, Noisy)
    assert record.heads.wrong.sum() > 0 and record.heads.wrong[0] == 0  # slot 5 is a row of head 1: 4 rows a head
    large = torch.where(X > 0, X * 7, X)  # weights above 1: the noise is relative to them
    assert record.count("wrong") == seen(ScaledReLU(), large, Noisy).count("wrong") > 0


def test_polynomials_off_the_definition_inside_the_domain_are_inexact():
    """Power-softmax whose denominators, sums of fourth powers, lie below the interval of its division."""
    assert seen(Power(), X + 2.0).count("inexact") == 0
    record = seen(Power(), X / 8)
    assert record.outside == 0 and record.count("inexact") > 0


def test_a_large_stated_error_leaves_room_for_itself_alone():
    """Two rows inside the domain of a fixed maximum, whose sums lie below the interval of its division."""
    softmax, low = FixedMax(), torch.tensor([[[[-14.0, -15.0], [-20.0, -10.0]]]])
    assert 0.1 < softmax.error_bound() < 0.5 < 10 * softmax.error_bound()  # ten times it holds every weight
    record = seen(softmax, low)
    assert (
        record.outside == 0 and record.count("inexact") == 2
    )  # the larger weight of each row: the others are off by less
    assert seen(softmax, low + 18).count("inexact") == 0


def test_an_engine_is_named_by_its_owner_and_not_by_a_setting():
    from functools import partial

    lanes = partial(LanesOwner, make_owner=partial(DesiloOwner, mode="cpu"))
    assert [library_of(o).name for o in (SimOwner, partial(SimOwner), DesiloOwner, lanes)] == [
        "sim",
        "sim",
        "desilo",
        "desilo",
    ]
    assert not named("sim", partial(SimOwner)).encrypts and named("desilo", lanes).encrypts
    with pytest.raises(UserError, match=r"must name the engine of he\.owner, sim, and 'desilo' was given"):
        named("desilo", partial(SimOwner))
    with pytest.raises(UserError, match=r"must be an owner that states its library"):
        named("desilo", lambda max_level: None)


def test_exact_softmax_states_nothing():
    assert Exact().intervals() is None and Exact().reference(X) is None


def test_a_polynomial_of_small_weights_has_the_guard_of_what_is_encrypted():
    """Taylor about -10 is scaled by 1 / 3e-4 for the circuit, which reaches what a ciphertext holds far earlier."""
    e = fit.taylor(3, -10.0, -12.0, -8.0)
    scaled, size = of_unit_size(e)
    low, high = e.fit.guard
    assert size < 1e-3 and np.abs(scaled.intermediates(np.array([low, high]))).max() <= e.fit.guard_bound
    assert np.abs(e.intermediates(np.array([low, high]))).max() < e.fit.guard_bound / 5
    softmax, scores = CGF(), torch.zeros(1, 1, 2, 8, dtype=torch.float64)
    softmax.exponential = e
    scores[..., 0] = 85.0
    record = seen(softmax, scores)
    assert record.beyond == 16 and record.overflow > 0


def test_without_a_stated_interval_weights_count_over_their_size():
    softmax, scores = TaylorCGF(), torch.zeros(1, 1, 2, 8, dtype=torch.float64)
    scores[..., 0] = 85.0
    largest = float(softmax.reading(scores, None).abs().max())
    assert 100 < largest < 2**18  # a number that a ciphertext holds, and over 3e-4 it does not
    record = seen(softmax, scores)
    assert record.beyond == 16 and record.overflow > 0  # the cubic is as large where y is far below


def test_denominators_that_changed_make_another_circuit():
    """The same object in one session: its circuit was remembered with the denominators of before."""
    softmax = BPMax(p=3)
    softmax.sized(2)
    encrypted = Encrypted(softmax, Session(SimOwner))
    for size in (100.0, 400.0):
        softmax.load_tensors({"denominator": torch.full((2, 4, 1), size)})
        assert float((encrypted.weights(X) - softmax.reading(X, None)).abs().max()) < 1e-9
    assert encrypted.record.count("wrong") == 0


def test_numbers_by_row_multiply_a_row_value_under_any_mask():
    class ByHead(Softmax):
        name = "by_head"

        def formula(self, x):
            return x.square() * x.row_sum().times_public(np.array([1.0, 2.0]).reshape(2, 1, 1))

    class ByKey(ByHead):
        def formula(self, x):
            return x.row_sum().times_public(np.arange(300.0))

    scores = torch.tensor(np.random.default_rng(1).normal(size=(2, 2, 300, 300)))
    mask = torch.ones(2, 1, 1, 300, dtype=torch.bool)
    mask[1, ..., :290] = False
    for softmax in (ByHead(), ByKey()):
        for valid in (None, mask):
            encrypted = Encrypted(softmax, Session(SimOwner))
            error = encrypted.weights(scores, valid) - softmax.reading(scores, valid)
            error = error if valid is None else error.where(valid, 0.0)
            assert float(error.abs().max()) < 1e-9


def test_the_simulator_counts_what_no_ciphertext_holds_when_it_lowers_one():
    owner = SimOwner(3)
    engine = owner.evaluator(frozenset())
    held = owner.encrypt(np.full(owner.slots, 2.0**25), 3)
    assert engine.beyond == 0
    engine.lower(held, 0)
    assert engine.beyond == owner.slots
