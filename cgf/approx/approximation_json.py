"""Inverses, roots and series to and from JSON; a number's shortest repr is exact, so they survive bit for bit."""

from __future__ import annotations

from typing import Any

from cgf.approx.approximation import Approximation
from cgf.approx.exponential_json import number, numbers
from cgf.approx.inverse import Goldschmidt, Newton
from cgf.approx.root import GoldschmidtRoot, NewtonRoot
from cgf.approx.series import Series
from cgf.errors import UserError

FROM_A_GUESS: dict[str, type[Newton] | type[NewtonRoot] | type[GoldschmidtRoot]] = {
    kind.method: kind for kind in (Newton, NewtonRoot, GoldschmidtRoot)
}


def _series(data: Any) -> Series:
    if not isinstance(data, dict) or data.get("method") != Series.method:
        raise UserError(f"a guess must be a JSON object with the method {Series.method!r}, and is {data!r}")
    lo, hi = numbers(data, "domain", 2)
    return Series(
        number(data, "a"), number(data, "b"), numbers(data, "coefficients"), (lo, hi), number(data, "max_error")
    )


def approximation_from_json(data: Any) -> Approximation:
    """The approximation that ``to_json`` described, equal bit for bit. UserError where something is amiss."""
    if not isinstance(data, dict):
        raise UserError(f"an approximation must be a JSON object, and is {data!r}")
    method = data.get("method")
    if method == Series.method:
        return _series(data)
    if method == Goldschmidt.method:
        recentre = data.get("recentre", True)
        if not isinstance(recentre, bool):
            raise UserError(f"'recentre' must be true or false, and is {recentre!r}")
        return Goldschmidt(
            number(data, "low"),
            number(data, "high"),
            data.get("iterations"),  # type: ignore[arg-type]
            recentre,
        )
    if isinstance(method, str) and method in FROM_A_GUESS:
        return FROM_A_GUESS[method](_series(data.get("guess")), data.get("iterations"))  # type: ignore[arg-type]
    known = ", ".join((Series.method, Goldschmidt.method, *FROM_A_GUESS))
    raise UserError(f"an approximation's method must be one of {known}, and is {method!r}")
