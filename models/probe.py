"""Small batches that a host is measured on, and one sentence for a model that does not run on them."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor

from cgf.errors import with_reason
from cgf.models.host import Host

LENGTH, REAL, CHANGED = 8, 5, 4  # tokens of a text, those of them that are real in the padded ones, the one changed
BEYOND, LONGEST = 3, 512  # tokens by which a text passes a window, and the most tokens that such a text has


def probe_batch(host: Host) -> dict[str, Tensor]:
    """One image of random pixels; or four texts: one, it with a later token changed, and two that begin as it does and
    are padded, the second with other tokens where there is padding."""
    draw = torch.Generator().manual_seed(0)
    if host.inputs.image is not None:
        return {"pixel_values": torch.randn(1, *host.inputs.image.size, generator=draw)}
    pad = host.inputs.tokenizer.pad_token_id
    # mypy: a model with a tokenizer has them
    count = host.model.get_input_embeddings().num_embeddings  # type: ignore[operator]
    known = torch.tensor([i for i in range(count) if i != pad])
    ids = known[torch.randint(len(known), (4, LENGTH), generator=draw)]
    ids[1:] = torch.where(torch.arange(LENGTH) == CHANGED, known[(ids[0] + 1) % len(known)], ids[0])[None]
    ids[2:, :REAL] = ids[0, :REAL]
    ids[2, REAL:] = 0 if pad is None else pad
    ids[3, REAL:] = ids[0, : LENGTH - REAL]
    mask = torch.ones_like(ids)
    mask[2:, REAL:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def long_text(host: Host, batch: dict[str, Tensor]) -> dict[str, Tensor] | None:
    """One text that is longer than the host's window; None where the batch has such, or a text would be too long."""
    most = getattr(getattr(host.model, "config", None), "max_position_embeddings", None) or LONGEST
    if host.window is None or not LENGTH < host.window + BEYOND <= min(LONGEST, most):
        return None
    ids = batch["input_ids"][:1].repeat(1, -(-(host.window + BEYOND) // LENGTH))[:, : host.window + BEYOND]
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def running(how: str) -> AbstractContextManager[None]:
    """For a pass of the model over such a batch: UserError with the reason where that fails. how: ends the sentence."""
    return with_reason(f"it does not run on a small batch of token ids or pixels {how}", named=True)
