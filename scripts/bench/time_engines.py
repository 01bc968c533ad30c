"""Milliseconds and error of single operations, engine by engine: python scripts/bench/time_engines.py [levels ...]

Values are uniform in [-1, 1]; each time is the least of five runs after one that is not counted. Threads are those
of OMP_NUM_THREADS for OpenFHE and one for desilofhe. Engines whose library is not installed are left out, with a line.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.engine import Owner
from cgf.he.engines.openfhe import OPENFHE_RINGS, OpenFHEOwner

ENGINES: dict[str, Callable[[int], Owner]] = {
    "desilo": lambda levels: DesiloOwner(levels, mode="cpu"),
    "openfhe": lambda levels: OpenFHEOwner(levels),
}


def least_ms(operation: Callable[[], object]) -> float:
    """Milliseconds of an operation: the least of five, after one that does not count."""
    times = []
    for _ in range(6):
        start = time.perf_counter()
        operation()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times[1:])


def line(name: str, owner: Owner) -> str:
    """Milliseconds of single operations on one engine, and the error of a square, as a line of text."""
    levels, x = owner.max_level, np.random.default_rng(0).uniform(-1, 1, owner.slots)
    engine, ct = owner.evaluator(frozenset({1})), owner.encrypt(x, owner.max_level)
    operations = {
        "add": lambda: engine.add(ct, ct),
        "float": lambda: engine.mul(ct, 0.3),
        "vector": lambda: engine.mul(ct, x),
        "square+relinearize": lambda: engine.relinearize(engine.square(ct)),
        "rotate": lambda: engine.rotate(ct, 1),
        "encrypt": lambda: owner.encrypt(x, levels),
        "decrypt": lambda: owner.decrypt(ct),
    }
    times = ", ".join(f"{what} {least_ms(operation):.1f}" for what, operation in operations.items())
    error = np.abs(owner.decrypt(operations["square+relinearize"]()) - x**2).max()
    return f"{name}, {levels} levels, {owner.slots} slots, ms: {times}; error of a square {error:.1e}"


def main(levels: list[int]) -> None:
    """Times every engine that is there and prints a line for each, at each number of levels."""
    print("openfhe, slots and the most levels:", ", ".join(f"{r.slots}: {r.max_level}" for r in OPENFHE_RINGS))
    for count in levels:
        for name, make in ENGINES.items():
            try:
                print(line(name, make(count)), flush=True)
            except UserError as error:
                print(f"skipped: {error}", flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [4, 7, 10])
