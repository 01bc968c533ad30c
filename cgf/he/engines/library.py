"""The library behind an engine: what an owner class states of it, and the check that the setting he.engine names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cgf.errors import UserError

if TYPE_CHECKING:  # which imports this module
    from cgf.he.engines.engine import Owner


@dataclass(frozen=True)
class Library:
    """What an owner class states, as ``library``, of the engine that it makes.

    name      of the engine, as results name it;  encrypts: False where nothing is encrypted
    noise     the largest error of a weight of at most 1 against the same polynomials in the clear, as measured; of
              larger weights it is relative. A circuit that amplifies more than an exponential says by how much
              (Softmax.amplification)
    """

    name: str
    encrypts: bool
    noise: float


def library_of(make_owner: Callable[..., Owner]) -> Library | None:
    """The library that an owner class states, also where partials hand it out, lanes their inner one; None: none."""
    inner = getattr(make_owner, "keywords", {}).get("make_owner", make_owner)
    return getattr(inner, "library", getattr(getattr(inner, "func", None), "library", None))


def named(engine: object, make_owner: Callable[..., Owner]) -> Library:
    """The library of an owner. UserError where the setting he.engine names another, or the owner states none."""
    library = library_of(make_owner)
    if library is None:
        raise UserError(f"he.owner must be an owner that states its library, and {make_owner!r} does not")
    if engine != library.name:
        raise UserError(
            f"he.engine must name the engine of he.owner, {library.name}, and {engine!r} was given: "
            f"he={library.name} alone sets both"
        )
    return library
