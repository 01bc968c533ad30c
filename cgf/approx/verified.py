"""An exponential read from a file, believed only where its coefficients say the same."""

from __future__ import annotations

import math
from functools import lru_cache

from cgf.approx.exponential import Exponential, Fit, Interval
from cgf.approx.fit import GUARD_BOUND, with_fit
from cgf.errors import UserError

ROUNDING = 1e-6  # relative: another machine's exp differs in the last digits, and so do the ends of a bisection
NOISE = 1e-12  # absolute, of an error: squarings multiply those last digits


def verified(exponential: Exponential, file: object) -> Exponential:
    """The same exponential, its error and its guard computed again on the stated domain (milliseconds, kept).

    file names where it was read. A guard narrower than the computed one is conservative, and passes. Raises UserError
    where domain and guard are missing, where the error is not that of the coefficients, and where the guard is wider
    than they hold or counts on more than ``GUARD_BOUND``.
    """
    stated = exponential.fit
    if stated is None:
        raise UserError(f"{file} needs the domain and the guard of its {exponential.method}, and has none")
    if stated.guard_bound > GUARD_BOUND:
        raise UserError(
            f"{file} states a guard_bound of {stated.guard_bound:g}, and a ciphertext holds {GUARD_BOUND:g} at most"
        )
    measured = _measured(exponential.stating(None), stated.domain, stated.guard_bound)
    if not math.isclose(stated.max_error, measured.max_error, rel_tol=ROUNDING, abs_tol=NOISE):
        raise UserError(
            f"{file} states an error of {stated.max_error:.6g} on [{stated.domain[0]:g}, "
            f"{stated.domain[1]:g}], and its coefficients have {measured.max_error:.6g} there: it was changed "
            "after it was made, and has to be made anew"
        )
    slack = ROUNDING * max(1.0, *map(abs, measured.guard))
    if stated.guard[0] < measured.guard[0] - slack or stated.guard[1] > measured.guard[1] + slack:
        held = f"[{measured.guard[0]:.6g}, {measured.guard[1]:.6g}]"
        raise UserError(
            f"{file} states a guard of [{stated.guard[0]:.6g}, {stated.guard[1]:.6g}], and its numbers "
            f"hold {held}: it was changed since, or made by an earlier version, and has to be made anew"
        )
    return exponential


@lru_cache(maxsize=256)
def _measured(exponential: Exponential, domain: Interval, bound: float) -> Fit:
    fit = with_fit(exponential, domain, bound).fit
    assert fit is not None
    return fit
