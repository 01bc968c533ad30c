"""What is desilofhe's own: versions, wheels, modes, rotation sign, memory, and what is said where they are wrong."""

import importlib.metadata
import importlib.util
import re
import sys
import types

import numpy as np
import pytest

from cgf import memory
from cgf.errors import UserError
from cgf.he.engines import desilo, desilo_library
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.desilo1 import Desilo1Owner
from cgf.he.engines.desilo_library import build_engine

REAL = pytest.mark.skipif(importlib.util.find_spec("desilofhe") is None, reason="desilofhe is not installed")


def installed(monkeypatch, name, version, engine=None):
    """A stand-in for the library: a wheel of that name and version whose Engine calls ``engine``."""
    library = types.ModuleType("desilofhe")
    library.Engine = engine
    monkeypatch.setitem(sys.modules, "desilofhe", library)

    def version_of(asked):
        if asked != name:
            raise importlib.metadata.PackageNotFoundError(asked)
        return version

    monkeypatch.setattr(importlib.metadata, "version", version_of)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "desilofhe", None)
    with pytest.raises(UserError, match=r"needs the package desilofhe==2\.0\.0, and it is not installed"):
        DesiloOwner(3)


@pytest.mark.parametrize("name", ["desilofhe", "desilofhe-cu132", "desilofhe-cu130"])
def test_another_version_is_refused(monkeypatch, name):
    installed(monkeypatch, name, "1.17.0")
    with pytest.raises(UserError, match=rf"needs {name}==2\.0\.0, and 1\.17\.0 is installed"):
        DesiloOwner(3)


def test_the_engine_of_the_papers_time_needs_its_own_version(monkeypatch):
    installed(monkeypatch, "desilofhe", "2.0.0")
    with pytest.raises(UserError, match=r"needs desilofhe==1\.17\.0, and 2\.0\.0 is installed"):
        Desilo1Owner(8)
    with pytest.raises(UserError, match="needs 27 levels, and the largest ring holds 26"):
        Desilo1Owner(27)


def test_gpu_mode_needs_a_gpu_wheel(monkeypatch):
    installed(monkeypatch, "desilofhe", "2.0.0")
    with pytest.raises(UserError) as told:
        build_engine(3, mode="gpu")
    words = str(told.value)
    assert "mode=gpu" in words and "desilofhe-cu132 or desilofhe-cu134==2.0.0" in words and "\n" not in words
    assert words.endswith("in place of desilofhe")


def test_gpu_mode_hands_over_the_device_and_says_what_the_driver_says(monkeypatch):
    asked = []

    def engine(**options):
        asked.append(options)
        raise RuntimeError("CUDA Error: CUDA driver version is insufficient for CUDA runtime version")

    installed(monkeypatch, "desilofhe-cu132", "2.0.0", engine)
    with pytest.raises(UserError, match=r"could not build an engine of 3 levels in mode gpu: CUDA Error: CUDA driver"):
        build_engine(3, mode="gpu", device_id=1)
    assert asked == [{"max_level": 3, "mode": "gpu", "device_id": 1}]


def test_modes_and_sizes_are_named():
    with pytest.raises(UserError, match="cpu, parallel or gpu, and 'tpu'"):
        build_engine(3, mode="tpu")
    with pytest.raises(UserError, match="threads are those of mode parallel, and 2 were given with mode cpu"):
        build_engine(3, mode="cpu", threads=2)
    with pytest.raises(UserError, match="device_id is that of mode gpu, and 1 was given with mode parallel"):
        build_engine(3, device_id=1)
    with pytest.raises(UserError, match="needs 37 levels, and the largest ring holds 36"):
        build_engine(37)
    with pytest.raises(UserError, match="the engine that bootstraps has 17 levels, and max_level=8"):
        build_engine(8, bootstrap=True)
    with pytest.raises(UserError, match="null, plain, small or medium, and 'large'"):
        DesiloOwner(17, bootstrap="large")


