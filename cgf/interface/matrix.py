"""One softmax on one matrix under CKKS, without a model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cgf.errors import UserError
from cgf.he.layer_record import LayerRecord
from cgf.he.session import Session
from cgf.interface.engines import owner
from cgf.interface.installing import softmax_of
from cgf.plan.choose import choose
from cgf.plan.plan import stretched
from cgf.plan.request import Request
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.softmax.bpmax import BPMax
from cgf.softmax.exact import Exact
from cgf.softmax.tensor import TensorRows

MARGIN = 1.1  # the guard holds the matrix's own range, stretched by this


@dataclass(frozen=True)
class AppliedSoftmax:
    """weights (R, N) decrypted; levels read off the ciphertexts; seconds of packing, encryption, circuit, decryption;
    error: the largest difference from the method's own definition, its exponential the true one."""

    weights: np.ndarray
    levels: int
    seconds: float
    error: float


def apply_softmax(
    matrix: Any, method: str | Softmax = "cgf", engine: str = "desilo", *, tolerance: float = 1e-4
) -> AppliedSoftmax:
    """The softmax of each row of a matrix (R, N) of scores, through ciphertexts.

    matrix  numbers, an array or a tensor, finite;  engine: 'desilo' encrypts, 'sim' computes the circuit in the clear
    method  a name or a Softmax. One with an exponential is given the polynomial of fewest levels that holds
            ``tolerance`` on the range of this very matrix, which is read in the clear for it.

    Raises UserError for another matrix, a method without a circuit, and a range that no polynomial holds.
    """
    scores = np.asarray(matrix.detach().cpu() if isinstance(matrix, torch.Tensor) else matrix, dtype=np.float64)
    if scores.ndim != 2 or not scores.size or not np.isfinite(scores).all():
        raise UserError(f"a matrix (R, N) of finite numbers is needed, and its shape is {scores.shape}")
    softmax, make_owner = softmax_of(method), owner(engine)
    if isinstance(softmax, Exact):
        raise UserError("the exact softmax has no circuit: 'standard' is softmax by polynomials and a division")
    if isinstance(softmax, BPMax):
        raise UserError(f"softmax '{softmax.name}' needs a denominator that training measures, and a matrix has none")
    rows = torch.from_numpy(scores)[None, None]
    with torch.no_grad():
        truth = _definition(softmax, rows)[0, 0].numpy()
        if isinstance(softmax, ExponentialSoftmax) and softmax.exponential is None:
            softmax = _planned(softmax, rows, tolerance)
    record, shape, session = LayerRecord(), (1, 1, *scores.shape), Session(make_owner)
    start = time.perf_counter()
    try:
        weights = session.evaluate(softmax, scores, None, np.full(len(scores), float(scores.shape[1])), shape, record)
    finally:
        session.close()
    seconds = time.perf_counter() - start
    return AppliedSoftmax(weights, record.levels, seconds, float(np.abs(weights - truth).max()))


def _definition(softmax: Softmax, scores: torch.Tensor) -> torch.Tensor:
    known = softmax.reference(scores)
    return softmax.weights(scores) if known is None else known[0]


def _planned(softmax: ExponentialSoftmax, scores: torch.Tensor, tolerance: float) -> ExponentialSoftmax:
    """A copy with the polynomial for these scores."""
    import copy

    y = softmax.argument(TensorRows.of(scores, None)).data
    range_ = (float(y.min()), float(y.max()))
    domain = range_ if range_[0] < range_[1] else (range_[0] - 1.0, range_[1])
    request = Request(
        stretched(range_, MARGIN), domain, tolerance, rows=scores.shape[-2], columns=scores.shape[-1], softmax=softmax
    )
    planned = copy.deepcopy(softmax)
    planned.exponential = choose(request).exponential
    return planned
