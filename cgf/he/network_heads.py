"""One head of an attention along token diagonals: turned queries, keys and values in, outputs out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cgf.approx.exponential import Exponential
from cgf.errors import UserError
from cgf.he.attention import weigh
from cgf.he.circuits import Circuit, circuit_for
from cgf.he.engines.engine import Engine
from cgf.he.network_causal import causal
from cgf.he.network_diagonals import Diagonals
from cgf.he.network_layout import Steps, TokenLayout, rotated
from cgf.he.pairwise import pairwise
from cgf.he.score_rows import Rows
from cgf.network.layers import SelfAttention
from cgf.softmax.cgf import CGF
from cgf.types import Ciphertext

# a turn and some of a head's features -> these, one after the other, each place holding the token further on
Turned = Callable[[int, slice], Iterable[Ciphertext]]
AT_ONCE = 4  # features of a head that are prepared at once: more only take memory


@dataclass(frozen=True)
class Head:
    """One head's circuit and public factors.

    Levels: queries meet keys 1, statistics 1, the exponential's own, weights meet values 1; rotary positions 1 before
    that, a causal mask 2 more. Queries and keys carry the circuit's input scale and the scores' scaling, as the root of
    both: noise of a product is relative to the other operand. Values carry the circuit's output scale.
    """

    layer: SelfAttention
    head: int
    layout: TokenLayout

    @cached_property
    def exponential(self) -> Exponential:
        """What stands for exp here."""
        return self.layer.of_head(self.head)

    @cached_property
    def circuit(self) -> Circuit:
        """CGF-softmax of two cumulants: on full rows, its statistics in integers, or on causal ones."""
        softmax, n = CGF(), self.layout.tokens
        if self.layer.causal:
            return causal(self.exponential, self.layout)
        softmax.exponential = self.exponential
        return circuit_for(softmax, Rows((1, 1, n, n), 0, None, np.full(n, float(n))), False, "folded")

    @cached_property
    def _product(self) -> float:
        return self.layer.scaling * float(self.circuit.input_scale)

    @property
    def query_scale(self) -> float:
        """Public factor of the queries; it has the sign."""
        return math.copysign(math.sqrt(abs(self._product)), self._product)

    @property
    def key_scale(self) -> float:
        """Public factor of the keys."""
        return math.sqrt(abs(self._product))

    @property
    def value_scale(self) -> float:
        """Public factor of the values."""
        return float(self.circuit.output_scale)

    def weights_level(self, level: int) -> int:
        """The level of the weights, where queries and keys have ``level``. UserError where it is below 1."""
        takes = 2 + self.exponential.levels + self.layer.more_levels
        if level - takes < 1:
            raise UserError(f"an attention needs {takes + 1} levels, and {level} are left")
        return level - takes

    def with_positions(self, engine: Engine, cts: list[Ciphertext]) -> list[Ciphertext]:
        """Queries or keys, all features of the head, with their rotary positions: 1 level."""
        rotary = self.layer.rotary
        assert rotary is not None
        cosines, sines = rotary.cosines[: self.layout.tokens].T, rotary.signed_sines()[: self.layout.tokens].T
        return [
            engine.add(
                engine.mul(ct, self.layout.spread(cosines[feature])),
                engine.mul(cts[rotary.partner(feature)], self.layout.spread(sines[feature])),
            )
            for feature, ct in enumerate(cts)
        ]

    def outputs(self, engine: Engine, queries: Turned, keys: Turned, values: Turned) -> Iterator[Ciphertext]:
        """The head's outputs, feature by feature, two polynomials each.

        1. A score for each diagonal (``_scores``), relinearized.
        2. The softmax's own circuit along the diagonals; queries and keys are gone then.
        3. Weights, and feature by feature the values, prepared; the products of a frame are one sum, relinearized and
           turned home.
        """
        steps = Steps.of(self.layout.tokens)
        scores = Diagonals.of(engine, self.layout, steps, self._scores(engine, steps, queries, keys))
        del queries, keys
        weights = weigh(self.circuit, scores)
        del scores
        prepared = _prepared(engine, weights.cts)
        del weights

        frames = [[i for i, frame in enumerate(steps.frames) if frame == g] for g in range(steps.giants)]
        for some in _parts(len(self.layer.value.bias) // self.layer.heads):
            for column in zip(*(_prepared(engine, values(turn, some)) for turn in steps.key_turns), strict=True):
                sums = [engine.dot([prepared[i] for i in own], column[: len(own)]) for own in frames]
                parts = [
                    rotated(engine, engine.relinearize(ct), -turn, self.layout.samples)
                    for ct, turn in zip(sums, steps.query_turns, strict=True)
                ]
                yield pairwise(parts, engine.add)

    def _scores(self, engine: Engine, steps: Steps, queries: Turned, keys: Turned) -> list[Ciphertext]:
        """The scores of all diagonals, by some features after the others.

        1. Keys turned by each baby step, prepared: each meets the queries of every frame.
        2. Frame by frame the queries, prepared, and a product for each diagonal, added to those before at once.
        """
        sums: list[Ciphertext] = []
        for some in _parts(len(self.layer.query.bias) // self.layer.heads):
            babies, place = [_prepared(engine, keys(turn, some)) for turn in steps.key_turns], 0
            for giant, turn in enumerate(steps.query_turns):
                query = _prepared(engine, queries(turn, some))
                for b in steps.babies(giant):
                    product = engine.dot(query, babies[b])
                    if some.start == 0:
                        sums.append(product)
                    else:
                        sums[place] = engine.add(sums[place], product)
                    place += 1
            del babies, query
        for place, ct in enumerate(sums):
            sums[place] = engine.relinearize(ct)
        return sums


def _parts(size: int) -> Iterator[slice]:
    return (slice(start, min(start + AT_ONCE, size)) for start in range(0, size, AT_ONCE))


def _prepared(engine: Engine, cts: Iterable[Ciphertext]) -> list[Ciphertext]:
    return [engine.prepare(ct) for ct in cts]