@pytest.mark.parametrize("size, need", [("small", "13.0"), ("medium", "21.5")])
def test_too_little_memory_for_a_bootstrap_key(monkeypatch, tmp_path, size, need):
    """Said before the engine is built: the key takes minutes."""
    (tmp_path / "meminfo").write_text(f"MemTotal: 9000000 kB\nMemAvailable: {4 * 2**20} kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(desilo, "build_engine", lambda *a, **k: pytest.fail("an engine was built"))
    with pytest.raises(UserError, match=rf"a {size} bootstrap key needs {need} GiB of memory, and 4\.0 GiB are free"):
        DesiloOwner(17, bootstrap=size)


class StubLibrary:
    """Notes what the library is asked for when ciphertexts are refreshed, and answers with numbers."""

    slot_count = 32768

    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        if not name.startswith("create_"):
            raise AttributeError(name)
        return lambda *arguments: name.removeprefix("create_") + "".join(f"/{a}" for a in arguments[1:])

    def bootstrap(self, ct, *keys):
        self.asked.append(("bootstrap", (ct.number,), keys))
        return Ct(ct.number + 100)

    def merge_bootstrap(self, a, b, *keys):
        self.asked.append(("merge_bootstrap", (a.number, b.number), keys))
        return Ct(a.number + 100), Ct(b.number + 100)


class Ct:
    def __init__(self, number, polynomials=2):
        self.number, self.polynomial_count, self.level = number, polynomials, 1


KEYS = {
    "medium": ("relinearization_key", "conjugation_key", "bootstrap_key/medium"),
    "small": ("relinearization_key", "conjugation_key", "roll_key", "small_bootstrap_key"),
}


@pytest.fixture(name="refreshing", params=KEYS)
def refreshing_fixture(monkeypatch, request):
    """(library, engine, keys in the order in which the library takes them), keys of this size."""
    library = StubLibrary()
    monkeypatch.setattr(desilo, "build_engine", lambda *a, **k: library)
    monkeypatch.setattr(desilo, "need_memory", lambda *a: None)
    monkeypatch.setattr(DesiloOwner, "_check_rotation_sign", lambda self: None)
    owner = DesiloOwner(17, bootstrap=request.param)
    return library, owner.evaluator(frozenset()), KEYS[request.param]


@pytest.mark.parametrize("count, pairs", [(1, [(0,)]), (2, [(0, 1)]), (5, [(0, 1), (2, 3), (4,)])])
def test_ciphertexts_are_refreshed_two_at_a_time_and_come_back_in_order(refreshing, count, pairs):
    library, engine, keys = refreshing
    fresh = engine.bootstrap([Ct(i) for i in range(count)])
    assert [ct.number for ct in fresh] == [100 + i for i in range(count)]
    assert [asked[1] for asked in library.asked] == pairs
    for name, cts, given in library.asked:
        assert name == ("merge_bootstrap" if len(cts) == 2 else "bootstrap") and given == keys
    assert engine.refreshed == 17


def test_only_relinearized_ciphertexts_are_refreshed(refreshing):
    library, engine, _ = refreshing
    with pytest.raises(UserError, match="a bootstrap needs a ciphertext of 2 polynomials, and this one has 3"):
        engine.bootstrap([Ct(0), Ct(1, polynomials=3)])
    assert library.asked == []  # before the first of them took a minute


def test_without_keys_nothing_is_refreshed(monkeypatch):
    monkeypatch.setattr(desilo, "build_engine", lambda *a, **k: StubLibrary())
    monkeypatch.setattr(DesiloOwner, "_check_rotation_sign", lambda self: None)
    engine = DesiloOwner(17, bootstrap="plain").evaluator(frozenset())
    assert engine.refreshed is None
    with pytest.raises(UserError, match="a bootstrap needs an engine built with bootstrap keys"):
        engine.bootstrap([Ct(0)])


@REAL
@pytest.mark.parametrize("name", ["bootstrap", "merge_bootstrap"])
def test_the_library_takes_the_keys_in_this_order(name):
    """By its own signatures, without the gigabytes of a key."""
    import desilofhe

    overloads = getattr(desilofhe.Engine, name).__doc__.splitlines()
    taken = [tuple(re.findall(r"(\w+_key): ", line)) for line in overloads]
    for keys in KEYS.values():
        assert tuple(key.split("/")[0] for key in keys) in taken


@REAL
def test_a_library_that_rolls_the_other_way_is_refused(monkeypatch):
    monkeypatch.setattr(DesiloOwner, "_left", -1)
    with pytest.raises(UserError, match=r"must move slot 1 to slot 0 as in desilofhe 2\.0\.0"):
        DesiloOwner(1, mode="cpu")


@REAL
def test_sums_and_products_wrap_around_at_2_to_19_of_level_0_and_above_2_to_58(owner_of):
    """Why plans have a guard. All slots alike is the worst case: one coefficient holds them all."""
    owner = owner_of("desilo", 3)
    engine, one = owner.evaluator(frozenset()), np.ones(owner.slots)
    for level, holds in ((0, desilo_library.HOLDS_AT_0), (1, desilo_library.HOLDS_ABOVE)):
        np.testing.assert_allclose(owner.decrypt(owner.encrypt(holds * one, level)), holds, rtol=1e-6)
    at_0 = owner.encrypt(2.0**18 * one, 0)
    np.testing.assert_allclose(owner.decrypt(engine.add(at_0, 2.0**18 * one)), -(2.0**19), rtol=1e-6)
    squared = {power: owner.decrypt(engine.square(owner.encrypt(2.0**power * one, 1))) for power in (9.25, 10)}
    np.testing.assert_allclose(squared[9.25], 2.0**18.5, rtol=1e-3)
    assert np.abs(squared[10] / 2.0**20 - 1).min() > 0.5
    squared = {power: owner.decrypt(engine.square(owner.encrypt(2.0**power * one, 2))) for power in (29, 30)}
    np.testing.assert_allclose(squared[29], 2.0**58, rtol=1e-3)
    assert np.abs(squared[30] / 2.0**60 - 1).min() > 0.5


@REAL
def test_what_would_wrap_around_is_not_encrypted_or_encoded(owner_of):
    owner = owner_of("desilo", 3)
    engine, one = owner.evaluator(frozenset()), np.ones(owner.slots)
    for level, size, shown in (
        (0, 2.0**19, "3.71e\\+05, and the largest is 5.24e\\+05"),
        (1, -(2.0**60), "2.88e\\+17, and the largest is 1.15e\\+18"),
    ):
        with pytest.raises(UserError, match=f"^encryption needs numbers of at most {shown}$"):
            owner.encrypt(size * one, level)
        for operation in (engine.add, engine.sub):
            for number in (size, size * one):
                with pytest.raises(UserError, match=f"at level {level} needs numbers of at most {shown}$"):
                    operation(owner.encrypt(one, level), number)
    for number in (np.nan, np.float64(np.inf), -np.inf * one, 2**60, 2.0**60):
        with pytest.raises(UserError, match=r"a product needs numbers of at most 2\.88e\+17, and the largest is"):
            engine.mul(owner.encrypt(one, 2), number)


@REAL
def test_a_vector_added_to_many_columns_is_encoded_once_a_level(owner_of):
    owner = owner_of("desilo", 4)
    engine, rng = owner.evaluator(frozenset()), np.random.default_rng(3)
    x, vector = rng.normal(size=(2, owner.slots))
    high, low = owner.encrypt(x, 4), owner.encrypt(x, 2)
    for ct in (high, low, high):
        assert np.abs(owner.decrypt(engine.add(ct, vector)) - (x + vector)).max() < 1e-9
        assert np.abs(owner.decrypt(engine.sub(ct, vector)) - (x - vector)).max() < 1e-9
    assert [level for level, _ in engine._terms] == [2, 4]  # the one used last comes last
    kept = engine._terms[4, vector.tobytes()]
    engine.add(high, vector.copy())
    assert engine._terms[4, vector.tobytes()] is kept  # it goes by what a vector holds, not by which one it is
    vector *= 2
    assert np.abs(owner.decrypt(engine.add(high, vector)) - (x + vector)).max() < 1e-9
    for number in range(2 * desilo.KEPT):
        assert np.abs(owner.decrypt(engine.add(low, np.full(owner.slots, number))) - (x + number)).max() < 1e-9
    assert len(engine._terms) == desilo.KEPT


@REAL
@pytest.mark.alone  # its keys take 1.8 GB
def test_two_sums_of_eight_products_add_up_in_the_largest_ring(no_kept_owners):
    """Each way to such sums; the library alone ruins every slot of most of them, so one is reduced."""
    owner = DesiloOwner(18, mode="cpu")
    engine, library = owner.evaluator(frozenset()), owner._engine
    x, y = np.random.default_rng(5).uniform(-0.1, 0.1, (2, owner.slots))
    a, b = owner.encrypt(x, 2), owner.encrypt(y, 2)
    eight = desilo.SUMMED

    def summed(add, product):
        total = product
        for _ in range(eight - 1):
            total = add(total, product)
        return total

    largest = 0.0
    for _ in range(20):  # whether a residue is as large is chance, which most encryptions have
        other_x = owner.encrypt(x, 2)
        alone = summed(library.add, library.multiply(other_x, b))
        largest = max(largest, np.abs(owner.decrypt(library.add(alone, alone))).max())
        mended = summed(engine.add, engine.mul(other_x, b))
        np.testing.assert_allclose(owner.decrypt(engine.add(mended, mended)), 2 * eight * x * y, rtol=0, atol=1e-5)
    assert largest > 1e6
    one_by_one = summed(engine.add, engine.mul(a, b))
    two_by_two = engine.mul(a, b)
    for _ in range(3):
        two_by_two = engine.add(two_by_two, two_by_two)
    at_once = engine.dot([a] * eight, [b] * eight)
    loaded = engine.load(engine.dump(one_by_one))
    for other in (one_by_one, two_by_two, at_once, loaded):
        for sum_of_eight in (one_by_one, at_once):
            total = engine.add(sum_of_eight, other)
            np.testing.assert_allclose(owner.decrypt(total), 2 * eight * x * y, rtol=0, atol=1e-5)
            np.testing.assert_allclose(owner.decrypt(engine.add(total, total)), 4 * eight * x * y, rtol=0, atol=1e-5)
            assert (engine.level(total), engine.polynomials(total)) == (1, 3)
    turned = engine.add(engine.times_i(one_by_one), engine.times_i(at_once))
    np.testing.assert_allclose(owner.decrypt_pair(turned)[1], 2 * eight * x * y, rtol=0, atol=1e-5)
