"""An attention: scores of queries and keys, a softmax of them, values weighted by it.

The definition is ``attention``. It runs on whatever gives scores and takes weights: arrays in the clear (``Clear``
here) and ciphertexts (cgf.he.attention). This file imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from cgf.errors import UserError
from cgf.softmax.base import Softmax
from cgf.softmax.inheritance import as_defined
from cgf.softmax.published.gaussian import GaussianKernel

W = TypeVar("W")
R = TypeVar("R", covariant=True)
Out = TypeVar("Out")
DOT, DISTANCE = "dot", "distance"


class Queries(Protocol[R]):
    """Queries of some rows, and the keys that they meet."""

    def products(self) -> R:
        """q_i k_j for each query i and key j, times the public scale."""

    def distances(self) -> R:
        """-|q_i - k_j|^2 / 2 for each query i and key j, times the public scale."""


def attention(rows: Queries[W], score: str, weigh: Callable[[W], W], combine: Callable[[W], Out]) -> Out:
    """O = softmax(S) V: ``score`` says what S is made of, ``weigh`` is the softmax, ``combine`` the product with V."""
    scores = rows.products() if score == DOT else rows.distances()
    return combine(weigh(scores))


def score_of(softmax: Softmax) -> str:
    """DOT or DISTANCE: how a softmax makes its scores. UserError for one that makes them in another way."""
    if as_defined(softmax, Softmax.scores):
        return DOT
    if as_defined(softmax, GaussianKernel.scores):
        return DISTANCE
    raise UserError(
        f"softmax '{softmax.name}' makes its scores in a way of its own, and an encrypted attention knows scaled dot "
        "products and squared distances: he.scope=softmax encrypts what comes after its scores"
    )


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values of a layer, in float64, and the public facts about them.

    query (B, H, Q, D), key (B, G, K, D), value (B, G, K, E): G divides H, and G below H are grouped queries
    scaling   public factor of the scores, usually 1 / sqrt(D)
    valid     bool, broadcasts to (B, H, Q, K): True where a query may attend to a key; None: everywhere
    real      bool (B, Q): False for queries of padding, whose outputs nobody reads and which nothing counts; None: all
    Raises UserError where shapes do not fit one another.
    """

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    scaling: float
    valid: np.ndarray | None = None
    real: np.ndarray | None = None

    def __post_init__(self) -> None:
        (b, h, _, d), (_, g, k, _) = self.query.shape, self.value.shape
        if self.key.shape != (b, g, k, d) or h % g:
            raise UserError(
                f"an attention needs queries (B, H, Q, D), keys (B, G, K, D) and values (B, G, K, E) with H a multiple "
                f"of G, and has {self.query.shape}, {self.key.shape} and {self.value.shape}"
            )
        if self.valid is not None:
            try:
                np.broadcast_shapes(self.valid.shape, self.shape)
            except ValueError:
                raise UserError(
                    f"an attention needs a mask that broadcasts to {self.shape}, and has one of {self.valid.shape}"
                ) from None
        if self.real is not None and self.real.shape != (b, self.query.shape[2]):
            raise UserError(
                f"an attention needs to know of ({b}, {self.query.shape[2]}) queries whether they are real, and knows "
                f"it of {self.real.shape}"
            )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, Q, K) of the scores."""
        return (*self.query.shape[:3], self.key.shape[2])

    @property
    def mask(self) -> np.ndarray | None:
        """(B, H, Q, K) bool, a view; None where every key counts."""
        if self.valid is None or bool(self.valid.all()):
            return None
        return np.broadcast_to(self.valid, self.shape)

    @property
    def instances(self) -> int:
        """Samples times heads: each has an attention of its own."""
        return self.shape[0] * self.shape[1]

    def flat(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Queries (I, Q, D), keys (I, K, D) and values (I, K, E) of chosen instances b H + h, heads side by side."""
        sample, head = np.divmod(chosen, self.shape[1])
        group = head // (self.shape[1] // self.key.shape[1])
        return self.query[sample, head], self.key[sample, group], self.value[sample, group]

    def part(self, chosen: np.ndarray) -> tuple[Heads, np.ndarray]:
        """The samples that chosen instances (consecutive) are of, and the instances' numbers among those."""
        first, last = int(chosen[0]) // self.shape[1], int(chosen[-1]) // self.shape[1]
        own = slice(first, last + 1)
        valid = self.valid
        if valid is not None and valid.ndim == 4 and valid.shape[0] == self.shape[0]:
            valid = valid[own]
        real = None if self.real is None else self.real[own]
        part = Heads(self.query[own], self.key[own], self.value[own], self.scaling, valid, real)
        return part, chosen - first * self.shape[1]

    def macs(self) -> int:
        """Multiply-adds of both products of the real queries: a score entry takes D, and E more for the output."""
        counted = np.broadcast_to(True if self.mask is None else self.mask, self.shape)
        if self.real is not None:
            counted = counted & self.real[:, None, :, None]
        return int(counted.sum()) * int(self.query.shape[3] + self.value.shape[3])
