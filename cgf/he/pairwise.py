"""Items combined two by two, as sums and other folds of ciphertexts are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def pairwise(items: list[T], combine: Callable[[T, T], T]) -> T:
    """One or more items combined two by two, so that halves can be worked on side by side."""
    while len(items) > 1:
        pairs = [combine(a, b) for a, b in zip(items[::2], items[1::2], strict=False)]
        items = pairs + ([items[-1]] if len(items) % 2 else [])
    return items[0]
