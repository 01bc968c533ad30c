"""The circuits on every engine, without torch: against their definition, and the two libraries against each other."""

import numpy as np
import pytest

from cgf.approx.chain import SquareChain
from cgf.he.dryrun import dry_run
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import rings_of
from cgf.he.engines.sim import SimOwner
from cgf.he.layout import Layout
from cgf.he.packed import Packed
from cgf.he.score_rows import Rows
from cgf.softmax.cgf import CGF

REAL = ("desilo", "openfhe")
ROWS, COLUMNS = 64, 16
# measured: 2e-8 to 9e-7, on both libraries; ten times that leaves room for other keys and noise
TOLERANCE = 1e-5
CHAIN = SquareChain("chain", 0.9 * 2.0**-5, 0.95, (0.04, -0.03, 0.02, -0.01, 0.005))


def scores():
    x = np.random.default_rng(5).normal(0.0, 1.5, (ROWS, COLUMNS))
    return x - x.mean(1, keepdims=True)


def mask_of(name):
    """None, or causal rows of 16 keys for four heads, the last three keys padding in half of them."""
    if name != "masked":
        return None
    valid = np.tile(np.tril(np.ones((COLUMNS, COLUMNS), dtype=bool)), (ROWS // COLUMNS, 1))
    valid[ROWS // 2 :, -3:] = False
    return valid


# name: order, circuit style, levels
CASES = {
    "folded": (2, "folded", 6),
    "algorithm-1": (2, "paper", 7),
    "masked": (2, "folded", 7),
    "formula": (3, "folded", None),
}


def by_hand(x, valid, order):
    """exp(x - K - ln n), row by row over what counts, with the chain written out."""
    weights = np.zeros_like(x)
    for i, row in enumerate(x):
        keep = np.ones(len(row), dtype=bool) if valid is None else valid[i]
        y = row[keep] - row[keep].mean()
        y = y - (y**2).mean() / 2 - ((y**3).mean() / 6 if order == 3 else 0.0) - np.log(keep.sum())
        u = CHAIN.a * y + CHAIN.b
        for constant in CHAIN.constants:
            u = u * u + constant
        weights[i, keep] = u
    return weights


def run(make_owner, rings, name):
    """Weights, and what was counted and read off: circuit, operations, levels, slots."""
    order, style, _ = CASES[name]
    softmax, valid = CGF(order=order), mask_of(name)
    softmax.exponential = CHAIN
    counts = np.full(ROWS, float(COLUMNS)) if valid is None else valid.sum(1).astype(float)
    rows = Rows((1, ROWS // COLUMNS, COLUMNS, COLUMNS), 0, valid, counts)
    needs = dry_run(softmax, rows, COLUMNS, style, rings=rings)
    owner, layout = make_owner(needs.max_level), needs.layout
    assert owner.slots == layout.slots
    engine = Counting(owner.evaluator(needs.rotations))
    x = scores() if valid is None else np.where(valid, scores(), 0.0)
    cts = tuple(owner.encrypt(v, needs.max_level) for v in layout.pack(x * needs.circuit.input_scale))
    result = needs.circuit.run(Packed(engine, layout, rows, cts)).relinearized()
    weights = needs.circuit.opened(layout.unpack([owner.decrypt(ct) for ct in result.cts]))
    weights = weights if valid is None else np.where(valid, weights, 0.0)
    seen = (needs.circuit.name, dict(engine.ops), needs.max_level - result.level, needs.levels, layout.slots)
    return weights, seen


def run_on(owner_of, engine, name):
    rings = rings_of(type(owner_of(engine, 3)))
    return run(lambda max_level: owner_of(engine, max_level), rings, name)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("engine", ["sim", *REAL])
def test_circuits_equal_their_definition(owner_of, engine, name):
    weights, (circuit, _, levels, counted, _) = run_on(owner_of, engine, name)
    expected = by_hand(scores(), mask_of(name), CASES[name][0])
    assert 0.05 < expected.max() < 2  # weights, not noise
    np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-9 if engine == "sim" else TOLERANCE)
    assert circuit == name and levels == counted == (CASES[name][2] or counted)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("engine", REAL)
def test_the_simulator_of_a_librarys_rings_foresees_it(owner_of, engine, name):
    """Same circuit, operations by kind, levels and slots as on real ciphertexts."""
    rings = rings_of(type(owner_of(engine, 3)))
    _, real = run_on(owner_of, engine, name)
    _, simulated = run(lambda max_level: SimOwner(max_level, rings=rings), rings, name)
    assert real == simulated


@pytest.mark.parametrize("name", CASES)
def test_the_two_libraries_agree(owner_of, name, capsys):
    (ours, one), (theirs, other) = (run_on(owner_of, engine, name) for engine in REAL)
    exact = by_hand(scores(), mask_of(name), CASES[name][0])
    apart, errors = np.abs(ours - theirs).max(), [np.abs(w - exact).max() for w in (ours, theirs)]
    with capsys.disabled():
        print(
            f"\n{name}: levels {one[2]}, slots {one[4]} and {other[4]}, error desilo {errors[0]:.1e}, "
            f"openfhe {errors[1]:.1e}, apart {apart:.1e}",
            end=" ",
        )
    assert 0 < apart <= TOLERANCE  # two libraries, so never the same bits
    assert one[2] == other[2]


def test_a_square_times_a_vector_keeps_its_digits(owner_of):
    """With three polynomials a vector leaves an error of 3e-6 on real ciphertexts, where the square's own is 3e-8."""
    owner = owner_of("desilo", 7)
    rng = np.random.default_rng(3)
    rows = Rows((1, 1, owner.slots, 1), 0, None, np.ones(owner.slots))
    layout = Layout(owner.slots, 1, owner.slots, owner.slots)
    x, vector = rng.uniform(-1.0, 1.0, owner.slots), rng.uniform(0.2, 1.0, owner.slots)
    value = Packed(owner.evaluator(frozenset()), layout, rows, (owner.encrypt(x, 7),)).square()
    product = value.times_vector([vector]).relinearized()
    assert np.abs(np.real(owner.decrypt(product.cts[0])) - x * x * vector).max() < 2e-7
