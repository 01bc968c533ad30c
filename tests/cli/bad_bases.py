"""What bad input is made of: small whole checkpoints, data sets, shards, results and bundles."""

import contextlib
import gzip
import io
import json
import os
import shutil
from pathlib import Path

import composed
import numpy as np
import torch
from conftest_models import tokenizer
from isolated import isolated
from PIL import Image
from transformers import BertConfig, BertForSequenceClassification

from cgf.approx.fit import chain
from cgf.checkpoint import TrainingState, read, save
from cgf.data.own_text import FileTask
from cgf.models import bert, vit
from cgf.models.host import HostFacts
from cgf.models.install import install_copies
from cgf.plan.plan import Plan
from cgf.results import plain_json, write_json
from cgf.seal import with_seal
from cgf.softmax.cgf import CGF

VIT = {
    "img_size": 8,
    "patch_size": 4,
    "in_chans": 1,
    "embed_dim": 8,
    "depth": 2,
    "num_heads": 2,
    "class_token": False,
    "global_pool": "avg",
}
DIGITS = {
    "_target_": "cgf.data.vision.DigitsTask",
    "name": "digits",
    "augment": False,
    "seed": 42,
    "limit": {"train": 64, "val": 16, "test": 16},
}
BERT = {
    "vocab_size": 50,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 16,
    "num_labels": 2,
}


def saved(folder, host, node):
    """A checkpoint with its state and a sealed plan of this host, trained on the task of this node."""
    torch.manual_seed(0)
    softmaxes = install_copies(host.model, CGF())
    optimizer = torch.optim.AdamW(host.model.parameters(), lr=1e-3)
    run = {
        **host.describe(),
        "task": node["name"],
        "progress": {"finished": True},
        "config": {"task": node, "model": {"name": host.name}},
    }
    save(folder, host.state(), softmaxes, run, host.write_surroundings, TrainingState.of({"step": 1}, optimizer))
    plan = Plan(chain(-8.0, 1.0, 3), "full", 1, 4, 3, (-7.0, 0.5), 0.1)
    made = {**plan.to_json(), "checkpoint": read(folder).digest}
    write_json(folder / "plan.json", with_seal(plain_json(made)))


def digits_checkpoint(folder):
    """A ViT of 8 x 8 pixels with random weights, and a plan."""
    digits = vit.load("small", "vit_tiny_patch16_224", 10, pretrained=False, options=VIT)
    saved(folder, digits, DIGITS)


def records(count=40):
    """Texts of two classes."""
    return [(f"w{i % 7} w{i} w{i + 1}", "ab"[i % 2]) for i in range(count)]


def _texts(data):
    import pyarrow
    import pyarrow.parquet

    data.mkdir(parents=True)
    for name, some in (("train", records(40)), ("test", records(60)[40:])):
        (data / f"{name}.csv").write_text("text,label\n" + "".join(f"{t},{c}\n" for t, c in some))
        (data / f"{name}.tsv").write_text("text\tlabel\n" + "".join(f"{t}\t{c}\n" for t, c in some))
        (data / f"{name}.jsonl").write_text("".join(json.dumps({"text": t, "label": c}) + "\n" for t, c in some))
        (data / f"{name}.json").write_text(json.dumps([{"text": t, "label": c} for t, c in some]))
        table = pyarrow.table({"text": [t for t, _ in some], "label": [c for _, c in some]})
        pyarrow.parquet.write_table(table, data / f"{name}.parquet")
        (data / f"{name}.csv.gz").write_bytes(gzip.compress((data / f"{name}.csv").read_bytes()))


def _images(folder):
    rng = np.random.default_rng(0)
    for kind, formats in (("a", ("png", "jpg")), ("b", ("bmp", "webp"))):
        (folder / "train" / kind).mkdir(parents=True)
        for i in range(8):
            picture = Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8))
            picture.save(folder / "train" / kind / f"{i}.{formats[i % 2]}")


def make(base: Path) -> Path:
    """Everything, below a new folder ``base``."""
    base.mkdir(parents=True)
    here = os.getcwd()
    os.chdir(base)
    try:
        _texts(base / "data")
        _images(base / "images")
        digits_checkpoint(base / "vit" / "ckpt-1")
        task = FileTask(train=str(base / "data" / "train.csv"), test=str(base / "data" / "test.csv"), max_length=16)
        node = {
            "_target_": "cgf.data.own_text.FileTask",
            "name": "csv",
            "text": "text",
            "label": "label",
            "max_length": 16,
            **task.kept(),
        }
        model = BertForSequenceClassification(BertConfig(**BERT))
        words = tokenizer("pad", pad_token="pad")
        host = bert.host(model, words, HostFacts(name="small", num_classes=2, trained=False, source={}))
        saved(base / "bert" / "ckpt-1", host, node)
        _results(base)
    finally:
        os.chdir(here)
    return base


def _results(base):
    """A run folder with results of all kinds, and the shards of one evaluation."""
    vit = f"ckpt={base / 'vit' / 'ckpt-1'}"
    for part in ("1", "2"):
        told = [vit, "he=sim", "he.samples=4", "he.batch=1", f"he.shard={part}/2", f"out={base / f'part{part}.json'}"]
        ended = isolated(lambda told=told: composed.run("eval_he", told))
        assert ended.code in (0, 1), ended.err
    ended = isolated(lambda: composed.run("eval_plain", [vit, "approx=plan", "samples=8"]))
    assert ended.code in (0, 1), ended.err
    shutil.copytree(base / "vit" / "ckpt-1" / "eval", base / "reported" / "run" / "ckpt-1" / "eval")
    shutil.rmtree(base / "vit" / "ckpt-1" / "eval")


def with_bundles(base: Path) -> Path:
    """base/network: both bundles, keys, uploads and results of a network under CKKS. Needs desilofhe."""
    from both_sides import whole

    (base / "network").mkdir()
    with contextlib.redirect_stdout(io.StringIO()):
        whole(base / "network")
    return base
