"""CGF-softmax of second order as one operation on tensors: its weights and their gradient by hand.

The definition is ``cgf.softmax.cgf``; this is the same function for training, with nothing kept for the
backward pass but the weights, which the attention keeps anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cgf.softmax.tensor import far_from_zero
from cgf.types import VendorObject

PIECE = {"cpu": 2**19}  # entries worked on at a time: what comes between stays in the cache, and takes no memory
LARGE_PIECE = 2**25  # elsewhere
T = TypeVar("T", Tensor, Tensor | None)
Context = VendorObject  # torch's own, on which forward leaves what backward reads
UNDERFLOW = {torch.float32: -85.0, torch.float64: -700.0}  # below it exp(y) does not tell y


def cgf_weights(
    scores: Tensor, valid: Tensor | None, keep_exponent: bool, ceiling: float | None = None
) -> tuple[Tensor | None, Tensor]:
    """(y or None, exp(y)) of scores (..., Q, K) in float32 or float64, both zero where not valid.

    y = x - K - ln n with K = mean + variance / 2 of each row's valid entries; valid (bool, broadcasts to the scores)
    or None: all. keep_exponent: y too, differentiable, for a penalty. ceiling: exp(min(y, ceiling)) in place of
    exp(y). Source: CGF-softmax paper, Eq. (3) and (4); the gradient is derived in ``_to_scores``.
    """
    if keep_exponent or ceiling is not None:
        both: tuple[Tensor, Tensor] = _WithExponent.apply(scores, valid, ceiling)
        return both
    return None, _Weights.apply(scores, valid)


class _Weights(torch.autograd.Function):
    """p = exp(y), of which alone p is kept: y is ln p again, but where p underflowed."""

    @staticmethod
    def forward(ctx: Context, scores: Tensor, valid: Tensor | None) -> Tensor:
        ones = None if valid is None else valid.to(scores.dtype)
        y, shift, n, least = _exponent(scores, valid, ones)
        ctx.lost = None
        if float(least) < UNDERFLOW[y.dtype]:  # where exp(y) is lost, y itself is kept; rare once y is controlled
            where = (y < UNDERFLOW[y.dtype]).nonzero(as_tuple=True)
            ctx.lost = where, y[where]
        p = _exponentials(y, ones, y)
        ctx.save_for_backward(p, shift, n, ones)
        return p

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, g: Tensor) -> tuple[Tensor, None]:
        p, shift, n, ones = ctx.saved_tensors
        result, exponent = torch.empty_like(p), None
        # 1. y = ln p; where exp(y) was lost, the y that forward kept. A whole tensor only if some were lost.
        if ctx.lost is not None:
            exponent = _logarithm(p, ones)
            exponent[ctx.lost[0]] = ctx.lost[1]
        for piece in _pieces(p):
            part, keep = p[..., piece, :], _piece_of(ones, piece)
            # 2. h = dL/dy = g p, written where the gradient will stand
            h = torch.mul(g[..., piece, :], part, out=result[..., piece, :])
            # 3. on to the scores, in place
            y = _logarithm(part, keep) if exponent is None else exponent[..., piece, :]
            _to_scores(h, y, shift[..., piece, :], _piece_of(n, piece), keep)
        return result, None


class _WithExponent(torch.autograd.Function):
    """(y, exp(y)), both differentiable: h = dL/dy + g p, without g p above the ceiling."""

    @staticmethod
    def forward(ctx: Context, scores: Tensor, valid: Tensor | None, ceiling: float | None) -> tuple[Tensor, Tensor]:
        ones = None if valid is None else valid.to(scores.dtype)
        y, shift, n, _ = _exponent(scores, valid, ones)
        p = _exponentials(y, ones, torch.empty_like(y), ceiling)
        ctx.ceiling = ceiling
        if ones is not None:
            y.mul_(ones)
        ctx.save_for_backward(y, p, shift, n, ones)
        return y, p

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, of_y: Tensor, g: Tensor) -> tuple[Tensor, None, None]:
        y, p, shift, n, ones = ctx.saved_tensors
        result = torch.empty_like(p)
        for piece in _pieces(p):
            keep, slope = _piece_of(ones, piece), p[..., piece, :]
            # 1. dp/dy = p, and nothing above the ceiling, where exp was cut
            if ctx.ceiling is not None:
                slope = slope.masked_fill(y[..., piece, :] > ctx.ceiling, 0.0)
            # 2. h = dL/dy + g dp/dy: what asked for y itself (a penalty), and the weights; zero where not valid
            h = torch.addcmul(of_y[..., piece, :], g[..., piece, :], slope, out=result[..., piece, :])
            if keep is not None:
                h.mul_(keep)
            # 3. on to the scores, in place
            _to_scores(h, y[..., piece, :], shift[..., piece, :], _piece_of(n, piece), keep)
        return result, None, None


def _exponent(scores: Tensor, valid: Tensor | None, ones: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y (..., Q, K), finite where not valid; variance / 2 + ln n (..., Q, 1); n, which broadcasts to that; least y."""
    columns, zero = scores.shape[-1], scores.new_zeros(())
    # 1. n of each row, at least 1
    if ones is None:
        n = scores.new_full((), float(columns))
    else:
        n = ones.expand(*ones.shape[:-1], columns).sum(-1, keepdim=True).clamp(min=1)
    y, shift, least = torch.empty_like(scores), scores.new_empty((*scores.shape[:-1], 1)), []
    for piece in _pieces(scores):
        # 2. x - mean, zero where not valid; twice for rows that float32 rounds too coarsely
        x, part, count = scores[..., piece, :], y[..., piece, :], _piece_of(n, piece)
        if valid is None or ones is None:
            mean = x.mean(-1, keepdim=True)
            torch.sub(x, mean, out=part)
        else:
            torch.where(_piece_of(valid, piece), x, zero, out=part)  # what is not valid may be minus infinity
            mean = part.sum(-1, keepdim=True).div_(count)
            part.sub_(mean).mul_(_piece_of(ones, piece))
        _centre_again(part, mean, count, _piece_of(ones, piece))
        # 3. variance / 2 + ln n, and y = (x - mean) less that
        half = torch.linalg.vector_norm(part, dim=-1, keepdim=True).square_().div_(2 * count).add_(count.log())
        shift[..., piece, :] = half
        least.append(part.sub_(half).amin())
    return y, shift, n, torch.stack(least).amin()


