"""The engines of the tests of circuits, for those of the benchmarks too."""

import importlib.util

import pytest

from cgf.he.engines.desilo import DesiloOwner


@pytest.fixture(scope="session")
def desilo():
    """desilo(levels): an owner of real keys, kept until another size is asked for; skipped without the library."""
    owners = {}

    def make(levels):
        if levels not in owners:
            owners.clear()  # the keys of each take hundreds of MiB
            if importlib.util.find_spec("desilofhe") is None:
                pytest.skip("desilofhe is not installed")
            owners[levels] = DesiloOwner(levels, mode="cpu")
        return owners[levels]

    return make
