"""Nothing that data can reach runs code: the calls and imports that could, read from the source, and who has them."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for pattern in ("*.py", "cgf/**/*.py", "models/*.py", "scripts/**/*.py")
    for path in ROOT.glob(pattern)
    if path.resolve() == path.absolute()  # cgf/models and cgf/commands are links
)
RUN_CODE = {"eval", "exec", "compile", "__import__", "instantiate", "get_class", "get_method", "get_object"}
UNPICKLE = {  # what reads pickles, by what stands before the dot
    "torch": {"load"},
    "hub": {"load", "load_state_dict_from_url"},
    "pickle": {"load", "loads", "Unpickler"},
    "marshal": {"load", "loads"},
    "joblib": {"load"},
    "dill": {"load", "loads"},
    "cloudpickle": {"load", "loads"},
    "pd": {"read_pickle", "read_hdf"},
    "pandas": {"read_pickle", "read_hdf"},
    "yaml": {"load", "unsafe_load", "full_load"},
    "shelve": {"open"},
}
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "runpy", "code", "jsonpickle", "imp"}
MAY = {  # (file, what): why no data reach it
    ("cgf/config.py", "instantiate"): "the project's own configs and the command line; only entry points import it",
    ("cgf/he/engines/sim.py", "pickle"): "the simulator's ciphertexts, between processes of one evaluation",
    ("cgf/he/engines/sim.py", "pickle.loads"): "the same",
    ("cgf/he/workers.py", "pickle"): "what a process sends to the workers that it started",
    ("cgf/he/workers.py", "pickle.loads"): "the same",
    ("scripts/repo/host_commands.py", "runpy"): "entry points of the checkout, by fixed names",
    ("scripts/repo/long_runs.py", "runpy"): "train.py of the checkout",
}


def dotted(node):
    """'a.b.c' of a name or an attribute; '' for what is computed."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        above = dotted(node.value)
        return f"{above}.{node.attr}" if above else node.attr
    return ""


def dangers(source):
    """What a text of Python imports or calls that could run code out of data."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] in MODULES}
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split(".")[0] in MODULES:
                found.add(node.module)
            found |= {
                f"{node.module}.{alias.name}"
                for alias in node.names
                if alias.name in UNPICKLE.get(node.module.split(".")[-1], ()) or alias.name in RUN_CODE
            }
        elif isinstance(node, ast.Call):
            found |= _called(node)
    return found


def _called(node):
    *above, name = dotted(node.func).split(".")
    before = above[-1] if above else ""
    given = {word.arg: word.value for word in node.keywords}
    off = {arg for arg, value in given.items() if isinstance(value, ast.Constant) and value.value is False}
    # model.eval, re.compile and torch.compile are others
    own = isinstance(node.func, ast.Name) or before in ("builtins", "utils", "hydra")
    if name in RUN_CODE and own:
        return {name}
    if name in UNPICKLE.get(before, ()):
        return {f"{before}.{name}"}
    if before in ("np", "numpy") and name == "load" and "allow_pickle" not in off:
        return {"np.load"}
    if name == "from_pretrained" and given.get("trust_remote_code") is not None and "trust_remote_code" not in off:
        return {"trust_remote_code"}
    return set()


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_runs_code_out_of_data(path):
    name = str(path.relative_to(ROOT))
    assert {(name, each) for each in dangers(path.read_text())} <= set(MAY)


def test_no_permission_is_stale():
    there = {(str(p.relative_to(ROOT)), each) for p in FILES for each in dangers(p.read_text())}
    assert there == set(MAY)


@pytest.mark.parametrize(
    "source",
    [
        "eval('1')", "exec(x)", "__import__(name)", "compile(x, y, z)", "hydra.utils.instantiate(node)",
        "from hydra.utils import instantiate", "import pickle", "from pickle import loads", "import joblib",
        "torch.load(path)", "from torch import load", "np.load(path)", "np.load(path, allow_pickle=True)",
        "numpy.load(path, allow_pickle=allowed)", "torch.hub.load(a, b)", "yaml.load(text, Loader=L)",
        "AutoModel.from_pretrained(x, trust_remote_code=True)", "A.from_pretrained(x, trust_remote_code=asked)",
        "pandas.read_pickle(path)", "def f():\n    import marshal",
    ],
)  # fmt: skip
def test_the_reading_sees_every_form(source):
    assert dangers(source)


@pytest.mark.parametrize(
    "source",
    [
        "model.eval()", "re.compile(x)", "torch.compile(m)", "np.load(p, allow_pickle=False)", "yaml.safe_load(t)",
        "image.load()", "A.from_pretrained(x, trust_remote_code=False)",
    ],
)  # fmt: skip
def test_the_reading_sees_no_more(source):
    assert not dangers(source)


def test_what_is_instantiated_comes_from_configs_and_the_command_line():
    """``build`` takes a part of cfg, or a file of configs/; what a checkpoint says names a class of a fixed table."""
    from_configs = ("cfg.", "owner_settings(cfg.he)", "OmegaConf.load(CONFIGS", "OmegaConf.load(path)")
    of_a_table = {("cgf/distill/teacher.py", "{**node, '_target_': target}")}  # target is a key of LOADERS
    others = {
        "cgf/he/circuits.py",
        "cgf/bundle/agreement.py",
        "cgf/suite/sides.py",
    }  # functions of their own of that name
    seen = 0
    for path in FILES:
        name = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and dotted(node.func) == "build" and name not in others:
                first = ast.unparse(node.args[0])
                assert first.startswith(from_configs) or (name, first) in of_a_table, f"{name}: build({first})"
                seen += 1
    assert seen >= 10
    assert not any("cgf.config" in (ROOT / name).read_text() for name in others)


def test_models_of_folders_are_read_without_their_code():
    """Every call that reads a folder of transformers says that no code of it runs, itself or in its options."""
    for path in FILES:
        text = path.read_text()
        if ".from_pretrained(" in text and "transformers" in text:
            assert "trust_remote_code" in text and "trust_remote_code=True" not in text, path
