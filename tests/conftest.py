import ctypes
import gc
import importlib.util
import json
import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from cgf.memory import give_freed_memory_back

gc.disable()  # until everything is loaded: libraries make a million objects, none of which is to be freed


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """This process loads nothing: its workers do."""
    gc.enable()


def pytest_collection_finish():
    """What is loaded stays to the end, so that the collector of cycles leaves it out: half a second each time else."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish():
    """Python frees at its end what is not frozen, and nanobind tells of the rest."""
    gc.unfreeze()


# the checks draw the same every time; scripts/repo/fuzz.sh draws anew
settings.register_profile("checks", derandomize=True, deadline=None, database=None)
settings.register_profile("fresh", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "checks"))


@pytest.fixture(autouse=True)
def same_draws():
    """Whatever draws without a generator of its own draws the same, alone and after any other test."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.manual_seed(0)


@pytest.fixture(scope="module", autouse=True)
def nothing_idle_is_kept():
    """When a module ends, what it freed goes back to the system; so does an idle server of tests/cli/forked.py."""
    yield
    if "forked" in sys.modules:
        sys.modules["forked"].stop_if_idle()
    give_freed_memory_back()


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The real data: CGF_DATA_ROOT, or shared/data beside the checkout."""
    named = os.environ.get("CGF_DATA_ROOT")
    root = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not root.is_dir():
        pytest.skip("no data: set CGF_DATA_ROOT to the folder with clinc150/, banking77/, sst2/, cifar10/, weights/")
    return root


@pytest.fixture(scope="session", autouse=True)
def kept_fit():
    """ARION's inverse of degree 255 from a file that tests/cgf/approx/test_kept_fit.py checks: half a minute to fit."""
    from cgf.approx import series

    kept = json.loads((Path(__file__).parent / "cgf" / "approx" / "arion_inverse.json").read_text())
    fit, found = (
        series.inverse,
        series.Series(kept["a"], kept["b"], tuple(kept["coefficients"]), tuple(kept["domain"]), kept["max_error"]),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series, "inverse", lambda *key: found if key == (*found.domain, found.degree) else fit(*key))
        yield fit


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Workers share the cores; threads of their own would fight for them."""
    if importlib.util.find_spec("torch") is None:  # the ciphertexts' own tests do without
        return
    import torch

    torch.set_num_threads(1)


_kept_mib, GROWTH_MIB = 1000.0, 100.0  # that this worker held after it was asked last, and by how much it may grow


@pytest.fixture(autouse=True)
def memory_is_given_back():
    """Keys and ciphertexts of a test do not stay with its worker: freed memory goes back to the system.

    Only where a worker has grown since: a collection of all that the libraries hold takes half a second.
    """
    global _kept_mib
    yield
    if resident_mib() > _kept_mib + GROWTH_MIB:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        _kept_mib = max(1000.0, resident_mib())


def resident_mib() -> float:
    """Memory that this process holds, in MiB (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
