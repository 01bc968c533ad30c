"""A whole attention on ciphertexts: queries, keys and values in, outputs out, and no decryption between.

Levels: one for the products of queries and keys, those of the softmax's own circuit (1 + k for CGF-softmax with k
squarings on full rows), one for the product with the values: 3 + k. Public factors ride on the encodings: the root of
the scale on the keys, the rest of it on the queries. Masks ride there too: a key that a query does not attend to is
zero in the slots of that query, and so is its value, so that neither the statistics nor the outputs see it. Where slots
are complex, two features share a ciphertext: q' = q1 - i q2 and k' = k1 + i k2 have q1 k1 + q2 k2 for the real part of
their product, and v1 + i v2 weighs as two values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cgf.errors import UserError
from cgf.he.attention_blocks import Block
from cgf.he.circuits import Circuit, circuit_for
from cgf.he.engines.engine import Engine
from cgf.he.packed import Packed
from cgf.he.tile import Tile
from cgf.network.attention import DISTANCE, attention, score_of
from cgf.softmax.base import Softmax
from cgf.types import Ciphertext


@dataclass(frozen=True)
class Scales:
    """Public factors of the encodings, so that products of queries and keys are what the circuit takes.

    keys: the same for all blocks;  scaling: of the scores;  score: as cgf.network.attention
    """

    keys: float
    scaling: float
    score: str
    pairs: bool

    @classmethod
    def of(cls, scaling: float, circuit: Circuit, score: str, pairs: bool) -> Scales:
        """Balanced for the geometric mean of its rows: noise of a product is relative to the other operand."""
        half = 0.5 if pairs or score == DISTANCE else 1.0  # a real part comes doubled, and so do distances
        typical = float(np.exp(np.mean(np.log(np.abs(circuit.input_scale)))))
        return cls(math.sqrt(abs(scaling) * typical * half), scaling, score, pairs)

    def queries(self, circuit: Circuit) -> float | np.ndarray:
        """One number, or (R, 1). Raises UserError for distances in a circuit whose scale is another than the keys'."""
        half = 0.5 if self.pairs or self.score == DISTANCE else 1.0
        factor = self.scaling * circuit.input_scale * half / self.keys
        if self.score == DISTANCE and not np.allclose(factor, self.keys, rtol=1e-12, atol=0.0):
            raise UserError(
                "an encrypted attention of squared distances needs one positive scale for queries and keys: "
                "he.scope=softmax"
            )
        return factor


@dataclass(frozen=True)
class BlockQueries:
    """A block's queries and the keys that they meet, as ciphertexts (see cgf.network.attention.Queries).

    query  prepared, one a feature or pair of features;  keys: of each column the same
    norms  of each column |k|^2 of its keys, relinearized; needed for distances alone
    """

    engine: Engine
    block: Block
    tile: Tile
    query: Sequence[Ciphertext]
    keys: Sequence[Sequence[Ciphertext]]
    pairs: bool
    norms: Sequence[Ciphertext] = ()

    def products(self) -> Packed:
        """q k of the block's queries with each of its columns of keys, a ciphertext a column; one level."""
        return self._packed(self._products(), dirty=False)

    def distances(self) -> Packed:
        """2 q k - |q|^2 - |k|^2, of which the scales take half."""
        own = self.engine.relinearize(self.engine.dot(self.query, self.query))
        sums = (self.engine.sub(self.engine.mul(qk, 2), own) for qk in self._products())
        scores = (self.engine.sub(s, norm) for s, norm in zip(sums, self.norms, strict=True))
        return self._packed(scores, dirty=True)  # a key of zeros is as far as its query is long

    def _products(self) -> Iterator[Ciphertext]:
        for key in self.keys:
            score = self.engine.relinearize(self.engine.dot(self.query, key))
            yield self.engine.add(score, self.engine.conjugate(score)) if self.pairs else score

    def _packed(self, cts: Iterator[Ciphertext], dirty: bool) -> Packed:
        layout = self.tile.layout(len(self.block.columns))
        packed = Packed(self.engine, layout, self.block.rows, tuple(cts))
        return replace(packed, dirty=dirty and packed.has_invalid)


def weigh(circuit: Circuit, x: Packed) -> Packed:
    """The softmax: weights less the circuit's output scale, which decryption takes.

    1. The softmax's own circuit.
    2. The last public constant, which a softmax alone leaves to decryption: here values are weighed by it.
    What stands where an entry does not count meets a value of zero.
    """
    weights = circuit.run(x).relinearized()
    offset = circuit.output_offset
    if isinstance(offset, np.ndarray):
        vector = weights.layout.spread(offset[:, 0])
        return weights.add_vector([vector] * len(weights.cts))
    return weights + offset


def weighted(weights: Packed, values: Sequence[Sequence[Ciphertext]], tile: Tile) -> Iterator[Ciphertext]:
    """Outputs of a block, feature by feature: sums over the columns, and over the parts of the slots."""
    engine = weights.engine
    prepared = [engine.prepare(ct) for ct in weights.cts]
    for feature in zip(*values, strict=True):
        output = engine.dot(prepared, feature)
        if tile.b > 1:
            output = engine.relinearize(output)
            for step in weights.layout.rotations:
                output = engine.add(output, engine.rotate(output, step))
        yield output


def outputs_of(
    meeting: BlockQueries, softmax: Softmax, circuit: Circuit, values: Sequence[Sequence[Ciphertext]]
) -> Iterator[Ciphertext]:
    """The encrypted outputs of one block, without the circuit's output scale."""
    score = score_of(softmax)
    return attention(meeting, score, lambda x: weigh(circuit, x), lambda w: weighted(w, values, meeting.tile))


def circuit_of(softmax: Softmax, block: Block, style: str) -> Circuit:
    """The softmax's circuit for the rows of one block; its columns are whole, so that it needs no padding."""
    return circuit_for(softmax, block.rows, False, style)


def width_of(features: int, pairs: bool) -> int:
    """Ciphertexts that so many features take: half as many, rounded up, where two share the parts of a complex slot."""
    return -(-features // 2) if pairs else features


def complex_pairs(values: np.ndarray, sign: float) -> np.ndarray:
    """Features (..., D) -> (..., ceil(D / 2)): x1 + sign i x2; an odd one has no partner."""
    if values.shape[-1] % 2:
        values = np.concatenate([values, np.zeros_like(values[..., :1])], axis=-1)
    return values[..., ::2] + sign * 1j * values[..., 1::2]
