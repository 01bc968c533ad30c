"""The workloads of one softmax and of one whole attention: sizes, data of a seed, the answer in the clear, and the run.

Each is written once, as a run of an owner and an engine. A stage runs it with the half that is its own: see
cgf.suite.halves. The workload of a whole network is that of cgf.client and cgf.server: see cgf.suite.network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cgf.approx import fit
from cgf.bench.job import rows_of
from cgf.bench.matrix import exponent
from cgf.bench.noise import authors_exponential, normal_scores
from cgf.errors import UserError
from cgf.he import attention_run
from cgf.he.attention_needs import needs_of
from cgf.he.delivery import join_pairs, open_pairs
from cgf.he.dryrun import dry_run
from cgf.he.engines.engine import Engine, KeyHolder, encrypt_all
from cgf.he.packed import Packed
from cgf.network.attention import Heads
from cgf.softmax.cgf import CGF

Data = dict[str, np.ndarray]
SIZES = ("toy", "small", "medium", "large")
# rows and columns of scores; medium is the paper authors' published test
SOFTMAX = {"toy": (16, 16), "small": (64, 64), "medium": (256, 256), "large": (1024, 1024)}
# sentences, heads, tokens, features of a head; causal: a token attends to itself and what came before
ATTENTION = {
    "toy": (1, 2, 8, 4, False),
    "small": (16, 12, 12, 32, False),
    "medium": (64, 12, 12, 32, False),
    "large": (1, 12, 128, 64, True),
}
MEAN_BOUND = 1e-9  # mean absolute error of weights at 256 columns; weights of shorter rows are larger, and so is it
OF_LARGEST = 1e-5  # largest error of outputs, of the largest output


@dataclass(frozen=True)
class Keys:
    """The keys that a workload's server needs: of an engine of so many levels, for these steps, and for conjugation."""

    max_level: int
    slots: int
    rotations: frozenset[int]
    conjugation: bool


@dataclass(frozen=True)
class Verdict:
    """How far results lie from those in the clear, what is allowed, and what kind of error it is."""

    error: float
    bound: float
    what: str

    @property
    def passed(self) -> bool:
        """False also where the error is NaN."""
        return self.error < self.bound


class Workload(Protocol):
    """What the stages of a workload share. What ``blank`` gives has the shapes of the data, which are public."""

    keys: Keys
    levels: int
    ops: dict[str, int]

    def data(self, seed: int) -> Data:
        """Input drawn by a seed."""

    def blank(self) -> Data:
        """Zeros of the input's shapes, for a side that does not have it."""

    def run(self, owner: KeyHolder, engine: Engine, data: Data) -> np.ndarray:
        """Encrypts the input, computes on it and decrypts: what came out, as ``finished`` takes it."""

    def finished(self, decrypted: np.ndarray) -> np.ndarray:
        """The results, of what was decrypted."""

    def in_the_clear(self, data: Data) -> np.ndarray:
        """The results as they are meant, in float64."""

    def verdict(self, got: np.ndarray, wanted: np.ndarray) -> Verdict:
        """How far results lie from those in the clear."""


class SoftmaxRows:
    """CGF-softmax of the rows of a matrix of N(0, 1) scores, with the authors' polynomial and circuit."""

    def __init__(self, rows: int, columns: int) -> None:
        self.shape = rows, columns
        self.softmax = CGF()
        self.softmax.exponential = authors_exponential()
        self.rows = rows_of(rows, columns)
        self.needs = needs = dry_run(self.softmax, self.rows, columns, "paper")
        self.keys = Keys(needs.max_level, needs.layout.slots, needs.rotations, False)
        self.levels, self.ops = needs.levels, {kind: n for kind, n in needs.ops.items() if n}

    def data(self, seed: int) -> Data:
        """{'scores': (rows, columns)}."""
        return {"scores": normal_scores(*self.shape, seed)}

    def blank(self) -> Data:
        """Scores of zero."""
        return {"scores": np.zeros(self.shape)}

    def run(self, owner: KeyHolder, engine: Engine, data: Data) -> np.ndarray:
        """Weights (rows, columns): packed and encrypted by the owner, run on the engine, opened by the owner."""
        layout, circuit = self.needs.layout, self.needs.circuit
        vectors = layout.pack(data["scores"] * circuit.input_scale)
        cts = tuple(encrypt_all(owner, vectors, self.needs.max_level))
        result = circuit.run(Packed(engine, layout, self.rows, cts)).cts
        opened = open_pairs(owner, join_pairs(engine, result), len(result))
        return np.asarray(circuit.opened(layout.unpack(opened)))

    def finished(self, decrypted: np.ndarray) -> np.ndarray:
        """The weights themselves are the answer."""
        return decrypted

    def in_the_clear(self, data: Data) -> np.ndarray:
        """CGF-softmax with a true exponential."""
        return np.asarray(np.exp(exponent(data["scores"])))

    def verdict(self, got: np.ndarray, wanted: np.ndarray) -> Verdict:
        """By the mean absolute error, as in the authors' test."""
        bound = MEAN_BOUND * 256 / self.shape[1]
        return Verdict(float(np.abs(got - wanted).mean()), bound, "mean absolute error of the weights")


