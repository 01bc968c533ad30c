"""Nonlinear minimax fits of few parameters: least squares from many starts, then linear programs.

A model maps parameters (S, P) of S starts at once to residuals (S, N) and Jacobians (S, N, P) at fixed
points; it knows nothing of weights, and the functions here know nothing of exp.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog

Model = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # (S, P) -> residuals (S, N), Jacobians (S, N, P)

HUGE = 1e100  # cost of parameters at which the model overflows


def _cost(residuals: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        cost = np.einsum("sn,sn->s", residuals, residuals)
    return np.where(np.isfinite(cost), cost, HUGE)


def least_squares(model: Model, starts: np.ndarray, steps: int = 60) -> np.ndarray:
    """Levenberg-Marquardt on all starts (S, P) side by side; returns (S, P), never worse than the starts.

    Source: Marquardt 1963, with a damping of its own for each start.
    """
    params = starts.copy()
    damping = np.full(len(params), 1e-2)
    residuals, jacobian = model(params)
    for _ in range(steps):
        # 1. The normal equations of each start: J^T J and J^T r.
        #    The Jacobian may be a view of fewer parameters: as a compact copy in its own order einsum sums it alike.
        cost, compact = _cost(residuals), jacobian.copy(order="K")
        with np.errstate(all="ignore"):
            gram = np.einsum("snp,snq->spq", compact, compact)
            slope = np.einsum("snp,sn->sp", compact, residuals)
        # 2. A start whose model overflows takes part with a harmless system, and stays where it is.
        alive = np.isfinite(gram).all((1, 2)) & np.isfinite(slope).all(1)
        gram[~alive], slope[~alive] = np.eye(params.shape[1]), 0.0
        # 3. Marquardt's damping on the diagonal (a view of gram), then columns scaled to a diagonal of one.
        diagonal = np.einsum("spp->sp", gram)
        diagonal *= 1.0 + damping[:, None]
        diagonal += 1e-300 + 1e-18 * diagonal.max(1, keepdims=True)
        scale = 1.0 / np.sqrt(diagonal)
        step = _solve(gram * scale[:, :, None] * scale[:, None, :], slope * scale)
        # 4. A step is taken where it lowers the cost; there the damping falls, elsewhere it grows.
        trial = params - step * scale
        trial_residuals, trial_jacobian = model(trial)
        better = _cost(trial_residuals) < cost
        params[better] = trial[better]
        residuals[better], jacobian[better] = trial_residuals[better], trial_jacobian[better]
        damping = np.clip(np.where(better, damping * 0.2, damping * 6.0), 1e-15, 1e12)
    return params


def _solve(gram: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Solutions (S, P) for matrices (S, P, P) of unit diagonal."""
    try:
        solutions = np.linalg.solve(gram, slope[..., None])
    except np.linalg.LinAlgError:  # columns that are parallel to rounding; one such start fails the whole stack
        solutions = np.linalg.solve(gram + 1e-10 * np.eye(gram.shape[-1]), slope[..., None])
    column: np.ndarray = solutions[..., 0]
    return column


def largest(model: Model, params: np.ndarray) -> np.ndarray:
    """Largest absolute residual (S,) of each of (S, P) parameters; HUGE where one is not finite."""
    residuals = np.abs(model(params)[0])
    worst: np.ndarray = np.where(np.isfinite(residuals), residuals, HUGE).max(1)
    return worst


def exchange(model: Model, start: np.ndarray, steps: int = 60, close: float = 1e-4) -> tuple[np.ndarray, float]:
    """A local minimax from start (P,): (parameters, largest absolute residual), never worse than start.

    Each step linearises the residuals at their local extrema (and their neighbours) and solves
    min t, |r + J d| <= t, as Remez' exchange does for linear problems, within a trust region on the relative
    change of each parameter. The linear program is posed in the orthonormal basis of J, because its columns
    are nearly dependent.
    """
    params, reach = start, 0.03
    residuals, jacobian = (part[0] for part in model(params[None]))
    worst = float(np.abs(residuals).max())
    for _ in range(steps):
        # 1. J = Q R: a step d of the program is a change R^-1 d of the parameters, in units of the worst residual.
        orthonormal, triangle = np.linalg.qr(jacobian)
        try:
            back = np.linalg.inv(triangle) * worst
        except np.linalg.LinAlgError:
            break
        # 2. The trust region: no parameter changes by more than the share ``reach`` of its size.
        size = np.abs(params) + 1e-3 * np.abs(params).max()
        region = back / (reach * size[:, None])
        if not (np.isfinite(region).all() and math.isfinite(worst)):  # a start that overflows, or of zeros alone
            break
        # 3. The linear program at the extrema: t is the largest residual it promises, as a share of the worst.
        points = _extrema(residuals)
        solution = _linear_program(residuals[points] / worst, orthonormal[points], region)
        if solution is None:
            break
        # 4. The step, tried on the model itself.
        trial = params + back @ solution[0]
        trial_residuals, trial_jacobian = (part[0] for part in model(trial[None]))
        now = float(np.abs(trial_residuals).max())
        promised = worst * (1.0 - solution[1])
        # 5. No gain (or an overflow): a smaller region, unless nothing worth while was promised.
        if not now < worst:
            if promised < close * worst or reach < 1e-7:
                break
            reach *= 0.25
            continue
        # 6. A gain: the region grows where the promise was kept, and shrinks where it was not.
        gain = (worst - now) / max(promised, 1e-300)
        finished = promised < close * worst and reach > 1e-3
        reach = reach * 3.0 if gain > 0.6 else reach * 0.5 if gain < 0.2 else reach
        params, residuals, jacobian, worst = trial, trial_residuals, trial_jacobian, now
        if finished:
            break
    return params, worst


def _extrema(residuals: np.ndarray) -> np.ndarray:
    """Indices of the local maxima of |r| that matter, their neighbours and both ends."""
    size = np.abs(residuals)
    inner = np.flatnonzero((size[1:-1] >= size[:-2]) & (size[1:-1] >= size[2:])) + 1
    inner = inner[size[inner] > 0.02 * size.max()]
    spread = np.concatenate([inner + d for d in (-4, -2, -1, 0, 1, 2, 4)] + [[0, len(size) - 1]])
    return np.unique(np.clip(spread, 0, len(size) - 1)).astype(int)


def _linear_program(r: np.ndarray, q: np.ndarray, region: np.ndarray) -> tuple[np.ndarray, float] | None:
    """(d, t) with the least t such that |r + q d| <= t and |region d| <= 1."""
    norms = np.maximum(np.abs(region).max(1, keepdims=True), 1e-300)
    ones, none = np.ones((len(r), 1)), np.zeros((len(region), 1))
    result = linprog(
        np.append(np.zeros(q.shape[1]), 1.0),
        A_ub=np.block([[q, -ones], [-q, -ones], [region / norms, none], [-region / norms, none]]),
        b_ub=np.concatenate([-r, r, 1 / norms[:, 0], 1 / norms[:, 0]]),
        bounds=[(None, None)] * q.shape[1] + [(0, None)],
        method="highs",
    )
    return (result.x[:-1], float(result.x[-1])) if result.status == 0 else None
