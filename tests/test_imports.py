"""Imports go one way (the ladder of packages), read from the source."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from scripts.repo.inner_imports import KINDS, Sources, of_tree

ROOT = Path(__file__).parents[1]
# cgf/models, cgf/commands and cgf/configs are links: their files stand at the top level
LIBRARY = sorted(p for p in ROOT.glob("cgf/**/*.py") if p.resolve() == p.absolute())
SOURCES = sorted([*ROOT.glob("*.py"), *LIBRARY, *ROOT.glob("models/*.py"), *ROOT.glob("scripts/**/*.py")])

# what a package of this project imports of this project, from the ground up; what is for EVERYONE apart
EVERYONE = {"cgf.errors", "cgf.types"}
ALLOWED = {
    "cgf.errors": set(),
    "cgf.types": set(),
    "cgf.ending": set(),
    "cgf.help": set(),
    "cgf.commands": set(),
    "cgf.memory": set(),
    "cgf.progress": set(),
    "cgf.lock": set(),
    "cgf.stopping": {"cgf.lock"},
    "cgf.cli": {"cgf.ending", "cgf.help", "cgf.stopping"},
    "cgf.target": set(),
    "cgf.named": set(),
    "cgf.former": set(),
    "cgf.checks": set(),
    "cgf.hub": set(),
    "cgf.provenance": set(),
    "cgf.published": set(),
    "cgf.operations": set(),
    "cgf.results": {"cgf.target", "cgf.provenance"},
    "cgf.cache": {"cgf.results"},
    "cgf.stats": set(),
    "cgf.predictions": {"cgf.results", "cgf.target"},
    "cgf.openings": {"cgf.results"},
    "cgf.search_file": {"cgf.results"},
    "cgf.replacement": {"cgf.checks", "cgf.named"},
    "cgf.norm": {"cgf.checks", "cgf.replacement"},
    "cgf.activation": {"cgf.checks", "cgf.replacement"},
    "cgf.approx": {"cgf.checks"},
    "cgf.softmax": {"cgf.approx", "cgf.checks", "cgf.named", "cgf.former"},
    "cgf.network": {"cgf.softmax", "cgf.approx", "cgf.checks", "cgf.named", "cgf.results"},
    "cgf.seal": {"cgf.named", "cgf.target"},
    "cgf.run_checkpoints": {"cgf.results", "cgf.seal"},
    "cgf.training_state": {"cgf.target", "cgf.named", "cgf.results"},
    "cgf.checkpoint_files": {
        "cgf.activation",
        "cgf.approx",
        "cgf.checks",
        "cgf.former",
        "cgf.named",
        "cgf.norm",
        "cgf.replacement",
        "cgf.results",
        "cgf.softmax",
    },
    "cgf.checkpoint": {
        "cgf.target",
        "cgf.run_checkpoints",
        "cgf.checkpoint_files",
        "cgf.softmax",
        "cgf.seal",
        "cgf.training_state",
        "cgf.named",
        "cgf.results",
    },
    "cgf.he": {"cgf.checks", "cgf.network", "cgf.softmax", "cgf.approx", "cgf.memory", "cgf.operations"},
    "cgf.plan": {
        "cgf.named",
        "cgf.network",
        "cgf.he",
        "cgf.softmax",
        "cgf.approx",
        "cgf.results",
        "cgf.checks",
        "cgf.former",
        "cgf.seal",
        "cgf.target",
    },
    "cgf.data": {"cgf.checks", "cgf.hub", "cgf.cache", "cgf.named", "cgf.former", "cgf.target"},
    "cgf.overrides": {"cgf.checks", "cgf.help"},
    "cgf.config": {"cgf.data", "cgf.ending", "cgf.help", "cgf.overrides", "cgf.stopping"},
    "cgf.models": {
        "cgf.memory",
        "cgf.target",
        "cgf.activation",
        "cgf.approx",
        "cgf.checkpoint",
        "cgf.checks",
        "cgf.data",
        "cgf.hub",
        "cgf.named",
        "cgf.network",
        "cgf.norm",
        "cgf.replacement",
        "cgf.results",
        "cgf.softmax",
    },
    "cgf.evaluate": {
        "cgf.memory",
        "cgf.progress",
        "cgf.approx",
        "cgf.data",
        "cgf.checks",
        "cgf.models",
        "cgf.plan",
        "cgf.he",
        "cgf.named",
        "cgf.network",
        "cgf.softmax",
        "cgf.checkpoint",
        "cgf.lock",
        "cgf.predictions",
        "cgf.target",
        "cgf.results",
    },
    "cgf.distill": {
        "cgf.run_checkpoints",
        "cgf.provenance",
        "cgf.activation",
        "cgf.checks",
        "cgf.norm",
        "cgf.replacement",
        "cgf.progress",
        "cgf.evaluate",
        "cgf.models",
        "cgf.softmax",
        "cgf.data",
        "cgf.checkpoint",
        "cgf.named",
        "cgf.former",
        "cgf.lock",
        "cgf.memory",
        "cgf.cache",
        "cgf.results",
        "cgf.seal",
    },
    "cgf.study": {
        "cgf.run_checkpoints",
        "cgf.stats",
        "cgf.checks",
        "cgf.plan",
        "cgf.he",
        "cgf.checkpoint",
        "cgf.lock",
        "cgf.named",
        "cgf.former",
        "cgf.openings",
        "cgf.predictions",
        "cgf.search_file",
        "cgf.results",
        "cgf.seal",
        "cgf.target",
    },
    "cgf.bench": {
        "cgf.models",
        "cgf.he",
        "cgf.plan",
        "cgf.network",
        "cgf.softmax",
        "cgf.approx",
        "cgf.checks",
        "cgf.memory",
        "cgf.former",
        "cgf.published",
        "cgf.results",
    },
    "cgf.report": {
        "cgf.help",
        "cgf.former",
        "cgf.openings",
        "cgf.operations",
        "cgf.predictions",
        "cgf.published",
        "cgf.search_file",
        "cgf.results",
        "cgf.stats",
        "cgf.target",
    },
    "cgf.header": {"cgf.named"},
    "cgf.parcel": {"cgf.header", "cgf.lock", "cgf.named", "cgf.target"},
    "cgf.bundle": {
        "cgf.checks",
        "cgf.ending",
        "cgf.he",
        "cgf.header",
        "cgf.lock",
        "cgf.memory",
        "cgf.named",
        "cgf.network",
        "cgf.parcel",
        "cgf.provenance",
        "cgf.stopping",
        "cgf.results",
        "cgf.seal",
        "cgf.target",
    },
    "cgf.client": {
        "cgf.bundle",
        "cgf.checks",
        "cgf.data",
        "cgf.he",
        "cgf.header",
        "cgf.named",
        "cgf.network",
        "cgf.parcel",
        "cgf.results",
        "cgf.stopping",
        "cgf.target",
    },
    "cgf.server": {
        "cgf.bundle",
        "cgf.checks",
        "cgf.data",
        "cgf.evaluate",
        "cgf.he",
        "cgf.header",
        "cgf.lock",
        "cgf.memory",
        "cgf.models",
        "cgf.named",
        "cgf.plan",
        "cgf.network",
        "cgf.parcel",
        "cgf.results",
        "cgf.stopping",
    },
    "cgf.suite": {
        "cgf.approx",
        "cgf.bench",
        "cgf.bundle",
        "cgf.checks",
        "cgf.client",
        "cgf.he",
        "cgf.header",
        "cgf.memory",
        "cgf.named",
        "cgf.network",
        "cgf.parcel",
        "cgf.results",
        "cgf.softmax",
    },
    "cgf.interface": {
        "cgf.checkpoint",
        "cgf.checkpoint_files",
        "cgf.checks",
        "cgf.data",
        "cgf.evaluate",
        "cgf.he",
        "cgf.hub",
        "cgf.models",
        "cgf.named",
        "cgf.plan",
        "cgf.report",
        "cgf.results",
        "cgf.softmax",
        "cgf.target",
    },
}
FORMULAS = (
    "cgf.softmax",
    "cgf.norm",
    "cgf.activation",
    "cgf.approx",
    "cgf.network",
    "cgf.he",
    "cgf.plan",
    "cgf.data",
)  # import no model


def name_of(path):
    return str(path.relative_to(ROOT))


def package_of(module):
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "cgf" and len(parts) > 1 else parts[0]


def owner_of(path):
    """The package that a file belongs to, or 'entry' for what only composes, builds, calls and writes."""
    name = name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if name.startswith("models"):
        return "cgf.models"
    return package_of(name) if name.startswith("cgf") else "entry"


@cache
def imports(path, top_level_only=False):
    """The modules that a file imports; read once, since every test asks."""
    return tuple(_imports(path, top_level_only))


def _imports(path, top_level_only):
    tree = ast.parse(path.read_text())
    typing_only = {
        id(n)
        for node in tree.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for n in ast.walk(node)
    }
    within = {
        id(n)
        for f in ast.walk(tree)
        if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for n in ast.walk(f)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only or (top_level_only and id(node) in within):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def own_imports(path):
    """Packages of this project that a file imports, its own left out."""
    found = {package_of(m) for m in imports(path) if m.split(".")[0] in ("cgf", "models", "scripts")}
    return found - {owner_of(path), *EVERYONE}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_go_one_way(path):
    owner = owner_of(path)
    if owner == "entry":
        assert not own_imports(path) & {"scripts", "models", "cgf"}
    elif owner != "cgf":  # cgf/__init__.py
        assert owner in ALLOWED, f"{name_of(path)} belongs to no known package"
        assert own_imports(path) <= ALLOWED[owner], f"{name_of(path)} must not import what is above it"


def test_no_permission_is_stale_and_no_edge_goes_up():
    order = list(ALLOWED)
    for owner, allowed in ALLOWED.items():
        used = {package for path in SOURCES if owner_of(path) == owner for package in own_imports(path)}
        assert used == allowed, f"{owner} may import {allowed - used}, and does not"
        assert all(order.index(package) < order.index(owner) for package in allowed), owner


def importers(*packages):
    return {name_of(p) for p in SOURCES if any(m.split(".")[0] in packages for m in imports(p))}


def test_vendors_stay_in_their_files():
    assert importers("desilofhe") == {"cgf/he/engines/desilo_library.py"}
    assert importers("openfhe") == {"cgf/he/engines/openfhe.py"}
    seam = {"cgf/config.py", "cgf/overrides.py"}
    assert importers("hydra") == seam
    assert {name for name in importers("omegaconf") if name.startswith(("cgf/", "models/"))} == seam
    assert importers("peft") == {"cgf/distill/tune.py"}
    assert importers("timm") == {
        "scripts/repo/hosts.py",
        "scripts/repo/host_commands.py",
        "models/vit.py",
        "models/timm_attention.py",
        "models/timm_folder.py",
        "models/timm_hub.py",
        "models/network_vit.py",
        "models/dino.py",
        "models/load.py",
        "models/described.py",
    }
    assert importers("onnx") == {"models/dino.py"}
    assert importers("datasets") == {"cgf/data/hub.py"}
    assert importers("wandb") == {"cgf/distill/wandb_log.py"}  # accelerate's tracker loads it for all else
    assert importers("accelerate") == {"cgf/distill/processes.py"}


def any_named(path):
    """Whether a file names typing's Any, however it comes by it; texts and comments do not count."""
    return any(
        (isinstance(n, ast.Name) and n.id == "Any")
        or (isinstance(n, ast.Attribute) and n.attr == "Any")
        or (
            isinstance(n, ast.ImportFrom)
            and n.module == "typing"
            and any(each.name in ("Any", "*") for each in n.names)
        )
        for n in ast.walk(ast.parse(path.read_text()))
    )


