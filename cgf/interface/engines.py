"""The engines that the Python interface knows by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cgf.checks import one_of
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.engine import Owner
from cgf.he.engines.sim import SimOwner

ENGINES = ("sim", "desilo")


def owner(engine: str) -> Callable[[int], Owner]:
    """What makes the party with the secret key, from the most levels; UserError for an engine of another name."""
    one_of("engine", engine, ENGINES)
    if engine == "sim":
        return partial(SimOwner, outside="record")
    return partial(DesiloOwner, mode="parallel")
