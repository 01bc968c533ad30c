"""Evaluation under CKKS: every softmax of chosen samples through ciphertexts, stopped and resumed at will."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cgf.errors import UserError
from cgf.evaluate import Outcome, batches_by_length, batches_of_one_length, evaluate
from cgf.he.encrypted import Encrypted, LayerRecord, Session, flatten
from cgf.he.packed import Rows
from cgf.results import append_line, read_lines
from cgf.softmax.base import Softmax

ALIKE = (3, 4)  # a text is at least 3/4 as long as the longest of its batch, or waits for another

def chosen_samples(total: int, count: int | None, seed: int) -> list[int]:
    """The first ``count`` of a fixed permutation of the split, so that fewer samples are a subset of more."""
    if count is not None and not (isinstance(count, int) and count >= 1):
        raise UserError(f"samples must be a whole number of at least 1, and {count!r} was given")
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed)).tolist()
    return sorted(order[: total if count is None else min(count, total)])


@dataclass
class ShapeProbe:
    """Stands in for a softmax and notes the shape of its scores and whether a mask is at work."""

    softmax: Softmax
    shape: tuple[int, ...] = ()
    scores_seen: Any = None
    valid: Any = None
    training: bool = False
    layer: int = 0

    def scores(self, query: Any, key: Any, scaling: float) -> Any:
        return self.softmax.scores(query, key, scaling)

    def weights(self, scores: Any, valid: Any = None) -> Any:
        self.shape, self.scores_seen, self.valid = tuple(scores.shape), scores, valid
        return self.softmax.weights(scores, valid)


@dataclass
class EncryptedEvaluation:
    """One evaluation under CKKS.

    host       models.host.Host;  softmaxes: the host's own, with the polynomial in place
    installed  context manager (model, layer -> slot) that swaps the attention's softmax
    dataset, collate, indices: the samples;  lines: JSON lines of finished batches, to go on from
    digest     of all that the lines depend on: lines of another are not gone on with
    """

    host: Any
    softmaxes: list[Softmax]
    installed: Callable[..., Any]
    session: Session
    dataset: Any
    collate: Any
    indices: list[int]
    lines: Path
    digest: str = ""
    batch: int | None = None
    masked: bool = False  # rows have masks anyway (causal), so texts of different lengths share ciphertexts
    rows_at_once: int | None = None  # score rows of a layer that are under work together; None: slots times workers
    say: Callable[[str], None] = print

    def clear(self) -> Outcome:
        """The same samples through the same softmaxes in the clear."""
        return evaluate(self.host.model, self.host.logits, self.dataset, self.collate,
                        batches_by_length(self.dataset, 64, self.indices))

    def run(self) -> Outcome:
        """Evaluates what the lines file does not hold yet; the outcome covers all samples."""
        # a line holds its batch whole, so what a kill tears is one batch, dropped by read_lines
        done = {i for line in self._lines() for i in line["index"]}
        left = [i for i in self.indices if i not in done]
        if done:
            self.say(f"{len(done)} samples are done already ({self.lines})")
        batches = self._batches(left) if left else []
        if not done:  # none, or another evaluation's
            self.lines.unlink(missing_ok=True)
        start, finished = time.perf_counter(), 0
        for chosen in batches:
            slots: list[Encrypted] = []

            def make(layer: int, slots: list[Encrypted] = slots) -> Encrypted:
                slots.append(Encrypted(self.softmaxes[layer], self.session))
                return slots[-1]

            began = time.perf_counter()
            with self.installed(self.host.model, make):
                outcome = evaluate(self.host.model, self.host.logits, self.dataset, self.collate, [chosen])
            finished += len(chosen)
            line = _line(outcome, [s.record for s in slots], time.perf_counter() - began)
            append_line(self.lines, {**line, "digest": self.digest})
            rate = finished / (time.perf_counter() - start)
            self.say(f"{len(done) + finished}/{len(self.indices)} samples under CKKS, {rate:.2f} samples/s, "
                     f"{(len(left) - finished) / rate:.0f} s left")
        return self.outcome()

    def outcome(self) -> Outcome:
        """Predictions of the finished batches."""
        lines = self._lines()
        index = torch.tensor([i for line in lines for i in line["index"]])
        order = index.argsort()
        logits = torch.tensor([row for line in lines for row in line["logits"]])
        labels = torch.tensor([x for line in lines for x in line["label"]])
        return Outcome(logits[order], labels[order], index[order])

    def _lines(self) -> list[dict[str, Any]]:
        return [line for line in read_lines(self.lines) if line.get("digest") == self.digest]

    def _batches(self, left: list[int]) -> list[list[int]]:
        """Batches that fill the slots of a set of ciphertexts.

        Full rows: texts of one length together, which saves the mask's level. Rows with masks: texts of
        similar length, padded to the longest.
        """
        grouped = batches_by_length if self.masked else batches_of_one_length
        if self.batch is not None:
            return grouped(self.dataset, self.batch, left)
        if self.rows_at_once is not None and not (isinstance(self.rows_at_once, int) and self.rows_at_once >= 1):
            raise UserError(f"he.rows_at_once must be a whole number of at least 1 or null, and {self.rows_at_once!r} "
                            "was given")
        batches: list[list[int]] = []
        for group in grouped(self.dataset, len(left), left):
            while group:  # from the longest on: it decides how many fit
                heads, queries, slots = self._probe(group[-1])
                rows = self.rows_at_once or slots * self.session.workers
                size = min(max(1, rows // (heads * queries)), self._alike(group))
                batches.append(group[-size:])
                group = group[:-size]
        return batches

    def _alike(self, group: list[int]) -> int:
        """How many at the end of a group sorted by length are as long as the last, or nearly (ALIKE): the cost of
        a batch grows with rows times columns, and more padding than that costs more than another batch."""
        lengths = getattr(self.dataset, "lengths", None)
        if lengths is None:
            return len(group)
        least, most = ALIKE
        return sum(1 for i in group if most * lengths[i] >= least * lengths[group[-1]])

    def _probe(self, index: int) -> tuple[int, int, int]:
        """(heads, queries, slots of the ring) for samples like this one, by one pass in the clear."""
        probes: list[ShapeProbe] = []

        def make(layer: int) -> ShapeProbe:
            probes.append(ShapeProbe(self.softmaxes[layer]))
            return probes[-1]

        with self.installed(self.host.model, make):
            evaluate(self.host.model, self.host.logits, self.dataset, self.collate, [[index]])
        matrix, mask, counts, shape = flatten(probes[0].scores_seen, probes[0].valid)
        needs = self.session.needs(self.softmaxes[0], Rows(shape, 0, mask, counts), matrix.shape[1])
        return shape[1], shape[2], needs.layout.slots

    def metrics(self) -> dict[str, Any]:
        """Levels, operations, seconds and errors over all finished batches and layers."""
        lines = self._lines()
        records = [row for line in lines for row in line["layers"]]
        ops, seconds = Counter(), Counter()  # type: ignore[var-annotated]
        for row in records:
            ops.update(row["ops"])
            seconds.update(row["seconds"])
        entries = sum(row["entries"] for row in records)
        has_domain = all(row["low"] is not None for row in records)
        slots = sorted({s for row in records for s in row["slots"]})
        return {
            "max_error": max(row["max_error"] for row in records),
            "mean_error": sum(row["sum_error"] for row in records) / entries,
            "levels": max(row["levels"] for row in records),
            "levels_counted": max(row["levels_counted"] for row in records),
            "ops": dict(ops),
            "seconds": {"total": sum(line["seconds"] for line in lines), **seconds},
            "ring_slots": slots[0] if len(slots) == 1 else slots,
            "entries": entries,
            "outside_domain": sum(row["outside"] for row in records) / entries if has_domain else None,
            "beyond_guard": sum(row["beyond"] for row in records) if has_domain else None,
            "layers": [_layer(layer, records) for layer in sorted({row["layer"] for row in records})],
        }


def _line(outcome: Outcome, records: list[LayerRecord], seconds: float) -> dict[str, Any]:
    layers = [
        {"layer": layer, "entries": r.entries, "max_error": r.max_error, "sum_error": r.sum_error,
         "outside": r.outside, "beyond": r.beyond, "low": r.low if r.low <= r.high else None,
         "high": r.high if r.low <= r.high else None, "levels": r.levels, "levels_counted": r.levels_counted,
         "slots": sorted(r.slots), "ops": dict(r.ops), "seconds": dict(r.seconds)}
        for layer, r in enumerate(records)
    ]  # fmt: skip
    return {"index": outcome.index.tolist(), "label": outcome.labels.tolist(),
            "prediction": outcome.predictions.tolist(), "logits": outcome.logits.tolist(), "seconds": seconds,
            "layers": layers}


def _layer(layer: int, records: list[dict[str, Any]]) -> dict[str, Any]:
    own = [r for r in records if r["layer"] == layer]
    entries = sum(r["entries"] for r in own)
    ranged = own[0]["low"] is not None
    return {"layer": layer, "max_error": max(r["max_error"] for r in own),
            "mean_error": sum(r["sum_error"] for r in own) / entries, "levels": max(r["levels"] for r in own),
            "range": [min(r["low"] for r in own), max(r["high"] for r in own)] if ranged else None}
