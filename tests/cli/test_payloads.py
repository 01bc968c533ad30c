"""No file of a checkpoint runs code: each payload tries to leave a mark, and all that comes back is one sentence.

A payload changes one file of a checkpoint, which is then sealed anew: whoever makes a checkpoint can seal it. It is
opened as eval_plain, eval_he, plan and friendly open one; three go through entry points as real processes.
"""

import csv
import json
import os
import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from bad_bases import BERT, saved
from bad_bases import VIT as OPTIONS
from conftest_models import tokenizer
from digits_checkpoint import call, spawn
from resealed import reseal
from transformers import BertConfig, BertForSequenceClassification

from cgf.checkpoint import TrainingState, read
from cgf.config import CONFIGS, check_flags, task_maker
from cgf.errors import UserError
from cgf.evaluate.open_checkpoint import open_checkpoint
from cgf.models import bert, vit
from cgf.models.host import HostFacts
from cgf.softmax.cgf import CGF

DIGITS = {"_target_": "cgf.data.vision.DigitsTask", "name": "digits", "augment": False, "seed": 42, "limit": None}
TABLE = {
    "_target_": "cgf.data.text.TableTask",
    "name": "table",
    "root": None,
    "text": "text",
    "label": "label",
    "files": {"train": "train.csv", "test": "test.csv"},
}


class Marks:
    """Pickled: leaves the canary where it is unpickled."""

    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.mkdir, (str(self.canary),)


def write(folder, host, node):
    """A checkpoint whose plan has no seal, as those of before: what is changed in it is read."""
    saved(folder, host, node)
    plan = json.loads((folder / "plan.json").read_text())
    del plan["seal"], plan["checkpoint"]
    (folder / "plan.json").write_text(json.dumps(plan))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run folder of digits and one of texts, each with a checkpoint, its state, and a plan; the texts."""
    base = tmp_path_factory.mktemp("whole")
    digits = vit.load("small", "vit_tiny_patch16_224", 10, pretrained=False, options=OPTIONS)
    write(base / "vit" / "ckpt-1", digits, DIGITS)
    config = BertConfig(**BERT)
    words = tokenizer("pad", pad_token="pad")
    texts = bert.host(
        BertForSequenceClassification(config), words, HostFacts(name="small", num_classes=2, trained=False, source={})
    )
    write(base / "bert" / "ckpt-1", texts, TABLE)
    (base / "data" / "table").mkdir(parents=True)
    for name in ("train.csv", "test.csv"):
        with (base / "data" / "table" / name).open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *((f"w{i} w{i + 1}", "ab"[i % 2]) for i in range(40))])
    (base / "data" / "secret.csv").write_text((base / "data" / "table" / "train.csv").read_text())
    return base


@pytest.fixture
def place(whole, tmp_path):
    """A copy to spoil. canary: what must not appear; victim: what must not go; evil: a pickle that leaves the mark."""
    shutil.copytree(whole, tmp_path / "base")
    here = SimpleNamespace(
        base=tmp_path / "base", canary=tmp_path / "canary", victim=tmp_path / "victim", evil=tmp_path / "evil.pkl"
    )
    (here.victim / "inside").mkdir(parents=True)
    here.evil.write_bytes(pickle.dumps(Marks(here.canary)))
    return here


def open_all(folder, data=None):
    """What the evaluations, the planning and a resumed training read of a checkpoint."""
    opened = open_checkpoint(str(folder), "val", task_maker(None if data is None else str(data)))
    opened.put_in_place({"method": "plan"})
    state = TrainingState.read(opened.checkpoint.path / "state")
    state.restore(torch.optim.AdamW(opened.host.model.parameters(), lr=1e-3))
    return opened


# -- payloads: functions of the place and a checkpoint folder -------------------------------------------


def edit(folder, name, change):
    data = json.loads((folder / name).read_text())
    change(data)
    (folder / name).write_text(json.dumps(data))


def mark(place):
    return {"_target_": "os.mkdir", "path": str(place.canary)}


def task(make, **settings):
    """run.json's task node; make: place -> what is put into it."""
    return lambda place, folder: edit(
        folder, "run.json", lambda run: run["config"].update(task={**DIGITS, **settings, **make(place)})
    )


