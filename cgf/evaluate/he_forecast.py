"""Minutes and memory of an encrypted evaluation before it starts: dry runs of its circuits and a table of times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cgf.he.dryrun import CircuitCost
from cgf.he.row_sets import blocks_of
from cgf.he.score_rows import Rows
from cgf.he.session import Session
from cgf.memory import available_gib
from cgf.plan.cost import predict
from cgf.plan.op_times import OpTimes
from cgf.progress import duration
from cgf.softmax.base import Softmax

LOOKED_AT = 6  # batches whose circuits are run dry; the others take by their work
PROCESS_MIB = 130.0  # of a process with numpy and an engine, before any ciphertext (measured, 8,192 slots)
COPIES = 4.0  # ciphertexts held at a time, in multiples of a set's (measured: 3.9 of 64 columns, 5.5 of 16)
LONG_S = 1800.0  # an evaluation that takes longer is told how to take less


@dataclass(frozen=True)
class Forecast:
    """Predicted seconds by the clock, and MiB of the processes that compute, beside that of the model.

    Seconds are those of the processor that the table was measured on (docs/limits.md says how near they were).
    free_gib: what the machine has.
    """

    seconds: float
    mib: float
    workers: int
    free_gib: float | None

    def sentences(self) -> list[str]:
        """What to expect, and what to change where that is much."""
        said = [
            f"predicted: about {duration(self.seconds)} and {self.mib / 1024:.1f} GiB of memory "
            f"by {self.workers} worker{'s' if self.workers > 1 else ''}, from operation times of free cores"
        ]
        if self.free_gib is not None and self.mib / 1024 > self.free_gib:
            fewer = "he.workers=1, or " if self.workers > 1 else ""
            said.append(f"that is more than the {self.free_gib:.1f} GiB that are free: {fewer}he.rows_at_once=2048")
        if self.seconds > LONG_S:
            said.append("less time: he.samples=20, more he.workers, or he.shard=1/4 and so on, one a machine")
        return said


def batch_rows(lengths: Sequence[int] | None, count: int, heads: int, queries: int, mask: str) -> Rows:
    """The rows (R,) that a batch of ``count`` samples gives to a layer; lengths of its texts, None: images.

    mask: of the host, see cgf.models.host.Host.mask. The padding of full rows' texts is none: they are of one length.
    Layers with a window count as if they had none, which costs more at most.
    """
    rows = count * heads * queries
    shape = (count, heads, queries, queries)
    if mask == "full":
        return Rows(shape, 0, None, np.full(rows, float(queries)))
    own = np.repeat(np.full(count, queries) if lengths is None else np.asarray(lengths), heads)
    seen = np.arange(1, queries + 1) if mask == "causal" else np.full(queries, queries)
    counts = np.minimum(seen, own[:, None]).reshape(-1)
    return Rows(shape, 0, np.arange(queries) < counts[:, None], counts.astype(np.float64))


def costs_of(session: Session, softmax: Softmax, rows: Rows) -> list[CircuitCost]:
    """A dry run for each set of ciphertexts that the rows take, as the session makes them."""
    columns = rows.shape[3]
    slots = session.slots(softmax, rows.valid, rows.counts, rows.shape, columns)
    needs = []
    for block in blocks_of(len(rows.counts), columns, slots, rows.valid, session.parts):
        valid = None if rows.valid is None else rows.valid[block.order, : block.columns]
        part = Rows(rows.shape, block.order, valid, rows.counts[block.order])
        needs.append(session.needs(softmax, part, block.columns))
    return needs


def forecast(
    session: Session,
    softmaxes: Sequence[Softmax],
    batches: Sequence[list[int]],
    rows_of: Callable[[list[int]], list[Rows]],
    work: Callable[[list[int]], int],
    times: OpTimes,
) -> Forecast | None:
    """Of the batches (indices of samples); None where a circuit bootstraps, which the table has no times of.

    rows_of  the rows of each kind of layer for a batch, the layers being shared out evenly among the kinds
    work     of a batch, by which those that are not looked at are told from those that are
    """
    chosen = [batches[i] for i in sorted({round(x) for x in np.linspace(0, len(batches) - 1, LOOKED_AT)})]
    seconds, looked_at, costs = 0.0, 0, list[CircuitCost]()
    for batch in chosen:
        kinds = rows_of(batch)
        for rows in kinds:
            needs = costs_of(session, softmaxes[0], rows)
            if any(cost.bootstrap for cost in needs):
                return None
            seconds += predict(needs, times).total_s * len(softmaxes) / len(kinds)
            costs += needs
        looked_at += work(batch)
    seconds *= sum(map(work, batches)) / looked_at
    workers = session.workers
    held = max(c.layout.ciphertexts * 32 * c.layout.slots * (c.max_level + 1) for c in costs) / 2**20
    mib = workers * (PROCESS_MIB + predict(costs, times).key_mib + COPIES * held)
    return Forecast(seconds / workers, mib, workers, available_gib())
