"""What is OpenFHE's own: rings, headroom, the process-wide key maps, and what is said where it is missing."""

import functools
import importlib.metadata
import importlib.util
import sys
import types

import numpy as np
import pytest

from cgf.approx.chain import SquareChain
from cgf.errors import UserError
from cgf.he.dryrun import dry_run
from cgf.he.engines import openfhe
from cgf.he.engines.engine import RINGS, Ring, ring_for, rings_of
from cgf.he.engines.openfhe import OPENFHE_RINGS, OpenFHEOwner
from cgf.he.engines.sim import SimEngine, SimOwner
from cgf.he.score_rows import Rows
from cgf.softmax.cgf import CGF

REAL = pytest.mark.skipif(
    importlib.util.find_spec("openfhe") is None,
    reason=f"openfhe=={openfhe.VERSION} is not installed: scripts/repo/test_openfhe.sh makes its venv",
)


def cgf_of(levels):
    softmax = CGF()
    softmax.exponential = SquareChain("chain", 0.03, 0.95, (0.01,) * levels)
    return softmax


# -- rings ------------------------------------------------------------------------------------------------


@REAL
@pytest.mark.parametrize("ring", OPENFHE_RINGS, ids=lambda r: str(r.slots))
def test_the_table_is_what_the_library_chooses(ring):
    """Its security tables give these slots up to this level, and more slots from the next one on."""
    assert openfhe.build_context(ring.max_level).GetRingDimension() == 2 * ring.slots
    below = max([r.max_level for r in OPENFHE_RINGS if r.slots < ring.slots], default=0)
    assert openfhe.build_context(below + 1).GetRingDimension() == 2 * ring.slots


@REAL
def test_a_ring_that_the_table_does_not_foresee_is_refused(monkeypatch):
    monkeypatch.setattr(openfhe, "OPENFHE_RINGS", (Ring(8192, 5, 5),))
    with pytest.raises(UserError, match="must give 8192 slots for 5 levels, and it gives 16384"):
        OpenFHEOwner(5)
    with pytest.raises(UserError, match="needs 6 levels, and the largest ring holds 5"):
        OpenFHEOwner(6)


def test_a_dry_run_follows_the_rings_of_the_library():
    """Five levels fit 8192 slots of desilofhe, and take 16384 of OpenFHE."""
    rows = Rows((1, 1, 16, 16), 0, None, np.full(16, 16.0))
    ours, theirs = (dry_run(cgf_of(4), rows, 16, "folded", rings=rings) for rings in (RINGS, OPENFHE_RINGS))
    assert (ours.levels, ours.layout.slots) == (5, 8192) and (theirs.levels, theirs.layout.slots) == (5, 16384)
    assert theirs.max_level == 5 and ring_for(5, OPENFHE_RINGS).slots == 16384
    with pytest.raises(UserError, match=r"needs an engine of 5 levels, and he\.max_level=4"):
        dry_run(cgf_of(4), rows, 16, "folded", 4, OPENFHE_RINGS)
    with pytest.raises(UserError, match=r"largest ring holds \(49\)"):
        dry_run(cgf_of(50), rows, 16, "folded", rings=OPENFHE_RINGS)


def test_the_simulator_takes_rings():
    owner = SimOwner(5, rings=OPENFHE_RINGS)
    engine = owner.evaluator(frozenset({1}))
    assert owner.slots == engine.slots == 16384 and SimEngine(5).slots == 8192
    # desilofhe's rings of 7 levels switch keys up to 6; a ring of OpenFHE's up to its last
    top = {rings: SimOwner(7, rings=rings) for rings in (RINGS, OPENFHE_RINGS)}
    levels = [o.evaluator(frozenset({1})).rotate(o.encrypt(np.ones(4), 7), 1).level for o in top.values()]
    assert levels == [6, 7]


def test_rings_are_those_that_an_owner_states():
    assert rings_of(OpenFHEOwner) == rings_of(functools.partial(OpenFHEOwner)) == OPENFHE_RINGS
    assert rings_of(SimOwner) == rings_of(functools.partial(SimOwner)) == rings_of(lambda max_level: None) == RINGS
    assert rings_of(SimOwner(3, rings=OPENFHE_RINGS)) == OPENFHE_RINGS


# -- ciphertexts ------------------------------------------------------------------------------------------


@REAL
@pytest.mark.parametrize("level", [4, 10])
def test_keys_switch_at_the_top_of_a_ring(owner_of, level):
    owner = owner_of("openfhe", level)
    engine, x = owner.evaluator(frozenset({1})), np.linspace(-1, 1, owner.slots)
    rotated = engine.rotate(owner.encrypt(x, level), 1)
    assert engine.level(rotated) == level == ring_for(level, OPENFHE_RINGS).key_switch_level
    np.testing.assert_allclose(owner.decrypt(rotated), np.roll(x, -1), atol=1e-7)


