"""The engines that the Python interface knows by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cgf.checks import one_of
from cgf.he.engines.engine import Owner

ENGINES = ("sim", "desilo")


def owner(engine: str) -> Callable[[int], Owner]:
    """What makes the party with the secret key, from the most levels; UserError for an engine of another name."""
    one_of("engine", engine, ENGINES)
    if engine == "sim":
        from cgf.he.engines.sim import SimOwner

        return partial(SimOwner, outside="record")
    from cgf.he.engines.desilo import DesiloOwner

    return partial(DesiloOwner, mode="parallel")
