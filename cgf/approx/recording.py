"""What the implementations of Exponential share: recording a core's intermediates, and JSON's common fields."""

from __future__ import annotations

import numpy as np

from cgf.approx.exponential import Exponential
from cgf.types import Json, Operand


class RecordingArray:
    """An array with the operators that a core uses; each result is appended to the shared ``record``."""

    def __init__(self, array: np.ndarray, record: list[np.ndarray]) -> None:
        self.array, self.record = array, record
        record.append(array)

    def _result(self, array: np.ndarray) -> RecordingArray:
        return RecordingArray(array, self.record)

    def __add__(self, other: Operand) -> RecordingArray:
        return self._result(self.array + (other.array if isinstance(other, RecordingArray) else other))

    def __mul__(self, other: Operand) -> RecordingArray:
        return self._result(self.array * (other.array if isinstance(other, RecordingArray) else other))

    __radd__, __rmul__ = __add__, __mul__

    def square(self) -> RecordingArray:
        """The square of every entry, recorded once."""
        return self._result(self.array * self.array)


def intermediates(exponential: Exponential, y: np.ndarray) -> list[np.ndarray]:
    """u = a y + b and every sum and product after it, in the order of the circuit; overflow gives inf."""
    record: list[np.ndarray] = []
    with np.errstate(all="ignore"):
        exponential.core(RecordingArray(exponential.a * np.asarray(y, dtype=np.float64) + exponential.b, record))
    return record


def common(exponential: Exponential) -> Json:
    """method, levels, ct_mults and, where it is known, the fit: the fields that all methods share."""
    fit = exponential.fit
    stated = (
        {}
        if fit is None
        else {
            "domain": list(fit.domain),
            "guard": list(fit.guard),
            "guard_bound": fit.guard_bound,
            "max_error": fit.max_error,
        }
    )
    return {"method": exponential.method, **stated, "levels": exponential.levels, "ct_mults": exponential.ct_mults}
