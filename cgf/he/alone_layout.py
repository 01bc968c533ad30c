"""One sample alone in a ciphertext: features, keys, queries and heads share the slots, so that few are empty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cgf.errors import UserError
from cgf.he.layout import Layout
from cgf.network.program import Attend, Program, Squares

SHAPE = "a sample alone takes a network of one attention and one square behind it"


class Place(NamedTuple):
    """Index arrays of slots that broadcast against each other; see ``AloneLayout``."""

    lane: np.ndarray
    turn: np.ndarray
    token: np.ndarray
    head: np.ndarray


Numbers = Callable[[Place], np.ndarray]  # a number for each place


@dataclass(frozen=True)
class AloneLayout:
    """Slot = ((lane * tokens + turn) * tokens + token) * heads + head.

    lane   a feature of a head, or of the hidden layer; the outermost, so that a rotation by whole lanes is cyclic. The
           first ``lanes`` of them, a power of two, are there as many times as fit the slots
    turn   a key: at query ``token`` it is the key of token + turn, modulo the tokens
    A sum over turns is right where all lanes hold the same, as scores do, and else at turn 0. A sum over heads is right
    at head 0. What stands elsewhere then is multiplied by a zero before it is read.
    """

    tokens: int
    heads: int
    slots: int
    lanes: int

    samples = 1

    @classmethod
    def of(cls, program: Program, slots: int) -> AloneLayout:
        """The layout of a program's sample. UserError for a program of another shape, or that does not fit the slots.

        Needed are one attention over all tokens, without rotary positions, one square, the pooling behind both, tokens,
        heads and the features of a head that are powers of two, and as many lanes as a head has features, as there are
        logits, and as hidden features divided by the tokens.
        """
        if any(isinstance(step, Attend) and step.layer.more_levels for step in program.steps):
            raise UserError(
                f"{SHAPE}, over all tokens and without rotary positions, and network '{program.name}' is another: take "
                "sets of samples (he.alone=false, no --alone)"
            )
        if [type(step) for step in program.steps] != [Attend, Squares]:
            raise UserError(
                f"{SHAPE}, and network '{program.name}' is another: take sets of samples (he.alone=false, no --alone)"
            )
        if program.logits.pool is None:
            raise UserError(
                f"{SHAPE}, and one pooling behind the square, and network '{program.name}' has it before the square: "
                "take sets of samples (he.alone=false, no --alone)"
            )
        attend, squares = program.steps
        assert isinstance(attend, Attend) and isinstance(squares, Squares)
        heads = attend.layer.heads
        width, value = attend.query.width // heads, attend.value.width // heads
        if any(size & (size - 1) for size in (program.tokens, heads, width)):
            raise UserError(
                f"{SHAPE}, with tokens, heads and features of a head that are powers of two, and network "
                f"'{program.name}' has {program.tokens}, {heads} and {width}: "
                "take sets of samples (he.alone=false, no --alone)"
            )
        lanes = max(width, value, program.logits.width, -(-squares.form.width // program.tokens))
        made = cls(program.tokens, heads, slots, 1 << (lanes - 1).bit_length())
        if made.lane * made.lanes > slots:
            raise UserError(
                f"{SHAPE} in {made.lane * made.lanes} slots, and a ciphertext of network '{program.name}' has {slots}: "
                "take sets of samples (he.alone=false, no --alone)"
            )
        return made

    @property
    def lane(self) -> int:
        """Slots of a lane."""
        return self.tokens * self.tokens * self.heads

    @property
    def turn(self) -> int:
        """Slots of a turn."""
        return self.tokens * self.heads

    @property
    def rows(self) -> Layout:
        """Scores as rows of queries and heads: a row's keys lie a turn apart."""
        return Layout(self.turn, self.tokens, self.lane, self.turn)

    def vector(self, numbers: Numbers) -> np.ndarray:
        """(slots,) of the numbers of all places."""
        shape = (self.lanes, self.tokens, self.tokens, self.heads)
        values = np.broadcast_to(numbers(Place(*np.ogrid[tuple(slice(size) for size in shape)])), shape)
        return np.tile(np.asarray(values, dtype=np.float64).reshape(-1), self.slots // values.size)

    def met(self, place: Place, turned: bool) -> np.ndarray:
        """The token that a slot is about: its query's own, or, turned, that of its key."""
        token: np.ndarray = (place.token + place.turn) % self.tokens if turned else place.token
        return token

    def pack(self, column: np.ndarray, turned: bool) -> np.ndarray:
        """A feature (1, tokens) as slots: at each that of the token that it is about."""
        return self.vector(lambda place: column[0][self.met(place, turned)])

    def answers(self, slots: np.ndarray, count: int) -> np.ndarray:
        """(1, count) of a decrypted ciphertext that holds a number a lane, in its first slot."""
        numbers: np.ndarray = slots[:: self.lane][None, :count]
        return numbers


def entries(matrix: np.ndarray, row: np.ndarray | int, column: np.ndarray | int) -> np.ndarray:
    """matrix[row, column] where both are inside it, else zero; a matrix of one row has it for every row."""
    rows = np.zeros_like(row) if len(matrix) == 1 else np.asarray(row)
    inside = (rows < matrix.shape[0]) & (np.asarray(column) < matrix.shape[1])
    numbers: np.ndarray = np.where(inside, matrix[np.where(inside, rows, 0), np.where(inside, column, 0)], 0.0)
    return numbers
