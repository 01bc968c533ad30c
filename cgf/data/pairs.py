"""Pairs of texts as one text: the two are joined by a mark that no text holds, and parted before they are tokenised."""

from __future__ import annotations

from collections.abc import Sequence

MARK = "\x1f"  # ASCII's unit separator


def joined(first: str, second: str) -> str:
    """Two texts as one; a mark within either becomes a blank."""
    return f"{first.replace(MARK, ' ')}{MARK}{second.replace(MARK, ' ')}"


def parted(texts: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """First texts and second texts; None for the second where there is no pair."""
    if not texts or MARK not in texts[0]:
        return list(texts), None
    pairs = [text.split(MARK, 1) for text in texts]
    return [first for first, _ in pairs], [second for _, second in pairs]
