"""What a network's features are made of before anything is encrypted: patches of an image, rows of a table of words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from cgf.errors import UserError


@dataclass(frozen=True)
class Patches:
    """Images (samples, channels, height, width), prepared as the model takes them, cut into squares of pixels.

    Tokens are the patches row by row, features a patch's pixels: channel by channel, each row by row. Before them come
    ``prefix`` tokens of zeros: a class token and registers, which are constants of their places.
    """

    channels: int
    height: int
    width: int
    patch: int
    prefix: int = 0

    def __post_init__(self) -> None:
        if min(self.channels, self.patch, self.prefix + 1) < 1 or self.height % self.patch or self.width % self.patch:
            raise UserError(
                f"patches of {self.patch} pixels must fill images of {self.height} x {self.width}, and do not"
            )

    @property
    def tokens(self) -> int:
        """Patches of an image, and what comes before them."""
        return self.prefix + (self.height // self.patch) * (self.width // self.patch)

    @property
    def features(self) -> int:
        """Pixels of a patch."""
        return self.channels * self.patch**2

    def prepared(self, images: np.ndarray) -> np.ndarray:
        """Features (samples, tokens, features) in float64. UserError for images of another size."""
        if images.ndim != 4 or images.shape[1:] != (self.channels, self.height, self.width):
            raise UserError(
                f"the network takes images of {self.channels} x {self.height} x {self.width}, and was given "
                f"{images.shape}"
            )
        p = self.patch
        cut = images.reshape(-1, self.channels, self.height // p, p, self.width // p, p)
        flat = cut.transpose(0, 2, 4, 1, 3, 5).reshape(len(images), -1, self.features).astype(np.float64)
        return np.pad(flat, ((0, 0), (self.prefix, 0), (0, 0)))


@dataclass(frozen=True, eq=False)
class Table:
    """A table of word embeddings (words, D), which whoever encrypts looks token ids up in."""

    rows: np.ndarray

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.rows.dtype != np.float64 or not np.isfinite(self.rows).all():
            raise UserError("a table of embeddings must be finite float64 numbers (words, features), and is not")

    @property
    def features(self) -> int:
        """Width of an embedding."""
        return int(self.rows.shape[1])

    def prepared(self, ids: np.ndarray) -> np.ndarray:
        """Features (samples, tokens, features) of token ids (samples, tokens). UserError for ids outside the table."""
        if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer):
            raise UserError(f"a table of embeddings takes whole numbers (samples, tokens), and was given {ids.shape}")
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < len(self.rows):
            raise UserError(
                f"a table of {len(self.rows)} embeddings has no row {int(ids.max() if ids.min() >= 0 else ids.min())}"
            )
        rows: np.ndarray = self.rows[ids]
        return rows


Inputs: TypeAlias = Patches | Table
