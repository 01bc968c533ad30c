"""What a network is made of, as plain facts: affine maps, attentions, squares, products, sums around them, one pooling.

Nothing here computes. ``cgf.network.program`` does the algebra, ``cgf.network.twin`` reads the result on arrays in the
clear and ``cgf.he.network_circuit`` on ciphertexts. All arrays are float64. This file imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from cgf.approx.exponential import Exponential
from cgf.approx.head_chain import HeadChain
from cgf.errors import UserError

MEAN, FIRST, LAST = "mean", "first", "last"
POOLS = (MEAN, FIRST, LAST)
MASK_LEVELS, ROTARY_LEVELS = 2, 1  # that a causal attention, and rotary positions, take more


def _checked(what: str, array: np.ndarray, shape: tuple[int | None, ...]) -> None:
    """UserError for an array of another shape (None: any size), of another kind than float64, or not finite."""
    fits = array.ndim == len(shape) and all(
        size >= 1 and want in (None, size) for size, want in zip(array.shape, shape, strict=True)
    )
    if not fits or array.dtype != np.float64:
        wanted = " x ".join("any" if size is None else str(size) for size in shape)
        raise UserError(f"{what} must be float64 numbers of shape {wanted}, and is {array.dtype} of {array.shape}")
    if not np.isfinite(array).all():
        raise UserError(f"{what} needs finite numbers, and holds NaN or infinity")


@dataclass(frozen=True, eq=False)
class Linear:
    """y = weight x + bias on the features of each token: weight (O, I), bias (O,)."""

    weight: np.ndarray
    bias: np.ndarray

    def __post_init__(self) -> None:
        _checked("the weight of a linear layer", self.weight, (None, None))
        _checked("the bias of a linear layer", self.bias, (len(self.weight),))


@dataclass(frozen=True, eq=False)
class Affine:
    """y = scale x + shift, feature by feature, both (D,): a norm whose statistics are fixed."""

    scale: np.ndarray
    shift: np.ndarray

    def __post_init__(self) -> None:
        _checked("the scale of an affine layer", self.scale, (None,))
        _checked("the shift of an affine layer", self.shift, self.scale.shape)


@dataclass(frozen=True, eq=False)
class Positions:
    """y_t = x_t + values_t with values (tokens, D): of fewer tokens the first rows."""

    values: np.ndarray

    def __post_init__(self) -> None:
        _checked("position embeddings", self.values, (None, None))


@dataclass(frozen=True, eq=False)
class Square:
    """y = a u^2 + b u + c, feature by feature: coefficients (3, F) = (c, b, a). No a may be zero."""

    coefficients: np.ndarray

    def __post_init__(self) -> None:
        _checked("the coefficients of a square", self.coefficients, (3, None))
        if zero := int((self.coefficients[2] == 0).sum()):
            raise UserError(f"a square needs a factor of u^2 other than zero in every feature, and {zero} have none")


@dataclass(frozen=True, eq=False)
class Rotary:
    """Rotary positions of a head of D features: those f and f + D / 2 of token t are turned by one angle.

    cosines, sines  (tokens, D), of fewer tokens the first rows: y_f = cos x_f - sin x_(f + D/2) in the first half of
    the features, and y_f = cos x_f + sin x_(f - D/2) in the second
    Source: RoFormer (arXiv:2104.09864), Eq. (34), with the pairs of features that LLaMA has. UserError for an odd D.
    """

    cosines: np.ndarray
    sines: np.ndarray

    def __post_init__(self) -> None:
        _checked("the cosines of rotary positions", self.cosines, (None, None))
        _checked("the sines of rotary positions", self.sines, self.cosines.shape)
        if self.width % 2:
            raise UserError(f"rotary positions turn pairs of features, and a head has {self.width}")

    @property
    def width(self) -> int:
        """Features of a head."""
        return int(self.cosines.shape[1])

    def partner(self, feature: int) -> int:
        """The feature that is turned with this one."""
        half = self.width // 2
        return feature + half if feature < half else feature - half

    def signed_sines(self) -> np.ndarray:
        """(tokens, D): what a feature's partner is multiplied by."""
        half = self.width // 2
        return np.concatenate([-self.sines[:, :half], self.sines[:, half:]], axis=1)

    def turned(self, heads: np.ndarray) -> np.ndarray:
        """Queries or keys (..., tokens, D) with their positions."""
        tokens, partners = heads.shape[-2], [self.partner(feature) for feature in range(self.width)]
        made: np.ndarray = self.cosines[:tokens] * heads + self.signed_sines()[:tokens] * heads[..., partners]
        return made


