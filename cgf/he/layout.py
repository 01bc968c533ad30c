"""Where the entry of row r and column c lies: the paper's column-major packing with a gap."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cgf.errors import UserError


@dataclass(frozen=True)
class Layout:
    """Rows (R, N) in ceil(N / columns_per_ct) ciphertexts; entries of one row stand ``gap`` slots apart.

    Entry (r, c) is slot r + (c mod columns_per_ct) * gap of ciphertext c // columns_per_ct, with
    columns_per_ct = slots / gap. gap and slots are powers of two and R <= gap <= slots. At gap = slots a
    ciphertext is one column: row sums are additions of ciphertexts, no rotation and no padding column.
    Source: CGF-softmax paper, appendix 'Packing Strategy'.
    """

    rows: int
    columns: int
    slots: int
    gap: int

    def __post_init__(self) -> None:
        if self.gap & (self.gap - 1) or self.slots % self.gap or not 1 <= self.rows <= self.gap:
            raise UserError(
                f"a layout needs 1 <= rows <= gap, gap a power of two dividing {self.slots} slots, "
                f"and has {self.rows} rows and a gap of {self.gap}"
            )
        if self.columns < 1:
            raise UserError(f"a layout needs at least one column, and has {self.columns}")

    @property
    def columns_per_ct(self) -> int:
        """Columns of scores that one ciphertext holds."""
        return self.slots // self.gap

    @property
    def ciphertexts(self) -> int:
        """How many hold all columns; the last of them may hold padding columns."""
        return -(-self.columns // self.columns_per_ct)

    @property
    def padding_columns(self) -> int:
        """Columns of the last ciphertext that no entry fills: beside them full rows take the circuit of masked ones."""
        return self.ciphertexts * self.columns_per_ct - self.columns

    @property
    def cost(self) -> float:
        """Time of full rows' CGF-softmax (a chain of 3), in ciphertexts without padding columns.

        Measured on 8,192 slots over the batches of two test sets: a set takes as long as 2 ciphertexts more than it
        has; padding columns, which cost the folding of the statistics, one level and a mask, take a tenth more for
        each ciphertext and 3 more for the set.
        """
        return 5 + 1.1 * self.ciphertexts if self.padding_columns else 2.0 + self.ciphertexts

    @property
    def rotations(self) -> list[int]:
        """Steps that sum the columns inside a ciphertext, by doubling."""
        return [self.gap << j for j in range(int(math.log2(self.columns_per_ct)))]

    def pack(self, matrix: np.ndarray) -> list[np.ndarray]:
        """(R, N) -> one vector of slots a ciphertext; padding columns are zero, the last row repeats up to the gap."""
        padded = np.zeros((self.ciphertexts * self.columns_per_ct, self.gap))
        padded[: self.columns] = filled(np.asarray(matrix, dtype=np.float64).T, self.gap)
        return list(padded.reshape(self.ciphertexts, self.slots))

    def unpack(self, vectors: list[np.ndarray]) -> np.ndarray:
        """The inverse of pack: (R, N)."""
        padded = np.stack(vectors).reshape(self.ciphertexts * self.columns_per_ct, self.gap)
        return padded[: self.columns, : self.rows].T.copy()

    def spread(self, row_values: np.ndarray) -> np.ndarray:
        """(R,) -> (slots,): the row's number at every column of the row; the last row repeats up to the gap."""
        return np.tile(filled(row_values, self.gap), self.columns_per_ct)


def filled(rows: np.ndarray, gap: int) -> np.ndarray:
    """(..., R) -> (..., gap): the rows, and the last one again up to the gap.

    So slots beyond the last row hold what a real row holds: a polynomial that is made for such rows explodes elsewhere,
    and a slot that overflows ruins its whole ciphertext. One row and not all in turn: on OpenFHE short rows, whose
    weights are larger under encryption, cost long ones digits where they fill many slots.
    """
    result: np.ndarray = rows[..., np.minimum(np.arange(gap), rows.shape[-1] - 1)]
    return result


def choose_layout(rows: int, columns: int, slots: int, masked: bool, most: float | None = None) -> Layout:
    """The layout of fewest ciphertexts; for full rows one without padding columns where that costs less.

    Rows are at most ``slots``; masked rows are as cheap with padding columns as without.
    most   ciphertexts to accept, in multiples of the fewest, so that full rows have no padding columns: for circuits
           that are none of theirs, or whose level is not there; None: by ``Layout.cost``
    """
    if rows > slots:
        raise UserError(f"a set of ciphertexts takes at most {slots} rows, and {rows} were given")
    # 1. the least gap: a power of two that holds the rows, and no less than spreads the columns over one ciphertext,
    #    since a smaller gap only adds rotations
    smallest = 1 << max(0, rows - 1).bit_length()
    smallest = max(smallest, slots // (1 << max(0, columns - 1).bit_length()))
    # 2. the layouts of that gap and its doubles; the first has the fewest ciphertexts and the most padding columns
    gaps = [g for g in (smallest << j for j in range(slots.bit_length())) if g <= slots]
    layouts = [Layout(rows, columns, slots, gap) for gap in gaps]
    dense = layouts[0]
    # 3. masked rows, and rows that fill it, take the first
    if masked or dense.padding_columns == 0:
        return dense
    # 4. full rows may do without padding columns: the first layout that has none (a gap of all slots never has any)
    exact = next(layout for layout in layouts if layout.padding_columns == 0)
    # 5. of the two, by how many ciphertexts are accepted, or by the time that each takes
    if most is not None:
        return exact if exact.ciphertexts <= most * dense.ciphertexts else dense
    return min(exact, dense, key=lambda layout: layout.cost)


def row_blocks(rows: int, slots: int) -> list[slice]:
    """Rows in as few sets of ciphertexts as hold them: full ones first, then the rest."""
    return [slice(start, min(start + slots, rows)) for start in range(0, rows, slots)]
