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
