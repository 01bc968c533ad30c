"""What a network needs that has more levels than the ring that bootstraps: an estimate, no circuit.

A refreshed ciphertext has the levels of that ring but for one, which it is scaled by. They are used again and again.
"""

from __future__ import annotations

from cgf.he.engines.engine import BOOTSTRAPPABLE

USABLE = BOOTSTRAPPABLE.max_level - 1  # levels between two refreshes


def refreshes(levels: int) -> int:
    """Refreshes of one ciphertext that goes through ``levels`` levels; it begins with those of the ring."""
    return max(0, -(-(levels - BOOTSTRAPPABLE.max_level) // USABLE))


def refreshed_level(level: int) -> int:
    """The level of the ring at which an operation runs that a ring without end would run at ``level``."""
    return 1 + level % USABLE
