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
    Layer,
    Linear,
    Network,
    Pool,
    Positions,
    Residual,
    SelfAttention,
    Square,
)

DOMAIN = (-10.0, 1.2)  # of the chains, which cost the same on any


@dataclass(frozen=True)
class NetworkShape:
    """A transformer of equal blocks: norms that fold, squares, chains of k.

    tokens    of a sample;  features: of a token before the first layer;  width: of the state;  mlp: of the hidden layer
    pool      'mean', or 'first' (with a layer and a square behind it, as BERT's pooler)
    Raises UserError for sizes below 1, and a width that the heads do not divide.
    """

    blocks: int
    width: int
    heads: int
    mlp: int
    tokens: int
    features: int
    classes: int
    k: int = 3
    pool: str = MEAN

    def __post_init__(self) -> None:
        for one in fields(self):
            if one.name != "pool":
                whole(f"shape.{one.name}", getattr(self, one.name), 2 if one.name == "tokens" else 1)
        one_of("shape.pool", self.pool, POOLS)
        if self.width % self.heads:
            raise UserError(f"shape.width must be a multiple of shape.heads={self.heads}, and is {self.width}")

    def network(self, name: str = "shape") -> Network:
        """A network of this shape; the numbers in it are small random ones."""
        rng, width = np.random.default_rng(0), self.width

        def linear(outputs: int, inputs: int) -> Linear:
            return Linear(rng.normal(size=(outputs, inputs)) * (0.5 / np.sqrt(inputs)), 0.1 * rng.normal(size=outputs))

        def norm() -> Affine:
            return Affine(np.full(width, 0.5), 0.1 * rng.normal(size=width))

        def square(features: int) -> Square:
            return Square(np.repeat([[0.0], [0.5], [0.2]], features, axis=1))

        layers: list[Layer] = [linear(width, self.features), Positions(0.1 * rng.normal(size=(self.tokens, width)))]
        exponential = chain(*DOMAIN, self.k)
        for _ in range(self.blocks):
            query, key, value = (linear(width, width) for _ in range(3))
            attend = SelfAttention(query, key, value, self.heads, (width / self.heads) ** -0.5, exponential)
            inner = (norm(), linear(self.mlp, width), square(self.mlp), linear(width, self.mlp))
            layers += [Residual((norm(), attend, linear(width, width))), Residual(inner)]
        layers += [norm(), Pool(self.pool)]
        if self.pool == FIRST:
            layers += [linear(width, width), square(width)]
        names = tuple(map(str, range(self.classes)))
        return Network(name, self.features, (self.tokens, self.tokens), (*layers, linear(self.classes, width)), names)
