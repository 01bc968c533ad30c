"""What is known of every stand-in for 1 / x, 1 / sqrt(x) and the like: guard, levels, products, measured error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from cgf.approx.cost_counter import CostCounter
from cgf.approx.exponential import A, Arithmetic, Interval
from cgf.approx.fit import GUARD_BOUND, guard_interval
from cgf.approx.recording import RecordingArray
from cgf.checks import is_whole
from cgf.errors import UserError

GRID = 20_000  # points, even and as many even in log x, on which measured_error is taken
REACH = 1024  # widths of the domain beyond it that a guard is looked for
MAX_STEPS = 60
X = TypeVar("X", bound=Arithmetic)  # what x is: a float or an array


class Run(Protocol):
    """An evaluation: the result for x, a float or an array (n,), with value(input) in place of each input."""

    def __call__(self, x: X, value: Callable[[X], A]) -> A:
        """The result; public scales and shifts of an input are folded into it, as for the exponentials."""


@dataclass(frozen=True)
class Circuit:
    """A way to evaluate an approximation, run on whatever ``value`` makes of the circuit's inputs."""

    run: Run

    @property
    def cost(self) -> tuple[int, int]:
        """(levels, products of two ciphertexts), counted by running it."""
        products = [0]
        result = self.run(1.0, lambda _: CostCounter(0, products))
        return result.depth, products[0]

    def intermediates(self, x: np.ndarray) -> list[np.ndarray]:
        """Every value that the circuit holds for x (n,), inputs included, each (n,); overflow gives inf or nan."""
        record: list[np.ndarray] = []
        with np.errstate(all="ignore"):
            self.run(np.asarray(x, dtype=np.float64), lambda number: RecordingArray(number, record))
        return record

    def guard(self, domain: Interval, bound: float = GUARD_BOUND) -> Interval:
        """The interval around domain where every intermediate stays at most bound (``fit.guard_interval``).

        Raises UserError unless bound is a positive number.
        """
        if not (math.isfinite(bound) and bound > 0):
            raise UserError(f"a guard's bound must be a positive number, and is {bound}")
        return guard_interval(self, float(bound), REACH * (domain[1] - domain[0]), domain=domain)


class Approximation:
    """f(x) ~ the result of ``circuit`` times a public factor.

    domain        [lo, hi] of x on which max_error holds
    max_error     largest error on domain: measured for a Series; for the iterations a bound by formula, as exact as
                  the measured error of the Series that they start from
    guard         [lo, hi] of x on which every intermediate stays at most GUARD_BOUND in absolute value; it covers the
                  domain unless the domain itself breaks that bound
    levels, ct_mults   of the circuit, counted on a ``CostCounter``; maps that are folded into its inputs not counted
    Subclasses are frozen dataclasses of plain numbers, hashable, and import no torch.
    """

    if TYPE_CHECKING:  # fields of one subclass, properties of another

        @property
        def domain(self) -> Interval:
            """[lo, hi] of x on which max_error holds."""

        @property
        def max_error(self) -> float:
            """Largest error on the domain."""

    def circuit(self, x: X, value: Callable[[X], A]) -> A:
        """As ``Run``: the approximation of f(x) up to the public factor."""
        raise NotImplementedError

    @cached_property
    def _cost(self) -> tuple[int, int]:
        return Circuit(self.circuit).cost

    @property
    def levels(self) -> int:
        """Levels of the circuit."""
        return self._cost[0]

    @property
    def ct_mults(self) -> int:
        """Products of two values in the circuit, squares included."""
        return self._cost[1]

    def intermediates(self, x: np.ndarray) -> list[np.ndarray]:
        """Every value that the circuit holds for x (n,), each (n,)."""
        return Circuit(self.circuit).intermediates(x)

    @cached_property
    def guard(self) -> Interval:
        """[lo, hi] of x on which every intermediate stays at most GUARD_BOUND."""
        return self.guard_interval()

    def guard_interval(self, bound: float = GUARD_BOUND) -> Interval:
        """The guard for another bound. Raises UserError unless bound is a positive number."""
        return Circuit(self.circuit).guard(self.domain, bound)


class Iteration(Approximation):
    """An approximation of 1 / x, by steps whose error a formula bounds."""

    def __call__(self, x: A) -> A:
        """1 / x of a float or an array."""
        return self.circuit(x, lambda number: number)

    @cached_property
    def measured_error(self) -> float:
        """Largest relative error on a grid of the domain that nothing was fitted on; inf where float64 overflows."""
        lo, hi = self.domain
        x = np.concatenate([np.linspace(lo, hi, GRID), np.geomspace(lo, hi, GRID)])
        with np.errstate(all="ignore"):
            error = np.abs(self(x) * x - 1.0)
        return float(error.max()) if np.isfinite(error).all() else math.inf


def check_steps(name: str, steps: int, least: int) -> None:
    """UserError unless steps is a whole number from least to 60."""
    if not is_whole(steps) or not least <= steps <= MAX_STEPS:
        raise UserError(f"{name} needs {least} to {MAX_STEPS} iterations, and {steps!r} was given")
