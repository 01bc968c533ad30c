"""A batch in pieces, for gradients that accumulate where a whole batch does not fit the memory."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor


def pieces(batch: dict[str, Tensor], count: int) -> Iterator[tuple[dict[str, Tensor], float]]:
    """(piece, its share of the samples), at most ``count`` of nearly one size; each tensor is split at its samples.

    The mean over samples is the sum of share * mean over the piece, so losses that are such means, and their
    gradients, are those of the whole batch. What takes a maximum over the batch (BPMax, worst rows) sees a piece.
    """
    samples = len(next(iter(batch.values())))
    size = -(-samples // count)
    for start in range(0, samples, size):
        part = {k: v[start : start + size] for k, v in batch.items()}
        yield part, min(size, samples - start) / samples
