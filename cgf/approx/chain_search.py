"""Where the parameters of a square chain are found: seeded starts, least squares, minimax.

A chain z_{i+1} = z_i^2 + c_i is searched by its values at y = 0: v_0 = beta, v_{i+1} = v_i^2 + c_i. In the
constants themselves good chains lie along curved valleys (more of c_i is undone by less of c_{i+1}) on which
every method crawls; in v the valleys are nearly straight. v_k is close to exp(0) = 1, the slope there,
alpha 2^k v_0 .. v_{k-1}, is close to 1 as well, and good v lie between 1/2 and 3/2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import least_squares as minpack

from cgf.approx.minimax import Model, exchange, largest, least_squares

BAD = 1e50  # residual of a chain that overflows


def fit_points(lo: float, hi: float, count: int) -> np.ndarray:
    """Chebyshev nodes of [lo, hi], half as many again of [-30, hi] where exp is not yet flat, and the ends."""

    def nodes(left: float, n: int) -> np.ndarray:
        return (left + hi) / 2 + (hi - left) / 2 * np.cos(np.pi * (np.arange(n) + 0.5) / n)

    parts = [nodes(lo, count), np.array([lo, hi])]
    if lo < -30.0 < hi:
        parts.append(nodes(-30.0, count // 2))
    return np.unique(np.concatenate(parts))


def error_weights(y: np.ndarray) -> np.ndarray:
    """1 for y <= 0 and exp(-y) above: absolute error where exp is below 1, relative error where above."""
    weights: np.ndarray = np.exp(-np.maximum(y, 0.0))
    return weights


def constants_of(v: np.ndarray) -> np.ndarray:
    """c_i = v_{i+1} - v_i^2 of values (..., k + 1) at y = 0."""
    constants: np.ndarray = v[..., 1:] - v[..., :-1] ** 2
    return constants


def chain_model(y: np.ndarray, alpha: float | None) -> Model:
    """Weighted error of chains (S, P) at y (N,), P = [alpha,] v_0 .. v_k; alpha None: it is searched too."""
    target, weights = np.exp(y), error_weights(y)
    first = 0 if alpha is None else 1

    def model(params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        full = params if alpha is None else np.insert(params, 0, alpha, axis=1)
        v = full[:, 1:]
        k = v.shape[1] - 1
        with np.errstate(all="ignore"):
            # 1. Forward: z_0 = alpha y + v_0, z_{i+1} = z_i^2 + c_i with c_i = v_{i+1} - v_i^2.
            constants = constants_of(v)
            values = [full[:, :1] * y + v[:, :1]]
            for i in range(k):
                values.append(values[-1] ** 2 + constants[:, i : i + 1])
            # 2. Backward, with slope = weight dz_k / dz_{i+1}: v_i enters z_i as + v_i and z_{i+1} as - v_i^2, so that
            #    dz_k / dv_i = dz_k / dz_{i+1} 2 (z_i - v_i); v_k enters z_k alone, as + v_k.
            jacobian = np.empty((len(full), len(y), k + 2))
            slope = np.broadcast_to(weights, values[0].shape)
            jacobian[:, :, k + 1] = slope
            for i in reversed(range(k)):
                jacobian[:, :, i + 1] = slope * (2.0 * (values[i] - v[:, i : i + 1]))
                slope = slope * (2.0 * values[i])
            # 3. dz_0 / dalpha = y.
            jacobian[:, :, 0] = slope * y
            residuals = (values[-1] - target) * weights
        return residuals, jacobian[:, :, first:]

    return model


def polish(model: Model, start: np.ndarray, evaluations: int) -> np.ndarray:
    """Least squares from one start (P,) by MINPACK, whose QR resolves what normal equations do not."""

    def part(index: int) -> Callable[[np.ndarray], np.ndarray]:
        return lambda p: np.nan_to_num(model(p[None])[index][0], nan=BAD, posinf=BAD, neginf=-BAD)

    with np.errstate(all="ignore"):  # squares of BAD overflow: such a start stays where it is
        params: np.ndarray = minpack(
            part(0),
            start,
            part(1),
            method="lm",
            x_scale="jac",
            xtol=1e-14,
            ftol=1e-14,
            gtol=1e-14,
            max_nfev=evaluations,
        ).x
    return params


def random_starts(k: int, count: int, alpha: float | None, rng: np.random.Generator) -> np.ndarray:
    """(count, P) parameters with the value and slope of exp at 0; the limit approximation first."""
    # 1. v_i scattered around 1, by a width of each start's own; the last ones stay 1, for exp(0) = 1.
    width = np.exp(rng.uniform(np.log(0.05), np.log(0.5), (count, 1)))
    v = np.exp(width * rng.standard_normal((count, k + 1)))
    late = np.arange(k + 1) >= max(2, k - 1)
    v[:, late] = 1.0
    v[0] = 1.0
    # 2. The slope at 0 is alpha 2^k v_0 .. v_{k-1} = 1: by alpha where it is free, else by a factor of the early v.
    if alpha is not None:
        early = ~late
        v[:, early] *= (2.0**-k / alpha / np.prod(v, axis=1, keepdims=True)) ** (1 / early.sum())
        return v
    return np.column_stack([2.0**-k / np.prod(v, axis=1), v])


def _distinct(params: np.ndarray, errors: np.ndarray, keep: int) -> np.ndarray:
    """The best ``keep`` of params, one for each error up to 0.1 %: the others are the same minimum."""
    chosen: list[int] = []
    for index in np.argsort(errors, kind="stable"):
        if not chosen or errors[index] > errors[chosen[-1]] * 1.001:
            chosen.append(int(index))
    return params[chosen[:keep]]


def best_chain(lo: float, hi: float, k: int, alpha: float | None, seed: int) -> np.ndarray:
    """[alpha, beta, c_0 .. c_{k-1}] of the best chain on [lo, hi]: random starts, least squares, then minimax."""
    # 1. 300 starts side by side on few points; of those that ended in one minimum, one; the best 24.
    coarse = chain_model(fit_points(lo, hi, 120), alpha)
    params = least_squares(coarse, random_starts(k, 300, alpha, np.random.default_rng(seed)), steps=50)
    params = _distinct(params, largest(coarse, params), 24)
    # 2. Each to full accuracy on more points; the best four stand beside what became of them.
    middle = chain_model(fit_points(lo, hi, 200), alpha)
    params = np.concatenate([params[:4], [polish(middle, start, 300) for start in params]])
    # 3. Minimax on as many points as the degree 2^k asks for: a little of the best six, all of the best one.
    model = chain_model(fit_points(lo, hi, min(1500, max(400, 6 * 2**k))), alpha)
    params = _distinct(params, largest(model, params), 6)
    pairs = sorted((exchange(model, start, 30) for start in params), key=lambda pair: pair[1])
    best, _ = exchange(model, pairs[0][0], 300, 1e-8)
    # 4. From values at 0 back to constants.
    full = best if alpha is None else np.insert(best, 0, alpha)
    return np.concatenate([full[:2], constants_of(full[1:])])
