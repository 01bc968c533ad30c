"""Which properties of softmax a definition keeps, found by trying: order, positivity, shift invariance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cgf.softmax.base import Softmax

LENGTHS = (2, 16, 128)
DEVIATIONS = (0.5, 1.5, 3.0)  # cumulants of order 3 and 4 overflow beyond
SHIFTS = (-20.0, -3.7, 0.3, 6.0, 20.0)
SAME = 1e-6  # relative change of a row's weights that counts as none


@dataclass(frozen=True)
class Properties:
    """order 'strict', 'weak' (equal weights for unequal scores) or 'no'; positive 'yes', 'not negative' or 'no';
    shift_change: largest change of a weight under a shift of its row, in units of the row's largest weight."""

    order: str
    positive: str
    shift_change: float

    @property
    def shift_invariant(self) -> bool:
        """Whether no shift changed a weight by more than rounding does."""
        return self.shift_change < SAME


def kept(softmax: Softmax, rows: int = 32, seed: int = 0) -> Properties:
    """Properties of ``softmax.weights`` in float64 on normal rows of several lengths and deviations.

    rows of each; half of them moved by a common offset, so that negative and positive rows both occur. A
    counterexample settles a 'no'; a 'yes' says that none was among the rows.
    """
    rng = np.random.default_rng(seed)
    tied, broken, least, change = False, False, np.inf, 0.0
    for n in LENGTHS:
        for deviation in DEVIATIONS:
            x = np.sort(deviation * rng.standard_normal((rows, n)), axis=-1)
            x[::2] += rng.uniform(-2, 2, (len(x[::2]), 1)) * deviation
            w = _weights(softmax, x)
            steps = np.diff(w, axis=-1) / np.abs(w).max(-1, keepdims=True).clip(1e-300)
            broken |= bool((steps < -1e-12).any())
            tied |= bool((np.diff(w, axis=-1) == 0).any())
            least = min(least, float(w.min()))
            for shift in SHIFTS:
                moved = np.abs(_weights(softmax, x + shift) - w).max(-1)
                change = max(change, float((moved / np.abs(w).max(-1).clip(1e-300)).max()))
    order = "no" if broken else "weak" if tied else "strict"
    positive = "yes" if least > 0 else "not negative" if least == 0 else "no"
    return Properties(order, positive, change)


def _weights(softmax: Softmax, x: np.ndarray) -> np.ndarray:
    import torch

    return softmax.weights(torch.from_numpy(x)[None, None]).numpy()[0, 0]
