"""The engines of the tests of circuits, for those of the benchmarks too."""

import pytest

from cgf.errors import UserError
from cgf.he.engines.desilo import DesiloOwner


@pytest.fixture(scope="session")
def desilo():
    """desilo(levels): an owner of real keys, kept until another size is asked for; skipped without the library."""
    owners = {}

    def make(levels):
        if levels not in owners:
            owners.clear()  # the keys of each take hundreds of MiB
            try:
                owners[levels] = DesiloOwner(levels, mode="cpu")
            except UserError as error:
                pytest.skip(str(error))
        return owners[levels]

    return make
