"""A softmax is a file, a yaml, an entry in the table of definitions and a reference: everything else finds it."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cgf.config import CONFIGS
from cgf.softmax.cgf import CGF
from cgf.softmax.load import DEFINITIONS, VARIANTS, by_name

ROOT = Path(__file__).parents[1]
DEFINITION = '''"""A toy without an exponential."""

from dataclasses import dataclass
from typing import ClassVar

from cgf.softmax.base import Softmax


@dataclass(eq=False)
class Parabola(Softmax):
    """(x + c)^2 / c^2."""

    name: ClassVar[str] = "parabola"
    label: ClassVar[str] = "a parabola, c = {c:g}"
    c: float = 5.0

    def formula(self, x):
        return (x + self.c).square() * (1 / self.c**2)
'''
YAML = "# A toy.\n_target_: cgf.softmax.parabola.Parabola\nc: 5.0\n"
ASKED = """
import json
import shutil
from pathlib import Path
from cgf.approx import fit
from cgf.bench.alternatives import choices, table
from cgf.bench.complexity import forms
from cgf.config import built, compose, resolved
from cgf.errors import UserError
from cgf.overrides import check_choice
from cgf.softmax.load import softmax_from_json
from cgf.study.study import Study, with_every_softmax
from cgf.study.training_rows import wanted
from scripts.repo.tables import check_complete

def without_alternatives():
    shutil.copytree("results", "depths", ignore=shutil.ignore_patterns("alternatives.json"))
    return Path("depths")

def said(call, *arguments):
    try:
        call(*arguments)
    except UserError as error:
        return str(error)

softmaxes = built("softmax")
study = Study.of(with_every_softmax(resolved(compose("rows", ["host=digits"])), softmaxes))
lines = table({"parabola": softmaxes["parabola"]}, fit.limit(-32.0, 1.0, 5), 16, 8, [])
print(json.dumps({
    "list of the README": choices(softmaxes),
    "table of depths": [form.label for form in forms(16)],
    "table of alternatives": [[line["softmax"], line["levels"], line["order"]] for line in lines],
    "runs of a study": wanted(study, ["parabola"]),
    "tables": said(check_complete, Path("results"), softmaxes),
    "depths": said(check_complete, without_alternatives(), softmaxes),
    "help of a choice": said(check_choice, "softmax", "paraboly"),
    "help of a run": said(wanted, study, ["paraboly"]),
    "help of a checkpoint": said(softmax_from_json, {"variant": "paraboly"}),
}))
"""


def test_a_definition_without_a_name_of_its_own_is_refused():
    """It would take its parent's, and checkpoints of the parent would be read as it."""
    nameless = type("Half", (CGF,), {})
    with pytest.raises(
        TypeError, match=r"Half needs a name of its own in its class .* and has 'cgf', as cgf.softmax.cgf"
    ):
        by_name((*DEFINITIONS, nameless))
    double = type("Double", (CGF,), {"name": "bpmax"})
    with pytest.raises(
        TypeError, match=r"Double needs a name of its own .* has 'bpmax', as cgf.softmax.bpmax.BPMax has"
    ):
        by_name((*DEFINITIONS, double))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of this checkout with the four things that a new softmax is made of."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("cgf", "models", "scripts", "configs", "tests", "README.md", "pyproject.toml"):
        source = ROOT / name
        if source.is_file():
            shutil.copy(source, copy / name)
        else:
            shutil.copytree(source, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "results" / "bench", copy / "results" / "bench")
    (copy / "cgf" / "softmax" / "parabola.py").write_text(DEFINITION)
    (copy / "configs" / "softmax" / "parabola.yaml").write_text(YAML)
    added(copy / "cgf" / "softmax" / "load.py", "DEFINITIONS: tuple[type[Softmax], ...] = (\n", "    Parabola,\n")
    added(copy / "cgf" / "softmax" / "load.py", "from cgf.softmax.exact", "import Exact\n", instead=True)
    reference = '    "parabola": lambda softmax, row: (row + softmax.c) ** 2 / softmax.c**2,\n'
    added(copy / "tests" / "cgf" / "softmax" / "test_contract.py", "REFERENCES = {\n", reference)
    return copy


def added(path, after, line, instead=False):
    """Puts a line after a text that stands there once; instead: an import before it."""
    text = path.read_text()
    assert text.count(after) == 1
    new = f"from cgf.softmax.parabola import Parabola\n{after}" if instead else after + line
    path.write_text(text.replace(after, new))


