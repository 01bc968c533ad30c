"""Runs a host over samples so that observers see what a circuit would: every slot, padding included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from cgf.errors import UserError
from cgf.evaluate import batches_by_length, batches_of_one_length, evaluate
from models.host import Host

PADDINGS = ("auto", "none", "longest")
Collate = Callable[[list[Any]], dict[str, Tensor]]


def run(host: Host, dataset: Any, collate: Collate, indices: Sequence[int], batch_size: int,
        padding: str = "auto") -> None:
    """One pass in the clear over the chosen samples, for the observers of the softmaxes in place.

    padding  'longest': every text padded to the longest of those chosen. A padding token attends the real
             tokens alone, so what its row shows at one position is the same in any batch: this pass shows
             the rows of every batch that the texts can come in.
             'none': texts of one length together, without padding.
             'auto': as encrypted evaluation makes its batches: 'longest' for causal hosts, else 'none'.
    """
    if padding not in PADDINGS:
        raise UserError(f"padding must be one of {', '.join(PADDINGS)}, and {padding!r} was given")
    if padding == "auto":
        padding = "longest" if host.rows == "masked" else "none"
    lengths = getattr(dataset, "lengths", None)
    if padding == "none" or lengths is None:
        batches = batches_of_one_length(dataset, batch_size, indices)
    else:
        batches = batches_by_length(dataset, batch_size, indices)
        collate = padded_to(collate, max(lengths[i] for i in indices), host.inputs.tokenizer.pad_token_id)
    evaluate(host.model, host.logits, dataset, collate, batches)


def padded_to(collate: Collate, length: int, pad_id: int) -> Collate:
    """The same batches with input_ids and attention_mask (B, T) padded on the right to ``length`` tokens."""

    def pad(items: list[Any]) -> dict[str, Tensor]:
        batch = collate(items)
        more = max(0, length - batch["input_ids"].shape[1])
        return {**batch, "input_ids": F.pad(batch["input_ids"], (0, more), value=pad_id),
                "attention_mask": F.pad(batch["attention_mask"], (0, more))}

    return pad
