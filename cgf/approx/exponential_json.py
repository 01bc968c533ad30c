"""Exponentials to and from JSON; a number's shortest repr is exact, so coefficients survive bit for bit."""

from __future__ import annotations

import math

from cgf.approx.chain import SquareChain
from cgf.approx.exponential import Exponential, Fit, Json, JsonValue
from cgf.approx.head_chain import HeadChain
from cgf.approx.polynomial import Polynomial
from cgf.errors import UserError

CHAINS = ("chain", "limit")
HEAD_CHAIN = "head_chain"
POLYNOMIALS = ("chebyshev", "taylor", "fitted")


def number(data: Json, key: str) -> float:
    """data[key] as a finite float (a JSON number or its decimal string)."""
    return _float(data.get(key), key)


def numbers(data: Json, key: str, count: int | None = None) -> tuple[float, ...]:
    """data[key] as a tuple of finite floats, ``count`` of them if given."""
    values = data.get(key)
    if not isinstance(values, list | tuple) or (count is not None and len(values) != count):
        raise UserError(f"'{key}' must be a list of {count or 'several'} numbers, and is {values!r}")
    return tuple(_float(v, key) for v in values)


def _float(value: JsonValue, key: str) -> float:
    try:
        result = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        result = math.nan
    if not math.isfinite(result):
        raise UserError(f"'{key}' must hold finite numbers, and there is {value!r}")
    return result


def _fit(data: Json) -> Fit | None:
    if "domain" not in data:
        return None
    lo, hi = numbers(data, "domain", 2)
    guard_lo, guard_hi = numbers(data, "guard", 2)
    return Fit((lo, hi), (guard_lo, guard_hi), number(data, "guard_bound"), number(data, "max_error"))


def _head_chain(data: Json) -> HeadChain:
    betas, by_head = numbers(data, "beta"), data.get("constants")
    if not isinstance(by_head, list | tuple) or len(by_head) != len(betas) or not betas:
        raise UserError(f"a head chain needs as many lists of constants as betas ({len(betas)}), and has {by_head!r}")
    alpha = number(data, "alpha")
    chains = [
        SquareChain("chain", alpha, beta, numbers({"constants": constants}, "constants"))
        for beta, constants in zip(betas, by_head, strict=True)
    ]
    return HeadChain(HEAD_CHAIN, tuple(chains), _fit(data))


def exponential_from_json(data: JsonValue) -> Exponential:
    """The exponential that ``to_json`` described, equal bit for bit. UserError where something is amiss."""
    if not isinstance(data, dict):
        raise UserError(f"an exponential must be a JSON object, and is {data!r}")
    method = data.get("method")
    if method in CHAINS:
        return SquareChain(method, number(data, "alpha"), number(data, "beta"), numbers(data, "constants"), _fit(data))
    if method == HEAD_CHAIN:
        return _head_chain(data)
    if method in POLYNOMIALS:
        k = data.get("k", 0)
        if not isinstance(k, int) or isinstance(k, bool):
            raise UserError(f"'k' must be a whole number, and is {k!r}")
        coefficients = numbers(data, "coefficients")
        return Polynomial(method, number(data, "a"), number(data, "b"), coefficients, k, _fit(data))
    methods = ", ".join((*CHAINS, HEAD_CHAIN, *POLYNOMIALS))
    raise UserError(f"an exponential's method must be one of {methods}, and is {method!r}")
