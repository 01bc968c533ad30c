"""What a circuit needs, read off the circuit itself: levels, operations, rotation keys, ring."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from cgf.errors import UserError
from cgf.he.circuits import Circuit, circuit_for
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import BOOTSTRAPPABLE, ENDLESS, RINGS, Ring
from cgf.he.engines.rules import OutOfLevels
from cgf.he.engines.sim import OneSlot, SimCiphertext
from cgf.he.layout import Layout, choose_layout
from cgf.he.packed import Packed
from cgf.he.score_rows import Rows
from cgf.softmax.base import Softmax

SPARSE = 2  # times the fewest ciphertexts, to be without padding columns


@dataclass(frozen=True)
class CircuitCost:
    """Levels from encryption to the result, the engine size that holds them, and the operations."""

    layout: Layout
    circuit: Circuit
    max_level: int  # of the engine; above `levels` where the first operation is a key switch at the top
    levels: int
    polynomials: int  # of the result: three where the last product is left to decryption
    ops: dict[str, int]
    by_level: dict[tuple[str, int], int]  # operations by (detail, level), see cgf.he.engines.count
    rotations: frozenset[int]
    bootstrap: bool = False  # the engine must bootstrap


def dry_run(
    softmax: Softmax,
    rows: Rows,
    columns: int,
    style: str,
    max_level: int | None = None,
    rings: tuple[Ring, ...] = RINGS,
) -> CircuitCost:
    """The needs of a softmax on such rows in the smallest ring that holds it.

    The circuit runs on the simulator, on one slot of zero for all: levels and operations do not depend on the data.
    max_level fixes the engine; rings are those of its library. Raises UserError with need and have if the levels
    do not suffice.
    """
    # 1. an engine of a given size: it holds the circuit, or the sentence says which size would
    if max_level is not None:
        needs = _fitted(softmax, rows, columns, style, max_level, rings)
        if needs is None:
            least = dry_run(softmax, rows, columns, style, rings=rings).max_level
            raise UserError(f"the circuit needs an engine of {least} levels, and he.max_level={max_level}")
        return needs
    # 2. the rings from the smallest on, each at its full size, until one holds the circuit
    for ring in rings:
        needs = _fitted(softmax, rows, columns, style, ring.max_level, rings)
        if needs is not None:
            # 3. within that ring the fewest levels; the one that bootstraps is built at its full size alone
            full = ring == BOOTSTRAPPABLE
            return needs if full else _fewest_levels(softmax, rows, columns, style, needs=needs, rings=rings)
    # 4. no ring holds it: the one whose ciphertexts can be refreshed
    needs = None
    if rings == RINGS:  # of the one library here that bootstraps
        level, only = BOOTSTRAPPABLE.max_level, (BOOTSTRAPPABLE,)
        needs = _try(softmax, rows, columns, style, max_level=level, rings=only)
    if needs is None:
        raise UserError(
            f"the circuit needs more levels than the largest ring holds ({rings[-1].max_level}), and does not bootstrap"
        )
    return needs


def depth(softmax: Softmax, rows: Rows, columns: int, style: str = "folded") -> CircuitCost:
    """Levels and operations of a circuit as if no ring ended: its multiplicative depth, in 32,768 slots."""
    needs = _try(softmax, rows, columns, style, max_level=ENDLESS.max_level, rings=(ENDLESS,))
    assert needs is not None
    return needs


def _fitted(
    softmax: Softmax, rows: Rows, columns: int, style: str, max_level: int, rings: tuple[Ring, ...]
) -> CircuitCost | None:
    """With padding columns where they save time; without, at up to twice the ciphertexts, before a larger ring."""
    attempt = functools.partial(_try, softmax, rows, columns, style, max_level=max_level, rings=rings)
    return attempt() or attempt(sparse=True)


def _fewest_levels(
    softmax: Softmax, rows: Rows, columns: int, style: str, *, needs: CircuitCost, rings: tuple[Ring, ...]
) -> CircuitCost:
    """The needs in the smallest engine of the ring at whose full size they are ``needs``, padding columns as there.

    Tried from one level below those that were used on: where a key switch at the top of the ring costs a level, an
    engine of one level less needs one less.
    """
    least, sparse = max(needs.levels - 1, _below(needs.max_level, rings) + 1), needs.layout.padding_columns == 0
    for level in range(least, needs.max_level):
        if smaller := _try(softmax, rows, columns, style, max_level=level, rings=rings, sparse=sparse):
            return smaller
    return needs


def _below(max_level: int, rings: tuple[Ring, ...]) -> int:
    """The most levels of the next smaller ring (0 for the smallest)."""
    return max([r.max_level for r in rings if r.max_level < max_level], default=0)


def _try(
    softmax: Softmax,
    rows: Rows,
    columns: int,
    style: str,
    *,
    max_level: int,
    rings: tuple[Ring, ...],
    sparse: bool = False,
) -> CircuitCost | None:
    """The needs in an engine of so many levels; None where rows or levels do not fit.

    sparse  no padding columns, at up to SPARSE times the fewest ciphertexts
    """
    # beside padding columns stands the masked circuit, whatever style was asked for
    most = SPARSE if sparse or style != "folded" else None
    engine = Counting(OneSlot(max_level, rings=rings))
    if len(rows.counts) > engine.slots:
        return None
    masked = rows.valid is not None or rows.uniform is None
    layout = choose_layout(len(rows.counts), columns, engine.slots, masked, most)
    circuit = circuit_for(softmax, rows, layout.padding_columns > 0, style)
    cts = tuple(SimCiphertext(np.zeros(1), max_level) for _ in range(layout.ciphertexts))
    try:
        result = circuit.run(Packed(engine, layout, rows, cts))
    except OutOfLevels:
        return None
    levels, polynomials = max_level - result.level, max(map(engine.polynomials, result.cts))
    return CircuitCost(
        layout,
        circuit,
        max_level,
        levels,
        polynomials,
        dict(engine.ops),
        dict(engine.by_level),
        frozenset(engine.rotations),
        rings == (BOOTSTRAPPABLE,),
    )
