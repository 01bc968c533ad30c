"""configs/paper.yaml: every row of the paper's tables and figures has a command that this repository understands."""

import importlib.util
import json
import re
import shlex

import pytest
import yaml
from digits_checkpoint import ROOT, call
from test_experiments import PAPER

from cgf.config import CONFIGS, check_overrides, compose
from cgf.published import PAPER_K

MAP = yaml.safe_load((CONFIGS / "paper.yaml").read_text())
ROWS = [(f"{label}: {row}", command) for label, commands in MAP.items() for row, command in commands.items()]
# rows of each table and figure of the paper
WANTED = {
    "table benefitofcgf": 7,
    "table depth_analysis": 6,
    "table softmax_complexity": 2,
    "table softmax_runtime": 2,
    "figure llama_depth": 3 * 6,
    "figure vit_depth": 4 * 6,
    "figure kappa3_4": 1,
    "figure relative_error": 2,
    "table k_values": 2 * 7,
    "table configurations": 6,
    "table alt_pipeline": 3 * 4,
}


def parsed(command):
    """(script, overrides) of a command line."""
    python, script, *arguments = shlex.split(command)
    assert python == "python"
    return script, [a for a in arguments if a != "--multirun"]


def values(command, key):
    return [o.partition("=")[2] for o in parsed(command)[1] if o.partition("=")[0] == key]


def experiments():
    """(experiment, model=... or task=...) of every training in the map."""
    trainings = {
        tuple(o for o in parsed(command)[1] if o.split("=")[0] in ("experiment", "model", "task"))
        for _, command in ROWS
        if values(command, "experiment")
    }
    return {(first.partition("=")[2], choice) for first, choice in trainings}


def test_every_table_and_figure_has_its_rows():
    assert {label: len(commands) for label, commands in MAP.items()} == WANTED


@pytest.mark.parametrize("command", sorted({command for _, command in ROWS}))
def test_a_command_composes(command):
    script, overrides = parsed(command)
    source = (ROOT / script).read_text()
    entry = re.search(r'@entry\("(\w+)"\)', source)
    assert entry or not overrides  # scripts/bench/paper_k.py takes none
    if entry:
        check_overrides(entry[1], overrides)
        compose(entry[1], overrides)
    experiment = values(command, "experiment")
    if experiment:
        swept = "params:" in (CONFIGS / "experiment" / f"{experiment[0]}.yaml").read_text()
        assert swept == ("--multirun" in command)


def test_every_checkpoint_is_that_of_an_experiment_in_the_map():
    runs = {f"outputs/{compose('train', [f'experiment={e}', choice]).run}" for e, choice in experiments()}
    needed = {path for _, command in ROWS for key in ("ckpt", "compare") for path in values(command, key)}
    assert needed and needed <= runs


def test_every_experiment_of_the_paper_is_a_row():
    assert experiments() == set(PAPER)


def test_k_are_those_of_the_paper():
    spec = importlib.util.spec_from_file_location("paper_k", ROOT / "scripts" / "bench" / "paper_k.py")
    paper_k = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(paper_k)
    approximations = [compose("eval_plain", parsed(command)[1]).approx for command in MAP["table k_values"].values()]
    for method in paper_k.INTERVALS:
        ks = [getattr(published, method) for published in PAPER_K]
        own = [approx for approx in approximations if approx.method == method]
        assert [approx.k for approx in own] == ks
        assert [tuple(approx.range) for approx in own] == [paper_k.interval(method, k) for k in ks]
        assert {approx.get("degree") for approx in own} == ({15} if method == "chebyshev" else {None})


def test_another_softmax_than_the_trained_one(checkpoint, tmp_path):
    """Cho et al. in the place of the trained softmax agrees with exact softmax there, and says what lay outside."""

    def result(*arguments):
        done = call(
            "eval_plain", f"ckpt={checkpoint}", "samples=40", "predictions=true", f"out={tmp_path}/r.json", *arguments
        )
        assert done.returncode == 0, done.stderr
        told = json.loads((tmp_path / "r.json").read_text())
        (tmp_path / "r.json").unlink()  # that of another softmax is kept
        return told

    trained, exact = result(), result("softmax=exact")
    cho = result("softmax=cho", "softmax.bound=64", "softmax.high=32", "softmax.n=16")
    narrow = result("softmax=cho", "softmax.bound=64", "softmax.high=32", "softmax.n=16", "domain=[-0.01,0.01]")
    assert [r["softmax"] for r in (trained, exact, cho)] == ["cgf", "exact", "cho"]
    assert [r["trained_with"] for r in (trained, exact, cho)] == ["cgf"] * 3
    assert (exact["approx"], cho["approx"]) == ("exact", "own") and exact["range"] is None
    assert cho["predictions"] == exact["predictions"] and cho["loss"] == pytest.approx(exact["loss"], rel=1e-2)
    assert exact["loss"] != trained["loss"]  # that of Cho et al. may round to the exact one's: its range tells it apart
    assert cho["outside_domain"] == 0 and -32 < cho["range"][0] < 0 < cho["range"][1] < 32
    assert narrow["outside_domain"] > 0.5
    burst = call("eval_plain", f"ckpt={checkpoint}", "samples=40", "softmax=cho", "softmax.bound=0.01", "softmax.k=1")
    assert burst.returncode == 2 and "gives no finite numbers here; its entries reach from" in burst.stderr
    other = call("eval_plain", f"ckpt={checkpoint}", "samples=40", "not_finite=drop")
    assert other.returncode == 2 and "not_finite must be one of refuse, wrong, and 'drop' was given" in other.stderr
    refused = call("eval_plain", f"ckpt={checkpoint}", "softmax=bpmax")
    assert refused.returncode == 2 and "denominator that training measured" in refused.stderr
    assert call("eval_plain", f"ckpt={checkpoint}", "samples=8", "softmax=exact").returncode == 0
    (name,) = [path.name for path in (checkpoint / "eval").iterdir()]  # apart from evaluations as trained
    assert re.fullmatch(r"plain-exact-[0-9a-f]{8}-exact-test-8\.json", name)
