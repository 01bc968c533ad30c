"""What is desilofhe's own: versions, wheels, modes, rotation sign, memory, and what is said where they are wrong."""

import importlib.metadata
import importlib.util
import sys
import types

import numpy as np
import pytest

from cgf.errors import UserError
from cgf.he import desilo, memory
from cgf.he.desilo import Desilo1Owner, DesiloOwner, build_engine

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


@REAL
def test_a_library_that_rolls_the_other_way_is_refused(monkeypatch):
    monkeypatch.setattr(DesiloOwner, "_left", -1)
    with pytest.raises(UserError, match=r"must move slot 1 to slot 0 as in desilofhe 2\.0\.0"):
        DesiloOwner(1, mode="cpu")


@REAL
def test_what_wraps_around_is_no_failure_but_another_number(owner_of):
    """Why plans have a guard. All slots alike is the worst case: one coefficient holds them all, up to 2^19 of it."""
    owner = owner_of("desilo", 3)
    one = np.ones(owner.slots)
    np.testing.assert_allclose(owner.decrypt(owner.encrypt(2.0**18 * one, 0)), 2.0**18, rtol=1e-6)
    np.testing.assert_allclose(owner.decrypt(owner.encrypt(2.0**19 * one, 0)), -(2.0**19), rtol=1e-6)
    np.testing.assert_allclose(owner.decrypt(owner.encrypt(2.0**20 * one, 1)), 2.0**20, rtol=1e-6)
