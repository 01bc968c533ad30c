"""Threads that share out operations on one engine: ciphertexts that no two of them hold at the same time.

The library lets go of Python's lock while it computes. An operation of desilofhe may touch what it is given, so that a
ciphertext that two threads work on at once can be ruined: whoever shares work out gives each piece its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from cgf.checks import whole
from cgf.he.engines.engine import Engine

MOST = 64  # threads
AT_ONCE = 8  # items that are taken from a list for each thread, so that what waits takes little memory
T = TypeVar("T")
R = TypeVar("R")


class Threads:
    """``count`` threads, the caller's among them."""

    def __init__(self, count: int) -> None:
        self.count = whole("he.owner.threads", count, 1, MOST)
        self._pool = ThreadPoolExecutor(max(1, count - 1), "ciphertexts")
        self._own = threading.local()

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """``work`` of each item, in order; some at a time, so that items may be made as they are needed.

        Work that shares out work of its own does all of it itself: its thread would wait for a thread.
        """
        left = iter(items)
        while some := list(islice(left, AT_ONCE * self.count)):
            yield from self._all(work, some)

    def _all(self, work: Callable[[T], R], items: list[T]) -> list[R]:
        if len(items) < 2 or self.count < 2 or getattr(self._own, "busy", False):
            return [work(item) for item in items]
        done: dict[int, R] = {}
        places, lock = iter(range(len(items))), threading.Lock()

        def share() -> None:
            self._own.busy = True
            try:
                while True:
                    with lock:
                        place = next(places, None)
                    if place is None:
                        return
                    done[place] = work(items[place])
            finally:
                self._own.busy = False

        others = [self._pool.submit(share) for _ in range(min(self.count, len(items)) - 1)]
        try:
            share()
        finally:
            with lock:
                for _ in places:  # after an error nothing more is begun
                    pass
            for other in others:
                other.result()
        return [done[place] for place in range(len(items))]


def each(engine: Engine, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """``work`` of each item in order, by as many threads as the engine has.

    Work on one item may share no ciphertext with work on another, but for keys.
    """
    several = getattr(engine, "each", None)
    return map(work, items) if several is None else several(work, items)
