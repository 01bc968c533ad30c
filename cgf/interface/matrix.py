"""One softmax on one matrix under CKKS, without a model."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike

from cgf.errors import UserError
from cgf.he.dryrun import depth
from cgf.he.encrypted import HOPELESS, Encrypted
from cgf.he.layer_record import LayerRecord
from cgf.he.session import Session
from cgf.interface.engines import owner
from cgf.interface.installing import softmax_of
from cgf.named import short
from cgf.plan.calibration import with_zero
from cgf.plan.choose import choose
from cgf.plan.cost import mask_rows
from cgf.plan.plan import stretched
from cgf.plan.request import Request
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.softmax.bpmax import BPMax
from cgf.softmax.exact import Exact
from cgf.softmax.tensor import TensorRows

TOLERANCE = 1e-4  # largest error of the exponential, unless told
MARGIN = 1.1  # the guard holds the matrix's own range, stretched by this
VANISHING = -700.0  # exp of less is no number of float64


@dataclass(frozen=True)
class AppliedSoftmax:
    """weights (R, N) decrypted; levels read off the ciphertexts; seconds of packing, encryption, circuit, decryption;
    error: the largest difference from the method's own definition, its exponential the true one."""

    weights: np.ndarray
    levels: int
    seconds: float
    error: float


def apply_softmax(
    matrix: ArrayLike | torch.Tensor,
    method: str | Softmax = "cgf",
    engine: str = "desilo",
    *,
    tolerance: float | None = None,
) -> AppliedSoftmax:
    """The softmax of each row of a matrix (R, N) of scores, through ciphertexts.

    matrix  numbers, an array or a tensor, finite;  engine: 'desilo' encrypts, 'sim' computes the circuit in the clear
    method  a name or a Softmax. One with an exponential is given the polynomial of fewest levels that holds
            ``tolerance`` on the range of this very matrix, which is read in the clear for it.
    tolerance  largest error of the exponential: absolute where its argument is at most 0, relative above; None: 1e-4.
            UserError beside a softmax that is given no polynomial

    Every entry counts: there is no mask. A weight below the exponential's error is not told from 0.
    Raises UserError for another matrix, a method without a circuit, a range that no polynomial holds, and weights that
    are not to be believed: scores beyond what the method's polynomials hold, or an error beyond what is stated.
    """
    if any(map(np.ma.is_masked, matrix if isinstance(matrix, list | tuple) else [matrix])):
        raise UserError(
            "a matrix without masked entries is needed: an array has no place for a mask, and would lose it"
        )
    try:
        scores = np.asarray(
            matrix.detach().cpu().double() if isinstance(matrix, torch.Tensor) and not matrix.is_complex() else matrix
        ).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError) as error:
        raise UserError(f"a matrix (R, N) of finite numbers is needed, and this one is none: {error}") from None
    if scores.ndim != 2 or not scores.size:
        raise UserError(f"a matrix (R, N) of finite numbers is needed, and its shape is {scores.shape}")
    if not (finite := np.isfinite(scores)).all():
        row, column = np.argwhere(~finite)[0]
        raise UserError(
            f"a matrix (R, N) of finite numbers is needed, and row {row + 1} has {scores[row, column]} in column "
            f"{column + 1}"
        )
    softmax, make_owner = softmax_of(method), owner(engine)
    if isinstance(softmax, Exact):
        raise UserError("the exact softmax has no circuit: 'standard' is softmax by polynomials and a division")
    if isinstance(softmax, BPMax):
        raise UserError(f"softmax '{softmax.name}' needs a denominator that training measures, and a matrix has none")
    if np.abs(scores).max() > HOPELESS:
        raise UserError(f"scores of at most 2^40 are needed, and one is {np.abs(scores).max():.3g}")
    rows = torch.from_numpy(scores)[None, None]
    with torch.no_grad():
        truth = _definition(softmax, rows)[0, 0].numpy()
        softmax = copy.deepcopy(softmax)  # the user's own is left as it is
        if isinstance(softmax, ExponentialSoftmax) and softmax.exponential is None:
            _plan(softmax, rows, TOLERANCE if tolerance is None else tolerance)
        elif tolerance is not None:
            raise UserError(
                f"softmax '{softmax.name}' is given no polynomial, and tolerance={short(tolerance)} is about one: "
                "leave it out"
            )
        depth(softmax, mask_rows("full", 1, scores.shape[1]), scores.shape[1])  # makes its fits, which are no circuit
    session = Session(make_owner)
    encrypted, start = Encrypted(softmax, session), time.perf_counter()
    try:
        with torch.no_grad():
            weights = encrypted.weights(rows)[0, 0].double().numpy()
    finally:
        session.close()
    seconds, record = time.perf_counter() - start, encrypted.take_record()
    if faults := _faults(record, softmax):
        raise UserError(f"the weights of softmax '{softmax.name}' are not to be believed: {'; '.join(faults)}")
    return AppliedSoftmax(weights, record.levels, seconds, float(np.abs(weights - truth).max()))


def _faults(record: LayerRecord, softmax: Softmax) -> list[str]:
    """Why the weights of a matrix are not to be believed; empty where they are."""
    intervals = softmax.intervals()
    guard = "" if intervals is None else f", [{intervals[1][0]:.4g}, {intervals[1][1]:.4g}]"
    said = {
        f"{record.beyond} of {record.entries} entries lie beyond what its polynomials hold{guard}": record.beyond,
        f"{record.overflow} slots held more than a ciphertext can": record.overflow,
        "they came back as no finite numbers": record.count("ruined"),
        f"{record.count('wrong')} are further from the same polynomials in the clear than ten times the noise that is "
        "stated for the engine": record.count("wrong"),
        f"{record.count('inexact')} are further from what it defines than ten times its stated error, though their "
        "scores lie in its domain": record.count("inexact"),
    }
    return [sentence for sentence, count in said.items() if count]


def _definition(softmax: Softmax, scores: torch.Tensor) -> torch.Tensor:
    if isinstance(softmax, ExponentialSoftmax):  # the true one, whatever polynomial it carries
        y = softmax.exponent(TensorRows.of(scores, None, torch.float64))
        return softmax.from_exponentials(y.exp()).data
    known = softmax.reference(scores)
    return softmax.weights(scores) if known is None else known[0]


def _plan(softmax: ExponentialSoftmax, scores: torch.Tensor, tolerance: float) -> None:
    """Puts in the polynomial for these scores."""
    y = softmax.argument(TensorRows.of(scores, None)).data
    range_ = (float(y.min()), float(y.max()))
    if range_[1] < VANISHING:
        raise UserError(
            f"softmax '{softmax.name}' needs exponents that exp does not take to zero, and the largest of "
            f"this matrix is {range_[1]:.4g}: its rows vary too much"
        )
    domain = range_ if range_[0] < range_[1] else (range_[0] - 1.0, range_[1])
    request = Request(
        with_zero(stretched(domain, MARGIN)),
        domain,
        tolerance,
        rows=scores.shape[-2],
        columns=scores.shape[-1],
        softmax=softmax,
    )
    softmax.exponential = choose(request).exponential
