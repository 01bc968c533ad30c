"""One set of ciphertexts of a whole attention: encrypted, computed on and decrypted, one block of queries at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from cgf.he.attention import AttentionCost, AttentionTask, Block, Meeting, Scales, circuit_of, complex_pairs, outputs_of
from cgf.he.circuits import Circuit
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import Ciphertext, Engine, KeyHolder, decrypt_all
from cgf.he.laps import Laps
from cgf.he.layer_record import LayerRecord
from cgf.network.attention import DISTANCE, score_of
from cgf.softmax.base import Softmax


def run(
    needs: AttentionCost, owner: KeyHolder, evaluator: Engine, softmax: Softmax, task: AttentionTask
) -> tuple[np.ndarray, LayerRecord]:
    """Outputs (I, Q, E) of the chosen instances, and what was seen.

    1. The owner encrypts keys and values, feature by feature; the evaluator prepares them.
    2. For each block of queries: the owner encrypts it, the evaluator computes its outputs, the owner decrypts them. So
       the ciphertexts of one block alone are held beside those of keys and values.
    """
    engine, lap = Counting(evaluator), Laps()
    score, blocks = score_of(softmax), task.blocks
    circuits = {block.kind: circuit_of(softmax, block, needs.style) for block in blocks}
    scales = Scales.of(task.heads.scaling, circuits[blocks[-1].kind], score, task.pairs)
    query, key, value = task.heads.flat(task.chosen)
    if task.zeroed is not None:
        gone = task.zeroed[:, : task.keys, None]
        key, value = np.where(gone, 0.0, key), np.where(gone, 0.0, value)
    encrypt = _encrypter(owner, engine, lap)
    keys = _columns(task, key * scales.keys, 1.0, lambda vector: encrypt(vector, needs.input_level))
    values = _columns(task, value, 1.0, lambda vector: encrypt(vector, needs.value_level))
    norms = [engine.relinearize(engine.dot(k, k)) for k in keys] if score == DISTANCE else []
    lap("circuit")
    outputs = np.zeros((*query.shape[:2], value.shape[2]))
    lowest, names = needs.input_level, Counter[str]()
    for block in blocks:
        # circuits of masked rows carry the rows' own counts: made anew where two blocks differ
        circuit = circuits[block.kind] if block.rows.valid is None else circuit_of(softmax, block, needs.style)
        own = query[:, block.queries] * scales.queries(circuit)
        own = complex_pairs(own, -1.0) if task.pairs else own
        vectors = [task.tile.pack_queries(own[..., x]) for x in range(own.shape[-1])]
        lap("pack")
        met = [keys[c] for c in block.columns]
        meeting = Meeting(
            engine,
            block,
            task.tile,
            [encrypt(vector, needs.input_level) for vector in vectors],
            met,
            task.pairs,
            [norms[c] for c in block.columns] if norms else (),
        )
        answers = list(outputs_of(meeting, softmax, circuit, [values[c] for c in block.columns]))
        del meeting
        lowest = min(lowest, *map(engine.level, answers))
        lap("circuit")
        _open(owner, answers, task, block, circuit, outputs)
        lap("decrypt")
        names[circuit.style] += block.rows.counts.astype(int).sum()
    return outputs, LayerRecord(
        levels=needs.input_level - lowest,
        levels_counted=needs.levels,
        slots={task.tile.slots},
        ops=Counter({kind: n for kind, n in engine.ops.items() if n}),
        seconds=Counter({**engine.seconds, **lap.seconds}),
        circuits=names,
        layouts=Counter([str(task.tile)]),
        overflow=getattr(evaluator, "beyond", 0),
    )


def _encrypter(owner: KeyHolder, engine: Counting, lap: Laps) -> Callable[[np.ndarray, int], Ciphertext]:
    """Encrypts a vector for the owner, and prepares it for the evaluator; seconds of each go to its own."""

    def encrypt(vector: np.ndarray, level: int) -> Ciphertext:
        lap("pack")
        ct = owner.encrypt(vector, level)
        lap("encrypt")
        prepared = engine.prepare(ct)
        lap("circuit")
        return prepared

    return encrypt


def _columns(
    task: AttentionTask, array: np.ndarray, sign: float, encrypt: Callable[[np.ndarray], Ciphertext]
) -> list[list[Ciphertext]]:
    """Of keys or values (I, K, D): of each column of keys a ciphertext a feature, or pair of features."""
    tile = task.tile
    array = complex_pairs(array, sign) if task.pairs else array
    return [
        [encrypt(tile.pack_keys(array[:, c * tile.b : (c + 1) * tile.b, x])) for x in range(array.shape[-1])]
        for c in range(tile.columns(task.keys))
    ]


def _open(
    owner: KeyHolder,
    answers: list[Ciphertext],
    task: AttentionTask,
    block: Block,
    circuit: Circuit,
    outputs: np.ndarray,
) -> None:
    """A block's decrypted outputs, times the circuit's public scale, in their places of ``outputs``."""
    queries = np.unique(block.queries)  # the last block repeats its last query
    features = outputs.shape[2]
    if task.pairs:
        parts = [part for pair in decrypt_all(owner, answers, pairs=True) for part in pair]
    else:
        parts = decrypt_all(owner, answers)
    for feature, slots in enumerate(parts[:features]):  # an odd last feature had no partner
        outputs[:, queries, feature] = task.tile.unpack(slots)[:, : len(queries)] * circuit.output_scale
