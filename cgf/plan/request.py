"""What is to be planned: the interval of exponents, the error asked for, the rows, and the softmax on them."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

from cgf.approx import fit
from cgf.approx.exponential import Interval
from cgf.checks import interval, one_of, positive, whole
from cgf.errors import UserError
from cgf.plan.cost import MASKS, SECOND_ORDER
from cgf.softmax.base import ExponentialSoftmax

EPSILON = 2.0**-52  # of floats


@dataclass(frozen=True)
class Request:
    """What every candidate is judged by. UserError for what is no request.

    range      calibrated [lo, hi] of the exponent y, which the guard must hold; None: nothing was measured
    domain     [lo, hi] of y on which the error is at most tolerance
    tolerance  largest error: absolute where y <= 0, relative where y > 0
    rows       score rows of one evaluation, all heads of a layer together; columns: entries of a row
    mask       which entries count: full, causal or padding, see ``cgf.plan.cost.mask_rows``
    softmax    whose circuit is planned, its exponential left out
    bound      the largest value that an intermediate of the exponential may take inside the guard
    """

    range: Interval | None
    domain: Interval
    tolerance: float = 1e-4
    rows: int = 256
    columns: int = 256
    mask: str = "full"
    _: KW_ONLY
    softmax: ExponentialSoftmax = SECOND_ORDER
    bound: float = fit.GUARD_BOUND

    def __post_init__(self) -> None:
        if self.range is not None:
            object.__setattr__(self, "range", interval("range", self.range))
        object.__setattr__(self, "domain", interval("domain", self.domain))
        positive("tolerance", self.tolerance), positive("guard bound", self.bound)
        whole("rows", self.rows, 1), whole("columns", self.columns, 1)
        one_of("mask", self.mask, MASKS)

    @property
    def kind(self) -> str:
        """Of the rows: full where every entry counts, else masked."""
        return "full" if self.mask == "full" else "masked"

    def need_room(self) -> None:
        """UserError where exp itself, less the tolerance, passes the guard bound: no candidate need be fitted then."""
        highest, most = self.domain[1], math.log(self.bound)
        if self.tolerance < (least := EPSILON * math.exp(min(highest, 0.0))):
            raise UserError(
                f"a tolerance of at least {least:.1e} is needed, the rounding of exp at y = {min(highest, 0.0):.4g}, "
                f"and {self.tolerance:g} was given"
            )
        if not self.has_room:
            raise UserError(
                f"exp is to be approximated up to y = {highest:.4g}, and a guard of 2^"
                f"{math.log2(self.bound):.3g} holds it up to {most:.3g}: less range is needed (train with "
                "a range penalty, or leave more entries out by outside=SHARE)"
            )

    @property
    def has_room(self) -> bool:
        """Whether exp itself, less the tolerance, stays within the guard bound on the domain."""
        return self.domain[1] + math.log1p(-min(self.tolerance, 0.5)) <= math.log(self.bound)
