"""What goes from the party that evaluates to the owner: two real results in one complex ciphertext."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cgf.he.engines.engine import Engine, KeyHolder, decrypt_all
from cgf.types import Ciphertext


def join_pairs(engine: Engine, cts: Sequence[Ciphertext]) -> list[Ciphertext]:
    """a + i b for each two results a, b, where the engine's slots are complex; a last one without a partner as it is.

    Halves the decryptions. Results stay unrelinearized: decryption takes three polynomials, and for those times_i is
    cheapest.
    """
    if not engine.pairs:
        return list(cts)
    alone = cts[len(cts) - len(cts) % 2 :]
    return [engine.add(a, engine.times_i(b)) for a, b in zip(cts[::2], cts[1::2], strict=False)] + list(alone)


def open_pairs(owner: KeyHolder, cts: Sequence[Ciphertext], count: int) -> list[np.ndarray]:
    """The slots (slots,) of ``count`` real results that ``join_pairs`` joined, in their order."""
    pairs = count - len(cts)
    both = decrypt_all(owner, cts[:pairs], pairs=True)
    return [part for pair in both for part in pair] + decrypt_all(owner, cts[pairs:])
