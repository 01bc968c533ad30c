"""The commands that read a spoilt file, and what of their results must be the same where nothing was spoilt.

A reader works in a folder laid out as ``bad_bases.make`` makes it. It prints its sentence and ends as the command does,
or returns facts: plain values, without times and places. ``told`` says that facts which differ are no secret: another
digest of the checkpoint, or another hash of the data, stands in the result.
"""

import contextlib
import json
import sys
from pathlib import Path

import composed

from cgf import errors
from cgf.errors import UserError

STATE_COUNT = 31  # parameters of the vision transformer of bad_bases
APART = ("run", "config", "seconds", "setup_s", "evaluate_s", "wall_s", "lines_sha256", "us_per_entry")


def facts_of(result):
    """Of a result file, what a second run repeats."""
    if isinstance(result, dict):
        return {
            k: facts_of(v) for k, v in result.items() if k not in APART and not k.endswith(("_s", "seconds", "mib"))
        }
    return [facts_of(v) for v in result] if isinstance(result, list) else result


@contextlib.contextmanager
def sentence():
    """UserError as a command prints it."""
    try:
        yield
    except UserError as error:
        print(errors.sentence(error), file=sys.stderr)
        sys.exit(2)


def _ended(script, overrides):
    """Runs an entry point; a red light's exit code is its result too."""
    try:
        composed.run(script, overrides)
    except SystemExit as end:
        if end.code not in (None, 0, 1):
            raise


def eval_plain(folder, name):
    own = ["approx=plan", "samples=8", f"out={folder / 'out.json'}", f"data.root={folder / 'data'}"]
    _ended("eval_plain", [f"ckpt={folder / name / 'ckpt-1'}", *own])
    return facts_of(json.loads((folder / "out.json").read_text()))


def eval_he(folder, name):
    where = f"ckpt={folder / name / 'ckpt-1'}"
    _ended("eval_he", [where, "he=sim", "he.samples=1", f"out={folder / 'out.json'}"])
    return facts_of(json.loads((folder / "out.json").read_text()))


def state(folder, name):
    """A resumed training's reading of the state, which has no hash, so that no facts are compared."""
    import torch

    from cgf.checkpoint import TrainingState

    with sentence():
        found = TrainingState.read(folder / name / "ckpt-1" / "state")
        optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1)) for _ in range(STATE_COUNT)], lr=1e-3)
        found.restore(optimizer)
    return {}


def table(folder, name):
    """A training's reading of a user's table: texts, labels and splits."""
    from cgf.data.own_text import FileTask

    suffix = name.partition(".")[2]
    with sentence():
        task = FileTask(train=str(folder / "data" / name), test=str(folder / "data" / f"test.{suffix}"))
        records = {split: task._source.records[split] for split in ("train", "test")}
        names, notes = list(task.class_names), task.notes()
    return {"rows": records, "names": names, "told": {**task.revision(), "notes": notes}}


def pictures(folder, name):
    """A training's reading of a folder of images."""
    from cgf.data.own_images import OwnFolderTask
    from cgf.data.task import ImageInput, Inputs

    with sentence():
        task = OwnFolderTask(root=str(folder / "images"))
        want = Inputs(image=ImageInput((3, 8, 8), (0.5,) * 3, (0.5,) * 3))
        sums = []
        for split in ("train", "val", "test"):
            data = task.dataset(split, want)
            sums += [float(data[i]["pixel_values"].sum()) for i in range(len(data))]
    return {"sums": sums, "told": dict(task.revision())}


def merge(folder, name):
    parts = ",".join(str(folder / f"part{i}-shard{i}of2.json") for i in (1, 2))
    _ended("merge_shards", [f"shards=[{parts}]", f"out={folder / 'merged.json'}"])
    return facts_of(json.loads((folder / "merged.json").read_text()))


def report(folder, name):
    """The page; what a result file says is believed, so that no facts are compared."""
    import importlib.util

    from digits_checkpoint import ROOT

    spec = importlib.util.spec_from_file_location("entry_report", ROOT / "scripts" / "report.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.argv = ["report.py", str(folder / "reported")]
    code = module.main()
    if code:
        sys.exit(code)
    page = (folder / "reported" / "report.html").read_text()
    assert "<script>alert" not in page
    return {}


def _network(command):
    def run(folder, name):
        from both_sides import call, commands

        network = folder / "network"
        code = call(*commands(network)[command])
        if code:
            sys.exit(code)
        if command == "decrypt":
            return [
                (row["row"], row["label"], row["logits"])
                for row in json.loads((network / "logits.json").read_text())["rows"]
            ]
        return {}

    return run


MADE = {"encrypt": ("uploads",), "serve": ("results",), "decrypt": ("logits.json", "logits.report.json")}
encrypt, serve, decrypt = _network("encrypt"), _network("run"), _network("decrypt")

CHECKPOINT = (
    "run.json", "softmax.json", "plan.json", "model.safetensors", "state/progress.json", "state/tensors.safetensors",
)  # fmt: skip
HOST = ("host/config.json", "host/tokenizer.json", "host/tokenizer_config.json")
TABLES = ("train.csv", "train.tsv", "train.jsonl", "train.json", "train.parquet", "train.csv.gz")
IMAGES = ("train/a/0.png", "train/a/1.jpg", "train/b/2.bmp", "train/b/3.webp")
CLIENT = ("client/bundle.json", "client/inputs.json")
SERVER = ("server/bundle.json", "server/network.json", "server/network.safetensors", "keys/evaluation.keys")


READERS = {
    each: globals()[each]
    for each in (
        "eval_plain",
        "eval_he",
        "state",
        "table",
        "pictures",
        "merge",
        "report",
        "encrypt",
        "serve",
        "decrypt",
    )
}


def _of(folder, files, reader, name=None, **more):
    by = next(key for key, own in READERS.items() if own is reader)
    return [{"file": f"{folder}/{f}", "reader": by, "name": name or Path(f).name, **more} for f in files]


TARGETS = [  # every file that a command reads, and the command; seal: made to fit again after the change
    *_of("vit/ckpt-1", CHECKPOINT[:4], eval_plain, "vit"),
    *_of("vit/ckpt-1", CHECKPOINT[:4], eval_he, "vit"),
    *_of("vit/ckpt-1", CHECKPOINT[4:], state, "vit"),
    *_of("vit/ckpt-1", CHECKPOINT[:2] + CHECKPOINT[3:4], eval_plain, "vit", seal=True),
    *_of("bert/ckpt-1", CHECKPOINT[:4] + HOST, eval_plain, "bert"),
    *_of("bert/ckpt-1", CHECKPOINT[:2] + HOST, eval_plain, "bert", seal=True),
    *_of("data", ("train.csv", "test.csv"), eval_plain, "bert"),
    *_of("data", TABLES, table),
    *_of("images", IMAGES, pictures),
    *_of(".", [f"part{i}-shard{i}of2.{s}" for i in (1, 2) for s in ("json", "jsonl")], merge, "shards"),
    *_of("reported/run/ckpt-1/eval", ("plain-chain-k3-test-8.json",), report, "report"),
]
NETWORK = [
    *_of("network", [*CLIENT, "keys/public.key", "images.npy"], encrypt, "network"),
    *_of("network", [*SERVER, "uploads/0001.upload"], serve, "network"),
    *_of("network", [CLIENT[0], "keys/secret.key", "keys/encrypted.jsonl", "results/0001.result"], decrypt, "network"),
]
