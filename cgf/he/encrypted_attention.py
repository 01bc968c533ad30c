"""A whole attention whose outputs come back from CKKS, in the place of a layer's softmax in the model.

The side that holds queries, keys and values in this evaluation stands in for a server that would have them only
encrypted: before encryption public constants are applied, the mean of an instance's keys is put where keys are absent
(cgf.he.attention_blocks), and nothing else. The outputs that go on into the model come from decryption alone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cgf.errors import UserError
from cgf.he.encrypted import Encrypted, by_head, hopeless, record_of
from cgf.network.attention import Heads

if TYPE_CHECKING:
    from cgf.softmax.attend import Dropout


class EncryptedAttention(Encrypted):
    """Stands in for a layer's attention: same queries, keys, values and masks in, decrypted outputs out."""

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Raises UserError: the weights stay encrypted."""
        raise UserError("an encrypted attention gives outputs, and no weights: they stay encrypted")

    def attention(
        self, query: Tensor, key: Tensor, value: Tensor, scaling: float, valid: Tensor | None, drop: Dropout
    ) -> tuple[Tensor, None]:
        """As Slot.attention, through ciphertexts; NaN for a ruined sample (see Encrypted.weights)."""
        start = time.perf_counter()
        real = self._real(query, valid)
        query = query if real is None else stand_ins(query, real)
        scores = self.softmax.scores(query.double(), key.double(), scaling)  # for the comparison alone
        lost = hopeless(scores, valid) | ~_finite(value)
        gone = lost[:, None, None, None]
        given = [x.masked_fill(gone, 0.0) if bool(lost.any()) else x for x in (query, key, value)]
        q, k, v = (x.detach().double().cpu().numpy() for x in given)
        mask = None if valid is None or bool(valid.all()) else valid.cpu().numpy()
        heads = Heads(q, k, v, float(scaling), mask, None if real is None else real.cpu().numpy())
        self.record.macs += heads.macs()
        self.record.instances += heads.instances
        outputs = torch.from_numpy(self.session.attend(self.softmax, heads, self.record)).to(value.device)
        taken = outputs.to(torch.promote_types(value.dtype, torch.float32)).to(value.dtype)
        before = time.perf_counter()
        keep = torch.ones_like(scores, dtype=torch.bool) if valid is None else valid.expand(scores.shape)
        if real is not None:
            keep = keep & real[:, None, :, None]
        ruined = self._compare_outputs(scores.masked_fill(gone, 0.0), value, valid, outputs, lost, keep)
        after = time.perf_counter()
        self.record.seconds.update({"compare": after - before, "softmax": after - start})
        return taken.masked_fill(ruined[:, None, None, None], torch.nan) if bool(ruined.any()) else taken, None

    def _real(self, query: Tensor, valid: Tensor | None) -> Tensor | None:
        """(B, Q) bool of the queries that stand for tokens of a text; None where all do, or it is not known.

        It is known where there is a query a token, and no query attends to a token of padding.
        """
        present = self.present
        if present is None or valid is None or (query.shape[0], query.shape[2]) != tuple(present.shape):
            return None
        if valid.shape[-1] != present.shape[1] or bool((valid & ~present[:, None, None, :]).any()):
            return None
        return present

    def _compare_outputs(
        self, scores: Tensor, value: Tensor, valid: Tensor | None, outputs: Tensor, lost: Tensor, keep: Tensor
    ) -> Tensor:
        """Error against the same polynomial in the clear, and where its argument lay; diagnosis only.

        keep (B, H, Q, K): entries that count. Rows in which no key counts are left out. Returns the samples (B,) that
        are ruined now.
        """
        clear, v = self.softmax.reading(scores, valid), value.double()
        seen_rows = keep.any(-1, keepdim=True)
        error = torch.where(seen_rows, (outputs - clear @ v).abs(), 0.0)
        wrong = (~error.isfinite()).amax((2, 3)) & ~lost[:, None]
        ruined = wrong.amax(1) | lost
        gone = ruined[:, None, None, None]
        error = error.masked_fill(gone, 0.0)
        seen, heads = record_of(error, keep, wrong, ruined)
        seen.outputs = int((seen_rows & ~gone).sum()) * error.shape[-1]
        counted = keep & ~gone
        # weights that are off by so much are off in an output by at most the sum of the values' sizes
        reach = v.abs().masked_fill(gone, 0.0).sum(2).amax((0, 2)).clamp(min=1.0)[:, None, None]
        heads.wrong = by_head(error > self._allowed(clear.masked_fill(~counted, 0.0)) * reach)
        self._locate(scores, valid, keep, clear, seen)
        self._define(scores, valid, counted, clear, heads)
        self.record.join(seen)
        return ruined


def stand_ins(query: Tensor, real: Tensor) -> Tensor:
    """Queries (B, H, Q, D) with that of its text's last token in the place of each that is not real (B, Q).

    A polynomial may never have seen what the query of padding meets: its scores may lie beyond the domain, and a weight
    that overflows would reach all other numbers of its ciphertext. Those of a token are of the text.
    """
    places = torch.arange(real.shape[1], device=real.device)
    last = torch.where(real, places, 0).amax(1, keepdim=True)
    chosen = torch.where(real, places, last)[:, None, :, None].to(query.device)
    return query.take_along_dim(chosen, 2)


def _finite(value: Tensor) -> Tensor:
    """Samples (B,) whose values are all finite numbers."""
    return torch.from_numpy(np.isfinite(value.detach().float().cpu().numpy()).all((1, 2, 3))).to(value.device)
