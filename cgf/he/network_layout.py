"""Columns of a whole network in ciphertexts: one feature a ciphertext, tokens and samples in the slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.engine import Engine
from cgf.network.layers import FIRST, LAST
from cgf.network.program import Attend, Program
from cgf.types import Ciphertext


@dataclass(frozen=True)
class TokenLayout:
    """Slot = place x samples + sample, and the token of a place is place mod tokens.

    A rotation by r x samples moves every place by r. Where tokens x samples = slots that is exactly cyclic over
    tokens. Where it is not, the tokens are there several times over, and what is read across the end of the slots
    belongs to another sample: after each attention the last tokens - 1 places that were right are right no more. ``of``
    leaves as many places as a program needs, so that its logits are right. No mask, and so no level, is spent on the
    gap. Places are a multiple of the tokens, so that a wrong row still has each token once, of two samples: its
    exponents are of the size of others.
    """

    tokens: int
    samples: int
    slots: int

    @classmethod
    def of(cls, program: Program, slots: int) -> TokenLayout:
        """The layout of most samples. UserError where not one fits."""
        places = needed_places(program, slots)
        if places > slots:
            raise UserError(
                f"a network of {program.tokens} tokens needs {places} slots for a sample, and a ciphertext has {slots}"
            )
        return cls(program.tokens, slots // places, slots)

    @property
    def cyclic(self) -> bool:
        """Whether the tokens of all samples fill the slots once."""
        return self.tokens * self.samples == self.slots

    @cached_property
    def _place(self) -> np.ndarray:
        return np.arange(self.slots) // self.samples

    def pack(self, column: np.ndarray, turn: int = 0) -> np.ndarray:
        """A feature (B, tokens) of at most ``samples`` samples as slots, each place holding the token ``turn`` further.

        Where samples are fewer, the others are copies of them: no slot holds what no sample is.
        """
        places = (self._place + turn) % self.tokens
        packed: np.ndarray = column[np.arange(self.slots) % self.samples % len(column), places]
        return packed

    def spread(self, values: np.ndarray, turn: int = 0) -> np.ndarray:
        """One number a token (tokens,) as slots, each place holding that of the token ``turn`` further."""
        spread: np.ndarray = values[(self._place + turn) % self.tokens]
        return spread

    def of_token(self, slots: np.ndarray, samples: int, token: int) -> np.ndarray:
        """What the place of a token holds of the first samples."""
        start = token * self.samples
        return slots[start : start + samples]


def needed_places(program: Program, slots: int) -> int:
    """Places that a sample takes: its tokens where they divide the slots, else what is read beyond them too.

    A multiple of the tokens.
    """
    attentions = sum(isinstance(step, Attend) for step in program.steps)
    return places_of(program.tokens, attentions, program.pool != FIRST, slots)


def read_token(program: Program) -> int:
    """The token whose place holds the logits: the last where the last is read, else the first."""
    return program.tokens - 1 if program.pool == LAST else 0


def places_of(tokens: int, attentions: int, all_of_them: bool, slots: int) -> int:
    """The same by the counts alone; all_of_them: the logits are of all tokens or of the last, and not of the first."""
    if slots % tokens == 0:
        return tokens
    right = (tokens if all_of_them else 1) + attentions * (tokens - 1)
    return -(-right // tokens) * tokens


@dataclass(frozen=True)
class Steps:
    """The n diagonals of an attention, key = query + r, in giant steps of ``baby``: r = b + baby g.

    Queries are turned by -baby g and keys by b, so that a score stands in the *frame* of g: at the place of its query
    plus baby g. Rotations: of queries, and of outputs back, giants - 1 each; of keys and values baby - 1 each.
    """

    tokens: int
    baby: int

    @classmethod
    def of(cls, tokens: int) -> Steps:
        """The split of fewest rotations."""
        return min((cls(tokens, baby) for baby in range(1, tokens + 1)), key=lambda s: (s.baby + s.giants, s.giants))

    @property
    def giants(self) -> int:
        """Frames."""
        return -(-self.tokens // self.baby)

    def babies(self, giant: int) -> range:
        """b of the diagonals in a frame; the last may have fewer."""
        return range(min(self.baby, self.tokens - giant * self.baby))

    @property
    def query_turns(self) -> list[int]:
        """By which queries are turned, frame by frame; tokens."""
        return [-self.baby * giant for giant in range(self.giants)]

    @property
    def key_turns(self) -> list[int]:
        """By which keys and values are turned."""
        return list(range(self.baby))

    @property
    def frames(self) -> tuple[int, ...]:
        """The frame of each diagonal, in order."""
        return tuple(giant for giant in range(self.giants) for _ in self.babies(giant))


def sum_of_tokens(
    tokens: int, ct: Ciphertext, turned: Callable[[Ciphertext, int], Ciphertext], add: Callable[..., Ciphertext]
) -> Ciphertext:
    """The sum of places p to p + tokens - 1 at every place p: doubled for each bit of the count, and one more for a 1.

    1. total is the sum of ``size`` places, at first of one.
    2. For each further bit of the count: the sum of twice as many is total plus total turned by size.
    3. Where the bit is set, the place behind is added.
    """
    total, size = ct, 1
    for bit in bin(tokens)[3:]:
        total, size = add(total, turned(total, size)), 2 * size
        if bit == "1":
            total, size = add(total, turned(ct, size)), size + 1
    return total


def rotated(engine: Engine, ct: Ciphertext, turn: int, samples: int) -> Ciphertext:
    """A ciphertext with every place holding what the place ``turn`` further held."""
    return ct if turn == 0 else engine.rotate(ct, turn * samples)
