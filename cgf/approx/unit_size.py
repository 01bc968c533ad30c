"""Polynomials of small values, scaled for the circuit: what a ciphertext holds is as far off as for large ones."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from cgf.approx.exponential import Exponential
from cgf.approx.polynomial import Polynomial

FAR_BELOW_ONE = 0.25  # a largest weight below costs digits


def of_unit_size(e: Exponential) -> tuple[Exponential, float]:
    """(e', s) with s * e'.core(u) = e.core(u), whose largest value is about 1 where that of e is far below.

    A polynomial about a low exponent gives small weights alone (Taylor about -10: 5e-5), and what a ciphertext holds is
    as far off as for large ones: scaled, they keep their digits. Chains are no polynomials in this sense. The size is
    that on the accuracy domain, and of |a y + b| <= 2 where no error is stated.
    """
    return _of_unit_size(e) if isinstance(e, Polynomial) else (e, 1.0)


@lru_cache(maxsize=256)
def _of_unit_size(e: Polynomial) -> tuple[Polynomial, float]:
    low, high = ((-2.0 - e.b) / e.a, (2.0 - e.b) / e.a) if e.fit is None else e.fit.domain
    size = float(np.abs(e(np.linspace(low, high, 65))).max())
    if not 0.0 < size < FAR_BELOW_ONE:
        return e, 1.0
    factor = size ** (-(2.0**-e.k))
    scaled = replace(e, coefficients=tuple(c * factor for c in e.coefficients))
    return (scaled, size) if scaled.levels == e.levels else (e, 1.0)  # a leading 1 that is scaled takes a level