class WholeAttention:
    """Attention with CGF-softmax of queries, keys and values from N(0, 1), a chain of three squarings within."""

    def __init__(self, sentences: int, heads: int, tokens: int, features: int, causal: bool) -> None:
        self.shape = sentences, heads, tokens, features
        self.mask = np.tril(np.ones((tokens, tokens), dtype=bool)) if causal else None
        self.softmax = CGF()
        self.softmax.exponential = fit.chain(-24.0, 2.0, 3)
        self.every = np.arange(sentences * heads)
        self.needs = needs = needs_of(self.softmax, self.heads(self.blank()), self.every)
        if needs.tile.instances != len(self.every):
            raise UserError(f"one set of ciphertexts holds {needs.tile.instances} heads here, not {len(self.every)}")
        self.keys = Keys(needs.max_level, needs.tile.slots, needs.rotations, needs.pairs)
        self.levels, self.ops = needs.levels, needs.ops

    def heads(self, data: Data) -> Heads:
        """The arrays, with what is public of them: scale and mask."""
        return Heads(data["query"], data["key"], data["value"], self.shape[3] ** -0.5, self.mask)

    def data(self, seed: int) -> Data:
        """{'query', 'key', 'value'}: each (sentences, heads, tokens, features)."""
        rng = np.random.default_rng(seed)
        return {name: rng.standard_normal(self.shape) for name in ("query", "key", "value")}

    def blank(self) -> Data:
        """Zeros of those shapes."""
        return {name: np.zeros(self.shape) for name in ("query", "key", "value")}

    def run(self, owner: KeyHolder, engine: Engine, data: Data) -> np.ndarray:
        """Outputs (sentences heads, tokens, features), see cgf.he.attention_run."""
        task = self.needs.task(self.heads(data), self.every)
        return attention_run.run(self.needs, owner, engine, self.softmax, task)[0]

    def finished(self, decrypted: np.ndarray) -> np.ndarray:
        """(sentences, tokens, heads features): heads side by side, as a model's next layer takes them."""
        sentences, heads, tokens, features = self.shape
        apart = decrypted.reshape(sentences, heads, tokens, features)
        return apart.transpose(0, 2, 1, 3).reshape(sentences, tokens, heads * features)

    def in_the_clear(self, data: Data) -> np.ndarray:
        """The same attention in float64, query by query over the keys that it attends to, with the same chain."""
        exponential = self.softmax.exponential
        assert exponential is not None
        scores = data["query"] @ data["key"].swapaxes(-1, -2) * self.shape[3] ** -0.5
        outputs = np.zeros(self.shape)
        for q in range(self.shape[2]):
            keep = np.ones(self.shape[2], dtype=bool) if self.mask is None else self.mask[q]
            weights = np.asarray(exponential(exponent(scores[:, :, q, keep])))
            outputs[:, :, q] = np.einsum("bhk,bhkd->bhd", weights, data["value"][:, :, keep])
        return self.finished(outputs)

    def verdict(self, got: np.ndarray, wanted: np.ndarray) -> Verdict:
        """By the largest error, of the largest output."""
        error = float(np.abs(got - wanted).max() / np.abs(wanted).max())
        return Verdict(error, OF_LARGEST, "largest error of the largest output")


def workload_of(name: str, size: str) -> Workload:
    """UserError for a name or a size that is not known."""
    if size not in SIZES or name not in ("softmax", "attention"):
        raise UserError(f"a workload is softmax or attention of size {', '.join(SIZES)}, and '{name} {size}' was given")
    return SoftmaxRows(*SOFTMAX[size]) if name == "softmax" else WholeAttention(*ATTENTION[size])