def whole_task(make):
    return lambda place, folder: edit(folder, "run.json", lambda run: run["config"].update(task=make(place)))


def run_json(change):
    return lambda place, folder: edit(folder, "run.json", lambda run: change(run, place))


def softmax(make):
    def change(place, folder):
        edit(folder, "softmax.json", lambda described: described.update(softmax=make(place)))

    return change


def described(**values):
    return lambda place, folder: edit(folder, "softmax.json", lambda d: d.update(values))


def plan(make):
    return lambda place, folder: edit(folder, "plan.json", lambda data: data.update(make(place)))


def host(name, make):
    return lambda place, folder: edit(folder / "host", name, lambda data: data.update(make(place)))


def with_code(name, **says):
    """Says that a class lies in a module beside the file, which leaves the mark when it is imported."""

    def change(place, folder):
        (folder / "host" / "evil.py").write_text(f"import os\nos.mkdir({str(place.canary)!r})\nclass Evil: ...\n")
        edit(folder / "host", name, lambda data: data.update(says))

    return change


def pickled(name):
    return lambda place, folder: shutil.copy(place.evil, folder / name)


def beside(name):
    def change(place, folder):
        (folder / name).write_bytes(place.evil.read_bytes())

    return change


def state(change):
    return lambda place, folder: edit(folder / "state", "progress.json", lambda data: change(data, place))


def best(name):
    def change(place, folder):
        shutil.copytree(folder, folder.parent.parent / "elsewhere" / "ckpt-1")
        (folder.parent / "best.json").write_text(json.dumps({"checkpoint": name}))

    return change


def source(**values):
    return run_json(lambda run, place: run["source"].update(values))


def option(name, value):
    return run_json(
        lambda run, place: run["source"]["options"].update(
            {name: str(place.evil) if value == "EVIL" else {"file": str(place.evil)} if value == "FILE" else value}
        )
    )


def hub_folder(place):
    """What torch.hub.load takes: a folder whose hubconf.py is run."""
    (place.base / "hubconf.py").write_text(f"import os\nos.mkdir({str(place.canary)!r})\ndef m(): ...\n")
    return {
        "_target_": "cgf.data.vision.torch.hub.load",
        "repo_or_dir": str(place.base),
        "model": "m",
        "source": "local",
        "trust_repo": True,
    }


