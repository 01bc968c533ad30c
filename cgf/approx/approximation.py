"""What is known of every stand-in for 1 / x, 1 / sqrt(x) and the like: guard, levels, products, measured error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from cgf.approx.cost_counter import CostCounter
from cgf.approx.exponential import Exponential
from cgf.approx.fit import GUARD_BOUND, guard_interval
from cgf.approx.recording import RecordingArray
from cgf.errors import UserError

GRID = 20_000  # points, even and as many even in log x, on which measured_error is taken
REACH = 1024  # widths of the domain beyond it that a guard is looked for
MAX_STEPS = 60


@dataclass(frozen=True)
class Circuit:
    """A way to evaluate an approximation, run on whatever ``value`` makes of the circuit's inputs.

    run(x, value): the result for x, a float or an array (n,), with value(input) in place of each input; public
    scales and shifts of an input are folded into it, as for the exponentials. UserError from ``guard`` where bound
    is not a positive number.
    """

    run: Callable[[Any, Callable[[Any], Any]], Any]

    @property
    def cost(self) -> tuple[int, int]:
        """(levels, products of two ciphertexts), counted by running it."""
        products = [0]
        result = self.run(1.0, lambda _: CostCounter(0, products))
        return result.depth, products[0]

    def intermediates(self, x: np.ndarray) -> list[np.ndarray]:
        """Every value that the circuit holds for x (n,), inputs included, each (n,); overflow gives inf or nan."""
        seen: list[np.ndarray] = []
        with np.errstate(all="ignore"):
            self.run(np.asarray(x, dtype=np.float64), lambda number: RecordingArray(number, seen))
        return seen

    def guard(self, domain: tuple[float, float], bound: float = GUARD_BOUND) -> tuple[float, float]:
        """The interval around domain where every intermediate stays at most bound (``fit.guard_interval``)."""
        if not (math.isfinite(bound) and bound > 0):
            raise UserError(f"a guard's bound must be a positive number, and is {bound}")
        reach = REACH * (domain[1] - domain[0])
        return guard_interval(cast(Exponential, self), float(bound), reach, domain)


class Approximation:
    """f(x) ~ the result of ``circuit`` times a public factor.

    domain        [lo, hi] of x on which max_error holds
    max_error     largest error on domain: measured for a Series; for the iterations a bound by formula, as exact as
                  the measured error of the Series that they start from
    measured_error   the same measured, in float64, on a grid that nothing was fitted on
    guard         [lo, hi] of x on which every intermediate stays at most GUARD_BOUND in absolute value; it covers the
                  domain unless the domain itself breaks that bound
    levels, ct_mults   of the circuit, counted on a ``CostCounter``; maps that are folded into its inputs not counted
    Subclasses are frozen dataclasses of plain numbers, hashable, import no torch, and survive
    ``approximation_from_json(json.loads(json.dumps(to_json())))`` bit for bit.
    """

    method: ClassVar[str]

    if TYPE_CHECKING:  # fields of one subclass, properties of another

        @property
        def domain(self) -> tuple[float, float]: ...

        @property
        def max_error(self) -> float: ...

        @property
        def measured_error(self) -> float: ...

    def circuit(self, x: Any, value: Callable[[Any], Any]) -> Any:
        """As ``Circuit.run``."""
        raise NotImplementedError

    @cached_property
    def _cost(self) -> tuple[int, int]:
        return Circuit(self.circuit).cost

    @property
    def levels(self) -> int:
        return self._cost[0]

    @property
    def ct_mults(self) -> int:
        return self._cost[1]

    def intermediates(self, x: np.ndarray) -> list[np.ndarray]:
        return Circuit(self.circuit).intermediates(x)

    @cached_property
    def guard(self) -> tuple[float, float]:
        return self.guard_interval()

    def guard_interval(self, bound: float = GUARD_BOUND) -> tuple[float, float]:
        """The guard for another bound. Raises UserError unless bound is a positive number."""
        return Circuit(self.circuit).guard(self.domain, bound)

    def facts(self) -> dict[str, Any]:
        """The fields of JSON that all methods share; from the second on they are for the reader, and are derived."""
        return {
            "method": self.method,
            "domain": list(map(float, self.domain)),
            "guard": list(self.guard),
            "guard_bound": GUARD_BOUND,
            "max_error": float(self.max_error),
            "measured_error": float(self.measured_error),
            "levels": self.levels,
            "ct_mults": self.ct_mults,
        }

    def to_json(self) -> dict[str, Any]:
        raise NotImplementedError


class Iteration(Approximation):
    """An approximation of x^power, by steps whose error a formula bounds."""

    power: ClassVar[float]

    def __call__(self, x: Any) -> Any:
        """x^power of a float or an array."""
        return self.circuit(x, lambda number: number)

    @cached_property
    def measured_error(self) -> float:
        """Largest relative error on a grid of the domain that nothing was fitted on; inf where float64 overflows."""
        lo, hi = self.domain
        x = np.concatenate([np.linspace(lo, hi, GRID), np.geomspace(lo, hi, GRID)])
        with np.errstate(all="ignore"):
            error = np.abs(self(x) * x**-self.power - 1.0)
        return float(error.max()) if np.isfinite(error).all() else math.inf


def whole_steps(name: str, steps: int, least: int) -> None:
    """UserError unless steps is a whole number from least to 60."""
    if not isinstance(steps, int) or isinstance(steps, bool) or not least <= steps <= MAX_STEPS:
        raise UserError(f"{name} needs {least} to {MAX_STEPS} iterations, and {steps!r} was given")
