"""Which samples go through the model together, so that their rows fill the slots; and shards of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import torch

from cgf.checks import is_whole
from cgf.data.task import Items
from cgf.errors import UserError
from cgf.evaluate.he_lengths import Joint
from cgf.evaluate.loop import batches_of_rows
from cgf.he.layout import choose_layout

ALIKE = (3, 4)  # a text is at least 3/4 as long as the longest of its batch, or waits for another


def chosen_samples(total: int, count: int | None, seed: int) -> list[int]:
    """The first ``count`` of a fixed permutation of the split, so that fewer samples are a subset of more."""
    if count is not None and (not is_whole(count) or count < 1):
        raise UserError(f"samples must be a whole number of at least 1, and {count!r} was given")
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed)).tolist()
    return sorted(order[: total if count is None else min(count, total)])


@dataclass(frozen=True)
class Batches:
    """How the samples of ``dataset`` are batched; the same for the same samples, whatever was finished before.

    probe         index of a sample -> (heads, queries, slots of the ring) of its scores
    masked        rows have masks anyway (causal), so texts of different lengths share ciphertexts; else texts of
                  one length, which saves the mask's level
    size          samples of a batch, fewer where rows_at_once asks for it; None: as many as fill the slots
    pieces        a length's last samples, which leave slots free, go in sets near powers of two: for scores alone
    whole_sets    a batch is one set of ciphertexts: no more samples than the slots take, whatever ``size`` is
    rows_at_once  score rows of a layer packed together, which bounds memory; None: the slots of the ring
    joint         which lengths share sets where rows are full and no size was asked for; None: each has its own
    """

    dataset: Items
    probe: Callable[[int], tuple[int, int, int]]
    masked: bool = False
    size: int | None = None
    rows_at_once: int | None = None
    pieces: bool = True
    whole_sets: bool = False
    joint: Joint | None = None

    def of(self, indices: list[int]) -> list[list[int]]:
        """Every index once, longest texts first: the last batches are short, so that workers end together."""
        grouped = partial(batches_of_rows, masked=self.masked)
        rows = self.rows_at_once
        if rows is not None and (not is_whole(rows) or rows < 1):
            raise UserError(f"he.rows_at_once must be a whole number of at least 1 or null, and {rows!r} was given")
        # 1. of a size that was asked for, whatever the slots hold: as an evaluation in the clear groups them
        if self.size is not None and rows is None and not self.whole_sets:
            return grouped(self.dataset, self.size, indices)[::-1]
        batches: list[list[int]] = []
        most_asked = max(1, len(indices)) if self.size is None else self.size
        joint = None if self.size is not None else self.joint
        groups = joint.groups(self.dataset, indices) if joint else grouped(self.dataset, most_asked, indices)
        for group in reversed(groups):
            while group:  # from the longest on: it decides how many fit
                # 2. how many samples as long as the longest one fill the slots
                heads, queries, slots = self.probe(group[-1])
                most = max(1, (rows or slots) // (heads * queries))
                # 3. of those that are about as long as it, so many; a size that was asked for bounds the group already
                fit = min(most, self._alike(group) if self.size is None and not joint else len(group))
                # 4. what leaves slots free, in sets near powers of two
                if self.pieces and not self.masked and fit < most and self.size is None:
                    fit = _largest_piece(fit, heads * queries, queries, slots)
                batches.append(group[-fit:])
                group = group[:-fit]
        return batches

    def _alike(self, group: list[int]) -> int:
        """How many at the end of a group sorted by length are as long as the last, or nearly (ALIKE): the cost of
        a batch grows with rows times columns, and more padding than that costs more than another batch."""
        lengths = getattr(self.dataset, "lengths", None)
        if lengths is None:
            return len(group)
        least, most = ALIKE
        return sum(1 for i in group if most * lengths[i] >= least * lengths[group[-1]])

    def work(self, batch: list[int]) -> int:
        """Score entries of a head and layer, for a guess of the time left; images count as 1."""
        lengths = getattr(self.dataset, "lengths", None)
        return len(batch) if lengths is None else sum(lengths[i] ** 2 for i in batch)


@lru_cache(maxsize=4096)
def _largest_piece(count: int, rows: int, columns: int, slots: int) -> int:
    """Of ``count`` samples of one length that leave slots free, how many go first so that the sets cost least.

    rows   of a sample. Rows that pass a power of two by a few are cheaper as two sets, each near one.
    """
    # 1. n samples in one set, for every n
    costs = [0.0] + [choose_layout(n * rows, columns, slots, masked=False).cost for n in range(1, count + 1)]
    # 2. n samples in any sets: the least over the first set's size, of which the largest is taken where several cost it
    cheapest, pieces = [0.0], [0]
    for n in range(1, count + 1):
        piece = min(range(n, 0, -1), key=lambda p: costs[p] + cheapest[n - p])
        cheapest.append(costs[piece] + cheapest[n - piece])
        pieces.append(piece)
    return pieces[count]


def parse_shard(text: str | None) -> tuple[int, int]:
    """'2/3' -> (2, 3), the second of three; None -> (1, 1)."""
    if text is None:
        return 1, 1
    match = re.fullmatch(r"(\d+)/(\d+)", str(text))
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"he.shard must be i/n with 1 <= i <= n, and {text!r} was given")
    return int(match[1]), int(match[2])


def checked_share(share: object) -> float:
    """he.agreement checked: a share of the samples."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise UserError(f"he.agreement must be a share of the samples, from 0 to 1, and {share!r} was given")
    return float(share)


def shard_of(batches: list[list[int]], shard: tuple[int, int]) -> list[list[int]]:
    """Every n-th batch from the i-th on: of longest-first batches each shard gets about the same work.

    UserError where there are fewer batches than shards: some would get none, and the others could never be merged.
    """
    first, every = shard
    if len(batches) < every:
        raise UserError(
            f"he.shard={first}/{every} needs at least {every} batches, one a shard, and there are {len(batches)}: "
            "fewer shards do, and a smaller he.batch makes more batches"
        )
    return batches[first - 1 :: every]