VIT = {
    "task torch.load by an import's alias": (
        whole_task(lambda p: {"_target_": "cgf.data.vision.torch.load", "f": str(p.evil), "weights_only": False}),
        "must be one of",
    ),
    "task torch.hub by an import's alias": (whole_task(hub_folder), "must be one of"),
    "task os by an import's alias": (
        whole_task(lambda p: {"_target_": "cgf.data.task.os.mkdir", "path": str(p.canary)}),
        "must be one of",
    ),
    "task a method by an import's alias": (
        whole_task(
            lambda p: {
                "_target_": "cgf.data.vision.Path.mkdir",
                "self": {"_target_": "pathlib.Path", "_args_": [str(p.canary)]},
            }
        ),
        "must be one of",
    ),
    "task by a foreign path": (whole_task(mark), "must be one of"),
    "task without a name": (whole_task(lambda p: {"seed": mark(p)}), "must be one of"),
    "task a list": (whole_task(lambda p: [mark(p)]), "must be an object"),
    "task an abstract base": (whole_task(lambda p: {"_target_": "cgf.data.task.Task", "seed": mark(p)}), "must be one"),
    "task a half-abstract base": (
        whole_task(lambda p: {"_target_": "cgf.data.vision.VisionTask", "name": mark(p)}),
        "must be one of",
    ),
    "task a private name": (
        whole_task(lambda p: {"_target_": "cgf.data.task._hash", "salt": mark(p), "key": "x"}),
        "must be one of",
    ),
    "task the hub's loader": (
        whole_task(
            lambda p: {"_target_": "cgf.data.hub.load_hub", "task": mark(p), "hub": "x", "config": None, "splits": []}
        ),
        "must be one of",
    ),
    "nested torch.load": (
        task(lambda p: {"seed": {"_target_": "torch.load", "f": str(p.evil), "weights_only": False}}),
        "'_target_', which names code",
    ),
    "nested joblib.load": (
        task(lambda p: {"limit": {"train": {"_target_": "joblib.load", "filename": str(p.evil)}}}),
        "'_target_', which names code",
    ),
    "nested numpy.load in a list": (
        task(lambda p: {"augment": [{"_target_": "numpy.load", "file": str(p.evil), "allow_pickle": True}]}),
        "'_target_', which names code",
    ),
    "nested pandas.read_pickle": (
        task(lambda p: {"name": {"_target_": "pandas.read_pickle", "filepath_or_buffer": str(p.evil)}}),
        "'_target_', which names code",
    ),
    "nested folder made": (task(lambda p: {"seed": mark(p)}), "'_target_', which names code"),
    "nested folder removed": (
        task(lambda p: {"seed": {"_target_": "shutil.rmtree", "path": str(p.victim)}}),
        "'_target_', which names code",
    ),
    "nested deep in lists": (task(lambda p: {"limit": {"train": [[{"a": [mark(p)]}]]}}), "'_target_', which names"),
    "_args_": (task(lambda p: {"_args_": [mark(p)]}), "'_args_', which names code"),
    "_partial_": (task(lambda p: {"_partial_": True, "seed": mark(p)}), "names code"),
    "_recursive_": (task(lambda p: {"_recursive_": True, "seed": mark(p)}), "names code"),
    "_convert_": (task(lambda p: {"_convert_": "all", "seed": mark(p)}), "names code"),
    "a text for a number": (task(lambda p: {"seed": "42"}), "'seed' of .* must be int"),
    "an unknown setting": (task(lambda p: {"loader": "os.mkdir"}), "has no setting 'loader'"),
    "softmax by a foreign path": (softmax(lambda p: {"_target_": "os.mkdir", "path": str(p.canary)}), "must name a"),
    "softmax an alias": (softmax(lambda p: {"_target_": "cgf.softmax.base.annotations"}), "must name a softmax"),
    "softmax a private class": (softmax(lambda p: {"_target_": "cgf.softmax.tensor.TensorRows"}), "must name a"),
    "softmax an abstract base": (softmax(lambda p: {"_target_": "cgf.softmax.loop.LoopCGF"}), "must name a softmax"),
    "softmax a base without a formula": (softmax(lambda p: {"_target_": "cgf.softmax.base.Softmax"}), "must name a"),
    "softmax an unknown variant": (softmax(lambda p: {"variant": "os.mkdir"}), "needs the variant one of"),
    "softmax of two names": (
        softmax(lambda p: {"variant": "cgf", "_target_": "cgf.softmax.exact.Exact"}),
        "says variant 'cgf'",
    ),
    "softmax with code in a parameter": (softmax(lambda p: {"variant": "cgf", "order": mark(p)}), "names code"),
    "softmax with a field that is no parameter": (
        softmax(lambda p: {"variant": "cgf", "observers": [mark(p)]}),
        "names code",
    ),
    "softmax with a hidden field": (softmax(lambda p: {"variant": "cgf", "layer": 3}), "has no setting 'layer'"),
    "softmax order a text": (softmax(lambda p: {"variant": "cgf", "order": "2"}), "must be int"),
    "softmax order a list": (softmax(lambda p: {"variant": "cgf", "order": [2]}), "must be int"),
    "softmax k of a billion": (softmax(lambda p: {"variant": "cgf_chain", "k": 10**9}), "must be from 0 to 512"),
    "softmax power of a billion": (softmax(lambda p: {"variant": "bpmax", "p": 10**9 + 1}), "must be from 0 to 512"),
    "softmax a list without end": (softmax(lambda p: {"variant": "cgf_chain", "domain": [0.0] * 10**6}), "65536"),
    "layers of a billion": (described(layers=10**9), "1024 layers at most"),
    "layers true": (described(layers=True), "not a checkpoint"),
    "an exponential of code": (described(exponential={"_target_": "os.mkdir"}), "names code"),
    "an exponential of a billion squarings": (
        described(exponential={"method": "chebyshev", "a": 1.0, "b": 0.0, "coefficients": [1.0, 1.0], "k": 10**9}),
        "64 squarings",
    ),
    "plan of code": (plan(lambda p: {"exponential": mark(p)}), "method must be one of"),
    "plan of a loader": (plan(lambda p: {"exponential": {"method": "torch.load", "f": str(p.evil)}}), "must be one of"),
    "model.safetensors a pickle": (pickled("model.safetensors"), "cannot be read"),
    "a .bin beside": (beside("pytorch_model.bin"), "pickled file"),
    "state tensors a pickle": (pickled("state/tensors.safetensors"), "cannot be read"),
    "state with code": (state(lambda data, p: data["progress"].update(random=mark(p))), "names code"),
    "state of another form": (state(lambda data, p: data.update(groups=[3])), "a list 'groups' of objects"),
    "state whose random numbers are texts": (
        state(lambda data, p: data["progress"]["random"].update(numpy="x")),
        "gone on from|MT19937",
    ),
    "state that reads past its end": (
        state(lambda data, p: data["progress"]["random"]["numpy"].__setitem__(2, 10**9)),
        "MT19937",
    ),
    "state of other parameters": (state(lambda data, p: data["groups"][0].update(count=10**9)), "parameters"),
    "state with a rate of words": (state(lambda data, p: data["groups"][0].update(lr="fast")), "'lr' of the training"),
    "best.json outside": (best("../elsewhere/ckpt-1"), "must name a checkpoint of its own folder"),
    "best.json itself": (best("."), "must name a checkpoint of its own folder"),
    "best.json a number": (best(3), "must name a checkpoint of its own folder"),
    "timm of a hub": (source(timm="hf-hub:evil/model"), "needs the name of a timm model"),
    "timm of a folder": (source(timm="local-dir:/tmp"), "needs the name of a timm model"),
    "timm a list": (source(timm=["vit_tiny_patch16_224"]), "needs the name of a timm model"),
    "option checkpoint_path": (option("checkpoint_path", "EVIL"), "gives timm the option 'checkpoint_path'"),
    "option pretrained": (option("pretrained", True), "gives timm the option 'pretrained'"),
    "option pretrained_cfg": (option("pretrained_cfg", "FILE"), "gives timm the option 'pretrained_cfg'"),
    "option cache_dir": (option("cache_dir", "EVIL"), "gives timm the option 'cache_dir'"),
    "option act_layer": (option("act_layer", "torch.load"), "gives timm the option 'act_layer'"),
    "option of a billion": (option("embed_dim", 10**9), "embed_dim of .* must be from 1 to 16384"),
    "option of another size": (option("embed_dim", 2**14), "of another model"),
    "image of code": (run_json(lambda run, p: run["image"].update(mean=[mark(p)])), "names code"),
    "image of a billion pixels": (run_json(lambda run, p: run["image"].update(size=[1, 10**9, 10**9])), "must be ch"),
}
TEXT = {
    "config auto_map": (
        with_code(
            "config.json",
            model_type="evil",
            auto_map={"AutoConfig": "evil.Evil", "AutoModelForSequenceClassification": "evil.Evil"},
        ),
        "holds 'auto_map'",
    ),
    "config attn_implementation": (
        host("config.json", lambda p: {"attn_implementation": "evil/kernel"}),
        "holds 'attn_implementation'",
    ),
    "config _attn_implementation nested": (
        host("config.json", lambda p: {"text_config": [{"_attn_implementation_internal": "evil/kernel"}]}),
        "holds '_attn_implementation_internal'",
    ),
    "config trust_remote_code": (host("config.json", lambda p: {"trust_remote_code": True}), "'trust_remote_code'"),
    "config quantization": (
        host("config.json", lambda p: {"quantization_config": {"quant_method": "x"}}),
        "holds 'quantization_config'",
    ),
    "config of a billion layers": (host("config.json", lambda p: {"num_hidden_layers": 10**9}), "at most 1024"),
    "config of a huge vocabulary": (host("config.json", lambda p: {"vocab_size": 2**24}), "of another model"),
    "config of other classes": (
        host("config.json", lambda p: {"id2label": {"0": "a"}, "label2id": {"a": 0}}),
        "has 1 classes, and run.json says num_classes=2",
    ),
    "tokenizer auto_map": (
        with_code("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", None]}),
        "holds 'auto_map'",
    ),
    "tokenizer of a foreign class": (
        host("tokenizer_config.json", lambda p: {"tokenizer_class": "evil.Evil"}),
        "tokenizer that transformers has itself, and names 'evil.Evil'",
    ),
    "tokenizer no tokenizer": (
        host("tokenizer_config.json", lambda p: {"tokenizer_class": "BertModel"}),
        "tokenizer that transformers has itself, and names 'BertModel'",
    ),
    "a pickle in host": (beside("host/vocab.pkl"), "pickled file"),
    "files outside the data": (
        run_json(
            lambda run, p: run["config"]["task"].update(files={"train": "../secret.csv", "test": "../secret.csv"})
        ),
        "must lie below the data root",
    ),
    "a task's name outside the data": (
        run_json(lambda run, p: run["config"]["task"].update(name="../data/table")),
        "must lie below the data root",
    ),
    "a data set of the hub that is a folder": (
        run_json(lambda run, p: run["config"]["task"].update(hub="/etc")),
        "must be a name on the hub",
    ),
}