@REAL
@pytest.mark.parametrize("level", [0, 1])
def test_values_survive_up_to_the_bound_of_plans(owner_of, level):
    """All slots alike is the worst case: one coefficient holds them all."""
    owner, engine = owner_of("openfhe", 3), owner_of("openfhe", 3).evaluator(frozenset())
    for value in (2.0**20, -(2.0**20)):
        ct = owner.encrypt(np.full(owner.slots, value), level)
        np.testing.assert_allclose(owner.decrypt(engine.mul(ct, 8)) / value, 8.0, atol=1e-9)


@REAL
def test_noise_alone_decrypts_to_nan(owner_of):
    """The library refuses to decode it; an evaluation then says what it says of weights that are not finite."""
    owner = owner_of("openfhe", 3)
    x = np.random.default_rng(1).uniform(-1, 1, owner.slots)
    assert np.isnan(owner.decrypt(owner.encrypt(x * 2.0**65, 0))).all()


@REAL
def test_large_and_zero_integers(owner_of):
    owner = owner_of("openfhe", 3)
    engine, x = owner.evaluator(frozenset()), np.linspace(-1, 1, owner.slots)
    for factor in (0, 512, -100_000):
        ct = engine.mul(owner.encrypt(x, 0), factor)
        assert engine.level(ct) == 0
        np.testing.assert_allclose(owner.decrypt(ct), factor * x, atol=1e-8 * max(1, abs(factor)))


# -- keys -------------------------------------------------------------------------------------------------


@REAL
def test_no_key_of_an_owner_stays_in_the_library_and_others_do(owner_of):
    owner = owner_of("openfhe", 3)
    context = owner._context
    stranger = context.KeyGen().secretKey
    tag = stranger.GetKeyTag()
    context.EvalMultKeyGen(stranger)
    context.EvalAtIndexKeyGen(stranger, [5])
    own = OpenFHEOwner(3)
    own.evaluator(frozenset({2, 3}))
    assert set(context.GetAllEvalMultKeys()) == set(context.GetAllEvalAutomorphismKeys()) == {tag}
    assert list(context.GetExistingEvalAutomorphismKeyIndices(tag)) == [context.FindAutomorphismIndex(5)]
    own.evaluator(frozenset({2, 3, 4}))  # keys made before are kept by the owner: no map is asked for them
    assert set(own._rotations) == {1, 2, 3, 4}
    importlib.import_module("openfhe").ClearEvalMultKeys()
    context.ClearEvalAutomorphismKeys()


@REAL
def test_an_engine_has_the_keys_that_it_was_granted(owner_of):
    owner = owner_of("openfhe", 3)
    owner.evaluator(frozenset({9, 10}))
    engine = owner.evaluator(frozenset({9}))
    x = np.linspace(-1, 1, owner.slots)
    np.testing.assert_allclose(owner.decrypt(engine.rotate(owner.encrypt(x, 1), 9)), np.roll(x, -9), atol=1e-7)
    with pytest.raises(UserError, match=r"rotation by 10 needs its key, and the engine has \[9\]"):
        engine.rotate(owner.encrypt(x, 1), 10)


@REAL
def test_another_owners_secret_decrypts_nothing(owner_of):
    one, other = owner_of("openfhe", 3), OpenFHEOwner(3)
    x = np.linspace(-1, 1, one.slots)
    wrong = other.decrypt(one.encrypt(x, 3))
    assert np.isnan(wrong).any() or np.abs(wrong - x).max() > 1


@REAL
def test_a_library_that_rolls_the_other_way_is_refused(monkeypatch):
    honest = openfhe.OpenFHEEngine.rotate
    monkeypatch.setattr(openfhe.OpenFHEEngine, "rotate", lambda self, a, step: honest(self, honest(self, a, 1), 1))
    with pytest.raises(UserError, match="must move slot 1 to slot 0"):
        OpenFHEOwner(3)


# -- where it is missing ----------------------------------------------------------------------------------


def test_a_missing_package_is_named_with_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "openfhe", None)
    with pytest.raises(UserError) as told:
        OpenFHEOwner(3)
    words = str(told.value)
    for part in ("openfhe==1.6.1.0.22.4", "CPython 3.10", "not installed", ".".join(map(str, sys.version_info[:2]))):
        assert part in words
    assert words.count("\n") == 0


def test_another_version_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "openfhe", types.ModuleType("openfhe"))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9")
    with pytest.raises(UserError, match=r"needs openfhe==1\.6\.1\.0\.22\.4, and 9\.9 is installed"):
        OpenFHEOwner(3)