def test_any_stands_behind_aliases_that_say_whose_value_it_is():
    sources = [*SOURCES, *ROOT.glob("examples/*.py")]
    assert {name_of(p) for p in sources if any_named(p)} == {"cgf/types.py"}
    types = ROOT / "cgf" / "types.py"
    aliases = {n.targets[0].id: n.lineno for n in ast.parse(types.read_text()).body if isinstance(n, ast.Assign)}
    lines = types.read_text().splitlines()
    assert not [name for name, line in aliases.items() if "  # " not in lines[line - 1]], "an alias says what it is of"
    used = {
        each.name
        for p in sources
        for n in ast.walk(ast.parse(p.read_text()))
        if isinstance(n, ast.ImportFrom) and n.module == "cgf.types"
        for each in n.names
    }
    assert used == set(aliases)


@pytest.mark.parametrize("line", ["from typing import Any", "import typing as t\nx: t.Any", "from typing import *"])
def test_any_is_seen_however_it_comes(line, tmp_path):
    path = tmp_path / "a.py"
    path.write_text(line + "\n")
    assert any_named(path)
    path.write_text('"""Any."""\nfrom typing import IO  # Any\nx = "Any"\n')
    assert not any_named(path)


def test_text_hosts_start_without_timm():
    code = "import sys, cgf.data.text, cgf.models.bert, cgf.models.load; sys.exit('timm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0  # it takes seconds to load