def one_sentence(text):
    assert "\n" not in text and 20 < len(text) < 700, text
    return text


@pytest.mark.parametrize(
    "family, payload, says",
    [
        *(pytest.param("vit", payload, says, id=name) for name, (payload, says) in VIT.items()),
        *(pytest.param("bert", payload, says, id=name) for name, (payload, says) in TEXT.items()),
    ],
)
def test_no_file_of_a_checkpoint_runs_code(family, payload, says, place, record_property):
    run = place.base / family
    payload(place, run / "ckpt-1")
    reseal(run / "ckpt-1")
    try:
        with pytest.raises(UserError, match=says) as error:
            open_all(run, place.base / "data")
        one_sentence(str(error.value))
    finally:  # scripts/repo/reliability.py counts them
        ran = place.canary.exists() or not (place.victim / "inside").is_dir()
        record_property("payload_ran", ran)
    assert not ran


@pytest.mark.parametrize("family", ["vit", "bert"])
def test_what_is_not_spoilt_opens(family, place):
    reseal(place.base / family / "ckpt-1")
    assert open_all(place.base / family, place.base / "data").host.family == family


def test_the_pickle_does_leave_its_mark(place):
    """So that an absent mark means something."""
    pickle.loads(place.evil.read_bytes())
    assert place.canary.is_dir()


