"""Kept fits: a fit of another source is never taken for one of this source."""

import json
import shutil
from pathlib import Path

from cgf.approx import fit
from cgf.plan.fit_cache import FitCache


def test_a_changed_search_reads_no_fit_of_before(tmp_path, monkeypatch):
    source = shutil.copytree(Path(fit.__file__).parent, tmp_path / "approx")
    monkeypatch.setattr(fit, "__file__", str(source / "fit.py"))
    made = []

    def make():
        made.append(1)
        return fit.limit(-8.0, 0.0, 4)

    for _ in range(2):
        FitCache(tmp_path / "fits").get(("limit",), make)
    assert len(made) == 1
    with (source / "chain_search.py").open("a") as file:
        file.write("# another search\n")
    FitCache(tmp_path / "fits").get(("limit",), make)
    assert len(made) == 2


def test_a_kept_fit_whose_coefficients_were_changed_is_made_anew(tmp_path):
    made = []

    def make():
        made.append(1)
        return fit.chebyshev(-4.0, 0.0, 7)

    first = FitCache(tmp_path).get(("taylor",), make)
    assert FitCache(tmp_path).get(("taylor",), make) == first and len(made) == 1
    (path,) = tmp_path.glob("*.json")
    kept = json.loads(path.read_text())
    kept["coefficients"][0] += 0.01
    path.write_text(json.dumps(kept))
    for _ in range(2):
        assert FitCache(tmp_path).get(("taylor",), make) == first and len(made) == 2
    path.write_text("[" * 100_000)
    assert FitCache(tmp_path).get(("taylor",), make) == first and len(made) == 3


def test_a_fit_that_overflows_is_not_kept(tmp_path):
    made = FitCache(tmp_path).get(("limit",), lambda: fit.limit(-300_000.0, 0.0, 8))
    assert made.fit is not None and made.fit.max_error == float("inf")
    assert not list(tmp_path.glob("*.json"))
