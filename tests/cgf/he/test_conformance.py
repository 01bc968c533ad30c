"""One list of checks that every engine passes: what a circuit may rely on, whatever runs it."""

import gc
import io
import pickle
import re
from types import SimpleNamespace

import numpy as np
import pytest

from cgf.errors import UserError
from cgf.he.delivery import join_pairs, open_pairs
from cgf.he.engines.check import Checking, Divergence
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import ring_for, rings_of
from cgf.he.engines.rules import OutOfLevels
from cgf.he.engines.sim import SimEngine, SimOwner

ENGINES = ("sim", "lanes_sim", "desilo", "lanes_desilo", "openfhe")
STEPS = (1, 37, -3)
SMALL, LARGE = 3, 8
SLOTS = {3: 8192, 8: 16384}  # of both libraries, as measured
TOLERANCE = 1e-5


@pytest.fixture(
    params=[
        # two engines with keys of 8 levels: 0.7 GB more than any other of these
        pytest.param((e, level), marks=[pytest.mark.alone] if (e, level) == ("lanes_desilo", LARGE) else [])
        for e in ENGINES
        for level in (SMALL, LARGE)
    ]
    + [("desilo_parallel", SMALL)],
    ids=lambda p: f"{p[0]}-{p[1]}",
    scope="module",
)
def party(request, owner_of):
    """An owner, an evaluator with the keys of STEPS, and two vectors in [-1, 1], one of them asymmetric."""
    name, level = request.param
    owner = owner_of(name, level)
    engine = owner.evaluator(frozenset(step % owner.slots for step in STEPS))
    x = np.random.default_rng(0).uniform(-1, 1, owner.slots)
    return SimpleNamespace(name=name, top=level, owner=owner, engine=engine, x=x, y=np.linspace(-1, 0.5, owner.slots))


def holds(party, ct, expected, level, polynomials=2):
    assert (party.engine.level(ct), party.engine.polynomials(ct)) == (level, polynomials)
    np.testing.assert_allclose(party.owner.decrypt(ct), expected, rtol=0, atol=TOLERANCE)


def fresh(party, level=None):
    level = party.top if level is None else level
    return party.owner.encrypt(party.x, level), party.owner.encrypt(party.y, level)


def test_slots_follow_from_levels(party):
    assert party.owner.slots == party.engine.slots == SLOTS[party.top]
    assert ring_for(party.top, rings_of(type(party.owner))).slots == SLOTS[party.top]
    assert party.owner.max_level == party.engine.max_level == party.top


def test_encrypt_at_every_level(party):
    for level in (0, 1, party.top):
        holds(party, party.owner.encrypt(party.x, level), party.x, level)


def test_encrypt_fills_up_with_zeros(party):
    holds(party, party.owner.encrypt(party.x[:5], 1), np.r_[party.x[:5], np.zeros(party.owner.slots - 5)], 1)