def test_a_checkpoint_does_not_say_where_files_are_written(place):
    folder = place.base / "bert" / "ckpt-1"
    run_json(lambda run, p: run["config"]["task"].update(cache=str(p.canary)))(place, folder)
    reseal(folder)
    assert len(open_all(folder, place.base / "data").dataset) and not place.canary.exists()


@pytest.mark.parametrize(
    "script, run, payload",
    [
        ("eval_plain", spawn, "nested torch.load"),
        ("plan", spawn, "task os by an import's alias"),
        ("eval_he", call, "nested pandas.read_pickle"),
        ("friendly", call, "nested joblib.load"),
    ],
)
def test_entry_points_run_none_of_it(script, run, payload, place, monkeypatch, record_property):
    folder = place.base / "vit" / "ckpt-1"
    monkeypatch.chdir(place.base)
    VIT[payload][0](place, folder)
    reseal(folder)
    done = run(
        script,
        f"ckpt={folder}",
        *(["he=sim"] if script == "eval_he" else []),
        **({"cwd": place.base} if run is spawn else {}),
    )
    record_property("payload_ran", place.canary.exists())
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    assert not place.canary.exists()


@pytest.mark.parametrize("flag", ["--experimental-rerun={evil}", "--experimental-r={evil}"])
def test_a_pickle_on_the_command_line_is_not_opened(flag, place):
    done = spawn("eval_plain", flag.format(evil=place.evil), cwd=place.base)
    assert done.returncode == 2 and done.stderr.startswith("error: settings are given as key=value")
    assert done.stderr.count("\n") == 1 and not place.canary.exists()


