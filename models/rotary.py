"""Rotary positions that change with the longest text of a batch, and up to which length they do not."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from cgf.errors import UserError
from cgf.models.host import Host
from cgf.types import HostModule


def check_lengths(host: Host, longest: int, source: str) -> None:
    """UserError where a text of ``longest`` tokens changes the positions of all other texts of its batch.

    'dynamic' and 'longrope' positions of transformers have other frequencies once a batch holds a text beyond the
    length that the model was first trained for, so that what a text gives would depend on what stands beside it.
    """
    for kind, most in _changing(host.model):
        if longest > most:
            raise UserError(
                f"the rotary positions of model {host.name} ({kind}) are of one kind for texts of at most {most} "
                f"tokens, and a longer one changes those of its whole batch: the longest text of {source} has "
                f"{longest}, so cut texts by task.max_length={most}, or where a loader makes them"
            )


def _changing(model: nn.Module) -> Iterator[tuple[str, int]]:
    """(kind, most tokens for which they stay) of the rotary embeddings that change; transformers names them so."""
    for module in model.modules():
        kinds = getattr(module, "rope_type", None)
        if kinds is None:
            continue
        rotary: HostModule = module
        for layer, kind in (kinds if isinstance(kinds, dict) else {None: kinds}).items():
            given = rotary.config.rope_parameters if layer is None else rotary.config.rope_parameters[layer]
            if "dynamic" in kind:
                yield kind, int(rotary.original_max_seq_len)
            elif kind == "longrope":
                yield kind, int(given["original_max_position_embeddings"])
