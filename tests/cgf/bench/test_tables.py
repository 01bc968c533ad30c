"""The tables and plots of the benchmarks say what the result says."""

from copy import deepcopy

import pytest

from cgf.report.cost import KINDS, _numbers, draw_depths, draw_softmax, print_complexity, print_softmax
from cgf.report.noise import draw_noise, print_noise

PNG = b"\x89PNG\r\n"
OPS = dict.fromkeys(KINDS, 3)
ROW = {
    "ring_slots": 16384,
    "levels_counted": 7,
    "ops": OPS,
    "max_error": 4e-6,
    "eta": 5e-6,
    "peak_mib": 900.0,
    "seconds": {
        "median": 1.25,
        "low": 1.2,
        "high": 1.3,
        "runs": [1.2, 1.3],
        "by_operation": {k: {"median": 0.1, "low": 0.1, "high": 0.1} for k in KINDS},
    },
}
METHOD = {
    "method": "m",
    "maximum": "none",
    "division": False,
    "adaptive": True,
    "published_traits": None,
    "levels": 7,
    "published_levels": None,
    "ops": OPS,
    "ciphertexts": 2,
    "domain": [-128.0, 0.0],
    "error_bound": 2e-6,
}
COUNTS = {"levels": 7, "ops": OPS, "max_error": 1e-6, "formula": {"levels": 9, "cmult": 8, "rotate": 6, "boot": 1}}
ERRORS = {"max_error": 1.5e-8, "mean_error": 2.5e-9, "eta": 3.5e-7}
NOISY = {"levels": 6, "ring_slots": 8192, **ERRORS, "polynomials": ERRORS, "noise": ERRORS}
LIBRARY = {"slots": 8192, "square_uniform": ERRORS, "square_sixteenth": ERRORS}
ENGINE = {
    "engine": "library 1.0",
    "inputs": "4 rows",
    "standard": [{**NOISY, "iterations": 1}],
    "cgf": {"paper": NOISY, "ours": NOISY},
    "authors_setting": {**NOISY, "library": LIBRARY},
}
NOISE = {
    "engines": [ENGINE],
    "precisions": {"FP32": 2.0**-23},
    "published": {"cgf_depth_7": 3.05e-10, "authors_mean_error": 1.1222e-11},
    "polynomial_by_seed": {"seeds": 2, "mean": 1.1e-11, "least": 1e-11, "most": 1.2e-11},
}


def test_softmax_rows_show_seconds_counts_and_ratios(capsys, tmp_path):
    result = {"ours": ROW, "paper": {**ROW, "max_error": 3e-7}, "ratio_paper": 5.678}
    print_softmax(result)
    said = capsys.readouterr().out
    assert "1.25 (1.20 to 1.30)" in said and " 0.10 " in said and "4.0e-06" in said and "3.0e-07" in said
    assert "ratio_paper: 5.68" in said and "Cho" not in said  # a row that was not measured is not shown
    draw_softmax(result, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("traits, says", [(None, ""), (("none", False, True), "yes"), (("none", True, True), "NO")])
def test_a_trait_that_is_not_the_papers_shows(capsys, tmp_path, traits, says):
    result = {
        "rows": 4,
        "columns": 8,
        "methods": [{**METHOD, "published_traits": traits}],
        "notes": ["a note"],
        "by_k": [{"k": 1, "cgf": COUNTS, "cho": COUNTS, "ours": COUNTS}],
        "paper_k": [{"model": "ViT", "k": [6, 8], "levels": [12, 10], "least": 10}],
    }
    print_complexity(result)
    said = capsys.readouterr().out
    row = next(line for line in said.splitlines() if line.startswith("│ m "))
    assert [cell.strip() for cell in row.split("│")[2:6]] == ["none", "no", "yes", says]
    assert "-128 to 0" in row and "2e-06" in row and "7 (9)" in said and "- a note" in said and "[12, 10]" in said
    draw_depths(result, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(PNG)


def test_a_method_without_a_domain_says_so(capsys):
    stated = {
        "rows": 4,
        "columns": 8,
        "methods": [{**METHOD, "domain": "none", "error_bound": "none"}],
        "notes": [],
        "by_k": [],
        "paper_k": [],
    }
    print_complexity(stated)
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("│ m "))
    assert [cell.strip() for cell in row.split("│")[-3:-1]] == ["none", "none"]


def test_published_depths_are_read_as_numbers():
    assert [_numbers(s) for s in (None, 30, "22 / 26 / 30", "7 to 10")] == [[], [30], [22, 26, 30], [7, 10]]


def test_noise_of_every_engine(capsys, tmp_path):
    other = {**deepcopy(ENGINE), "engine": "library 2.0"}
    print_noise({**NOISE, "engines": [ENGINE, other]})
    said = capsys.readouterr().out
    assert "library 1.0: 4 rows" in said and "library 2.0: 4 rows" in said
    assert said.count("standard, 1 iterations") == 2 and "1.50e-08" in said and "3.50e-07" in said
    assert "3.05e-10 at depth 7" in said and "1.1222e-11" in said and "2 seeds" in said
    draw_noise({**NOISE, "engines": [ENGINE, other]}, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(PNG)
