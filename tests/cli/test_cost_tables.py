"""The commands of the cost tables, small, and what they say of bad settings."""

import json

import pytest
from digits_checkpoint import call

from cgf.he.engines import desilo, desilo_library
from cgf.softmax.load import DEFINITIONS

PNG = b"\x89PNG\r\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_complexity(place):
    done = call("complexity", "rows=16", "columns=16", "out=found/complexity.json")
    assert done.returncode == 0, done.stderr
    found = json.loads((place / "found" / "complexity.json").read_text())
    assert (place / "found" / "complexity.png").read_bytes().startswith(PNG)
    assert [row["least"] for row in found["paper_k"]] == [8, 8, 9, 10, 8, 7, 7]  # the paper's depth column
    for row in found["by_k"]:
        counts = {"levels": row["cgf"]["levels"], **row["cgf"]["ops"]}
        formula = row["cgf"]["formula"]
        assert formula == {"levels": row["k"] + 6, "cmult": row["k"] + 10, "rotate": 8, "boot": (row["k"] + 6) // 10}
        assert (counts["levels"], counts["rotate"]) == (formula["levels"], formula["rotate"])
        assert counts["cmult"] == formula["cmult"] - 1  # degree 15 in 8 products
        assert row["ours"]["levels"] == row["ours"]["ops"]["cmult"] == row["k"] + 3
    methods = {row["method"]: row for row in found["methods"]}
    circuits = {cls.name for cls in DEFINITIONS if cls.encryptable}
    assert {row["name"] for row in methods.values()} == circuits  # CGF-softmax in three forms
    assert len(methods) == len(circuits) + 2 and found["run"]["config"]["rows"] == 16
    for row in methods.values():  # the paper's table of maximum, division and adaptivity
        traits = row["published_traits"]
        assert traits is None or traits == [row["maximum"], row["division"], row["adaptive"]]
        assert row["method"] in done.stdout and row["setting"] is not None
        assert row["source"] and row["domain"] and row["guard"] and row["error_bound"] is not None, row["method"]
    domains = {m: (row["domain"], row["guard"]) for m, row in methods.items()}
    assert domains["ours: chain of 6, folded"][0] == [-128, 0] and domains["BPMax, p = 5"] == ("none", "none")
    assert domains["ours: chain of 6, folded"][1][0] <= -128 and domains["HETAL"][1] == "none"
    assert domains["Taylor, degree 3"][0] == [-12, -8] and 0 < methods["Taylor, degree 3"]["error_bound"] < 1e-3
    assert [methods[m]["levels"] for m in ("ours: chain of 6, folded", "paper: Chebyshev 15, k = 4")] == [7, 10]
    assert "NO" not in done.stdout.split() and "counted off the circuits" in done.stdout


def test_noise_shows_what_other_engines_left(place, monkeypatch):
    """On the simulator in place of the library: the command, its files and its words."""
    from cgf.he.engines.sim import SimOwner

    monkeypatch.setattr(desilo, "DesiloOwner", SimOwner)
    small = ["rows=4", "columns=8", "steps=[1,3]", "runs=1", "seeds=1", "out=noise.json"]
    done = call("noise", *small)
    assert done.returncode == 0, done.stderr
    first = json.loads((place / "noise.json").read_text())
    assert len(first["engines"]) == 1 and first["engines"][0]["inputs"] == "4 rows of 8 scores from N(0, 1), seed 42"
    assert first["precisions"]["FP32"] == 2**-23 and first["published"]["cgf_depth_7"] == 3.05e-10
    assert first["engines"][0]["authors_setting"]["levels"] == 8
    (place / "noise_other.json").write_text(json.dumps({**first["engines"][0], "engine": "another library 1.0"}))
    (place / "noise.png").unlink()
    done = call("noise", *small)
    assert done.returncode == 0, done.stderr
    assert (place / "noise.png").read_bytes().startswith(PNG)
    both = json.loads((place / "noise.json").read_text())["engines"]
    assert [e["engine"] for e in both] == [f"desilofhe {desilo_library.VERSION}", "another library 1.0"]
    assert "another library 1.0" in done.stdout and "polynomial alone" in done.stdout


@pytest.mark.parametrize(
    "script, argument, says",
    [
        ("complexity", "rows=0", ["rows must lie in 1 to 32768", "0 x 256"]),
        ("complexity", "columns=1", ["columns in 2 to 32768", "256 x 1"]),
        ("complexity", "rows=many", ["rows must be a whole number", "'many'"]),
        ("complexity", "colums=4", ["unknown setting 'colums' for complexity"]),
        ("noise", "rows=0", ["at least 1 row, 2 columns", "0, 128"]),
        ("noise", "steps=[]", ["number of steps"]),
        ("noise", "steps=[0]", ["1 to 60 iterations, and 0"]),
        ("noise", "runs=0", ["1 run"]),
        ("noise", "seed=x", ["seed must be a whole number", "'x'"]),
        ("noise", "seeds=0", ["seeds must be at least 1, and 0"]),
        ("softmax_cost", "worker=2", ["unknown setting 'worker' for softmax_cost"]),
        ("softmax_cost", "runs=x", ["runs must be a whole number", "'x'"]),
        ("softmax_cost", "runs=0", ["runs must be a whole number of at least 1, and 0 was given"]),
        ("softmax_cost", "tries=null", ["tries must be a whole number of at least 1, and None"]),
        ("softmax_cost", "workers=3", ["workers must divide the 256 rows", "workers=3"]),
        ("softmax_cost", "cho=tiny", ["small or medium, and 'tiny'"]),
        ("softmax_cost", "batched=maybe", ["batched must be true or false"]),
    ],
)
def test_bad_settings(place, script, argument, says):
    done = call(script, argument)
    assert done.returncode == 2 and not list(place.iterdir())
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    for text in says:
        assert text in lines[0]


@pytest.mark.parametrize(
    "held", [{"ours": {"seconds": {"mean": 1.25, "std": 0.05}}}, {"ours": {"ops": {}}}, {"ours": 3}, [1]]
)
def test_a_file_of_other_seconds_is_refused_before_anything_is_measured(place, held):
    (place / "softmax.json").write_text(json.dumps(held))
    done = call("softmax_cost", "out=softmax.json", "matrix=false", "batched=false")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "must hold circuits with the median of their seconds, and has none of " in done.stderr
    assert json.loads((place / "softmax.json").read_text()) == held
