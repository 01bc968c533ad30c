"""scripts/plan.py: a table without a checkpoint, the Pareto set beside plan.json, and a plan a layer."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from digits_checkpoint import call

import cgf.plan
from cgf.approx.fit import limit
from cgf.plan.load import read_plan
from cgf.plan.op_times import TABLE
from cgf.plan.plan import by_layer

TINY = ["samples=100", "tolerance=1e-2", "outside=0.001"]
PNG = b"\x89PNG"


def test_a_range_alone_gives_table_and_plot(tmp_path):
    out = tmp_path / "out"
    done = call(
        "plan",
        "range=[-8,0]",
        "rows=64",
        "columns=64",
        "mask=causal",
        "tolerance=1e-2",
        f"out={out}",
        f"cache={tmp_path / 'fits'}",
        "approx=limit",
        "approx.k=null",
    )
    assert done.returncode == 0, done.stderr
    data = json.loads((out / "pareto.json").read_text())
    assert data["picked"] in data["front"] and {r["method"] for r in data["feasible"]} == {"limit"}
    assert data["picked"]["levels"] == min(r["levels"] for r in data["feasible"])
    assert all(r["max_error"] <= 1e-2 and r["levels"] == 2 + r["levels_core"] for r in data["feasible"])
    assert (out / "pareto.png").read_bytes().startswith(PNG)
    assert "limit" in done.stdout and "seconds" in done.stdout
    assert sorted(p.name for p in out.iterdir()) == ["pareto.json", "pareto.png"]


def test_fits_are_kept_below_the_working_directory_and_times_come_with_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("plan", "range=[-8,0]", "rows=16", "columns=16", "tolerance=1e-2", "approx=limit", "approx.k=null")
    assert done.returncode == 0, done.stderr
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.iterdir()) == [".cache", "outputs"]
    assert list((tmp_path / ".cache" / "fits").glob("*.json"))
    data = json.loads((tmp_path / "outputs" / "plan" / "pareto.json").read_text())
    assert data["picked"]["seconds"] > 0
    measured = Path(__file__).parents[2] / "results" / "bench" / "op_times.json"
    assert TABLE.read_bytes() == measured.read_bytes() and TABLE.parent == Path(cgf.plan.__file__).parent


@pytest.mark.parametrize(
    "arguments, says",
    [
        ([], "ckpt=PATH, or range=[LO,HI]"),
        (["range=[0,-8]"], "finite lo < hi"),
        (["range=[-8,0]", "mask=half"], "full, causal, padding"),
        (["range=[-8,0]", "objective=error"], "levels or seconds"),
        (["range=[-8,0]", "per_layer=true"], "layers of a checkpoint"),
        (["range=[-8,0]", "objective=seconds", "engine=sim"], "op_times.py"),
        (["ckpt=x", "objective=seconds", "pareto=false"], "needs pareto=true"),
        (
            ["ckpt=x", "pareto=false", f"times={TABLE}"],
            "one polynomial is taken, and no seconds are predicted, and times=",
        ),
        (["ckpt=x", "approx.k=3", "engine=sim"], "no seconds are predicted, and engine=sim was given"),
        (["range=[-8,0]", "approx.method=sigmoid"], "approx.method must be auto or one of chain"),
        (
            ["range=[-8,0]", "tolerance=1e-30"],
            "a tolerance of at least 2.2e-16 is needed, the rounding of exp at y = 0",
        ),
        (["range=[-1000,-900]"], "an interval must reach above -700, where exp is a float"),
        (["range=[-8,0]", "ckpt=x"], "without a checkpoint"),
        (["ckpt=x", "split=test"], "choices never see test data"),
        (["ckpt=x", "outside=1.5"], "outside is a share of the entries"),
        (["range=[-8,0]", "rows=0"], "rows must be a whole number of at least 1, and 0 was given"),
        (["range=[-8,0]", "engine=desilio"], "engine must be one of desilo, openfhe, sim, and 'desilio' was given"),
        (["range=[-8,0]", f"times={TABLE}", "engine=sim"], "must hold operation times of engine=sim, and holds those"),
        (["range=[-8,0]", f"times={TABLE}", "engine=desilio"], "must hold operation times of engine=desilio, and"),
        (["range=[-8,0]", "times=none.json"], "none.json is needed, and there is no such file"),
    ],
)
def test_bad_input(tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    limit = ["approx=limit", "approx.k=null", "rows=16", "columns=16", "tolerance=1e-2"]
    done = call("plan", *limit, *arguments, "cache=null")
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not list(tmp_path.iterdir())


def test_the_guard_of_a_range_holds_the_zeros_of_absent_keys(tmp_path):
    """On [-20, -19] a polynomial of 15 alone is 5e12 at 0, where each key that is masked stands."""
    asked = ["range=[-20,-19]", "mask=causal", f"out={tmp_path}", "cache=null"]
    stray = call("plan", *asked, "approx=exact")
    assert stray.returncode == 2 and "approx=exact is for evaluations" in stray.stderr
    refused = call("plan", *asked, "approx=fitted", "approx.degree=15", "approx.k=0")
    assert refused.returncode == 2 and "has a guard that holds (-20.0, 0.0)" in refused.stderr
    assert call("plan", *asked, "approx=limit", "approx.k=null").returncode == 0
    data = json.loads((tmp_path / "pareto.json").read_text())
    assert data["range"] == [-20, 0] and data["picked"]["guard"][1] >= 0


def test_an_engine_of_ones_own_brings_its_times(tmp_path):
    """And a known engine that the package has no times of gets a plan without seconds."""
    table = tmp_path / "times.json"
    table.write_text(json.dumps({**json.loads(TABLE.read_text()), "engine": "heaan"}))
    asked = ["range=[-8,0]", "rows=16", "columns=16", "tolerance=1e-2", "approx=limit", "approx.k=null", "cache=null"]
    for more, timed in ((["engine=heaan", f"times={table}"], True), (["engine=sim"], False)):
        done = call("plan", *asked, *more, f"out={tmp_path}")
        assert done.returncode == 0, done.stderr
        assert (json.loads((tmp_path / "pareto.json").read_text())["picked"]["seconds"] is not None) == timed


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda size: size["ms"]["square"].update({"1": -500.0}), "ms.square must be positive, and is -500.0"),
        (lambda size: size["ms"]["relinearize"].update({"1": "nan"}), "ms.relinearize must be positive, and is nan"),
        (lambda size: size.update(slots=True), "slots must be a whole number of at least 1, and True was given"),
        (lambda size: size["key_bytes"].update(rotate="-5"), "key_bytes.rotate must be a whole number of at least 1"),
    ],
)
def test_times_that_are_none_are_refused(tmp_path, change, says):
    data = json.loads(TABLE.read_text())
    for size in data["sizes"].values():
        change(size)
    table = tmp_path / "times.json"
    table.write_text(json.dumps(data))
    asked = ["range=[-8,0]", "rows=16", "columns=16", "tolerance=1e-2", "approx=limit", "approx.k=null", "cache=null"]
    done = call("plan", *asked, f"times={table}", f"out={tmp_path / 'out'}")
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "out").exists()


def test_the_set_beside_the_plan(checkpoint, tmp_path):
    done = call(
        "plan",
        f"ckpt={checkpoint}",
        *TINY,
        "approx=chebyshev",
        "approx.k=null",
        "approx.degree=7",
        f"cache={tmp_path / 'fits'}",
        "margin=[2,1]",
    )
    assert done.returncode == 0, done.stderr
    told = json.loads((checkpoint / "plan.json").read_text())
    assert told["guard"][0] <= 2 * told["calibrated"][0] and told["range"][0] == 2 * told["calibrated"][0]
    plan, data = read_plan(checkpoint), json.loads((checkpoint / "pareto.json").read_text())
    assert told["schema"] == 2
    low, high = (end(layer["range"][i] for layer in told["layers"]) for i, end in enumerate((min, max)))
    assert f"exponent in [{low:.2f}, {high:.2f}] on " in done.stdout, done.stdout
    assert data["picked"]["method"] == plan.exponential.method == "chebyshev"
    assert data["picked"]["levels"] == plan.levels and data["mask"] == "full"
    assert data["columns"] == 16 and data["rows"] % 16 == 0
    assert told["ring_slots"] == data["picked"]["ring_slots"]
    own = {"rows": data["rows"], "columns": 16, "mask": "full", "ciphertexts": data["picked"]["ciphertexts"]}
    assert own.items() <= told["packing"].items()
    assert told["packing"]["columns_a_ciphertext"] == max(1, told["ring_slots"] // data["rows"])
    assert (checkpoint / "pareto.png").read_bytes().startswith(PNG)


@pytest.fixture
def layered(checkpoint, tmp_path):
    done = call("plan", f"ckpt={checkpoint}", *TINY, "per_layer=true", "pareto=false", "approx=limit", "approx.k=null")
    assert done.returncode == 0, done.stderr
    return checkpoint


def test_a_plan_a_layer_goes_round(layered):
    data, plan = json.loads((layered / "plan.json").read_text()), read_plan(layered)
    assert len(data["plans"]) == len(plan.layers) == len(data["layers"]) >= 2
    assert [p.to_json() for p in plan.layers] == data["plans"]
    assert plan.levels == max(p.levels for p in plan.layers)
    for layer, own in zip(data["layers"], plan.layers, strict=True):
        assert own.range == pytest.approx([1.1 * layer["range"][0], 1.1 * max(0.0, layer["range"][1])])
    assert plan.range == (min(p.range[0] for p in plan.layers), max(p.range[1] for p in plan.layers))


def test_evaluations_put_each_layers_own_in_place(layered, tmp_path):
    """Layer 0 with a polynomial of its own moves the clear and the encrypted run alike."""

    def run(script, *more):
        out = tmp_path / f"{script}.json"
        done = call(script, f"ckpt={layered}", f"out={out}", "approx=plan", *more)
        assert done.returncode == 0, done.stderr
        return json.loads(out.read_text())

    path = layered / "plan.json"
    plan = read_plan(layered)
    first = plan.layers[0]
    assert first.exponential.method == "limit"
    plain = run("eval_plain", "samples=40")
    deeper = replace(first, exponential=limit(*first.exponential.fit.domain, 9), levels=10, ct_mults=9)
    data = by_layer([deeper, *plan.layers[1:]]).to_json()
    path.write_text(json.dumps(data))
    changed, encrypted = run("eval_plain", "samples=40"), run("eval_he", "he=sim", "he.samples=40")
    assert changed["loss"] != plain["loss"] and plain["loss"] != pytest.approx(changed["loss"], rel=1e-9)
    assert [p["k"] for p in changed["polynomial"]] == [9, *[p["exponential"]["k"] for p in data["plans"][1:]]]
    assert encrypted["agreement"] == 1.0 and encrypted["accuracy_plain"] == changed["accuracy"]
    assert [row["levels"] for row in encrypted["layers"]] == [10] + [1 + p["k"] for p in changed["polynomial"][1:]]
    assert encrypted["max_error"] < 1e-6


def test_a_plan_of_another_count_of_layers_is_refused(layered):
    path = layered / "plan.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "plans": data["plans"][:-1]}))
    done = call("eval_plain", f"ckpt={layered}", "approx=plan", "samples=4")
    assert done.returncode == 2 and "its seal does not fit" in done.stderr
    del data["seal"]
    path.write_text(json.dumps({**data, "plans": data["plans"][:-1]}))
    done = call("eval_plain", f"ckpt={layered}", "approx=plan", "samples=4")
    assert done.returncode == 2 and "plan it anew" in done.stderr
    path.write_text(json.dumps({**data, "plans": 3}))
    done = call("eval_plain", f"ckpt={layered}", "approx=plan", "samples=4")
    assert done.returncode == 2 and "one a layer" in done.stderr


def test_a_plan_a_layer_takes_the_least_levels_of_all_methods(checkpoint, tmp_path):
    done = call(
        "plan",
        f"ckpt={checkpoint}",
        *TINY,
        "per_layer=true",
        "approx=fitted",
        "approx.degree=3",
        "approx.k=null",
        f"cache={tmp_path / 'fits'}",
    )
    assert done.returncode == 0, done.stderr
    plan = read_plan(checkpoint)
    assert {p.exponential.method for p in plan.layers} == {"fitted"}
    assert all(p.exponential.fit.max_error <= 1e-2 for p in plan.layers)
    assert "a plan a layer" in done.stdout


def test_samples_that_training_left_out(checkpoint):
    """The checkpoint was trained on 640 samples; the range may be taken from all there are, never from test samples."""

    def of(*more):
        done = call("plan", f"ckpt={checkpoint}", *TINY, "pareto=false", "approx=limit", "approx.k=null", *more)
        assert done.returncode == 0, done.stderr
        return json.loads((checkpoint / "plan.json").read_text())

    own, whole = of("samples=null"), of("samples=null", "whole=true")
    assert (own["samples"], own["whole"]) == (640, False) and whole["whole"] and 640 < whole["samples"] <= 1438
    assert sum(layer["entries"] for layer in whole["layers"]) > sum(layer["entries"] for layer in own["layers"])


@pytest.mark.parametrize(
    "scope, given, says",
    [
        (("attention",), "tolerance=1e-3", "scope=attention plans no polynomial, and tolerance=0.001 is about one"),
        (("network",), "outside=0.01", "scope=network plans no polynomial, and outside=0.01 is about one"),
        (("attention",), "margin=[2,1]", "plans no polynomial, and margin=[2, 1] is about one"),
        (("network",), "objective=levels", "plans no polynomial, and objective=levels is about one"),  # its default
        (("network",), "memory_mib=500", "scope=network does not read memory_mib for a checkpoint, and"),
        (("network",), "out=x", "scope=network does not read out for a checkpoint, and out=x was given"),
        (("network", "shape={blocks:1}", "ckpt=null"), "samples=3", "scope=network does not read samples for a shape"),
        (("network",), "approx=chebyshev", "scope=network takes the polynomials that are planned or trained"),
        (("attention",), "+approx.k=3", "scope=attention plans no polynomial, and approx.k=3 is about one"),
        (("softmax",), "workers=2", "scope=softmax does not read workers for a checkpoint, and workers=2 was given"),
        (("softmax", "range=[-40,0]", "ckpt=null"), "margin=3", "scope=softmax does not read margin for a range"),
        (("softmax", "range=[-40,0]", "ckpt=null"), "pareto=false", "scope=softmax does not read pareto for a range"),
        (("softmax", "range=[-40,0]", "ckpt=null"), "+approx.range=[-9,0]", "and approx.range was given beside it"),
        (
            ("softmax", "approx=chain"),
            "objective=seconds",
            "approx=chain with k=5 is one polynomial, which is taken as",
        ),
        (("softmax", "approx=limit"), "pareto=true", "approx=limit with k=8 is one polynomial"),
        (
            ("softmax", "approx=chain", "approx.k=null", "approx.range=[-9,0]"),
            "outside=0.01",
            "[-9, 0] is the accuracy",
        ),
        (("softmax", "approx=chain"), "+approx.degree=7", "made of squares and has no degree, and approx.degree=7 was"),
        (("softmax",), "mask=causal", "scope=softmax does not read mask for a checkpoint"),
        (("softmax", "ckpt=null", "range=[-8,0]"), "samples=5", "scope=softmax does not read samples for a range"),
        (("network",), "pareto=false", "plans no polynomial, and pareto=False is about one"),
        (
            ("attention",),
            "alone=true",
            "scope=attention does not read alone for a checkpoint, and alone=True was given",
        ),
        (("softmax",), "processes=2", "scope=softmax does not read processes for a checkpoint"),
        (("network",), "alone=maybe", "alone must be true or false, and 'maybe' was given"),
        (("network", "alone=true"), "processes=2", "alone=true is of one process, and processes=2 was given"),
        (("network",), "processes=0", "processes must be a whole number of at least 1, and 0 was given"),
    ],
)
def test_settings_without_effect_are_refused_by_name(tmp_path, monkeypatch, scope, given, says):
    monkeypatch.chdir(tmp_path)
    done = call("plan", "ckpt=none", f"scope={scope[0]}", *scope[1:], given, "times=none.json")
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("scope", ["attention", "network"])
def test_settings_that_a_scope_reads_go_on_to_the_checkpoint(tmp_path, monkeypatch, scope):
    monkeypatch.chdir(tmp_path)
    own = ["memory_mib=500"] if scope == "attention" else []
    times = f"times={Path(__file__).parents[2]}/results/bench/op_times_one_thread.json"
    done = call("plan", "ckpt=none", times, f"scope={scope}", "samples=3", "seed=1", "split=val", "workers=2", *own)
    assert done.returncode == 2 and "there is no folder none" in done.stderr, done.stderr


def test_a_polynomial_by_hand_says_that_its_error_is_above_the_tolerance(checkpoint):
    def told(tolerance):
        by_hand = ("approx=limit", "approx.k=6", "approx.range=[-30,0]", f"tolerance={tolerance}")
        done = call("plan", f"ckpt={checkpoint}", "samples=20", *by_hand)
        assert done.returncode == 0, done.stderr
        return done.stdout, json.loads((checkpoint / "plan.json").read_text())["max_error"]

    (loud, error), (quiet, same) = told(1e-4), told(1e-2)
    assert 1e-3 < error == same < 1e-2
    assert f"An error of {error:.1e} is above tolerance=0.0001: by hand it is taken as it is" in loud
    assert "above tolerance" not in quiet


def test_images_have_no_rows_of_padding_tokens(checkpoint):
    before = (checkpoint / "plan.json").read_bytes()
    done = call("plan", f"ckpt={checkpoint}", *TINY, "padding=longest")
    assert done.returncode == 2 and "padding=longest is of texts, and images have no rows" in done.stderr
    assert (checkpoint / "plan.json").read_bytes() == before


def test_of_two_values_of_one_key_the_first_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("plan", "range=[-4,0]", "tolerance=1e-2", "+approx.k=2", "tolerance=3e-1", "out=front")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "tolerance was given more than once: the last holds, and tolerance=1e-2 has no effect\n"
    )
    assert json.loads((tmp_path / "front" / "pareto.json").read_text())["tolerance"] == 0.3
