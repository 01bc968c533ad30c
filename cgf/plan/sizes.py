"""Sizes of a transformer whose parts are all polynomial, with the levels that it takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from cgf.errors import UserError
from cgf.he.network_layout import TokenLayout, places_of
from cgf.network.layers import MASK_LEVELS, ROTARY_LEVELS
from cgf.network.shapes import TransformerSizes

BLOCK_LEVELS, HEAD_LEVELS = 6, 1  # beside the squarings of the exponential: see cgf.network.program


@dataclass(frozen=True)
class Sizes(TransformerSizes):
    """Sizes of a transformer with affine norms and quadratic activations, whose features are encrypted token by token.

    kv_heads  heads of keys and values;  0: as many as ``heads``
    gated     the activation is the product of two maps;  causal: a token attends to those before it
    mean      the logits are of the mean of all tokens; False: of one, the last of a causal network, else the first
    Raises UserError for sizes below 1, a width that the heads do not divide, heads that the kv_heads do not divide.
    """

    name: str = field(kw_only=True)
    kv_heads: int = 0
    gated: bool = False
    causal: bool = False
    rotary: bool = False
    mean: bool = True

    def __post_init__(self) -> None:
        self.check("sizes", kv_heads=0)
        if self.heads % (self.kv_heads or self.heads):
            raise UserError(f"sizes.heads must be a multiple of sizes.kv_heads={self.kv_heads}, and is {self.heads}")

    @property
    def head_width(self) -> int:
        """Features of a head."""
        return self.width // self.heads

    @property
    def more(self) -> int:
        """Levels a block that causal masks and rotary positions take."""
        return MASK_LEVELS * self.causal + ROTARY_LEVELS * self.rotary

    @property
    def levels(self) -> int:
        """6 + k a block, what ``more`` says, and one for the logits."""
        return self.blocks * (BLOCK_LEVELS + self.k + self.more) + HEAD_LEVELS

    def layout(self, slots: int) -> TokenLayout:
        """The layout of most samples. UserError where not one fits."""
        places = places_of(self.tokens, self.blocks, self.mean or self.causal, slots)
        if places > slots:
            raise UserError(f"{self.name} needs {places} slots for a sample, and a ciphertext has {slots}")
        return TokenLayout(self.tokens, slots // places, slots)
