"""A whole attention whose outputs come back from CKKS, in the place of a layer's softmax in the model.

The side that holds queries, keys and values in this evaluation stands in for a server that would have them only
encrypted: before encryption nothing but public constants is applied, and the outputs that go on into the model come
from decryption alone.
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
        scores = self.softmax.scores(query.double(), key.double(), scaling)  # for the comparison alone
        lost = hopeless(scores, valid) | ~_finite(value)
        gone = lost[:, None, None, None]
        given = [x.masked_fill(gone, 0.0) if bool(lost.any()) else x for x in (query, key, value)]
        q, k, v = (x.detach().double().cpu().numpy() for x in given)
        mask = None if valid is None or bool(valid.all()) else valid.cpu().numpy()
        heads = Heads(q, k, v, float(scaling), mask)
        self.record.macs += heads.macs()
        self.record.instances += heads.instances
        outputs = torch.from_numpy(self.session.attend(self.softmax, heads, self.record)).to(value.device)
        taken = outputs.to(torch.promote_types(value.dtype, torch.float32)).to(value.dtype)
        before = time.perf_counter()
        ruined = self._compare_outputs(scores.masked_fill(gone, 0.0), value, valid, outputs, lost)
        after = time.perf_counter()
        self.record.seconds.update({"compare": after - before, "softmax": after - start})
        return taken.masked_fill(ruined[:, None, None, None], torch.nan) if bool(ruined.any()) else taken, None

    def _compare_outputs(
        self, scores: Tensor, value: Tensor, valid: Tensor | None, outputs: Tensor, lost: Tensor
    ) -> Tensor:
        """Error against the same polynomial in the clear, and where its argument lay; diagnosis only.

        Rows in which no key counts are left out. Returns the samples (B,) that are ruined now.
        """
        keep = torch.ones_like(scores, dtype=torch.bool) if valid is None else valid.expand(scores.shape)
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


def _finite(value: Tensor) -> Tensor:
    """Samples (B,) whose values are all finite numbers."""
    return torch.from_numpy(np.isfinite(value.detach().float().cpu().numpy()).all((1, 2, 3))).to(value.device)
