"""One head of an attention along token diagonals: turned queries, keys and values in, outputs out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cgf.approx.exponential import Exponential
from cgf.errors import UserError
from cgf.he.attention import weigh
from cgf.he.circuits import Circuit, circuit_for
from cgf.he.engines.engine import Ciphertext, Engine
from cgf.he.network_diagonals import Diagonals
from cgf.he.network_layout import Steps, TokenLayout, rotated
from cgf.he.packed import Rows, pairwise
from cgf.network.layers import SelfAttention
from cgf.softmax.cgf import CGF

Turned = Callable[[int], Iterable[Ciphertext]]  # a turn -> a head's features, each place holding the token further on


@dataclass(frozen=True)
class Head:
    """One head's circuit and public factors.

    Levels: queries meet keys 1, statistics 1, the exponential's own, weights meet values 1. Queries and keys carry the
    circuit's input scale and the scores' scaling, as the root of both: noise of a product is relative to the other
    operand. Values carry the circuit's output scale.
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
        """CGF-softmax of two cumulants on full rows, its statistics in integers."""
        softmax, n = CGF(), self.layout.tokens
        softmax.exponential = self.exponential
        return circuit_for(softmax, Rows((1, 1, n, n), 0, None, np.full(n, float(n))), False, "folded")

    @cached_property
    def _product(self) -> float:
        return self.layer.scaling * self.circuit.input_scale

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
        return self.circuit.output_scale

    def weights_level(self, level: int) -> int:
        """The level of the weights, where queries and keys have ``level``. UserError where it is below 1."""
        left = level - 2 - self.exponential.levels
        if left < 1:
            raise UserError(f"an attention needs {3 + self.exponential.levels} levels, and {level} are left")
        return left

    def outputs(self, engine: Engine, queries: Turned, keys: Turned, values: Turned) -> Iterator[Ciphertext]:
        """The head's outputs, feature by feature, two polynomials each.

        1. Keys turned by each baby step, prepared: each meets the queries of every frame.
        2. Frame by frame the queries, prepared, and a product for each diagonal, relinearized.
        3. The softmax's own circuit along the diagonals.
        4. Weights and values, prepared; the products of a frame are one sum, relinearized and turned home.
        """
        steps = Steps.of(self.layout.tokens)
        babies = [_prepared(engine, keys(turn)) for turn in steps.key_turns]
        scores: list[Ciphertext] = []
        for giant, turn in enumerate(steps.query_turns):
            query = _prepared(engine, queries(turn))
            scores += [engine.relinearize(engine.dot(query, babies[b])) for b in steps.babies(giant)]
        del babies, query
        weights = weigh(self.circuit, Diagonals.of(engine, self.layout, steps, scores))
        del scores
        prepared = _prepared(engine, weights.cts)
        del weights
        columns = list(zip(*(_prepared(engine, values(turn)) for turn in steps.key_turns), strict=True))
        frames = [[i for i, frame in enumerate(steps.frames) if frame == g] for g in range(steps.giants)]
        for column in columns:
            parts = [
                rotated(engine, self._weighted(engine, [prepared[i] for i in own], column), -turn, self.layout.samples)
                for own, turn in zip(frames, steps.query_turns, strict=True)
            ]
            yield pairwise(parts, engine.add)

    @staticmethod
    def _weighted(engine: Engine, weights: Sequence[Ciphertext], values: Sequence[Ciphertext]) -> Ciphertext:
        return engine.relinearize(engine.dot(weights, values[: len(weights)]))


def _prepared(engine: Engine, cts: Iterable[Ciphertext]) -> list[Ciphertext]:
    return [engine.prepare(ct) for ct in cts]
