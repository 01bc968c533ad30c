"""Seconds and key sizes of a circuit before it runs: operations of the dry run times a table of their times."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from cgf.approx.exponential import Exponential
from cgf.approx.head_chain import HeadChain
from cgf.checks import one_of, whole
from cgf.he.dryrun import CircuitCost, depth, dry_run
from cgf.he.engines.engine import RINGS
from cgf.he.row_sets import blocks_of
from cgf.he.score_rows import Rows
from cgf.plan.op_times import OpTimes
from cgf.softmax.base import ExponentialSoftmax
from cgf.softmax.cgf import CGF

MASKS = ("full", "causal", "padding")
MASK_OF = {"full": "full", "masked": "causal"}  # where the kind of the rows is known and no more
FEW = 16  # rows and columns of a dry run for levels alone: a power of two, so that no column is there for padding
SECOND_ORDER = CGF()  # CGF-softmax of two cumulants, for whoever plans without a model
SHORTEST = 0.75  # padding: rows between this share of the columns and all of them, as an evaluation batches texts


@dataclass(frozen=True)
class PredictedCost:
    """Seconds of the three parts of a softmax under CKKS, and MiB of its evaluation keys."""

    circuit_s: float
    encrypt_s: float
    decrypt_s: float
    key_mib: float

    @property
    def total_s(self) -> float:
        """Seconds from scores to weights, one part after another."""
        return self.circuit_s + self.encrypt_s + self.decrypt_s


def predict(blocks: list[CircuitCost], times: OpTimes) -> PredictedCost:
    """Seconds of all blocks, one after another, and the keys that serve them all.

    What a circuit does beside its operations (masks, vectors) is not counted: a few per cent. Two results are
    decrypted as one; a result of three polynomials as if it were relinearized first, which takes a little longer.
    Keys: one for relinearization, one for each rotation step, for each size of engine.
    """
    circuit = encrypt = decrypt = 0.0
    steps: dict[int, frozenset[int]] = {}
    for needs in blocks:
        top, cts = needs.max_level, needs.layout.ciphertexts
        circuit += sum(n * times.ms(kind, top, level) for (kind, level), n in needs.by_level.items())
        encrypt += cts * times.ms("encrypt", top, top)
        decrypt += -(-cts // 2) * sum(
            times.ms(kind, top, top - needs.levels) for kind in ("decrypt", "relinearize")[: needs.polynomials - 1]
        )
        steps[top] = steps.get(top, frozenset()) | needs.rotations
    keys = sum(
        times.key_bytes("relinearize", top) + len(s) * times.key_bytes("rotate", top) for top, s in steps.items()
    )
    return PredictedCost(circuit / 1e3, encrypt / 1e3, decrypt / 1e3, keys / 2**20)


def mask_rows(mask: str, rows: int, columns: int, start: int = 0, stop: int | None = None) -> Rows:
    """Rows start .. stop of a kind of mask: their counts and where their entries are valid.

    full     every entry counts
    causal   row r has its first r mod columns + 1 entries
    padding  row r has its first entries, from SHORTEST of the columns to all of them, evenly over the rows
    """
    one_of("mask", mask, MASKS)
    whole("rows", rows, 1), whole("columns", columns, 1)
    index = np.arange(start, rows if stop is None else stop)
    shape = (1, 1, rows, columns)
    if mask == "full":
        return Rows(shape, start, None, np.full(len(index), float(columns)))
    counts = index % columns + 1
    if mask == "padding":
        counts = np.ceil(columns * (SHORTEST + (1 - SHORTEST) * (index + 1) / rows)).astype(int)
    return Rows(shape, start, np.arange(columns) < counts[:, None], counts.astype(np.float64))


def with_exponential(softmax: ExponentialSoftmax, exponential: Exponential) -> ExponentialSoftmax:
    """The softmax with this stand-in for exp; the one given keeps its own."""
    other = copy.copy(softmax)
    other.exponential = exponential
    return other


def levels_of(exponential: Exponential, row_kind: str, softmax: ExponentialSoftmax = SECOND_ORDER) -> int:
    """Levels of the softmax's circuit with the exponential on full or masked rows, counted in a dry run of it.

    Of rows in a layout without padding columns: beside those, full rows take the circuit of masked ones. Chains of
    one layer's heads are of one scale and one count of squarings, so that the first stands for all.
    """
    exponential = exponential.chains[0] if isinstance(exponential, HeadChain) else exponential
    return depth(with_exponential(softmax, exponential), mask_rows(MASK_OF[row_kind], FEW, FEW), FEW).levels


def needs_of(
    exponential: Exponential,
    mask: str,
    rows: int,
    columns: int,
    *,
    softmax: ExponentialSoftmax = SECOND_ORDER,
    style: str = "folded",
) -> list[CircuitCost]:
    """Dry runs of the softmax with the exponential, one for each set of ciphertexts that the rows take.

    Sets as ``cgf.he.session.Session`` makes them: as many rows as the ring of the first rows has slots.
    """
    softmax = with_exponential(softmax, exponential)
    everything = mask_rows(mask, rows, columns)
    first = dry_run(softmax, mask_rows(mask, rows, columns, 0, min(rows, RINGS[0].slots)), columns, style)
    needs: list[CircuitCost] = []
    runs: dict[tuple[int, int, bytes | None], CircuitCost] = {}
    for block in blocks_of(rows, columns, first.layout.slots, everything.valid):
        valid = None if everything.valid is None else everything.valid[block.order, : block.columns]
        # blocks of one size and one mask differ in counts alone, which change no operation
        alike = len(block.order), block.columns, None if valid is None else valid.tobytes()
        if alike not in runs:
            facts = Rows(everything.shape, block.order, valid, everything.counts[block.order])
            runs[alike] = dry_run(softmax, facts, block.columns, style)
        needs.append(runs[alike])
    return needs
