import ctypes
import functools
import gc
import importlib.util

import pytest

from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.lanes import LanesOwner
from cgf.he.engines.openfhe import VERSION as OPENFHE_VERSION
from cgf.he.engines.openfhe import OpenFHEOwner
from cgf.he.engines.sim import SimOwner

LARGE = 10  # levels: keys of more take a GiB


def make_owner(engine: str, max_level: int):
    """An owner of this engine and size; the last two are kept, since making keys takes seconds, but no large one."""
    if max_level <= LARGE:
        return kept_owner(engine, max_level)
    forget_owners()
    return new_owner(engine, max_level)


def forget_owners():
    """Keys that are kept give way to those of a test that needs the memory."""
    kept_owner.cache_clear()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


@functools.lru_cache(maxsize=2)  # keys of one owner take hundreds of MiB
def kept_owner(engine: str, max_level: int):
    return new_owner(engine, max_level)


def new_owner(engine: str, max_level: int):
    if engine == "sim":
        return SimOwner(max_level)
    if engine == "lanes_sim":
        return LanesOwner(max_level, SimOwner, lanes=3)
    if engine == "openfhe":
        if importlib.util.find_spec("openfhe") is None:
            pytest.skip(
                f"openfhe=={OPENFHE_VERSION} is not installed: scripts/repo/test_openfhe.sh makes its CPython 3.10"
            )
        return OpenFHEOwner(max_level)
    if importlib.util.find_spec("desilofhe") is None:
        pytest.skip("desilofhe is not installed")
    if engine == "lanes_desilo":
        return LanesOwner(max_level, functools.partial(DesiloOwner, mode="cpu"), lanes=2)
    if engine == "desilo_parallel":  # the mode of configs/he/desilo.yaml
        return DesiloOwner(max_level, mode="parallel", threads=2)
    if engine != "desilo":
        raise ValueError(f"there is no engine {engine} to test")
    return DesiloOwner(max_level, mode="cpu")


@pytest.fixture(scope="session")
def owner_of():
    return make_owner


@pytest.fixture(scope="package", autouse=True)
def keys_end_with_these_tests():
    """The tests of other packages run in the same process, and need the memory."""
    yield
    forget_owners()


@pytest.fixture
def no_kept_owners():
    """For a test whose keys are large: it runs without those of others."""
    forget_owners()
    yield
    forget_owners()
