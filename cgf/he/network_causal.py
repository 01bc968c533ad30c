"""CGF-softmax on causal rows along token diagonals: no entry behind its query's own token counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cgf.approx.exponential import Exponential
from cgf.approx.unit_size import of_unit_size
from cgf.he.circuits import Circuit
from cgf.he.network_diagonals import Diagonals
from cgf.he.network_layout import Steps, TokenLayout
from cgf.he.packed import Packed


@dataclass(frozen=True)
class CausalRows:
    """Public numbers of causal rows as slots, a vector for each diagonal, in its frame."""

    layout: TokenLayout
    steps: Steps

    def vectors(self, by_row: np.ndarray, elsewhere: float = 0.0) -> list[np.ndarray]:
        """A row's number (tokens,) where an entry counts, ``elsewhere`` where none does.

        Diagonal r of query token i is key token i + r; beyond the last token it is one of the first, which counts.
        """
        tokens, turns = np.arange(self.layout.tokens), self.steps.query_turns
        return [
            self.layout.spread(
                np.where((tokens + r) % self.layout.tokens <= tokens, by_row, elsewhere), turns[self.steps.frames[r]]
            )
            for r in tokens
        ]


def causal(e: Exponential, layout: TokenLayout) -> Circuit:
    """CGF-softmax of two cumulants where token i attends to tokens 0 to i: 3 levels and those of the core.

    With m = 1 where an entry x counts and 0 elsewhere, n = i + 1 in row i, s1 = rowsum(m x / n) and
    s2 = rowsum((m x / sqrt n)^2): y = x - s1 - (s2 - s1^2) / 2 - ln n where an entry counts. So
    u = m a x - (m a / 2) (2 s1 + s2 - s1^2) + b - m a ln n is a y + b there and b elsewhere, in the core's domain
    whatever the score is. The core makes the public number core(b) of the latter, which is taken off: such a weight is
    zero.
    Source: CGF-softmax paper, Eq. (3) and (4). Error: that of e, nothing is added.
    """
    e, size = of_unit_size(e)
    n = np.arange(1.0, layout.tokens + 1)
    start = float(e.b)  # of one head: a number
    absent = float(e.core(np.asarray(start)))

    def run(x: Packed) -> Packed:
        assert isinstance(x, Diagonals)
        vectors = CausalRows(layout, x.steps).vectors
        # 1. the mean, 1 level, and the mean of the squares, 2: each of scores that are masked for it
        s1 = x.times_vector(vectors(1 / n)).row_sum()
        s2 = x.times_vector(vectors(n**-0.5)).sum_each(Packed.square).relinearized()
        # 2. what a row subtracts, twice: integers take no level
        twice = s1 * 2 + s2 - s1.square().relinearized()
        # 3. a y + b where an entry counts, b elsewhere: vectors carry factor and mask, of the rows at the third level
        own = x.times_vector(vectors(np.full_like(n, e.a)))
        rows = replace(x, cts=tuple(twice.cts[frame] for frame in x.frames)).times_vector(vectors(-e.a / 2 + 0 * n))
        u = (own + rows).add_vector(vectors(start - e.a * np.log(n), start))
        # 4. each through the core to its end, and what does not count is zero again
        return u.each(e.core).add_vector(vectors(0 * n, -absent))

    return Circuit("causal", run, output_scale=size)
