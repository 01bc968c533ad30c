"""What may stand at the softmax of an attention: a softmax itself, or something around one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cgf.softmax.attend import AttentionByWeights, Dropout

if TYPE_CHECKING:  # formulas need no torch
    from torch import Tensor

    from cgf.softmax.base import Softmax


class Slot(Protocol):
    """What an attention asks of whatever stands at its softmax; every Softmax is one.

    layer and training are set from outside: the first when the slot is installed, the second at every pass.
    """

    layer: int
    training: bool

    @property
    def name(self) -> str:
        """The softmax's name, as configs and result files have it."""

    @property
    def softmax(self) -> Softmax:
        """The softmax that stands here, whatever is around it."""

    def sized(self, heads: int) -> None:
        """Takes the count of heads of the layer; called once by whoever installs it."""

    def scores(self, query: Tensor, key: Tensor, scaling: float) -> Tensor:
        """Scores (B, H, Q, K) of query (B, H, Q, D) and key (B, H, K, D)."""

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Attention weights (B, H, Q, K) of scores, zero where not valid."""

    def attention(
        self, query: Tensor, key: Tensor, value: Tensor, scaling: float, valid: Tensor | None, drop: Dropout
    ) -> tuple[Tensor, Tensor | None]:
        """Outputs (B, H, Q, E) of value (B, H, K, E), and the weights where they are known."""


class Around(AttentionByWeights):
    """A slot around another one, ``inner``, to which it passes everything on; a subclass changes what it is for.

    The attention follows from the slot's own scores and weights. The layer and the training flag are the inner slot's,
    so that they reach the softmax through whatever is around it.
    """

    def __init__(self, inner: Slot) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """The inner slot's."""
        return self.inner.name

    @property
    def softmax(self) -> Softmax:
        """The inner slot's."""
        return self.inner.softmax

    @property
    def layer(self) -> int:
        """The inner slot's index of its layer."""
        return self.inner.layer

    @layer.setter
    def layer(self, layer: int) -> None:
        """Sets the inner slot's."""
        self.inner.layer = layer

    @property
    def training(self) -> bool:
        """The inner slot's flag."""
        return self.inner.training

    @training.setter
    def training(self, training: bool) -> None:
        """Sets the inner slot's."""
        self.inner.training = training

    def sized(self, heads: int) -> None:
        """Passes the count of heads on."""
        self.inner.sized(heads)

    def scores(self, query: Tensor, key: Tensor, scaling: float) -> Tensor:
        """The inner slot's scores (B, H, Q, K)."""
        return self.inner.scores(query, key, scaling)

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """The inner slot's weights (B, H, Q, K)."""
        return self.inner.weights(scores, valid)
