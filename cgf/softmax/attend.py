"""An attention in the clear: scores of queries and keys, weights of the scores, values by their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # formulas need no torch
    from torch import Tensor

Dropout = Callable[["Tensor"], "Tensor"]  # of the weights


class Weighing(Protocol):
    """What gives scores and weights: a softmax, or a slot around one."""

    def scores(self, query: Tensor, key: Tensor, scaling: float) -> Tensor:
        """Scores (B, H, Q, K)."""

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Weights (B, H, Q, K), zero where not valid."""


class AttentionByWeights:
    """What a softmax, and a slot around one, makes of its scores and weights."""

    def attention(
        self: Weighing, query: Tensor, key: Tensor, value: Tensor, scaling: float, valid: Tensor | None, drop: Dropout
    ) -> tuple[Tensor, Tensor | None]:
        """Outputs (B, H, Q, E) and weights (B, H, Q, K), by its own scores and weights, dropout included.

        query (B, H, Q, D), key (B, H, K, D), value (B, H, K, E); valid bool, broadcasts to (B, H, Q, K).
        """
        weights = drop(self.weights(self.scores(query, key, scaling), valid).to(value.dtype))
        return weights @ value, weights