def test_formulas_circuits_and_plans_know_no_model_and_two_files_of_encryption_know_tensors():
    of = {name_of(p): {m.split(".")[0] for m in imports(p)} for p in SOURCES if owner_of(p) in FORMULAS}
    hosts = {"transformers", "timm", "peft", "accelerate"}
    assert not [name for name, vendors in of.items() if vendors & hosts]
    assert not [owner for owner in FORMULAS if "cgf.models" in ALLOWED[owner]]
    torch = {name for name, vendors in of.items() if "torch" in vendors and name.startswith(("cgf/he/", "cgf/plan/"))}
    assert torch == {"cgf/he/encrypted.py", "cgf/he/encrypted_attention.py"}


def test_entry_points_alone_read_the_configuration():
    users = {p for p in SOURCES if any(m.startswith(("cgf.config", "cgf.overrides")) for m in imports(p))}
    users.remove(ROOT / "cgf" / "config.py")  # what it checks and composes by
    assert {"train.py", "eval_plain.py", "eval_he.py"} <= {name_of(p) for p in users}
    assert {owner_of(p) for p in users} == {"entry"}


def test_the_reading_of_imports_sees_every_form(tmp_path):
    source = "import a.b, c\nfrom d.e import f\ndef g():\n    from h import i\nif TYPE_CHECKING:\n    import j\n"
    (tmp_path / "x.py").write_text(source)
    assert set(imports(tmp_path / "x.py")) == {"a.b", "c", "d.e", "h"}
    assert set(imports(tmp_path / "x.py", top_level_only=True)) == {"a.b", "c", "d.e"}
    assert not [
        name_of(p)
        for p in SOURCES
        for n in ast.walk(ast.parse(p.read_text()))
        if isinstance(n, ast.ImportFrom) and n.level
    ]  # relative ones would go unseen


