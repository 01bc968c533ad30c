"""The noise figure: its parts on the simulator, where noise is none or planted, and on real ciphertexts."""

import numpy as np
import pytest

from cgf.bench import noise
from cgf.bench.matrix import errors, exact_softmax, exponent
from cgf.bench.noise import Bench, authors_exponential, evaluated, figure, normal_scores
from cgf.errors import UserError
from cgf.he.engines.sim import SimOwner

X = normal_scores(8, 32, 1)


class NoisyOwner(SimOwner):
    """Adds 1e-3 to the first slot at decryption, where the entry (0, 0) is."""

    def decrypt(self, ct):
        values = super().decrypt(ct)
        values[0] += 1e-3
        return values


def test_scores_lie_where_the_figure_evaluates_exp():
    x = normal_scores(64, 128, 42)
    assert x.min() > -11 and x.max() < 5 and exponent(x).min() > -16 and exponent(x).max() < 0


def test_on_the_simulator_there_is_no_noise_and_an_iteration_is_a_level():
    found = figure(Bench.of(SimOwner), X, [1, 2, 4])
    steps = found["standard"]
    assert [row["levels"] for row in steps] == [6, 7, 9]
    assert {name: row["levels"] for name, row in found["cgf"].items()} == {"paper": 7, "ours": 6}
    for row in (*steps, *found["cgf"].values()):
        assert row["noise"] == {"max_error": 0.0, "mean_error": 0.0}
        assert {key: row[key] for key in ("max_error", "mean_error", "eta")} == row["polynomials"]
    for row in steps:  # a relative error of the division is at most that of the largest weight
        assert 0 < row["max_error"] <= row["division_error"] * exact_softmax(X).max() + 1e-8
    assert steps[0]["max_error"] > steps[1]["max_error"] > 100 * steps[2]["max_error"]
    assert all(0 < row["max_error"] < 1e-9 for row in found["cgf"].values())


def test_planted_noise_is_told_from_the_polynomials_error():
    clean = figure(Bench.of(SimOwner), X, [1])["cgf"]["paper"]
    row = figure(Bench.of(NoisyOwner, runs=2), X, [1])["cgf"]["paper"]
    assert row["polynomials"] == clean["polynomials"] and row["runs"] == 2
    assert row["noise"]["max_error"] == pytest.approx(1e-3)
    assert row["noise"]["mean_error"] == pytest.approx(1e-3 / X.size)
    assert row["max_error"] == pytest.approx(1e-3, rel=1e-5)


def test_the_worst_of_the_runs_counts(monkeypatch):
    shifts = iter([0.0, 3e-3, 5e-3, 1e-3])  # the first is the simulator's

    def drifting(owner, needs, x):
        weights, levels = evaluated(owner, needs, x)
        return weights + next(shifts), levels

    monkeypatch.setattr(noise, "evaluated", drifting)
    softmax = noise.CGF()
    softmax.exponential = authors_exponential()
    truth = np.exp(exponent(X))
    row = noise.noise_of(Bench.of(SimOwner, 3), softmax, "paper", X, truth)
    assert row["max_error"] == pytest.approx(5e-3, rel=1e-5) and row["noise"]["max_error"] == pytest.approx(5e-3)


def test_the_authors_polynomial_alone_has_the_error_that_they_state():
    """Mean absolute error 1.1222e-11 on 256 x 256 from N(0, 1), in float64: no ciphertext is needed for it."""
    polynomial, y = authors_exponential(), exponent(normal_scores(256, 256, 42))
    assert polynomial.degree == 15 and polynomial.levels == 6
    t = np.linspace(-28, 4, 1001)
    assert np.abs(polynomial(t) - np.exp(t)).max() < 1e-6
    assert errors(np.exp(y), polynomial(y))["mean_error"] == pytest.approx(1.1222e-11, rel=0.01)


def test_the_engines_own_noise_on_the_simulator():
    own = noise.library(SimOwner(2))
    assert own["slots"] == 4096
    assert all(own[f"{w}_{v}"]["max_error"] < 1e-15 for w in ("fresh", "square") for v in ("uniform", "sixteenth"))


def test_real_ciphertexts(desilo):
    found = figure(Bench.of(desilo), X, [1])
    for row in (*found["standard"], *found["cgf"].values()):
        assert 1e-12 < row["noise"]["max_error"] < 1e-5
    assert found["standard"][0]["levels"] == 6 and found["cgf"]["paper"]["levels"] == 7
    own = noise.library(desilo(3))
    assert own["fresh_uniform"]["max_error"] < 1e-12 < 1e-9 < own["square_uniform"]["max_error"] < 1e-6
    # a square's error is proportional to what is squared
    assert own["square_sixteenth"]["mean_error"] < 0.3 * own["square_uniform"]["mean_error"]


@pytest.mark.parametrize("change", [{"rows": 0}, {"columns": 1}, {"steps": []}, {"runs": 0}])
def test_bad_settings_say_need_and_have(change):
    settings = {"rows": 4, "columns": 8, "steps": [1], "seed": 0, "runs": 1, **change}
    with pytest.raises(UserError, match="needs at least 1 row, 2 columns, 1 run and one number of steps, and has"):
        noise.measure(SimOwner, **settings)
