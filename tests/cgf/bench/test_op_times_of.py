"""Whose operation times are measured."""

from functools import partial

import pytest

from cgf.errors import UserError
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.lanes import LanesOwner
from cgf.he.engines.sim import SimOwner
from scripts.bench.op_times import desilofhe


def test_one_engine_of_desilofhe_alone_is_measured():
    owner = partial(DesiloOwner, mode="cpu")
    assert desilofhe(owner) is owner
    for other in (partial(SimOwner, outside="record"), partial(LanesOwner, make_owner=owner)):
        with pytest.raises(UserError, match=f"one engine of desilofhe.*he.owner is {other.func.__name__}"):
            desilofhe(other)