@pytest.mark.parametrize(
    "given",
    [
        *("--config-path=there", "-cp=there", "--config-dir=there"),
        *("hydra.searchpath=[there]", "+hydra.searchpath=[there]", "hydra.searchpath.0=there"),
        "hydra={searchpath: [there]}",
    ],
)
def test_configurations_of_ones_own_are_not_read(given, place, monkeypatch):
    """A file of them says what is called."""
    monkeypatch.chdir(place.base)
    shutil.copytree(CONFIGS, "there")
    Path("there/he/sim.yaml").write_text(f"_target_: pandas.read_pickle\nfilepath_or_buffer: {place.evil}\n")
    done = call("eval_he", f"ckpt={place.base / 'vit'}", "he=sim", given)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert given.split("=")[0] in done.stderr and not place.canary.exists()


def test_flags_that_name_no_file_are_taken():
    check_flags(["--multirun", "-m", "--cfg=job", "--resolve", "--info=defaults", "--version"])


def test_a_softmax_of_each_variant_is_read_back():
    from cgf.softmax.load import VARIANTS, softmax_from_json

    for variant, cls in VARIANTS.items():
        made = cls()
        again = softmax_from_json(json.loads(json.dumps(made.to_json())))
        assert made.name == variant and again.params() == made.params()
        old = {"_target_": f"{cls.__module__}.{cls.__qualname__}", **made.params()}  # the first files had no variant
        assert type(softmax_from_json(old)) is cls and "_target_" not in made.to_json()


def test_numbers_that_happen_to_be_whole_are_no_counts():
    """softmax.domain=[-10,1] of a command is in run.json as it was written."""
    from cgf.softmax.load import softmax_from_json

    assert softmax_from_json({"variant": "cgf_chain", "domain": [-10, 1], "k": 2}).domain == [-10.0, 1.0]
    assert softmax_from_json({"variant": "cho", "bound": 1024, "high": 600}).params()["bound"] == 1024
    with pytest.raises(UserError, match=r"'degree' of softmax.json's 'sigmoid' must be from 0 to 512, and is 1024"):
        softmax_from_json({"variant": "sigmoid", "degree": 1024})


def test_every_softmax_and_task_of_the_configs_has_its_row_in_the_tables():
    from omegaconf import OmegaConf

    from cgf.config import CONFIGS
    from cgf.data.tasks import TASKS
    from cgf.distill.teacher import LOADERS
    from cgf.softmax.load import TARGETS

    for group, table in (("softmax", TARGETS), ("task", TASKS), ("model", LOADERS)):
        assert {OmegaConf.load(p)._target_ for p in (CONFIGS / group).glob("*.yaml")} <= set(table)
    assert all(f"{cls.__module__}.{cls.__qualname__}" == path for path, cls in (*TARGETS.items(), *TASKS.items()))


def test_a_softmax_that_no_checkpoint_could_name_is_not_trained():
    from cgf.softmax.load import check_listed

    class Parabola(CGF):
        name = "parabola"

    check_listed(CGF())
    for stranger in (Parabola(), type("Other", (CGF,), {})()):
        with pytest.raises(UserError, match=r"needs its row in DEFINITIONS of cgf/softmax/load\.py"):
            check_listed(stranger)


def test_a_checkpoint_is_read_without_its_run_folder(place):
    assert read(place.base / "vit").path.name == "ckpt-1" == read(place.base / "vit" / "ckpt-1").path.name
