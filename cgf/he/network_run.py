"""One set of samples through a whole network: encrypted, computed on stage by stage, and the logits decrypted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cgf.he.engines.count import Counting
from cgf.he.engines.engine import Engine, KeyHolder, decrypt_all, encrypt_all
from cgf.he.network_circuit import LOGITS
from cgf.he.network_maps import State
from cgf.he.network_needs import NetworkCost
from cgf.he.side_by_side import processor_s
from cgf.he.stages import rounds, run_round
from cgf.types import Ciphertext, Json


@dataclass
class NetworkRecord:
    """What was seen of one set.

    levels    that the ciphertexts lost;  counted: those of the dry run;  slots: of the ring
    stages    (name, wall seconds, CPU seconds) in order, encryption first and decryption last
    bytes_up, bytes_down, key_bytes  serialized, of a set and of the evaluation keys; None where nothing is encrypted
    overflow  slots of the simulator beyond what a ciphertext holds
    """

    levels: int
    counted: int
    slots: int
    samples: int
    stages: list[tuple[str, float, float]] = field(default_factory=list)
    ops: dict[str, int] = field(default_factory=dict)
    bytes_up: int | None = None
    bytes_down: int | None = None
    key_bytes: int | None = None
    overflow: int = 0

    @property
    def core_s(self) -> float:
        """CPU seconds of all stages, of client and server."""
        return sum(cpu for _, _, cpu in self.stages)

    def to_json(self) -> Json:
        """As a line of an evaluation holds it."""
        return {**vars(self), "stages": [list(stage) for stage in self.stages]}


class _Clock:
    """Wall and CPU seconds since the last call, of this process and those that it has waited for."""

    def __init__(self) -> None:
        self._last = time.perf_counter(), processor_s()

    def __call__(self) -> tuple[float, float]:
        now = time.perf_counter(), processor_s()
        before, self._last = self._last, now
        return now[0] - before[0], now[1] - before[1]


def run(
    needs: NetworkCost, owner: KeyHolder, evaluator: Engine, features: np.ndarray, processes: int = 1
) -> tuple[np.ndarray, NetworkRecord]:
    """Logits (B, classes) of prepared features (B, tokens, features), B at most the set's samples, and what was seen.

    1. The key holder encrypts the features.  2. The evaluator runs stage by stage, or by so many processes, which share
    heads and features out (cgf.he.stages.run_round).  3. The key holder decrypts the logits. Nothing is decrypted
    between. Stages that ran side by side are told with equal shares of their seconds.
    """
    circuit, engine = needs.circuit, Counting(evaluator)
    record = NetworkRecord(0, needs.levels, circuit.layout.slots, len(features))
    lap = _Clock()
    state: State = {
        name: encrypt_all(owner, vectors, needs.max_level) for name, vectors in circuit.packed(features).items()
    }
    record.stages.append(("encrypt", *lap()))
    record.bytes_up = _bytes(owner, evaluator, [ct for cts in state.values() for ct in cts])
    lap()
    for together in rounds(circuit.stages(), processes):
        state = run_round(together, engine, evaluator, state, processes)
        wall, cpu = lap()
        record.stages += [(stage.name, wall / len(together), cpu / len(together)) for stage in together]
    answers = state[LOGITS]
    record.levels = needs.max_level - min(map(engine.level, answers))
    record.bytes_down = _bytes(owner, evaluator, answers)
    lap()
    slots = decrypt_all(owner, answers)
    record.stages.append(("decrypt", *lap()))
    record.ops = {kind: count for kind, count in Counter(engine.ops).items() if count}
    record.overflow = getattr(evaluator, "beyond", 0)
    record.key_bytes = _key_bytes(owner, needs)
    return circuit.logits(slots, len(features)), record


def _bytes(owner: KeyHolder, evaluator: Engine, cts: Sequence[Ciphertext]) -> int | None:
    """Serialized size of ciphertexts of one level; None where the engine hands none out, or encrypts nothing."""
    dump = getattr(evaluator, "dump", None)
    return None if dump is None or not owner.library.encrypts else len(dump(cts[0])) * len(cts)


def _key_bytes(owner: KeyHolder, needs: NetworkCost) -> int | None:
    """Of the relinearization key and the rotation keys; None where the owner does not tell."""
    sizes = getattr(owner, "key_bytes", None)
    if sizes is None:
        return None
    each = sizes()
    return int(each["relinearize"] + len(needs.rotations) * each["rotate"])
