"""Which rows share a set of ciphertexts, and how many columns they need there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cgf.he.layout import choose_layout, row_blocks

ROTATION = 0.4  # cost of a rotation, in those of a ciphertext through encryption, chain and decryption (measured)
STATISTICS = 2  # row sums of a masked circuit, each with a rotation a doubling


@dataclass(frozen=True)
class Block:
    """Rows of one set of ciphertexts: their indices (R,) among all rows, and the columns that they reach."""

    order: np.ndarray
    columns: int

    @property
    def first(self) -> int:
        """The index of its first row among all rows."""
        return int(self.order[0])


def blocks_of(rows: int, columns: int, slots: int, mask: np.ndarray | None = None, parts: int = 1) -> list[Block]:
    """Rows (R, columns) shared out over sets of ciphertexts of so many slots; mask (R, columns) bool, None: full.

    Full rows: as many as there are slots, in their order. Masked rows: sorted by their last valid column, so that
    short ones stand together and leave out the columns that none of them has, in sets of slots, slots / 2, ...
    rows, whichever takes the fewest ciphertexts and rotations: causal rows of N columns need half the
    ciphertexts in the limit, and most of those hold no invalid entry. A function of the public mask alone.
    parts: at least so many sets, of equal size, if there are so many rows (one a worker).
    """
    if mask is None:
        return [Block(np.arange(b.start, b.stop), columns) for b in row_blocks(rows, _share(rows, slots, parts))]
    # 1. how many columns each row reaches, at least 1, and the rows from the shortest on
    reach = np.maximum(columns - mask[:, ::-1].argmax(1), 1)
    reach[~mask.any(1)] = 1
    order = np.argsort(reach, kind="stable")
    # 2. sets of slots, slots / 2, slots / 4, ... rows: more of them leave out more columns, and rotate more
    best: list[Block] = []
    size, cheapest = slots, float("inf")
    while size:
        blocks = [Block(order[b], int(reach[order[b]].max())) for b in row_blocks(rows, _share(rows, size, parts))]
        price = sum(cost(block, slots) for block in blocks)
        if price < cheapest:
            best, cheapest = blocks, price
        elif size < rows:  # 3. the end: from here on rotations outweigh what shorter sets save
            break
        size //= 2
    return best


def cost(block: Block, slots: int) -> float:
    """Time of a masked set, in that of one ciphertext through encryption, chain and decryption."""
    layout = choose_layout(len(block.order), block.columns, slots, masked=True)
    return layout.ciphertexts + ROTATION * STATISTICS * len(layout.rotations)


def _share(rows: int, size: int, parts: int) -> int:
    """Rows a set: ``size``, or for several parts at most that, so that equal sets are a multiple of parts."""
    if parts == 1:
        return size
    sets = -(-rows // size)
    sets = -(-sets // parts) * parts
    return max(1, -(-rows // sets))
