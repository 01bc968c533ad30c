"""Runs a host over samples so that observers see what a circuit would: every slot, padding included."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor

from cgf.checks import one_of
from cgf.data.task import Collate, Items
from cgf.data.tokens import TYPES
from cgf.errors import UserError
from cgf.evaluate.he_batches import ALIKE
from cgf.evaluate.loop import batches_by_length, batches_of_one_length, evaluate
from cgf.models.host import Host
from cgf.progress import Bar
from cgf.types import Item

PADDINGS = ("auto", "none", "longest")


def run(
    host: Host, dataset: Items, collate: Collate, indices: Sequence[int], batch_size: int, padding: str = "auto"
) -> None:
    """One pass in the clear over the chosen samples, for the observers of the softmaxes in place.

    A padding token attends the real tokens alone, so what its row shows at one position is the same in any
    batch: a pass with more padding shows the rows of every batch with less.

    padding  'none': texts of one length together, without padding.
             'auto': as far as encrypted evaluation pads when it makes its own batches: none for full rows,
             to 4/3 of a text's length for causal hosts (cgf.evaluate.he_batches.ALIKE), as far as they have positions.
             'longest': to the longest of the samples, as a batch of a size given by hand may.
    Raises UserError for another value, and for 'longest' of samples without lengths.
    """
    one_of("padding", padding, PADDINGS)
    lengths = getattr(dataset, "lengths", None)
    if lengths is None and padding == "longest":
        raise UserError("padding=longest is of texts, and images have no rows of padding tokens: leave it out")
    batches = batches_of_one_length(dataset, batch_size, indices)
    if lengths is not None and padding == "longest":
        longest = max(lengths[i] for i in indices)
        batches = batches_by_length(dataset, batch_size, indices)
        collate = padded_to(collate, lambda _: longest, host.inputs.tokenizer.pad_token_id)
    elif lengths is not None and padding == "auto" and host.row_kind == "masked":
        least, most = ALIKE
        longest = host.most_tokens or math.inf  # which no batch exceeds
        collate = padded_to(
            collate, lambda own: int(min(own * most // least, longest)), host.inputs.tokenizer.pad_token_id
        )
    with Bar("calibrating", len(indices)) as bar:
        evaluate(host.model, host.logits, dataset, collate, batches, lambda chosen, *_: bar.advance(len(chosen)))


def padded_to(collate: Collate, width: Callable[[int], int], pad_id: int) -> Collate:
    """The same batches with ids, mask and token types (B, T) padded on the right to width(T) tokens."""

    def pad(items: Sequence[Item]) -> dict[str, Tensor]:
        batch = collate(items)
        own = batch["input_ids"].shape[1]
        more = max(0, width(own) - own)
        values = {"input_ids": pad_id, "attention_mask": 0, TYPES: 0}
        padded = {key: F.pad(batch[key], (0, more), value=value) for key, value in values.items() if key in batch}
        return {**batch, **padded}

    return pad
