"""A softmax whose weights come back from CKKS: pack, encrypt, circuit, decrypt, unpack.

The one file of this package that knows torch. The side that holds the scores in this evaluation stands
in for a server that would have them only encrypted: before encryption nothing but public constants is
applied, and the weights that go on into the model come from decryption alone.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgf.errors import UserError
from cgf.he.blocks import blocks_of
from cgf.he.count import Counting
from cgf.he.delivery import handed_over, opened
from cgf.he.dryrun import Needs, dry_run
from cgf.he.engine import BOOTSTRAPPABLE, Owner, encrypt_all, finish, rings_of
from cgf.he.packed import Packed, Rows
from cgf.he.workers import Workers
from cgf.softmax.base import Softmax
from cgf.softmax.tensor import TensorRows

KEPT = 64  # dry runs that a session remembers


@dataclass
class LayerRecord:
    """What was seen in one attention layer, over all its softmaxes so far."""

    entries: int = 0
    max_error: float = 0.0
    sum_error: float = 0.0
    outside: int = 0
    beyond: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    levels: int = 0
    levels_counted: int = 0
    slots: set[int] = field(default_factory=set)
    ops: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)

    def join(self, other: LayerRecord) -> None:
        """Takes over what another worker saw of the ciphertexts."""
        self.levels = max(self.levels, other.levels)
        self.levels_counted = max(self.levels_counted, other.levels_counted)
        self.slots |= other.slots
        self.ops.update(other.ops)
        self.seconds.update(other.seconds)


class Session:
    """Engines, keys and dry runs of one evaluation, made when first needed and kept.

    make_owner  max_level -> Owner, the party with the secret key; its library's rings are those it states
    max_level   fixes the engine's levels; None: as many as each circuit needs
    style       'folded' or 'paper', see cgf.he.circuits
    workers     above 1: so many processes share the rows, each with a session like this one
    """

    def __init__(self, make_owner: Callable[..., Owner], max_level: int | None = None, style: str = "folded",
                 workers: int = 1) -> None:
        if max_level is not None and not isinstance(max_level, int):
            raise UserError(f"he.max_level must be a whole number or null, and {max_level!r} was given")
        self._make_owner, self.max_level, self.style, self.workers = make_owner, max_level, style, workers
        alone = functools.partial(Session, make_owner, max_level, style)
        self._workers = Workers(alone, workers) if workers > 1 else None
        self.rings = rings_of(make_owner)
        self._owners: dict[int, Owner] = {}
        self._rotations: dict[int, frozenset[int]] = {}
        self._needs: dict[Any, Needs] = {}

    def needs(self, softmax: Softmax, rows: Rows, columns: int) -> Needs:
        # a layout, and with it the operations, follows from these facts alone; circuits carry coefficients
        # and row counts, so rows that differ there have runs of their own (the softmax itself, not its id:
        # an id comes back once its object is gone)
        masks = None if rows.valid is None else rows.valid.tobytes()
        place = rows.first if isinstance(rows.first, int) else rows.first.tobytes()
        key = (softmax, softmax.exponential, columns, rows.shape, place, masks, rows.counts.tobytes())
        if key not in self._needs:
            while len(self._needs) >= KEPT:  # a circuit keeps its rows' masks: megabytes each
                self._needs.pop(next(iter(self._needs)))
            self._needs[key] = dry_run(softmax, rows, columns, self.style, self.max_level, self.rings)
        return self._needs[key]

    def owner(self, max_level: int) -> Owner:
        if max_level not in self._owners:
            self._owners[max_level] = self._make_owner(max_level=max_level)
        return self._owners[max_level]

    def evaluate(self, softmax: Softmax, matrix: np.ndarray, mask: np.ndarray | None, counts: np.ndarray,
                 shape: tuple[int, int, int, int], record: LayerRecord) -> np.ndarray:
        """Weights (R, N) of scores (R, N) through as many sets of ciphertexts as they take, by all workers.

        mask (R, N) bool or None, counts (R,) and shape (B, H, Q, K) as in Rows, of all rows; weights are zero where
        the mask is. The record takes levels, ops and seconds, those of several workers summed.
        """
        rows, columns = matrix.shape
        blocks = blocks_of(rows, columns, self.slots(softmax, mask, counts, shape, columns), mask, self.workers)
        places = [np.ix_(block.order, np.arange(block.columns)) for block in blocks]
        tasks = [(matrix[place], Rows(shape, block.order, None if mask is None else mask[place], counts[block.order]))
                 for block, place in zip(blocks, places, strict=True)]
        if self._workers is None:
            done = [self.one(softmax, *task) for task in tasks]
        else:
            done = self._workers.evaluate(softmax, tasks)
        result = np.zeros_like(matrix)
        for place, (weights, seen) in zip(places, done, strict=True):
            result[place] = weights
            record.join(seen)
        return result if mask is None else np.where(mask, result, 0.0)

    def slots(self, softmax: Softmax, mask: np.ndarray | None, counts: np.ndarray, shape: Any, columns: int) -> int:
        """Rows that one set of ciphertexts takes: the slots of the ring that the first rows ask for."""
        first = slice(0, min(len(counts), self.rings[0].slots))
        return self.needs(softmax, Rows(shape, 0, None if mask is None else mask[first], counts[first]),
                          columns).layout.slots

    def close(self) -> None:
        """Ends the workers, if there are any."""
        if self._workers is not None:
            self._workers.close()

    def one(self, softmax: Softmax, matrix: np.ndarray, rows: Rows) -> tuple[np.ndarray, LayerRecord]:
        """Weights (R, N) of one set of ciphertexts, in this process, and its levels, ops and seconds."""
        needs = self.needs(softmax, rows, matrix.shape[1])
        layout = needs.layout
        if needs.bootstrap and self.rings != (BOOTSTRAPPABLE,):
            raise UserError(f"softmax '{softmax.name}' needs bootstraps here, and the engine has no key for them: "
                            "he.owner.bootstrap=small (13 GiB) or medium (21.5 GiB)")
        owner = self.owner(needs.max_level)
        if owner.slots != layout.slots:
            raise UserError(f"the plan needs {layout.slots} slots, and the engine has {owner.slots}")
        granted = self._rotations.get(needs.max_level, frozenset()) | needs.rotations
        self._rotations[needs.max_level] = granted
        evaluator = owner.evaluator(granted)
        engine = Counting(evaluator)
        start = time.perf_counter()
        vectors = layout.pack(matrix * needs.circuit.input_scale)
        cts = tuple(encrypt_all(owner, vectors, needs.max_level))
        encrypted = time.perf_counter()
        result = needs.circuit.run(Packed(engine, layout, rows, cts))
        answers = handed_over(engine, result.cts)
        spent = finish(evaluator, answers) or engine.seconds
        computed = time.perf_counter()
        weights = layout.unpack(opened(owner, answers, len(result.cts))) * needs.circuit.output_scale
        decrypted = time.perf_counter()
        seconds = {**spent, "encrypt": encrypted - start, "circuit": computed - encrypted,
                   "decrypt": decrypted - computed}
        return weights, LayerRecord(levels=needs.max_level - result.level, levels_counted=needs.levels,
                                    slots={layout.slots}, ops=Counter(engine.ops), seconds=Counter(seconds))


class Encrypted:
    """Stands in for a layer's softmax in the model: same scores and masks in, decrypted weights out."""

    def __init__(self, softmax: Softmax, session: Session) -> None:
        self.softmax, self.session, self.record = softmax, session, LayerRecord()
        self.name, self.layer, self.training = softmax.name, softmax.layer, False
        softmax.training = False  # what a training adds to the reading in the clear has no counterpart here

    def scores(self, query: Tensor, key: Tensor, scaling: float) -> Tensor:
        return self.softmax.scores(query, key, scaling)

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """As Softmax.weights, for scores (B, H, Q, K), through ciphertexts."""
        matrix, mask, counts, shape = flatten(scores, valid)
        result = self.session.evaluate(self.softmax, matrix, mask, counts, shape, self.record)
        weights = torch.from_numpy(result.reshape(shape)).to(scores.device)
        self._compare(scores, valid, weights)
        return weights.to(torch.promote_types(scores.dtype, torch.float32))

    def _compare(self, scores: Tensor, valid: Tensor | None, weights: Tensor) -> None:
        """Error against the same polynomial in the clear, and where its argument lay; diagnosis only."""
        double = scores.double()
        reference = self.softmax.reading(double, valid)
        record, keep = self.record, torch.ones_like(double, dtype=torch.bool)
        if valid is not None:
            keep = valid.expand(double.shape)
        error = (weights - reference).abs()[keep]
        if not bool(error.isfinite().all()):
            raise UserError(f"the weights of layer {self.layer} are not finite: entries lay so far beyond the domain "
                            "of the polynomial that their ciphertexts are ruined; plan on more samples, or train "
                            "with a range penalty")
        record.entries += int(keep.sum())
        record.max_error = max(record.max_error, float(error.max()))
        record.sum_error += float(error.sum())
        e = self.softmax.exponential
        if e is None or e.fit is None or not hasattr(self.softmax, "exponent"):
            return
        y = self.softmax.exponent(TensorRows.of(double, valid)).data[keep]
        record.low, record.high = min(record.low, float(y.min())), max(record.high, float(y.max()))
        record.outside += int(((y < e.fit.domain[0]) | (y > e.fit.domain[1])).sum())
        record.beyond += int(((y < e.fit.guard[0]) | (y > e.fit.guard[1])).sum())


def flatten(scores: Tensor, valid: Tensor | None) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, Any]:
    """Scores (B, H, Q, K) as rows (B H Q, K) in float64, zero where not valid; mask (None: all), counts, shape."""
    if scores.dim() != 4:
        raise UserError(f"an encrypted softmax needs scores (B, H, Q, K), and got {scores.dim()} dimensions")
    shape = tuple(scores.shape)
    matrix = scores.detach().double().cpu().numpy().reshape(-1, shape[-1])
    if valid is None or bool(valid.all()):
        return matrix, None, np.full(len(matrix), float(shape[-1])), shape
    mask = valid.expand(shape).cpu().numpy().reshape(-1, shape[-1])
    return np.where(mask, matrix, 0.0), mask, np.maximum(mask.sum(1), 1).astype(np.float64), shape
