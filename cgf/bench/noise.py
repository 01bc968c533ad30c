"""Noise of softmaxes under CKKS on whatever engine; without torch and Hydra, so that it runs where the engine does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from cgf.approx import fit
from cgf.approx.polynomial import Polynomial
from cgf.bench.job import rows_of
from cgf.bench.matrix import errors, exact_softmax, exponent
from cgf.errors import UserError
from cgf.he.dryrun import CircuitCost, dry_run
from cgf.he.engines.engine import Owner, Ring, rings_of
from cgf.he.engines.sim import SimOwner
from cgf.he.packed import Packed
from cgf.softmax.base import Softmax
from cgf.softmax.cgf import CGF
from cgf.softmax.published.standard import Standard
from cgf.types import Json

# both softmaxes of the figure take the paper's polynomial: degree 15 on [-8, 0], squared once
WIDTH, K = 16.0, 1


@dataclass(frozen=True)
class Bench:
    """An engine, and how often each circuit runs on it (same keys, fresh encryptions; the worst counts)."""

    make: Callable[[int], Owner]
    rings: tuple[Ring, ...]
    runs: int

    @classmethod
    def of(cls, make_owner: Callable[[int], Owner], runs: int = 1) -> Bench:
        """The engines that ``make_owner`` makes, each made once, and the rings that it offers."""
        return cls(cache(make_owner), rings_of(make_owner), runs)


def measure(
    make_owner: Callable[[int], Owner], rows: int, columns: int, steps: Sequence[int], seed: int, runs: int
) -> Json:
    """All of it on one engine: the figure, and the authors' setting with the engine's own noise."""
    if rows < 1 or columns < 2 or runs < 1 or not steps:
        raise UserError(
            "the noise figure needs at least 1 row, 2 columns, 1 run and one number of steps, and has "
            f"{rows}, {columns}, {runs} and {list(steps)}"
        )
    bench = Bench.of(make_owner, runs)
    return {
        "inputs": f"{rows} rows of {columns} scores from N(0, 1), seed {seed}",
        **figure(bench, normal_scores(rows, columns, seed), steps),
        "authors_setting": authors(bench, normal_scores(256, 256, seed)),
    }


def normal_scores(rows: int, columns: int, seed: int) -> np.ndarray:
    """Scores (rows, columns) from N(0, 1)."""
    return np.random.default_rng(seed).standard_normal((rows, columns))


def figure(bench: Bench, x: np.ndarray, steps: Sequence[int]) -> Json:
    """Standard softmax by Goldschmidt steps and CGF-softmax on scores x (rows, columns) in [-11, 5]."""
    return {"standard": [standard(bench, x, n) for n in steps], "cgf": cgf(bench, x)}


def standard(bench: Bench, x: np.ndarray, steps: int) -> Json:
    """exp in 5 levels (the paper counts 6: here the scaling rides on the encoding), then one a step.

    The shift is public, 5; the denominators' interval is that of these rows, a quarter wider at either end.
    """
    sums = np.exp(x).sum(1)
    softmax = Standard(
        low=5.0 - WIDTH,
        high=5.0,
        n=x.shape[1],
        k=K,
        iterations=steps,
        least=float(0.8 * sums.min()),
        most=float(1.25 * sums.max()),
    )
    return {
        "iterations": steps,
        "division_error": softmax.divider.max_error,
        **noise_of(bench, softmax, "folded", x, exact_softmax(x)),
    }


def cgf(bench: Bench, x: np.ndarray) -> Json:
    """The paper's circuit at depth 7, and ours on the same interval: statistics in one level, one fitted polynomial."""
    truth, result = np.exp(exponent(x)), {}
    for name, exponential, style in (
        ("paper", fit.chebyshev(-WIDTH, 0.0, 15, K), "paper"),
        ("ours", fit.fitted(-WIDTH, 0.0, 15, 1), "folded"),
    ):
        softmax = CGF()
        softmax.exponential = exponential
        result[name] = noise_of(bench, softmax, style, x, truth)
    return result


def authors_exponential(points: int = 1000) -> Polynomial:
    """Degree 15 on [-7, 1] by numpy's chebfit on evenly spaced points, as the authors' code has it; k = 2."""
    t = np.linspace(-7.0, 1.0, points)
    series = np.polynomial.chebyshev.chebfit((t + 3.0) / 4.0, np.exp(t), 15)
    powers = np.polynomial.chebyshev.cheb2poly(series)
    return Polynomial("chebyshev", 1 / 16, 3 / 4, tuple(float(c) for c in powers), 2)  # u = (y / 4 + 3) / 4


def authors(bench: Bench, x: np.ndarray) -> Json:
    """The authors' own setting, depth 8: scores x (256, 256) from N(0, 1); with what the engine does to one square."""
    softmax = CGF()
    softmax.exponential = authors_exponential()
    return {**noise_of(bench, softmax, "paper", x, np.exp(exponent(x))), "library": library(bench.make(8))}


def noise_of(bench: Bench, softmax: Softmax, style: str, x: np.ndarray, truth: np.ndarray) -> Json:
    """Errors against ``truth`` on ciphertexts, of the polynomials alone (simulator), and the noise between the two."""
    needs = dry_run(softmax, rows_of(*x.shape), x.shape[1], style, rings=bench.rings)
    clear, _ = evaluated(SimOwner(needs.max_level, rings=bench.rings), needs, x)
    measured: list[Json] = []
    for _ in range(bench.runs):
        got, levels = evaluated(bench.make(needs.max_level), needs, x)
        noise = np.abs(got - clear)
        measured.append(
            {
                "levels": levels,
                **errors(truth, got),
                "noise": {"max_error": float(noise.max()), "mean_error": float(noise.mean())},
            }
        )
    worst = max(measured, key=lambda row: row["max_error"])
    return {
        **worst,
        "polynomials": errors(truth, clear),
        "ring_slots": needs.layout.slots,
        "runs": bench.runs,
        "mean_weight": float(truth.mean()),
    }


def evaluated(owner: Owner, needs: CircuitCost, x: np.ndarray) -> tuple[np.ndarray, int]:
    """Weights of one encryption, evaluation and decryption, and the levels that it took."""
    vectors, engine = needs.layout.pack(x * needs.circuit.input_scale), owner.evaluator(needs.rotations)
    cts = tuple(owner.encrypt(vector, needs.max_level) for vector in vectors)
    result = needs.circuit.run(Packed(engine, needs.layout, rows_of(*x.shape), cts)).relinearized()
    weights = needs.circuit.opened(needs.layout.unpack([owner.decrypt(ct) for ct in result.cts]))
    return weights, needs.max_level - int(result.level)


def library(owner: Owner) -> Json:
    """Error of a fresh encryption and of one square: of [-1, 1], and of 1/16, whose square is a weight of 1/256."""
    engine = owner.evaluator(frozenset())
    result: Json = {"slots": owner.slots}
    uniform = np.random.default_rng(1).uniform(-1, 1, owner.slots)
    for name, values in (("uniform", uniform), ("sixteenth", np.full(owner.slots, 1 / 16))):
        fresh = owner.encrypt(values, owner.max_level)
        squared = owner.decrypt(engine.relinearize(engine.square(fresh)))
        for what, difference in (("fresh", owner.decrypt(fresh) - values), ("square", squared - values**2)):
            result[f"{what}_{name}"] = {
                "max_error": float(np.abs(difference).max()),
                "mean_error": float(np.abs(difference).mean()),
            }
    return result
