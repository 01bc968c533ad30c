"""Imports go one way (the ladder of packages), read from the source."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("*.py"), *ROOT.glob("cgf/**/*.py"), *ROOT.glob("models/*.py"), *ROOT.glob("scripts/*.py")])
ENTRY = {"train.py", "eval_plain.py", "eval_he.py", "scripts/plan.py", "scripts/friendly.py", "scripts/op_times.py",
         "scripts/softmax_cost.py", "scripts/complexity.py", "scripts/noise.py", "scripts/alternatives.py",
         "scripts/train_speed.py", "scripts/range.py", "scripts/merge_shards.py", "scripts/rows.py"}

# what a package of this project may import of this project; cgf.errors is for everyone
ALLOWED = {
    "cgf.softmax": {"cgf.softmax", "cgf.approx", "cgf.named"},
    "cgf.approx": {"cgf.approx", "cgf.results"},
    "cgf.he": {"cgf.he", "cgf.softmax", "cgf.approx"},
    "cgf.bench": {"cgf.bench", "cgf.he", "cgf.softmax", "cgf.approx", "cgf.distill", "cgf.results", "cgf.lock"},
    "cgf.data": {"cgf.data", "cgf.cache", "cgf.named"},
    "cgf.distill": {"cgf.distill", "cgf.softmax", "cgf.approx", "cgf.evaluate", "cgf.results", "cgf.cache",
                    "cgf.named", "cgf.lock"},
    "cgf.report": {"cgf.report", "cgf.results"},
    "cgf.results": {"cgf.target"},
    "cgf.target": set(),
    "cgf.lock": set(),
    "cgf.evaluate": set(),
    "cgf.evaluate_he": {"cgf.evaluate_he", "cgf.evaluate", "cgf.he", "cgf.softmax", "cgf.results", "cgf.lock"},
    "cgf.observe": {"cgf.approx"},
    "cgf.cache": set(),
    "cgf.errors": set(),
    "cgf.named": set(),
    "cgf.config": {"cgf.data"},
    "models": {"models", "cgf.softmax", "cgf.data", "cgf.distill", "cgf.approx", "cgf.evaluate", "cgf.evaluate_he",
               "cgf.observe", "cgf.named", "cgf.results", "cgf.target"},
}


def name_of(path):
    return str(path.relative_to(ROOT))


def package_of(module):
    parts = module.split(".")
    return parts[0] if parts[0] != "cgf" else ".".join(parts[:2])


@cache
def imports(path, top_level_only=False):
    """The modules that a file imports; read once, since every test asks."""
    return tuple(_imports(path, top_level_only))


def _imports(path, top_level_only):
    tree = ast.parse(path.read_text())
    typing_only = {id(n) for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
                   for n in ast.walk(node)}
    within = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
              for n in ast.walk(f)}
    for node in ast.walk(tree):
        if id(node) in typing_only or (top_level_only and id(node) in within):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_go_one_way(path):
    name = name_of(path)
    own = package_of(name.removesuffix(".py").replace("/", "."))
    for module in imports(path):
        package = package_of(module)
        if module.split(".")[0] not in ("cgf", "models", "scripts", "train", "eval_plain", "eval_he"):
            continue
        if name in ENTRY:
            assert package != "scripts"
        elif own == "scripts":
            allowed = {"cgf.approx", "cgf.results", "cgf.report", "cgf.errors", "cgf.he", "cgf.bench"}
            assert package in allowed, f"{name}: {module}"
        else:
            assert own in ALLOWED or own == "cgf.__init__", f"{name} belongs to no known package"
            assert package in ALLOWED.get(own, set()) | {"cgf.errors"}, f"{name} must not import {module}"


def test_no_permission_outlives_its_use():
    used = {(package_of(name_of(p).removesuffix(".py").replace("/", ".")), package_of(m)) for p in SOURCES
            for m in imports(p)}
    assert not [(own, other) for own, others in ALLOWED.items() for other in others if (own, other) not in used]


def importers(*packages):
    return {name_of(p) for p in SOURCES if any(m.split(".")[0] in packages for m in imports(p))}


def test_vendors_stay_in_their_files():
    assert importers("desilofhe") == {"cgf/he/desilo.py"}
    assert importers("openfhe") == {"cgf/he/openfhe.py"}
    assert importers("hydra") == {"cgf/config.py"}
    assert importers("omegaconf") == ENTRY | {"cgf/config.py"}
    assert importers("peft") == {"models/tune.py"}
    assert importers("timm") == {"models/vit.py", "models/timm_attention.py", "models/dino.py", "models/load.py",
                                 "models/described.py"}
    assert importers("onnx") == {"models/dino.py"}
    assert importers("datasets") == {"cgf/data/hub.py"}
    assert importers("wandb") == set()  # accelerate's tracker loads it
    assert importers("accelerate") == {"cgf/distill/processes.py"}
    assert importers("rich") == {"cgf/report/tables.py", "cgf/report/front.py", "cgf/report/friendly.py",
                                 "cgf/bench/tables.py", "cgf/bench/noise_tables.py", "cgf/bench/alternatives.py",
                                 "scripts/report.py", "scripts/approx_errors.py", "scripts/paper_k.py",
                                 "scripts/plan.py"}


def test_text_hosts_start_without_timm():
    code = "import sys, cgf.data.text, models.bert, models.install, models.load; sys.exit('timm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0  # it takes seconds to load


def test_encryption_knows_no_model_and_one_file_knows_tensors():
    he = {name_of(p): {m.split(".")[0] for m in imports(p)} for p in SOURCES if p.parent.name == "he"}
    assert {name for name, vendors in he.items() if "torch" in vendors} == {"cgf/he/encrypted.py"}
    assert not [name for name, vendors in he.items() if vendors & {"transformers", "timm", "peft", "accelerate"}]


def test_the_library_imports_neither_models_nor_scripts():
    above = ("models", "scripts", "train", "eval_plain", "eval_he")
    assert not [name for name in importers(*above) if name.startswith("cgf/")]
    users = {name_of(p) for p in SOURCES if any(m.startswith("cgf.config") for m in imports(p))}
    assert {"train.py", "eval_plain.py", "eval_he.py"} <= users
    assert all("/" not in name or name.startswith("scripts/") for name in users)


def test_the_reading_of_imports_sees_every_form(tmp_path):
    source = "import a.b, c\nfrom d.e import f\ndef g():\n    from h import i\nif TYPE_CHECKING:\n    import j\n"
    (tmp_path / "x.py").write_text(source)
    assert set(imports(tmp_path / "x.py")) == {"a.b", "c", "d.e", "h"}
    assert set(imports(tmp_path / "x.py", top_level_only=True)) == {"a.b", "c", "d.e"}
    assert not [name_of(p) for p in SOURCES for n in ast.walk(ast.parse(p.read_text()))
                if isinstance(n, ast.ImportFrom) and n.level]  # relative ones would go unseen


def test_formulas_and_circuits_need_no_torch():
    torch_free = [p for p in SOURCES if name_of(p).startswith(("cgf/approx/", "cgf/he/", "cgf/softmax/"))]
    torch_free = [p for p in torch_free if p.name not in ("encrypted.py", "tensor.py", "fused.py")]
    assert len(torch_free) > 20
    for path in torch_free:
        vendors = {m.split(".")[0] for m in imports(path, top_level_only=True)}
        assert not vendors & {"torch", "transformers", "timm"}, name_of(path)


def test_a_softmax_runs_on_ciphertexts_without_torch():
    import subprocess

    code = """
