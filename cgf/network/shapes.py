"""Networks of a given shape and random weights, for what a shape costs before anything of it is trained."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from cgf.approx.fit import chain
from cgf.checks import one_of, whole
from cgf.errors import UserError
from cgf.network.layers import (
    FIRST,
    MEAN,
    POOLS,
    Affine,
    Gated,
    Layer,
    Linear,
    Network,
    Pool,
    Positions,
    Residual,
    Rotary,
    SelfAttention,
    Square,
)

DOMAIN = (-10.0, 1.2)  # of the chains, which cost the same on any


@dataclass(frozen=True)
class TransformerSizes:
    """Sizes of a transformer of equal blocks whose exponentials are chains of k squarings.

    tokens  of a sample;  features: of a token before the first layer;  width: of the state;  mlp: of the hidden layer
    """

    blocks: int
    width: int
    heads: int
    mlp: int
    tokens: int
    features: int
    classes: int
    k: int = 3

    def check(self, what: str, **least: int) -> None:
        """UserError for a size below its least, which is 1, of tokens 2, and for a width that the heads do not divide.

        what: the name of these sizes in a message;  least: of other sizes, by name.
        """
        for one in fields(self):
            if one.type == "int":
                whole(f"{what}.{one.name}", getattr(self, one.name), {"tokens": 2, **least}.get(one.name, 1))
        if self.width % self.heads:
            raise UserError(f"{what}.width must be a multiple of {what}.heads={self.heads}, and is {self.width}")


@dataclass(frozen=True)
class NetworkShape(TransformerSizes):
    """Sizes whose network has norms that fold, and squares for activations.

    pool    'mean', 'last', or 'first' (with a layer and a square behind it, as BERT's pooler)
    causal, rotary, gated  as a LLaMA: masks, rotary positions in place of those that are added, products of two maps in
            place of squares
    Raises UserError for sizes below 1, and a width that the heads do not divide.
    """

    pool: str = MEAN
    causal: bool = False
    rotary: bool = False
    gated: bool = False

    def __post_init__(self) -> None:
        self.check("shape")
        one_of("shape.pool", self.pool, POOLS)
        for name in ("causal", "rotary", "gated"):
            if not isinstance(value := getattr(self, name), bool):
                raise UserError(f"shape.{name} must be true or false, and {value!r} was given")

    def network(self, name: str = "shape") -> Network:
        """A network of this shape; the numbers in it are small random ones."""
        rng, width = np.random.default_rng(0), self.width

        def linear(outputs: int, inputs: int) -> Linear:
            return Linear(rng.normal(size=(outputs, inputs)) * (0.5 / np.sqrt(inputs)), 0.1 * rng.normal(size=outputs))

        def norm() -> Affine:
            return Affine(np.full(width, 0.5), 0.1 * rng.normal(size=width))

        def square(features: int) -> Square:
            return Square(np.repeat([[0.0], [0.5], [0.2]], features, axis=1))

        def hidden() -> tuple[Layer, ...]:
            first = linear(self.mlp, width)
            return (Gated((first,), linear(self.mlp, width)),) if self.gated else (first, square(self.mlp))

        added = 0.1 * rng.normal(size=(self.tokens, width))
        layers: list[Layer] = [linear(width, self.features), *(() if self.rotary else (Positions(added),))]
        exponential, size = chain(*DOMAIN, self.k), width // self.heads
        angles = np.tile(rng.uniform(-3, 3, (self.tokens, size // 2)), 2)
        turns = Rotary(np.cos(angles), np.sin(angles)) if self.rotary else None
        for _ in range(self.blocks):
            query, key, value = (linear(width, width) for _ in range(3))
            attend = SelfAttention(query, key, value, self.heads, size**-0.5, exponential, self.causal, turns)
            inner = (norm(), *hidden(), linear(width, self.mlp))
            layers += [Residual((norm(), attend, linear(width, width))), Residual(inner)]
        layers += [norm(), Pool(self.pool)]
        if self.pool == FIRST:
            layers += [linear(width, width), square(width)]
        names = tuple(map(str, range(self.classes)))
        return Network(name, self.features, (self.tokens, self.tokens), (*layers, linear(self.classes, width)), names)