def run(checkout, *words):
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=checkout, env=environment, capture_output=True, text=True, timeout=300
    )


def test_every_list_finds_it(checkout):
    done = run(checkout, "-c", ASKED)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["table of alternatives"] == [["parabola", 2, "no"]]
    assert found["runs of a study"] == ["parabola"]
    assert "a parabola, c = 5" in found["table of depths"]
    assert "`parabola`" in found["list of the README"].partition(";")[0]
    lacks = "{0}.json lacks softmax parabola: python scripts/bench/{0}.py"  # measured before it was there
    assert (found["tables"], found["depths"]) == (lacks.format("alternatives"), lacks.format("complexity"))
    for name in ("help of a choice", "help of a run", "help of a checkpoint"):
        assert "paraboly" in found[name] and " parabola" in found[name], name


def test_the_tests_of_every_softmax_run_it(checkout):
    tests = ("tests/cgf/softmax/test_contract.py", "tests/cgf/he/test_every_softmax.py")
    done = run(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "parabola or counterpart", *tests)
    assert done.returncode == 0, done.stdout[-3000:]
    passed = int(done.stdout.split(" passed")[0].split()[-1])
    assert passed >= 8, done.stdout[-500:]


HOMES = ("cgf/softmax/", "cgf/published.py", "cgf/former.py")
# names of methods of approximation too; where they mean a softmax, no text tells it apart
METHODS = {"exact", "taylor"}
# what else names a softmax: keys of a comparison that is about these and no others, or another meaning of the word
NAMED = {
    "cgf/bench/noise.py": {"cgf", "standard"},  # the paper's figure of the noise compares these two
    "cgf/report/glance.py": {"cgf", "bpmax", "bpmax_calibrated"},  # columns of the tables at a glance
    "cgf/report/noise.py": {"cgf", "standard"},
    "cgf/report/cost.py": {"cgf", "cho"},  # the paper's table of formulas by k, and its table of seconds
    "cgf/bench/softmax_cost.py": {"cho"},
    "scripts/bench/softmax_cost.py": {"cho"},
    # how the settings of each of these follow from a model's scores
    "cgf/plan/published.py": {"standard", "cho", "fixed_max", "hetal", "thor", "arion"},
    "cgf/report/epochs.py": {
        "cgf",
        "bpmax",
        "bpmax_calibrated",
    },  # runs of the study, of lengths that the paper compares
    "cgf/report/pipelines.py": {"cgf"},  # a run of the study: the paper's pipeline of distillation
    # what a user who names none is given, and the table of hosts
    "cgf/interface/installing.py": {"cgf"},
    "cgf/interface/matrix.py": {"cgf"},
    "scripts/softmax.py": {"cgf"},
    "cgf/commands/softmax.py": {"cgf"},
    "scripts/repo/hosts.py": {"cgf"},
    "models/transformers_attention.py": {"cgf"},  # the name under which transformers knows the attention
    "scripts/cluster/sweep.py": {"cgf", "cgf_chain"},  # two trainings that launchers do side by side
    "scripts/repo/tree.py": {"cgf"},  # the folder
    "scripts/repo/inner_imports.py": {"cgf"},  # as there
    "scripts/repo/reference.py": {"cgf"},  # the package
    "scripts/repo/attention_errors.py": {"cgf"},  # the one that 197 tokens are tried with, which takes minutes
    # trainings that two commits compare, and what has no circuit without a training, or bootstraps
    "scripts/repo/same_numbers.py": {"cgf", "cgf_chain", "bpmax", "bpmax_calibrated", "hetal", "cho", "thor"},
}


def names_in(path, names):
    """Softmaxes that stand as texts in a file's code, docstrings left out: 'NAME' or 'softmax=NAME'."""
    tree = ast.parse(path.read_text())
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = {
        node.value.removeprefix("softmax=")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
    }
    return texts & names


def test_no_code_names_a_softmax_outside_its_home():
    names = ({*VARIANTS} | {path.stem for path in (CONFIGS / "softmax").glob("*.yaml")}) - METHODS
    sources = [p for folder in ("cgf", "models", "scripts") for p in (ROOT / folder).rglob("*.py")]
    found = {}
    for path in [*sources, *ROOT.glob("*.py")]:
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(HOMES) and (named := names_in(path, names)):
            found[name] = named
    assert found == NAMED