@dataclass(frozen=True, eq=False)
class SelfAttention:
    """CGF-softmax of two cumulants over the tokens of a sample; outputs of the heads in a row.

    query, key, value  from the state to ``heads`` heads, one after the other;  scaling: of the scores
    exponential        what stands for exp, in every head; a HeadChain has one for each
    causal             a token attends to itself and those before it; False: to all
    rotary             positions of queries and keys; None: there are none here
    Source of the softmax: CGF-softmax paper, Eq. (3) and (4). Raises UserError for widths that heads do not divide.
    """

    query: Linear
    key: Linear
    value: Linear
    heads: int
    scaling: float
    exponential: Exponential
    causal: bool = False
    rotary: Rotary | None = None

    def __post_init__(self) -> None:
        widths = [len(linear.bias) for linear in (self.query, self.key, self.value)]
        if self.heads < 1 or widths[0] != widths[1] or any(width % self.heads for width in widths):
            raise UserError(
                f"an attention of {self.heads} heads needs as many queries as keys, and a width that the heads divide, "
                f"and has {widths}"
            )
        if not np.isfinite(self.scaling) or self.scaling == 0:
            raise UserError(f"an attention needs a finite scaling other than zero, and has {self.scaling}")
        if isinstance(self.exponential, HeadChain) and len(self.exponential.chains) != self.heads:
            raise UserError(
                f"an attention of {self.heads} heads needs as many chains, and has {len(self.exponential.chains)}"
            )

        if self.rotary is not None and self.rotary.width * self.heads != widths[0]:
            raise UserError(
                f"rotary positions of {self.rotary.width} features need heads of as many, and {self.heads} heads have "
                f"{widths[0]} together"
            )

    @property
    def more_levels(self) -> int:
        """Levels that its mask and its positions take, beside those of an attention over all tokens."""
        return MASK_LEVELS * self.causal + ROTARY_LEVELS * (self.rotary is not None)

    def of_head(self, head: int) -> Exponential:
        """What stands for exp in a head."""
        return self.exponential.chains[head] if isinstance(self.exponential, HeadChain) else self.exponential


@dataclass(frozen=True, eq=False)
class Pool:
    """One token of all: their mean, the first, or the last."""

    kind: str

    def __post_init__(self) -> None:
        if self.kind not in POOLS:
            raise UserError(f"a pooling must be one of {', '.join(POOLS)}, and is {self.kind!r}")


@dataclass(frozen=True, eq=False)
class Residual:
    """y = x + layers(x)."""

    layers: tuple[Layer, ...]


@dataclass(frozen=True, eq=False)
class Gated:
    """y = gate(x) * (up x), feature by feature: a gated unit, whose gate is made of linear maps, norms and squares."""

    gate: tuple[Layer, ...]
    up: Linear

    def __post_init__(self) -> None:
        if any(not isinstance(layer, Linear | Affine | Square) for layer in self.gate):
            raise UserError("the gate of a gated unit may be made of linear maps, affine norms and squares alone")


Layer: TypeAlias = Linear | Affine | Positions | Square | SelfAttention | Pool | Residual | Gated


