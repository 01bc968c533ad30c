"""What a whole network needs, read off its circuit: levels, operations, keys and memory by stage, in a dry run."""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from cgf.errors import UserError
from cgf.he.alone_circuit import MASKS, AloneCircuit
from cgf.he.alone_layout import AloneLayout
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import ENDLESS, RINGS, Ring, ring_for
from cgf.he.engines.sim import OneSlot, SimCiphertext
from cgf.he.engines.wrapper import Wrapper
from cgf.he.network_circuit import NetworkCircuit
from cgf.he.network_layout import TokenLayout
from cgf.he.network_maps import State
from cgf.he.stages import add, rounds
from cgf.network.program import Program
from cgf.types import Ciphertext, Operand

# bytes of a ciphertext of two polynomials, a slot: measured with desilofhe 2.0.0 in three rings, within a fifth
BYTES, BYTES_PER_LEVEL = 90.0, 24.0


@dataclass(frozen=True)
class StageCost:
    """What a stage takes.

    level, left  of the highest ciphertext that goes in and of the lowest that comes out
    ops, by_level  operations by kind, and by (detail, level): see cgf.he.engines.count
    most_mib, kept_mib  of all ciphertexts that are held at once, and of those that go on to the next stage
    """

    name: str
    level: int
    left: int
    ops: dict[str, int]
    by_level: dict[tuple[str, int], int]
    most_mib: float
    kept_mib: float


@dataclass(frozen=True)
class NetworkCost:
    """A circuit with what it needs.

    levels     that the circuit takes, counted;  max_level: of the engine, and where features are encrypted
    encrypted, decrypted  ciphertexts of one set;  rotations: steps of its keys
    """

    circuit: NetworkCircuit | AloneCircuit
    levels: int
    max_level: int
    ring: Ring
    encrypted: int
    decrypted: int
    rotations: frozenset[int]
    stages: tuple[StageCost, ...]

    @property
    def samples(self) -> int:
        """Samples of one set."""
        return self.circuit.layout.samples

    @property
    def ops(self) -> dict[str, int]:
        """Operations of all stages, by kind."""
        total: Counter[str] = Counter()
        for stage in self.stages:
            total.update(stage.ops)
        return dict(total)

    @property
    def most_mib(self) -> float:
        """Ciphertexts of the stage that holds most."""
        return max(stage.most_mib for stage in self.stages)


def needs_of(program: Program, rings: tuple[Ring, ...] = RINGS, max_level: int | None = None) -> NetworkCost:
    """The circuit of a program in the smallest ring that holds it, with what it needs.

    max_level fixes the engine. Features are sent turned where the ring has no level to turn them in.
    Raises UserError where the levels do not suffice, or a sample does not fit a ciphertext.
    """
    levels = program.depth()
    if max_level is not None and max_level < levels:
        raise UserError(f"network '{program.name}' needs {levels} levels, and he.max_level={max_level} was given")
    if levels > rings[-1].max_level:
        raise UserError(
            f"network '{program.name}' needs {levels} levels, and the largest ring holds {rings[-1].max_level}: fewer "
            "squarings, or fewer blocks"
        )
    return _cost(program, ring_for(max_level or levels, rings), max_level or levels)


def alone_needs(program: Program, rings: tuple[Ring, ...] = RINGS, max_level: int | None = None) -> NetworkCost:
    """The circuit of one sample alone, in the smallest ring that holds it. UserError as ``needs_of``."""
    levels = program.depth() + MASKS
    if max_level is not None and max_level < levels:
        raise UserError(
            f"network '{program.name}' needs {levels} levels for a sample alone, and he.max_level={max_level} was given"
        )
    ring = ring_for(max_level or levels, rings)
    return dry_run(AloneCircuit(program, AloneLayout.of(program, ring.slots)), max_level or levels, ring)


def endless_needs(program: Program) -> NetworkCost:
    """The same without an end of levels, in the largest ring's slots: for what no ring holds."""
    return _cost(program, ENDLESS, program.depth())


def _cost(program: Program, ring: Ring, level: int) -> NetworkCost:
    circuit = NetworkCircuit(program, TokenLayout.of(program, ring.slots))
    if circuit.turns_inputs and level > ring.key_switch_level:
        circuit = replace(circuit, sent_turned=True)
    return dry_run(circuit, level, ring)


