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
    """A table of word embeddings (words, D), which whoever encrypts looks token ids up in.

    places  (most tokens, D), added to the embeddings in the clear: positions, and the one segment there is
    norm    (gain, shift), each (D,), of a LayerNorm of that, in the clear too; None: there is none. eps: its own
    multiple, padding  texts are filled up to a multiple of so many tokens with this id, which counts as any other word
    Raises UserError for arrays that do not fit one another, or are not finite, and for padding that is no word.
    """

    rows: np.ndarray
    places: np.ndarray
    norm: tuple[np.ndarray, np.ndarray] | None = None
    eps: float = 1e-12
    multiple: int = 1
    padding: int = 0

    def __post_init__(self) -> None:
        if self.multiple < 1 or not 0 <= self.padding < len(self.rows):
            raise UserError(
                f"texts are filled up to a multiple of at least 1 with an id below {len(self.rows)}, and "
                f"{self.multiple} and {self.padding} were given"
            )
        arrays = [self.rows, self.places, *(() if self.norm is None else (one[None] for one in self.norm))]
        for array in arrays:
            fits = array.ndim == 2 and array.shape[1] == self.rows.shape[1] and array.dtype == np.float64
            if not fits or not np.isfinite(array).all():
                raise UserError("a table of embeddings must be finite float64 numbers of one width, and is not")
        if not 0 <= self.eps < 1:
            raise UserError(f"the eps of a norm must be from 0 to below 1, and is {self.eps}")

    @property
    def features(self) -> int:
        """Width of an embedding."""
        return int(self.rows.shape[1])

    def tokens_of(self, words: int) -> int:
        """How many tokens a text of so many words of its own has once it is filled up."""
        return -(-words // self.multiple) * self.multiple

    def prepared(self, ids: np.ndarray) -> np.ndarray:
        """Features (samples, tokens, features) of token ids (samples, tokens), filled up.

        UserError for ids outside the table, and for more tokens than there are places.
        """
        if ids.ndim == 2:
            more = self.tokens_of(ids.shape[1]) - ids.shape[1]
            ids = np.pad(ids, ((0, 0), (0, more)), constant_values=self.padding)
        if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer) or ids.shape[1] > len(self.places):
            raise UserError(
                f"a table of embeddings takes whole numbers (samples, tokens), at most {len(self.places)} tokens, and "
                f"{ids.dtype} of {ids.shape} was given"
            )
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < len(self.rows):
            wrong = int(ids.min()) if ids.min() < 0 else int(ids.max())
            raise UserError(f"a table of {len(self.rows)} embeddings has no row {wrong}")
        values: np.ndarray = self.rows[ids] + self.places[: ids.shape[1]]
        if self.norm is None:
            return values
        gain, shift = self.norm
        centred = values - values.mean(-1, keepdims=True)
        scaled: np.ndarray = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + self.eps) * gain + shift
        return scaled


Inputs: TypeAlias = Patches | Table
