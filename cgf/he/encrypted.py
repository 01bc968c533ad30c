"""A softmax whose weights come back from CKKS, in the place of a layer's softmax in the model.

The one file of this package that knows torch. The side that holds the scores in this evaluation stands
in for a server that would have them only encrypted: before encryption nothing but public constants is
applied, and the weights that go on into the model come from decryption alone.
"""

from __future__ import annotations

import threading
import time

import numpy as np
import torch
from torch import Tensor

from cgf.approx.fit import GUARD_BOUND
from cgf.approx.unit_size import of_unit_size
from cgf.errors import UserError
from cgf.he.layer_record import HeadErrors, LayerRecord
from cgf.he.party import TENFOLD
from cgf.he.score_rows import Shape
from cgf.he.session import Session
from cgf.softmax.base import Softmax
from cgf.softmax.slot import Around
from cgf.softmax.tensor import TensorRows

LARGE = 0.1  # of a weight: a stated error that is larger, or its tenfold, is no room beside what is stated
ROUNDING = 1e-9  # of float64 arithmetic, where a stated error is next to nothing
MOST = 1e300
HOPELESS = 2.0**40  # a score beyond it comes from weights that were ruined before; no plan's domain comes near


class Encrypted(Around):
    """Stands in for a layer's softmax in the model: same scores and masks in, decrypted weights out.

    Several threads may run the model at once: each has a record of its own, which ``take_record`` hands out.
    """

    training = False  # set on the slot alone: what training adds to a reading has no counterpart here

    def __init__(self, softmax: Softmax, session: Session) -> None:
        super().__init__(softmax)
        self.session = session
        softmax.training = False
        self._own = threading.local()

    @property
    def record(self) -> LayerRecord:
        """What this thread has seen since it last took the record."""
        if not hasattr(self._own, "record"):
            self._own.record = LayerRecord()
        record: LayerRecord = self._own.record
        return record

    def given_tokens(self, present: Tensor | None) -> None:
        """Takes which tokens (B, T) of this thread's next batch are no padding, as its text's mask has them; None: no
        text."""
        self._own.present = None if present is None or bool(present.all()) else present.bool()

    @property
    def present(self) -> Tensor | None:
        """(B, T) bool of this thread's batch, False where padding stands; None where there is none."""
        return getattr(self._own, "present", None)

    def take_record(self) -> LayerRecord:
        """This thread's record; a new one begins."""
        record, self._own.record = self.record, LayerRecord()
        return record

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """As Softmax.weights, for scores (B, H, Q, K), through ciphertexts; NaN for a ruined sample.

        A sample is ruined where its weights come back as no finite numbers: entries lay so far beyond the domain of
        the polynomial that their ciphertexts hold anything. The record names it, the others go on.
        """
        start = time.perf_counter()
        lost = hopeless(scores, valid)
        if bool(lost.any()):  # ruined in a layer before: nothing that could be encrypted
            scores = scores.masked_fill(lost[:, None, None, None], 0.0)
        matrix, mask, counts, shape = flatten(scores, valid)
        result = self.session.evaluate(self.softmax, matrix, mask, counts, shape, self.record)
        weights = torch.from_numpy(result.reshape(shape)).to(scores.device)
        given = weights.to(torch.promote_types(scores.dtype, torch.float32))
        before = time.perf_counter()
        ruined = self._compare(scores, valid, weights, given, lost)
        after = time.perf_counter()
        self.record.seconds.update({"compare": after - before, "softmax": after - start})
        return given.masked_fill(ruined[:, None, None, None], torch.nan) if bool(ruined.any()) else given

    def _compare(self, scores: Tensor, valid: Tensor | None, weights: Tensor, given: Tensor, lost: Tensor) -> Tensor:
        """Error against the same polynomial in the clear, and where its argument lay; diagnosis only.

        given   the weights as the model takes them;  lost (B,): samples that came ruined
        Returns the samples (B,) that are ruined now.
        """
        double = scores.double()
        keep = torch.ones_like(double, dtype=torch.bool) if valid is None else valid.expand(double.shape)
        clear = self.softmax.reading(double, valid)
        error = torch.where(keep, (weights - clear).abs(), 0.0)
        wrong = (~(error.isfinite() & given.isfinite()) & keep).amax((2, 3)) & ~lost[:, None]  # (B, H)
        ruined = wrong.amax(1) | lost
        error = error.masked_fill(ruined[:, None, None, None], 0.0)
        seen, heads = record_of(error, keep, wrong, ruined)
        counted = keep & ~ruined[:, None, None, None]
        heads.wrong = by_head(error > self._allowed(clear.masked_fill(~counted, 0.0)))
        self._locate(double, valid, keep, clear, seen)
        self._define(double, valid, counted, clear, heads)
        self.record.join(seen)
        return ruined

    def _allowed(self, clear: Tensor) -> Tensor:
        """The most that a weight may be off, by head (H, 1, 1): ten times the noise that the library states, of the
        largest weight of the head where that exceeds 1, times what the circuit amplifies."""
        largest = clear.abs().amax((0, 2, 3)).clamp(min=1.0)[:, None, None]
        return TENFOLD * self.session.noise * self.softmax.amplification * largest

    def _locate(self, double: Tensor, valid: Tensor | None, keep: Tensor, clear: Tensor, seen: LayerRecord) -> None:
        """Where the arguments lay; of a softmax that states no intervals, weights that no ciphertext holds."""
        assert seen.heads is not None
        intervals = self.softmax.intervals()
        if intervals is None:
            e = self.softmax.exponential
            size = 1.0 if e is None else of_unit_size(e)[1]  # a ciphertext holds weights over this
            seen.heads.beyond = by_head((clear.abs() > GUARD_BOUND * size) & keep)
            return
        y = self._argument(double, valid)
        seen.low, seen.high = low, high = tuple(map(float, y[keep].aminmax()))
        seen.heads.outside, seen.heads.beyond = (
            np.zeros(y.shape[1], dtype=np.int64) if lo <= low and high <= hi else by_head(((y < lo) | (y > hi)) & keep)
            for lo, hi in intervals
        )

    def _define(self, double: Tensor, valid: Tensor | None, keep: Tensor, clear: Tensor, heads: HeadErrors) -> None:
        """The polynomials in the clear against the definition, where it states an error: rows inside the domain."""
        definition, intervals = self.softmax.reference(double, valid), self.softmax.intervals()
        if definition is None or intervals is None:
            return
        exact, bound = definition
        (lo, hi), y = intervals[0], self._argument(double, valid)
        outside = (((y < lo) | (y > hi)) & keep).any(-1, keepdim=True)
        allowed = min(TENFOLD * bound, max(bound, LARGE)) + ROUNDING
        heads.inexact = by_head(((clear - exact).abs() > allowed) & keep & ~outside)

    def _argument(self, double: Tensor, valid: Tensor | None) -> Tensor:
        """As the softmax says; finite, whatever a polynomial in it overflows to."""
        y = self.softmax.argument(TensorRows.of(double, valid)).data
        return y.nan_to_num(nan=MOST, posinf=MOST, neginf=-MOST)