def test_formulas_and_circuits_need_no_torch():
    torch_free = [p for p in SOURCES if name_of(p).startswith(("cgf/approx/", "cgf/he/", "cgf/plan/", "cgf/softmax/"))]
    torch_free = [
        p for p in torch_free if p.name not in ("encrypted.py", "encrypted_attention.py", "tensor.py", "fused.py")
    ]
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
from cgf.he.packed import Packed
from cgf.he.score_rows import Rows
from cgf.he.engines.sim import SimOwner
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


def test_an_import_within_a_function_has_a_reason():
    without = [f"{i.path}:{i.line} in {i.function}: {i.text}" for i in of_tree(ROOT).inner if i.kind is None]
    assert not without, f"these belong at the top of their files (kinds: {', '.join(KINDS)})"


def test_reasons_of_imports_are_told_apart():
    texts = {
        "cgf/light.py": "import json\n",
        "cgf/heavy.py": "if TYPE_CHECKING:\n    import timm\nimport torch\n",
        "cgf/above.py": "try:\n    from cgf import uses\nexcept ImportError:\n    pass\n",
        "cgf/uses.py": "def f():\n"
        + "".join(
            f"    {line}\n"
            for line in (
                "import json",
                "from cgf import light",
                "from cgf.heavy import x",
                "import torch.nn",
                "import onnx",
                "from cgf.above import y",
                "import stand_in",
            )
        ),
        "models/torchy.py": "import torch\nclass A:\n def g(self):\n  from torch import nn\n  import cgf.heavy\n",
    }
    sources = Sources(texts, {"stand_in"})
    assert [each.kind for each in sources.inner] == [
        None,
        None,
        "slow module",
        "slow package",
        "optional package",
        "circle",
        "module of the tests",
        None,
        None,
    ]
    assert sources.loaded("cgf.models.torchy") == ({"cgf.models.torchy"}, {"torch"})


@pytest.mark.parametrize("module", ["cgf.data.text", "cgf.evaluate.open_checkpoint", "cgf.distill.trainer"])
def test_commands_on_texts_do_not_wait_for_what_images_need(module):
    """torchvision and timm load for two seconds and more, in every command."""
    modules, packages = of_tree().loaded(module)
    assert module in modules and "torch" in packages
    assert not packages & {"timm", "torchvision"}
