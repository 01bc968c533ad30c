"""What kind of rows a host has: causal or not, and within which window, by the masks of a text without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cgf.errors import UserError


@dataclass(frozen=True)
class AttentionInput:
    """What an attention was given in one pass.

    batch   samples, 0 where it was not used;  mask (H, Q, K) bool of the first sample, None: every key counts
    window  tokens on each side that it says it attends to, itself among them; None: all
    """

    batch: int
    mask: Tensor | None
    window: int | None


@dataclass(frozen=True)
class RowKind:
    """causal: no query sees a later key;  window: the narrowest of the attentions that have one, None: none has."""

    causal: bool
    window: int | None


def row_kind(names: Sequence[str], seen: Sequence[AttentionInput], batch: int) -> RowKind:
    """The kind of rows of all attentions, from what each was given for ``batch`` samples, the first without padding.

    UserError, with the attention, where one was not used, attends in parts of a sample, looks ahead where another does
    not, or has a mask that is neither full nor causal nor that of the window that it states.
    """
    for name, one in zip(names, seen, strict=True):
        if not one.batch:
            raise UserError(f"{name} was given a softmax and did not use it")
        if one.batch != batch:
            raise UserError(
                f"{name} attends in {one.batch} parts of {batch} samples, and rows of one sample are needed"
            )
    ahead = [one.mask is None or bool(one.mask.triu(1).any()) for one in seen]
    causal = not any(ahead)
    if not causal and not all(ahead):  # a window of one token looks nowhere, and is served by no other kind
        raise UserError(
            f"{names[ahead.index(True)]} looks ahead and {names[ahead.index(False)]} does not: a plan "
            "needs one kind of row"
        )
    for name, one in zip(names, seen, strict=True):
        _check(name, one, causal)
    windows = [one.window for one in seen if one.window is not None]
    return RowKind(causal, min(windows, default=None))


def _check(name: str, one: AttentionInput, causal: bool) -> None:
    """UserError where a mask is not what its attention says of it."""
    if one.window is not None:
        if one.mask is None or not bool(
            (one.mask == band(one.mask.shape[-1], one.window, causal, one.mask.device)).all()
        ):
            raise UserError(f"{name} states a window of {one.window} tokens, and its mask is that of another one")
    elif not causal and one.mask is not None and not bool(one.mask.all()):
        raise UserError(
            f"{name} looks ahead, and is masked in a text without padding: its rows are neither full nor causal"
        )


def band(tokens: int, window: int, causal: bool, device: torch.device | None = None) -> Tensor:
    """(T, T) bool: the keys nearer to a query than ``window`` tokens, of causal rows those that are not later."""
    place = torch.arange(tokens, device=device)
    ahead = place[None, :] - place[:, None]
    return (ahead.abs() < window) & ((ahead <= 0) | (not causal))
