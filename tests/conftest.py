import ctypes
import gc
import importlib.util
import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The real data: CGF_DATA_ROOT, or shared/data beside the checkout."""
    named = os.environ.get("CGF_DATA_ROOT")
    root = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not root.is_dir():
        pytest.skip("no data: set CGF_DATA_ROOT to the folder with clinc150/, banking77/, sst2/, cifar10/, weights/")
    return root


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Workers share the cores; threads of their own would fight for them."""
    if importlib.util.find_spec("torch") is None:  # the ciphertexts' own tests do without
        return
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def memory_is_given_back():
    """Keys and ciphertexts of a test do not stay with its worker: freed memory goes back to the system."""
    yield
    if resident_mib() > 1000:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)


def resident_mib() -> float:
    """Memory that this process holds, in MiB (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
