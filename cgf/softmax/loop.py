"""CGF-softmax with a stand-in for exp in training already, as the paper's low-degree variant has one."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar

from cgf.approx.exponential import Exponential
from cgf.errors import UserError
from cgf.softmax.cgf import CGF
from cgf.softmax.value import V

UNMADE = "unmade"  # nothing was fitted yet; equal in copies too


@dataclass(eq=False)
class LoopCGF(CGF):
    """weights = e(y), e a fit of exp on ``domain`` and y the exponent of CGF-softmax.

    In training y is cut off at [domain[0] - below, domain[1] + above]: a polynomial's slope beyond its domain
    throws a run off its course, and what lies there gets no gradient but that of a range penalty, which sees y
    as it is. The evaluation never cuts: a ciphertext could not. A subclass gives ``fitted``, which is asked for
    when first needed, so a checkpoint's own coefficients are never fitted again.
    Raises UserError for a domain that does not hold 0, where entries that do not count enter.
    """

    domain: list[float] = field(default_factory=lambda: [-18.0, 1.2])
    below: float = 0.0
    above: float = 0.1
    _exponential: Exponential | None = field(default=None, init=False, repr=False)
    _kept_of: object = field(default=UNMADE, init=False, repr=False)  # the constants that ``_exponential`` is of

    name: ClassVar[str] = "loop"

    def __post_init__(self) -> None:
        super().__post_init__()
        ends, margins = _numbers(self.domain), _numbers([self.below, self.above])
        if len(ends) != 2 or not ends[0] < 0.0 <= ends[1] or ends[1] > 300 or ends[1] - ends[0] > 1e6:
            raise UserError(
                f"softmax.domain must be two numbers [LO,HI] with LO below 0, HI from 0 to 300 and a width "
                f"of at most 1e6, and {self.domain} was given"
            )
        if len(margins) != 2 or min(margins) < 0:
            raise UserError(
                "softmax.below and softmax.above must be numbers of at least 0, and "
                f"{self.below!r} and {self.above!r} were given"
            )
        self.domain, (self.below, self.above) = ends, margins

    def fitted(self) -> Exponential:
        """The exponential as it stands now."""
        raise NotImplementedError

    def made_of(self) -> object:
        """The numbers that ``fitted`` is made of, wherever they were changed; None where they never change."""
        return None

    # a property over the base's field: a trained chain's fit is measured anew, in seconds, only when one asks for it
    @property  # type: ignore[misc]  # a property in the place of a field
    def exponential(self) -> Exponential | None:
        """What an evaluation applies: the softmax's own, unless another was put in its place since."""
        now = self.made_of()
        if now != self._kept_of:
            self._exponential, self._kept_of = self.fitted(), now
        return self._exponential

    @exponential.setter
    def exponential(self, value: Exponential | None) -> None:
        """Puts another in its place, until the constants move again."""
        self._exponential, self._kept_of = value, self.made_of()

    def fuses(self) -> bool:
        """Never: it has no exp."""
        return False  # without asking for the stand-in, whose error and guard are measured anew after every step

    def apply_exponential(self, y: V) -> V:
        """e(y); in training of y cut off around the domain, and at the ceiling."""
        if not self.training:
            return super().apply_exponential(y)
        most = self.domain[1] + self.above
        return self.in_training(
            y.clamp(self.domain[0] - self.below, most if self.ceiling is None else min(most, self.ceiling))
        )

    def in_training(self, y: V) -> V:
        """e(y) as training computes it; here as an evaluation does."""
        return super().apply_exponential(y)


def _numbers(values: Collection[float]) -> list[float]:
    """Finite floats, or an empty list where one is not (a yaml may give anything)."""
    try:
        numbers = [float(v) for v in values if not isinstance(v, bool | str)]
        return numbers if len(numbers) == len(values) and all(map(math.isfinite, numbers)) else []
    except (TypeError, ValueError):
        return []