def dry_run(circuit: NetworkCircuit | AloneCircuit, max_level: int, ring: Ring) -> NetworkCost:
    """Every stage on one slot of zeros; what it uses is counted, and the memory of what it holds."""
    held = CountingMemory(OneSlot(max_level, rings=(ring,)), ring.slots)
    state = sent(circuit, held, max_level)
    stages: list[StageCost] = []
    rotations: set[int] = set()
    for stage in circuit.stages():
        level = max(ct.level for cts in state.values() for ct in cts)
        engine = Counting(held)
        held.most = held.now
        state = stage.run(engine, state)
        rotations |= engine.rotations
        left = min(ct.level for cts in state.values() for ct in cts)
        ops = {kind: count for kind, count in engine.ops.items() if count}
        by_level = dict(engine.by_level)
        stages.append(StageCost(stage.name, level, left, ops, by_level, held.most / 2**20, held.now / 2**20))
    (logits,) = state.values()
    return NetworkCost(
        circuit,
        max_level - min(ct.level for ct in logits),
        max_level,
        ring,
        circuit.program.features["x"] * len(circuit.sent),
        len(logits),
        frozenset(rotations),
        tuple(stages),
    )


def together_mib(needs: NetworkCost, processes: int) -> float:
    """MiB of the ciphertexts that so many processes hold at most that share a set out, what they share counted once.

    In each round: what is there, and on top of it what every work takes on its way, all at their largest at one time. A
    work frees nothing that is there, since the others read it.
    """
    circuit, held = needs.circuit, CountingMemory(OneSlot(needs.max_level, rings=(needs.ring,)), needs.ring.slots)
    state = sent(circuit, held, needs.max_level)
    most = 0.0
    for together in rounds(circuit.stages(), processes):
        held.most = held.now
        for stage in together:
            state = stage.before(held, state)
        most, there, own = max(most, held.most), held.now, 0.0
        made: list[State] = []
        for stage in together:
            for work in stage.works(1 if stage.beside else processes):
                start = held.most = held.now
                made.append(work(held, {name: list(cts) for name, cts in state.items()}))
                own += held.most - start
        most = max(most, there + own)
        held.most = held.now
        while made:
            add(state, made.pop(0))
        for stage in together:
            state = stage.after(held, state)
        most = max(most, held.most)
    return most / 2**20


def sent(circuit: NetworkCircuit | AloneCircuit, held: CountingMemory, level: int) -> State:
    """Fresh ciphertexts of every feature that a circuit reads."""
    return {name: [held.new(level) for _ in range(circuit.program.features["x"])] for name, _ in circuit.sent}


def size_of(slots: int, level: int) -> float:
    """Bytes of a ciphertext of two polynomials."""
    return slots * (BYTES + BYTES_PER_LEVEL * level)


class CountingMemory(Wrapper):
    """An engine of the simulator whose ciphertexts are counted as long as anything refers to them.

    now, most   bytes that real ones of so many slots would take; level: as if all were at it, None: each at its own
    """

    def __init__(self, engine: OneSlot, slots: int, level: int | None = None) -> None:
        self.engine, self._real, self._level = engine, slots, level
        self.slots, self.max_level, self.pairs = engine.slots, engine.max_level, engine.pairs
        self.refreshed = engine.refreshed
        self.now = self.most = 0.0

    def level(self, ct: SimCiphertext) -> int:
        """The level that a ciphertext carries."""
        return ct.level

    def polynomials(self, ct: SimCiphertext) -> int:
        """The count of polynomials that a ciphertext carries."""
        return ct.polynomials

    def new(self, level: int) -> SimCiphertext:
        """A fresh ciphertext."""
        return self._kept(SimCiphertext(np.zeros(1), level))

    def _apply(self, name: str, *operands: Operand) -> Ciphertext:
        result = getattr(self.engine, name)(*operands)
        if any(result is operand for operand in operands):  # a real engine makes a new one
            result = replace(result)
        return self._kept(result)

    def _kept(self, ct: SimCiphertext) -> SimCiphertext:
        size = size_of(self._real, ct.level if self._level is None else self._level) * ct.polynomials / 2
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(ct, self._gone, size)
        return ct

    def _gone(self, size: float) -> None:
        self.now -= size
