"""Public facts about rows of scores: where they come from, which of their entries count, and how many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cgf.errors import UserError

Shape = tuple[int, int, int, int]  # (B, H, Q, K): samples, heads, queries, keys


@dataclass(frozen=True)
class Rows:
    """Public facts about a set of rows.

    shape   (B, H, Q, K) of the scores that the rows come from, in C order over (B, H, Q)
    first   index of the first of these rows among the B*H*Q, or all their indices (R,) where they do not follow
            one another
    valid   (R, K) bool, or None: every entry counts
    counts  (R,) float: valid entries of each row, at least 1
    centred  how many entries a row has with those that stand in for absent ones and are its mean; None: there are none
    """

    shape: Shape
    first: int | np.ndarray
    valid: np.ndarray | None
    counts: np.ndarray
    centred: int | None = None

    @property
    def index(self) -> np.ndarray:
        """(R,) where these rows stand among the B*H*Q."""
        return self.first + np.arange(len(self.counts)) if isinstance(self.first, int) else self.first

    @property
    def uniform(self) -> int | None:
        """The common count of all rows, or None."""
        n = int(self.counts[0])
        return n if bool((self.counts == n).all()) else None

    def part(self, array: ArrayLike, columns: int) -> np.ndarray:
        """These rows (R, columns) of public numbers that broadcast to (B, H, Q, columns)."""
        try:
            full = np.broadcast_to(array, (*self.shape[:3], columns)).reshape(-1, columns)
        except ValueError:
            raise UserError(
                f"public numbers of shape {np.shape(array)} do not fit scores of shape {self.shape}"
            ) from None
        part: np.ndarray = full[self.index]
        return part