@dataclass(frozen=True, eq=False)
class Network:
    """Layers from prepared features (samples, tokens, features) to logits (samples, classes).

    tokens   (fewest, most) that a sample may have; all samples of a set have as many
    classes  what the logits stand for
    Raises UserError where widths do not fit one another, or layers other than one pooling leave no single token.
    """

    name: str
    features: int
    tokens: tuple[int, int]
    layers: tuple[Layer, ...]
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        least, most = self.tokens
        if not 2 <= least <= most:
            raise UserError(f"a network needs samples of at least 2 tokens, and '{self.name}' takes {least} to {most}")
        width = _width(self.layers, self.features, most)
        if width != len(self.classes):
            raise UserError(f"network '{self.name}' ends with {width} logits, and has {len(self.classes)} classes")
        pools = [layer for layer in flat(self.layers) if isinstance(layer, Pool)]
        if len(pools) != 1 or not any(layer is pools[0] for layer in self.layers):
            raise UserError(f"network '{self.name}' needs one pooling, outside of sums, and has {len(pools)}")
        after = self.layers[next(i for i, layer in enumerate(self.layers) if layer is pools[0]) :]
        if any(isinstance(layer, SelfAttention | Positions | Residual | Gated) for layer in after):
            raise UserError(f"network '{self.name}' may have linear maps and squares alone behind its pooling")

    def attentions(self) -> list[SelfAttention]:
        """All of them, in order."""
        return [layer for layer in flat(self.layers) if isinstance(layer, SelfAttention)]

    def check_tokens(self, tokens: int) -> int:
        """The count of tokens. UserError for one that the network does not take."""
        least, most = self.tokens
        if not least <= tokens <= most:
            raise UserError(f"network '{self.name}' takes samples of {least} to {most} tokens, and {tokens} were given")
        return tokens


def flat(layers: Sequence[Layer]) -> Iterator[Layer]:
    """Layers in order, those within sums after their sum."""
    for layer in layers:
        yield layer
        if isinstance(layer, Residual):
            yield from flat(layer.layers)


def _width(layers: Sequence[Layer], width: int, tokens: int) -> int:
    """Features behind the layers. UserError where one takes another count than the one before gives."""
    for layer in layers:
        takes, gives = _widths(layer, width, tokens)
        if takes != width:
            raise UserError(f"a layer ({type(layer).__name__}) takes {takes} features, and is given {width}")
        width = gives
    return width


def _widths(layer: Layer, width: int, tokens: int) -> tuple[int, int]:
    """(features taken, features given) of a layer that is given ``width``."""
    if isinstance(layer, Linear):
        return layer.weight.shape[1], layer.weight.shape[0]
    if isinstance(layer, Residual):
        return width, _same(_width(layer.layers, width, tokens), width)
    if isinstance(layer, SelfAttention):
        takes = {linear.weight.shape[1] for linear in (layer.query, layer.key, layer.value)}
        if layer.rotary is not None and len(layer.rotary.cosines) < tokens:
            raise UserError(f"rotary positions of {len(layer.rotary.cosines)} tokens do not reach {tokens}")
        return (takes.pop() if len(takes) == 1 else -1), len(layer.value.bias)
    if isinstance(layer, Gated):
        gives = len(layer.up.bias)
        return layer.up.weight.shape[1], _same(_width(layer.gate, width, tokens), gives, "a gated unit")
    if isinstance(layer, Pool):
        return width, width
    if isinstance(layer, Positions):
        if len(layer.values) < tokens:
            raise UserError(f"position embeddings of {len(layer.values)} tokens do not reach {tokens}")
        return layer.values.shape[1], layer.values.shape[1]
    own = len(layer.scale) if isinstance(layer, Affine) else layer.coefficients.shape[1]
    return own, own


def _same(inner: int, width: int, what: str = "a sum") -> int:
    if inner != width:
        raise UserError(f"{what} needs as many features inside as outside, and has {inner} and {width}")
    return width