def _centre_again(part: Tensor, mean: Tensor, n: Tensor, ones: Tensor | None) -> None:
    """Subtracts from rows far from zero what their mean lost in float32, as ``TensorRows.centred`` does."""
    far = far_from_zero(mean)
    if far is not None:
        part.sub_(torch.where(far, part.sum(-1, keepdim=True).div_(n), 0.0))
        if ones is not None:
            part.mul_(ones)


def _exponentials(y: Tensor, ones: Tensor | None, out: Tensor, ceiling: float | None = None) -> Tensor:
    """exp(min(y, ceiling)), zero where not valid."""
    for piece in _pieces(y):
        least = y[..., piece, :] if ceiling is None else y[..., piece, :].clamp(max=ceiling)
        part = torch.exp(least, out=out[..., piece, :])
        if ones is not None:
            part.mul_(_piece_of(ones, piece))
    return out


def _logarithm(p: Tensor, ones: Tensor | None) -> Tensor:
    """ln p, zero where not valid: p is zero there."""
    return p.log() if ones is None else (p + (1.0 - ones)).log_()


def _to_scores(h: Tensor, y: Tensor, shift: Tensor, n: Tensor, ones: Tensor | None) -> None:
    """h, the gradient with respect to y, zero where not valid, becomes that of the scores, in place.

    With y_i = x_i - mean - variance / 2 - ln n, dmean/dx_j = 1 / n and dvariance/dx_j = 2 (x_j - mean) / n:
    dL/dx_j = sum_i h_i dy_i/dx_j = h_j - S (1 + x_j - mean) with S = sum h / n, and x_j - mean = y_j + shift.
    """
    # h_j - S y_j - S (shift + 1)
    share = h.sum(-1, keepdim=True).div_(n)
    h.addcmul_(y, share, value=-1).sub_(share.mul_(shift + 1.0))
    if ones is not None:
        h.mul_(ones)


def _pieces(x: Tensor) -> Iterator[slice]:
    """Slices of the query positions, so many that about PIECE entries are worked on at a time."""
    queries = x.shape[-2]
    size = PIECE.get(x.device.type, LARGE_PIECE)
    step = max(1, size // max(1, x.numel() // max(1, queries)))
    for start in range(0, queries, step):
        yield slice(start, start + step)


def _piece_of(x: T, piece: slice) -> T:
    """The same queries of something that broadcasts along them, or not."""
    if x is None or x.dim() < 2 or x.shape[-2] == 1:
        return x
    part: T = x[..., piece, :]
    return part
