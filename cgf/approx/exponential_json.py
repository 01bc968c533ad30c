"""Exponentials to and from JSON; a number's shortest repr is exact, so coefficients survive bit for bit."""

from __future__ import annotations

import math
from reprlib import repr as shortened

from cgf.approx.chain import SquareChain
from cgf.approx.exponential import Exponential, Fit
from cgf.approx.head_chain import HeadChain
from cgf.approx.polynomial import Polynomial
from cgf.approx.tree import MAX_DEGREE
from cgf.checks import whole
from cgf.errors import UserError
from cgf.types import Json, JsonValue

CHAINS = ("chain", "limit")
HEAD_CHAIN = "head_chain"
POLYNOMIALS = ("chebyshev", "taylor", "fitted")
# what a file may hold: the deepest circuits here have 36 levels, the largest models fewer heads a layer
SQUARINGS = 64
COEFFICIENTS = MAX_DEGREE + 1
HEADS = 1024


def number(data: Json, key: str) -> float:
    """data[key] as a finite float (a JSON number or its decimal string)."""
    return _float(data.get(key), key)


def numbers(data: Json, key: str, count: int | None = None, most: int | None = None) -> tuple[float, ...]:
    """data[key] as a tuple of finite floats, ``count`` of them, or at most ``most``, if given."""
    values = data.get(key)
    if not isinstance(values, list | tuple) or (count is not None and len(values) != count):
        raise UserError(f"'{key}' must be a list of {count or 'several'} numbers, and is {shortened(values)}")
    if most is not None and len(values) > most:
        raise UserError(f"'{key}' may hold {most} numbers at most, and holds {len(values)}")
    return tuple(_float(v, key) for v in values)


def _float(value: JsonValue, key: str) -> float:
    try:
        result = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        result = math.nan
    if not math.isfinite(result):
        raise UserError(f"'{key}' must hold finite numbers, and there is {shortened(value)}")
    return result


def _fit(data: Json) -> Fit | None:
    if "domain" not in data:
        return None
    lo, hi = numbers(data, "domain", 2)
    guard_lo, guard_hi = numbers(data, "guard", 2)
    return Fit((lo, hi), (guard_lo, guard_hi), number(data, "guard_bound"), number(data, "max_error"))


def _head_chain(data: Json) -> HeadChain:
    betas, by_head = numbers(data, "beta", most=HEADS), data.get("constants")
    if not isinstance(by_head, list | tuple) or len(by_head) != len(betas) or not betas:
        have = len(by_head) if isinstance(by_head, list | tuple) else shortened(by_head)
        raise UserError(f"a head chain needs as many lists of constants as betas ({len(betas)}), and has {have}")
    alpha = number(data, "alpha")
    chains = [
        SquareChain("chain", alpha, beta, numbers({"constants": constants}, "constants", most=SQUARINGS))
        for beta, constants in zip(betas, by_head, strict=True)
    ]
    return HeadChain(HEAD_CHAIN, tuple(chains), _fit(data))


def exponential_from_json(data: JsonValue) -> Exponential:
    """The exponential that ``to_json`` described, equal bit for bit. UserError where something is amiss.

    Raises it before anything is computed for more squarings, coefficients or heads than the bounds above.
    """
    if not isinstance(data, dict):
        raise UserError(f"an exponential must be a JSON object, and is {shortened(data)}")
    method = data.get("method")
    if method in CHAINS:
        alpha, beta = number(data, "alpha"), number(data, "beta")
        return SquareChain(method, alpha, beta, numbers(data, "constants", most=SQUARINGS), _fit(data))
    if method == HEAD_CHAIN:
        return _head_chain(data)
    if method in POLYNOMIALS:
        k = whole("'k'", data.get("k", 0), 0, SQUARINGS)
        coefficients = numbers(data, "coefficients", most=COEFFICIENTS)
        a = number(data, "a")
        if a <= 0:
            raise UserError(f"a polynomial's 'a', by which y is multiplied, must be above 0, and is {a}")
        return Polynomial(method, a, number(data, "b"), coefficients, k, _fit(data))
    methods = ", ".join((*CHAINS, HEAD_CHAIN, *POLYNOMIALS))
    raise UserError(f"an exponential's method must be one of {methods}, and is {shortened(method)}")