def record_of(error: Tensor, keep: Tensor, wrong: Tensor, ruined: Tensor) -> tuple[LayerRecord, HeadErrors]:
    """A record of the errors (B, H, Q, ...) of entries ``keep`` (B, H, Q, K), and its part by head.

    wrong (B, H): whose results are no finite numbers;  ruined (B,): samples, whose errors are zero
    """
    heads = HeadErrors.of(error.shape[1])
    heads.ruined = wrong.sum(0).cpu().numpy()
    heads.max_error = error.amax((0, 2, 3)).cpu().numpy()
    seen = LayerRecord(
        entries=int(keep.sum()),
        sum_error=float(error.sum()),
        heads=heads,
        lost=int(keep[ruined].sum()),
        ruined=set(ruined.nonzero().flatten().tolist()),
    )
    return seen, heads


def by_head(entries: Tensor) -> np.ndarray:
    """How many of (B, H, Q, K) are true, by head (H,)."""
    return entries.sum((0, 2, 3)).cpu().numpy()


def hopeless(scores: Tensor, valid: Tensor | None) -> Tensor:
    """Samples (B,) of scores (B, H, Q, K) with a NaN, or a number too large for any plan, where an entry counts."""
    if scores.dim() != 4:
        raise UserError(f"an encrypted softmax needs scores (B, H, Q, K), and got {scores.dim()} dimensions")
    return (~(scores.abs() <= HOPELESS) & (True if valid is None else valid)).amax((1, 2, 3))


def flatten(scores: Tensor, valid: Tensor | None) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, Shape]:
    """Scores (B, H, Q, K) as rows (B H Q, K) in float64, zero where not valid; mask (None: all), counts, shape."""
    batch, heads, queries, keys = scores.shape
    shape = batch, heads, queries, keys
    matrix = scores.detach().double().cpu().numpy().reshape(-1, shape[-1])
    if valid is None or bool(valid.all()):
        return matrix, None, np.full(len(matrix), float(shape[-1])), shape
    mask = valid.expand(shape).cpu().numpy().reshape(-1, shape[-1])
    return np.where(mask, matrix, 0.0), mask, np.maximum(mask.sum(1), 1).astype(np.float64), shape