def test_encrypt_refuses_what_does_not_fit(party):
    for level in (-1, party.top + 1):
        with pytest.raises(UserError, match=rf"0 to {party.top}, and {level} was asked"):
            party.owner.encrypt(party.x, level)
    with pytest.raises(UserError, match=f"at most {party.owner.slots} values, and {party.owner.slots + 1}"):
        party.owner.encrypt(np.ones(party.owner.slots + 1), 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_encrypt_refuses_what_is_not_finite(party, bad):
    with pytest.raises(UserError, match=r"encryption needs .* and the largest is (nan|inf)$"):
        party.owner.encrypt(np.r_[party.x[:-1], bad], 1)


@pytest.mark.parametrize("name, sign", [("add", 1), ("sub", -1)])
def test_sums(party, name, sign):
    operation = getattr(party.engine, name)
    a, b = fresh(party)
    holds(party, operation(a, b), party.x + sign * party.y, party.top)
    holds(party, operation(a, 0.75), party.x + sign * 0.75, party.top)
    holds(party, operation(a, party.y), party.x + sign * party.y, party.top)


def test_sums_of_different_levels_meet_at_the_lower(party):
    high, low = party.owner.encrypt(party.x, party.top), party.owner.encrypt(party.y, 1)
    holds(party, party.engine.add(high, low), party.x + party.y, 1)
    holds(party, party.engine.sub(low, high), party.y - party.x, 1)
    holds(party, high, party.x, party.top)  # operands stay as they were


def test_products_of_different_levels_meet_at_the_lower(party):
    high, low = party.owner.encrypt(party.x, party.top), party.owner.encrypt(party.y, 2)
    holds(party, party.engine.mul(low, high), party.x * party.y, 1, polynomials=3)
    holds(party, high, party.x, party.top)


@pytest.mark.parametrize("factor", [3, -7, 1])
def test_integer_products_take_no_level(party, factor):
    a, _ = fresh(party)
    holds(party, party.engine.mul(a, factor), factor * party.x, party.top)
    holds(party, party.engine.mul(party.owner.encrypt(party.x, 0), factor), factor * party.x, 0)


def test_float_and_vector_products_take_a_level(party):
    a, _ = fresh(party)
    holds(party, party.engine.mul(a, 0.3), 0.3 * party.x, party.top - 1)
    holds(party, party.engine.mul(a, 2.0), 2.0 * party.x, party.top - 1)
    holds(party, party.engine.mul(a, np.float64(-1.5)), -1.5 * party.x, party.top - 1)
    holds(party, party.engine.mul(a, party.y), party.y * party.x, party.top - 1)


def test_ciphertext_products_leave_three_polynomials(party):
    a, b = fresh(party)
    holds(party, party.engine.mul(a, b), party.x * party.y, party.top - 1, polynomials=3)
    holds(party, party.engine.square(a), party.x**2, party.top - 1, polynomials=3)
    holds(party, a, party.x, party.top)


def test_relinearize(party):
    a, b = fresh(party)
    holds(party, party.engine.relinearize(party.engine.mul(a, b)), party.x * party.y, party.top - 1)


def test_decryption_leaves_a_product_as_it_was(party):
    product = party.engine.square(fresh(party)[0])
    party.owner.decrypt(product)
    holds(party, party.engine.relinearize(product), party.x**2, party.top - 1)


def test_two_real_results_in_one_ciphertext(party):
    """a + i b of results, relinearized or not, at no level; the operands stay as they were."""
    (a, b), e = fresh(party), party.engine
    if not e.pairs:
        with pytest.raises(UserError, match="complex slots, and this engine has real ones"):
            e.times_i(b)
        return
    for results in ((a, b), (e.square(a), e.square(b))):
        real, imaginary = (party.owner.decrypt(ct) for ct in results)
        both = e.add(results[0], e.times_i(results[1]))
        assert (e.level(both), e.polynomials(both)) == (e.level(results[0]), e.polynomials(results[0]))
        for got, expected in zip(party.owner.decrypt_pair(both), (real, imaginary), strict=True):
            np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(party.owner.decrypt(both), real, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(party.owner.decrypt(results[1]), imaginary, rtol=0, atol=TOLERANCE)
    holds(party, e.times_i(e.times_i(a)), -party.x, party.top)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_results_are_handed_over_and_opened_in_their_order(party, count):
    rows = np.random.default_rng(count).uniform(-1, 1, (count, party.owner.slots))
    cts = [party.engine.square(party.owner.encrypt(row, 1)) for row in rows]
    pairs = join_pairs(party.engine, cts)
    assert len(pairs) == (-(-count // 2) if party.engine.pairs else count)
    np.testing.assert_allclose(open_pairs(party.owner, pairs, count), rows**2, rtol=0, atol=TOLERANCE)


def test_lazy_relinearization(party):
    """Sums of products of three polynomials, of other ciphertexts and numbers, then one relinearization."""
    e, (a, b) = party.engine, fresh(party)
    total = e.sub(e.add(e.square(a), e.mul(a, b)), e.square(b))
    total = e.add(e.add(e.mul(total, 2), b), 0.25)
    assert e.polynomials(total) == 3
    expected = 2 * (party.x**2 + party.x * party.y - party.y**2) + party.y + 0.25
    holds(party, e.relinearize(total), expected, party.top - 1)


def test_lazy_sums_of_different_levels(party):
    high, low = (party.engine.square(party.owner.encrypt(v, n)) for v, n in ((party.x, party.top), (party.y, 2)))
    holds(party, party.engine.relinearize(party.engine.add(high, low)), party.x**2 + party.y**2, 1)


@pytest.mark.parametrize("operation", ["square", "mul", "rotate"])
def test_three_polynomials_are_refused_until_relinearized(party, operation):
    product, more = party.engine.square(fresh(party)[0]), {"mul": (fresh(party)[0],), "rotate": (1,)}
    with pytest.raises(UserError, match="2 polynomials, and this one has 3"):
        getattr(party.engine, operation)(product, *more.get(operation, ()))
    if operation == "mul":
        with pytest.raises(UserError, match="2 polynomials, and this one has 3"):
            party.engine.mul(fresh(party)[0], product)


def test_relinearization_needs_three_polynomials(party):
    with pytest.raises(UserError, match="3 polynomials, and this one has 2"):
        party.engine.relinearize(fresh(party)[0])


@pytest.mark.parametrize("step", STEPS)
def test_rotations(party, step):
    """Slot i + step moves to slot i, cyclically; a key of step -3 is the key of slots - 3."""
    expected = party.x[(np.arange(party.owner.slots) + step) % party.owner.slots]
    for same in (step, step % party.owner.slots):
        holds(party, party.engine.rotate(fresh(party)[0], same), expected, party.top)


@pytest.mark.parametrize("step", [2, 3, -1, -37])
def test_a_rotation_needs_its_key(party, step):
    with pytest.raises(UserError, match=f"rotation by {step} needs its key"):
        party.engine.rotate(fresh(party)[0], step)


def prepared(party, *vectors, level=None):
    level = party.top if level is None else level
    return [party.engine.prepare(party.owner.encrypt(v, level)) for v in vectors]


def has_products(party):
    """Lanes note operations of three kinds fewer: they say so."""
    if not party.name.startswith("lanes"):
        return True
    with pytest.raises(UserError, match="lanes do not run prepare: whole attention needs he=desilo"):
        party.engine.prepare(fresh(party)[0])
    with pytest.raises(UserError, match="lanes do not run conjugate"):
        party.owner.evaluator(frozenset(), True)
    return False


def test_sums_of_products_of_prepared_operands(party):
    """One relinearization for the sum; an operand is used again and again, and keeps its level and values."""
    if not has_products(party):
        return
    x, y = prepared(party, party.x, party.y)
    holds(party, x, party.x, party.top)
    for _ in range(2):
        total = party.engine.dot([x, y, x], [y, y, x])
        expected = party.x * party.y + party.y**2 + party.x**2
        holds(party, total, expected, party.top - 1, polynomials=3)
        holds(party, party.engine.relinearize(total), expected, party.top - 1)
    holds(party, party.engine.dot([x], [y]), party.x * party.y, party.top - 1, polynomials=3)


def test_sums_of_products_go_on_as_others_do(party):
    """What a circuit does with them: additions, integers, squares, rotations, and a product with a lower operand."""
    if not has_products(party):
        return
    e, (x, y) = party.engine, prepared(party, party.x, party.y)
    total = e.relinearize(e.dot([x, y], [y, y]))
    value = party.x * party.y + party.y**2
    more = e.add(e.mul(e.sub(total, 0.25), 3), e.rotate(total, 1))
    value = 3 * (value - 0.25) + np.roll(value, -1)
    holds(party, more, value, party.top - 1)
    squared = e.relinearize(e.square(more))
    (low,) = prepared(party, party.y, level=1)
    again = e.prepare(squared)
    product = e.dot([again], [low])
    assert (e.level(product), e.polynomials(product)) == (0, 3)
    np.testing.assert_allclose(party.owner.decrypt(product), value**2 * party.y, rtol=0, atol=50 * TOLERANCE)


def test_sums_of_products_are_checked(party):
    if not has_products(party):
        return
    e, (x, y) = party.engine, prepared(party, party.x, party.y)
    with pytest.raises(UserError, match="as many left as right operands, and has 2 and 1"):
        e.dot([x, y], [x])
    with pytest.raises(UserError, match="as many left as right operands, and has 0 and 0"):
        e.dot([], [])
    with pytest.raises(UserError, match="2 polynomials, and this one has 3"):
        e.dot([e.dot([x], [y])], [y])
    with pytest.raises(UserError, match="2 polynomials, and this one has 3"):
        e.prepare(e.dot([x], [y]))
    with pytest.raises(OutOfLevels, match=rf"none of {party.top} left"):
        e.dot([x], prepared(party, party.y, level=0))


def has_combinations(party):
    """Lanes say that they do not run them."""
    if not party.name.startswith("lanes"):
        return True
    with pytest.raises(UserError, match="lanes do not run lower: whole attention needs he=desilo"):
        party.engine.lower(fresh(party)[0], 1)
    with pytest.raises(UserError, match="lanes do not run combine"):
        party.engine.combine([fresh(party)[0]], [0.5])
    return False


def test_a_lower_level_keeps_the_values(party):
    """Of what is fresh, what is a product, and what was lowered before; the operand stays as it was."""
    if not has_combinations(party):
        return
    e, (a, b) = party.engine, fresh(party)
    product = e.relinearize(e.mul(a, b))
    for ct, value in ((a, party.x), (product, party.x * party.y), (e.lower(b, 2), party.y)):
        for level in (e.level(ct), 1, 0):
            holds(party, e.lower(ct, level), value, level)
    holds(party, a, party.x, party.top)


def test_combinations(party):
    """Sums of products with numbers, of other levels and twice of one operand, and what follows them."""
    if not has_combinations(party):
        return
    e, (a, b) = party.engine, fresh(party)
    x, y = e.lower(a, party.top), e.lower(b, party.top)
    weights = [0.3, -1.7, 2.0, 1e-3]
    total, value = e.combine([x, y, x, y], weights), 2.3 * party.x - 1.699 * party.y
    holds(party, total, value, party.top - 1)
    holds(party, e.combine([x], [-0.25]), -0.25 * party.x, party.top - 1)
    holds(party, e.combine([e.lower(x, 1), y], [1.0, 0.5]), party.x + 0.5 * party.y, 0)
    holds(party, x, party.x, party.top)
    # what a network does with them: constants, rotations, integers, squares, and the next combination
    more = e.add(e.mul(e.rotate(total, 1), 3), party.y)
    holds(party, more, 3 * np.roll(value, -1) + party.y, party.top - 1)
    squared = e.lower(e.relinearize(e.square(e.add(total, 0.5))), 1)
    np.testing.assert_allclose(
        party.owner.decrypt(e.combine([squared, e.lower(y, 1)], [0.1, 1.0])),
        0.1 * (value + 0.5) ** 2 + party.y,
        rtol=0,
        atol=10 * TOLERANCE,
    )


def test_combinations_are_checked(party):
    if not has_combinations(party):
        return
    e, (a, b) = party.engine, fresh(party)
    with pytest.raises(UserError, match="as many weights as ciphertexts, and has 1 and 2"):
        e.combine([a, b], [0.5])
    with pytest.raises(UserError, match="as many weights as ciphertexts, and has 0 and 0"):
        e.combine([], [])
    with pytest.raises(UserError, match="finite numbers, and the largest is nan"):
        e.combine([a], [np.nan])
    with pytest.raises(UserError, match="2 polynomials, and this one has 3"):
        e.combine([e.square(a)], [0.5])
    with pytest.raises(UserError, match="2 polynomials, and this one has 3"):
        e.lower(e.square(a), 0)
    with pytest.raises(OutOfLevels, match=rf"none of {party.top} left"):
        e.combine([e.lower(a, 0)], [0.5])
    for level in (party.top + 1, -1):
        with pytest.raises(UserError, match=f"level {party.top} goes down to 0 at most, and {level} was asked"):
            e.lower(a, level)


def test_complex_slots(party):
    """Two real numbers a slot: (a - ib)(c + id) has ac + bd for its real part, which the conjugate leaves alone."""
    z = party.x + 1j * party.y
    if not party.engine.pairs:
        with pytest.raises(UserError, match="encryption of complex numbers needs complex slots"):
            party.owner.encrypt(z, 1)
        return
    real, imaginary = party.owner.decrypt_pair(party.owner.encrypt(z, party.top))
    np.testing.assert_allclose(real + 1j * imaginary, z, rtol=0, atol=TOLERANCE)
    if not has_products(party):
        return
    with pytest.raises(UserError, match="a conjugation needs its key, and the engine has none"):
        party.engine.conjugate(party.owner.encrypt(z, 1))
    engine = party.owner.evaluator(frozenset(), True)
    mirrored = engine.conjugate(party.owner.encrypt(z, party.top))
    np.testing.assert_allclose(party.owner.decrypt_pair(mirrored)[1], -party.y, rtol=0, atol=TOLERANCE)
    a, b = (engine.prepare(party.owner.encrypt(v, party.top)) for v in (np.conj(z), party.y + 1j * party.x))
    product = engine.relinearize(engine.dot([a], [b]))
    assert engine.level(product) == party.top - 1
    real, imaginary = party.owner.decrypt_pair(engine.add(product, engine.conjugate(product)))
    np.testing.assert_allclose(real, 4 * party.x * party.y, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(imaginary, 0.0, rtol=0, atol=TOLERANCE)
    with pytest.raises(UserError, match="a conjugation needs a ciphertext of 2 polynomials"):
        engine.conjugate(engine.dot([a], [b]))


def test_levels_run_out(party):
    e, ct = party.engine, fresh(party)[0]
    for left in reversed(range(party.top)):
        ct = e.mul(ct, 1.0)
        assert e.level(ct) == left
    for operation in (
        lambda: e.mul(ct, 0.5),
        lambda: e.mul(ct, party.y),
        lambda: e.square(ct),
        lambda: e.mul(ct, ct),
        lambda: e.mul(fresh(party)[0], ct),
        lambda: e.mul(ct, fresh(party)[0]),
    ):
        with pytest.raises(OutOfLevels, match=rf"none of {party.top} left"):
            operation()
    holds(party, e.add(e.rotate(ct, 1), 0.5), np.roll(party.x, -1) + 0.5, 0)  # these need none


@pytest.mark.parametrize("name", ["sim", "desilo", "lanes_desilo"])
def test_key_switching_at_the_top_of_the_ring(owner_of, name):
    """A ring's last level cannot switch keys: a rotation there drops to 6, a relinearization below it does not."""
    owner = owner_of(name, 7)
    engine, x = owner.evaluator(frozenset({1})), np.linspace(-1, 1, owner.slots)
    rotated = engine.rotate(owner.encrypt(x, 7), 1)
    assert engine.level(rotated) == 6
    np.testing.assert_allclose(owner.decrypt(rotated), np.roll(x, -1), atol=TOLERANCE)
    assert engine.level(engine.rotate(owner.encrypt(x, 6), 1)) == 6
    assert engine.level(engine.relinearize(engine.square(owner.encrypt(x, 7)))) == 6
    assert engine.level(engine.mul(engine.add(owner.encrypt(x, 7), x), 3)) == 7


def test_a_ring_that_is_too_small_is_named():
    slots = {1: 4096, 2: 4096, 3: 8192, 7: 8192, 8: 16384, 17: 16384, 18: 32768, 36: 32768}
    assert {levels: ring_for(levels).slots for levels in slots} == slots
    with pytest.raises(UserError, match="needs 37 levels, and the largest ring holds 36"):
        ring_for(37)


# -- the simulator's bound ------------------------------------------------------------------------------


def test_simulator_records_or_raises_beyond_its_bound():
    x = np.array([3.0, -5.0, 4.0, 1.0])
    recording, raising = SimEngine(3, bound=10.0), SimEngine(3, bound=10.0, outside="raise")
    last = SimOwner(3).encrypt(x, 1)
    recording.square(last)
    assert recording.beyond == 2  # 25 and 16
    with pytest.raises(UserError, match=r"2 slots reach 25, and a ciphertext holds at most 10"):
        raising.square(last)
    before = SimOwner(3).encrypt(2.0**20 * x, 3)  # above level 0 it holds 2^40 times as much: 25 and 16, not 9
    with pytest.raises(UserError, match=r"2 slots reach 2\.75e\+13, and a ciphertext holds at most 1\.1e\+13"):
        raising.square(before)
    with pytest.raises(UserError, match=r"raise.*record.*'ignore'"):
        SimEngine(3, outside="ignore")


# -- wrappers -------------------------------------------------------------------------------------------


class Faulty(SimEngine):
    """A simulator that does one operation wrongly."""

    fault = ""

    def square(self, a):
        result = super().square(a)
        if self.fault == "value":
            result.values[17] += 0.5
        return result

    def rotate(self, a, step):
        return super().rotate(a, -step if self.fault == "sign" else step)

    def mul(self, a, b):
        result = super().mul(a, b)
        if self.fault == "level" and isinstance(b, int):
            result = type(result)(result.values, result.level - 1, result.polynomials)
        return result


def polynomial(checking, x):
    a = checking.encrypt(x, 3)
    b = checking.relinearize(checking.add(checking.square(a), checking.mul(a, 3)))
    return checking.sub(checking.rotate(b, 1), 0.5)


@pytest.mark.parametrize(
    "fault, says",
    [
        ("value", r"operation 2 \(square\): slot 17 holds"),
        ("sign", r"operation 6 \(rotate\): slot"),
        ("level", r"operation 3 \(mul\): levels 3 and 2"),
    ],
)
def test_checking_finds_a_planted_fault(fault, says):
    owner = SimOwner(3)
    faulty = Faulty(3)
    faulty.fault = fault
    x = np.linspace(-1, 1, owner.slots)
    with pytest.raises(Divergence, match=says):
        polynomial(Checking((owner, SimEngine(3)), (owner, faulty), 1e-9), x)
    faulty.fault = ""
    result = polynomial(Checking((owner, SimEngine(3)), (owner, faulty), 1e-9), x)
    square = x**2 + 3 * x
    np.testing.assert_allclose(owner.decrypt(result.first), np.roll(square, -1) - 0.5)


@pytest.mark.parametrize("name", ["desilo", "openfhe"])
def test_checking_real_ciphertexts_against_the_simulator(owner_of, name):
    sim, real = owner_of("sim", 3), owner_of(name, 3)
    x = np.random.default_rng(3).uniform(-1, 1, sim.slots)
    checking = Checking((sim, sim.evaluator(frozenset({1}))), (real, real.evaluator(frozenset({1}))), 1e-6)
    assert np.abs(sim.decrypt(polynomial(checking, x).first) - np.roll(x**2 + 3 * x, -1) + 0.5).max() < 1e-9
    with pytest.raises(Divergence, match="8192 and 16384 slots"):
        Checking((sim, sim.evaluator(frozenset())), (owner_of("sim", 8), SimEngine(8)), 1e-6)


def test_counting_counts_by_kind(party):
    counting = Counting(party.engine)
    a, b = fresh(party)
    counting.add(a, b)
    counting.sub(a, 1.0)
    counting.add(a, party.y)
    counting.mul(a, 3)
    for factor in (0.5, party.y, np.float64(2.0)):
        counting.mul(a, factor)
    product = counting.add(counting.mul(a, b), counting.square(b))
    low = counting.mul(counting.relinearize(product), 0.5)
    for step in STEPS:
        counting.rotate(a, step)
    assert counting.ops == {"add": 4, "imult": 1, "pmult": 4, "cmult": 2, "relinearize": 1, "rotate": 3, "boot": 0}
    assert counting.rotations == {step % party.owner.slots for step in STEPS}
    assert counting.lowest == party.top - 2 == counting.level(low)
    assert counting.polynomials(product) == 3
    assert set(counting.seconds) == set(counting.ops)
    assert all((counting.seconds[kind] > 0) == (kind != "boot") for kind in counting.seconds)


# -- the secret key -------------------------------------------------------------------------------------


def reachable(root):
    """Every object that can be reached from root by attributes, items, closures and bound methods."""
    seen, queue = {}, [root]
    while queue:
        thing = queue.pop()
        if id(thing) in seen or isinstance(thing, type | np.ndarray | str | int | float):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, dict):
            queue += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            queue += thing
        elif hasattr(thing, "__code__"):
            queue += [cell.cell_contents for cell in thing.__closure__ or ()]
        elif hasattr(thing, "__self__"):
            queue.append(thing.__self__)
        else:
            queue += list(getattr(thing, "__dict__", {}).values())
            # of the library's own objects, what they expose beside methods
            named = [n for n in dir(type(thing)) if isinstance(getattr(type(thing), n), property)]
            queue += [getattr(thing, n) for n in named]
            queue += [r for r in gc.get_referents(thing) if not isinstance(r, type)]
    return seen.values()


SECRETS = ("secret", "privatekey", "keypair")  # in the names of the libraries' types


def is_secret(thing):
    return any(name in type(thing).__name__.lower() for name in SECRETS)


def secrets(root):
    return [thing for thing in reachable(root) if is_secret(thing)]


@pytest.mark.parametrize("name", ["desilo", "openfhe"])
def test_the_walk_finds_a_secret_that_is_hidden_in_a_closure(owner_of, name):
    owner = owner_of(name, SMALL)
    key = owner._secret
    assert secrets({"deep": [lambda: key]}) == [key]


@pytest.mark.parametrize("name", ["desilo", "lanes_desilo", "openfhe"])
@pytest.mark.parametrize("level", [SMALL, LARGE])
def test_the_evaluator_never_holds_the_secret_key(owner_of, level, name):
    owner = owner_of(name, level)
    engine = owner.evaluator(frozenset({1}))
    kept = [o._secret for o in getattr(owner, "_owners", [owner])]  # one a lane, of the same key
    assert {id(s) for s in secrets(owner)} == {id(s) for s in kept}  # the owner keeps it, and the walk would find it
    for held in (engine, Counting(engine)):
        assert secrets(held) == []
        assert owner not in [thing for thing in reachable(held) if isinstance(thing, type(owner))]
    assert not any(is_secret(v) or "secret" in k for k, v in vars(engine).items())


class Written(pickle.Pickler):
    """Writes an engine or owner with all that it holds, desilofhe's keys as its own bytes, which pickle refuses."""

    def __init__(self, file, library):
        super().__init__(file)
        self.library, self.keys = library, 0

    def reducer_override(self, thing):
        kind = type(thing)
        if kind.__module__ != "desilofhe":
            return (str, ("a lock",)) if kind.__module__ == "_thread" else NotImplemented
        if kind.__name__ == "Engine":
            return str, ("an engine",)
        self.keys += 1
        words = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()  # SecretKey: serialize_secret_key
        return bytes, (bytes(getattr(self.library, f"serialize_{words}")(thing)),)


@pytest.mark.parametrize("name", ["desilo", "lanes_desilo"])
def test_an_evaluator_written_out_does_not_hold_the_bytes_of_the_secret_key(owner_of, name):
    """Neither engine nor owner can be pickled by accident; written out by force, the owner alone holds the secret."""
    owner = owner_of(name, SMALL)
    first = getattr(owner, "_owners", [owner])[0]
    engine, secret = owner.evaluator(frozenset({1})), first.dump_secret()
    middle = secret[len(secret) // 2 :][:256]  # key material, not a header
    found = {}
    for role, held in (("engine", engine), ("owner", owner)):
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(held)
        file = io.BytesIO()
        writer = Written(file, first._engine)
        writer.dump(held)
        assert writer.keys >= 2  # relinearization and rotation
        found[role] = middle in file.getvalue()
    assert found == {"engine": False, "owner": True}