import subprocess
import sys
for name in ("torch", "transformers", "timm", "hydra"):
    sys.modules[name] = None
import numpy as np
from cgf.approx.fit import chain
from cgf.he.circuits import circuit_for
from cgf.he.layout import choose_layout
from cgf.he.packed import Packed, Rows
from cgf.he.sim import SimOwner
from cgf.softmax.cgf import CGF
x = np.random.default_rng(0).normal(size=(12, 8))
softmax = CGF()
softmax.exponential = chain(-16.0, 1.0, 5)
rows = Rows((1, 1, 12, 8), 0, None, np.full(12, 8.0))
owner = SimOwner(7)
layout = choose_layout(12, 8, owner.slots, False)
circuit = circuit_for(softmax, rows, layout.padding_columns > 0)
engine = owner.evaluator(frozenset(s % owner.slots for s in layout.rotations))
cts = tuple(owner.encrypt(v, 7) for v in layout.pack(x * circuit.input_scale))
out = circuit.run(Packed(engine, layout, rows, cts))
w = circuit.opened(layout.unpack([owner.decrypt(c) for c in out.cts]))
y = x - x.mean(1, keepdims=True) - x.var(1, keepdims=True) / 2 - np.log(8)
assert np.abs(w - np.exp(y)).max() < 1e-4, np.abs(w - np.exp(y)).max()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_names_of_test_files_differ():
    """pytest takes two files of one name in folders without __init__.py for one module, and stops."""
    names = [p.name for p in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
