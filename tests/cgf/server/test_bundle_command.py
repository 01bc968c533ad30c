"""Bundles from checkpoints: what they hold, that their logits are the model's own, and what has no bundle."""

import dataclasses
import json
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("desilofhe")
pytest.importorskip("torchvision", reason="hosts in the clear are tensors")
from both_sides import call
from conftest_models import tokenizer
from resealed import reseal, reseal_softmax
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForSequenceClassification

from cgf.activation.polynomial import Products, Squares
from cgf.approx.fit import chain
from cgf.bundle.agreement import Agreement, circuit_of
from cgf.bundle.sides import ClientBundle, ServerBundle
from cgf.checkpoint import TrainingState, read, save
from cgf.client.__main__ import main as client_main
from cgf.client.samples import batches_of
from cgf.data.pairs import MARK
from cgf.data.tasks import task_from_node
from cgf.errors import UserError
from cgf.evaluate.open_checkpoint import open_checkpoint
from cgf.models import bert, llama, vit
from cgf.models.host import HostFacts
from cgf.models.install import install_copies
from cgf.models.load import from_checkpoint
from cgf.models.replace import parts_of, replace
from cgf.network.program import program_of
from cgf.network.twin import twin
from cgf.norm.batch import BatchNorms
from cgf.plan.plan import Plan
from cgf.server import make
from cgf.server.__main__ import main as server
from cgf.softmax.cgf import CGF

OPTIONS = {"img_size": 8, "patch_size": 4, "in_chans": 1, "embed_dim": 8, "depth": 1, "num_heads": 2,
           "class_token": False, "global_pool": "avg"}  # fmt: skip
DIGITS = {"_target_": "cgf.data.vision.DigitsTask", "name": "digits", "augment": False, "seed": 42, "limit": None}
TABLE = {"_target_": "cgf.data.text.TableTask", "name": "table", "root": None, "text": "text", "label": "label",
         "files": {"train": "train.csv", "test": "test.csv"}}  # fmt: skip


VIT = {"blocks.0.norm1": 8, "blocks.0.norm2": 8, "fc_norm": 8}, {"blocks.0.mlp.act": 32}
LAYER = "bert.encoder.layer.0"
BERT = (
    {"bert.embeddings.LayerNorm": 8, f"{LAYER}.attention.output.LayerNorm": 8, f"{LAYER}.output.LayerNorm": 8},
    {f"{LAYER}.intermediate.intermediate_act_fn": 8, "bert.pooler.activation": 8},
)


LLAMA = (
    {"model.layers.0.input_layernorm": 8, "model.layers.0.post_attention_layernorm": 8, "model.norm": 8},
    {"model.layers.0.mlp.act_fn": 12},
)


def write(folder, host, node, places=None, activations=None):
    """A checkpoint of a host with random weights, a chain of 1 in its plan; places of norms and of activations."""
    if places is not None:
        replace(host.model, BatchNorms(), activations or Squares(), *places)
    softmaxes = install_copies(host.model, CGF())
    optimizer = torch.optim.AdamW(host.model.parameters(), lr=1e-3)
    run = {**host.describe(), "task": node["name"], "progress": {"finished": True},
           "config": {"task": node, "model": {"name": host.name}}}  # fmt: skip
    parts = parts_of(host.model).described()
    save(folder, host.state(), softmaxes, run, host.write_surroundings, TrainingState.of({"step": 1}, optimizer),
         parts=parts)  # fmt: skip
    statistics = 1 + (host.row_kind == "masked")
    plan = Plan(chain(-8.0, 1.0, 1), host.row_kind, statistics, statistics + 1, 1, (-7.0, 0.5), 0.1)
    (folder / "plan.json").write_text(json.dumps(plan.to_json()))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A checkpoint of digits and its bundles."""
    folder = tmp_path_factory.mktemp("digits")
    torch.manual_seed(0)
    host = vit.load("small", "vit_tiny_patch16_224", 10, pretrained=False, options=OPTIONS)
    write(folder / "run" / "ckpt-1", host, DIGITS, VIT)
    assert call(server, "bundle", folder / "run", "--out", folder / "bundles", "--samples", 40) == 0
    return folder


def test_the_bundles_fit_one_another_and_the_network(made):
    client, own = ClientBundle.read(made / "bundles" / "client"), ServerBundle.read(made / "bundles" / "server")
    assert client.agreement == own.agreement
    assert own.agreement.terms.max_level == own.plans[0].levels == 8  # 6 + k a block, and the logits
    assert [length.samples for length in own.agreement.lengths] == [own.agreement.terms.slots // 4]
    assert client.limit.samples == 40 and client.limit.largest > 0
    assert own.agreement.classes == tuple(map(str, range(10)))


def test_a_client_holds_no_weights_and_a_server_no_inputs(made):
    assert {p.name for p in (made / "bundles" / "client").iterdir()} == {"bundle.json", "inputs.json"}
    assert {p.name for p in (made / "bundles" / "server").iterdir()} == {
        "bundle.json", "network.json", "network.safetensors"}  # fmt: skip


def test_prepared_as_the_client_does_the_network_gives_the_models_logits(made):
    """Raw pixels, through the client's preparation and the server's network, against the task's and the model's own."""
    opened = open_checkpoint(str(made / "run"), "test", partial(task_from_node, root=None))
    opened.put_in_place({"method": "plan"})
    images, own = opened.task.read("test")
    np.save(made / "raw.npy", images.images[own[:6]].numpy())
    client, own_server = ClientBundle.read(made / "bundles" / "client"), ServerBundle.read(made / "bundles" / "server")
    (batch,) = batches_of(client, made / "raw.npy")
    got = twin(program_of(own_server.network, 4), batch.features)
    opened.host.model.eval()
    with torch.inference_mode():
        expected = opened.host.logits(opened.collate([opened.dataset[i] for i in range(6)])).numpy()
    assert np.abs(got - expected).max() < 1e-4 * np.abs(expected).max() and np.ptp(expected) > 1e-3


@pytest.mark.parametrize(
    ("factor", "said"), [(60, "of 40 training samples as the model does"), (4000, "beyond the gu")]
)
def test_polynomials_that_fail_on_the_training_data_have_no_bundle(tmp_path, capsys, factor, said):
    """The red light's bound was taken from such logits, and stayed dark on wrong labels."""
    torch.manual_seed(0)
    host = vit.load("small", "vit_tiny_patch16_224", 10, pretrained=False, options=OPTIONS)
    with torch.no_grad():
        host.model.blocks[0].attn.qkv.weight.mul_(factor)
    write(tmp_path / "run" / "ckpt-1", host, DIGITS, VIT)
    given = ("bundle", tmp_path / "run", "--out", tmp_path / "bundles", "--samples", 40)
    assert call(server, *given) == 2 and said in capsys.readouterr().err
    assert not (tmp_path / "bundles").exists()
    if factor == 60:
        assert call(server, *given, "--agreement", 0) == 0 and "training samples labelled as" in capsys.readouterr().out
        assert call(server, *given[:-3], tmp_path / "b", "--agreement", 1.5) == 2


@pytest.mark.parametrize(
    ("trained", "plan", "said"),
    [
        (None, "a plan", "plan them anew"),
        ("a chain", None, "train it with a wider softmax.domain"),
        ("a chain", "a plan", "remove run/plan.json"),
    ],
)
def test_the_cure_of_polynomials_that_fail_is_one(trained, plan, said):
    """Another plan is none where the weights learned with a polynomial."""
    opened = SimpleNamespace(trained=[trained], checkpoint=SimpleNamespace(path=Path("run")))
    assert make._cure(opened, plan).startswith(said)


def test_logits_are_read_where_the_network_has_them(made):
    """A bundle that names another token is refused: by the server with its network, and by both beyond the tokens."""
    own = ServerBundle.read(made / "bundles" / "server")
    length, terms = own.agreement.lengths[0], own.agreement.terms
    assert length.read == 0
    with pytest.raises(UserError, match=r"has its logits at token 0, and the bundle reads token 3: make both .* anew"):
        circuit_of(own.network, dataclasses.replace(length, read=3), terms)
    told = own.agreement.to_json()
    for token in (-1, 4):
        told["lengths"] = [{**dataclasses.asdict(length), "read": token}]
        with pytest.raises(UserError, match="read of here must be a whole number from 0 to 3"):
            Agreement.from_json(told, "here")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    torch.manual_seed(0)
    config = BertConfig(vocab_size=50, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
                        max_position_embeddings=16, num_labels=2)  # fmt: skip
    words = tokenizer("pad", pad_token="pad")
    host = bert.host(
        BertForSequenceClassification(config), words, HostFacts(name="small", num_classes=2, trained=False, source={})
    )
    write(folder / "run" / "ckpt-1", host, TABLE, BERT)
    (folder / "data" / "table").mkdir(parents=True)
    table = "".join(f"w{i % 9} w{i % 5},{'ab'[i % 2]}\n" for i in range(40))
    for name in ("train.csv", "test.csv"):
        (folder / "data" / "table" / name).write_text("text,label\n" + table)
    return folder


def test_a_client_of_texts_tokenises_as_the_model(texts, capsys):
    given = ("bundle", texts / "run", "--data-root", texts / "data", "--out", texts / "bundles")
    assert call(server, *given) == 2
    assert "--tokens must say which counts" in capsys.readouterr().err
    assert call(server, *given, "--tokens", 2, 3) == 0
    client = ClientBundle.read(texts / "bundles" / "client")
    (texts / "lines.txt").write_text("w1 w2\nw3 w4 w5\nw0 unheard\n")
    batches = {len(b.features[0]): b for b in batches_of(client, texts / "lines.txt")}
    assert {tokens: batch.indices for tokens, batch in batches.items()} == {2: (0, 2), 3: (1,)}
    host, _ = from_checkpoint(read(str(texts / "run")))
    for row, line in ((0, "w1 w2"), (1, "w0 unheard")):
        ids = host.inputs.tokenizer(line)["input_ids"]
        assert np.array_equal(batches[2].features[row], client.inputs.prepared(np.array([ids]))[0])


def test_a_llama_as_two_parties(texts, tmp_path):
    """Words in, labels out: a causal mask, rotary positions, a gated unit, the last of three tokens, on ciphertexts."""
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=50, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_labels=2,
                         num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=16, pad_token_id=0,
                         initializer_range=0.4)  # fmt: skip
    facts = HostFacts(name="small", num_classes=2, trained=False, source={})
    host = llama.host(LlamaForSequenceClassification(config), tokenizer("pad", pad_token="pad"), facts)
    write(tmp_path / "run" / "ckpt-1", host, TABLE, LLAMA, Products())
    lines = ["w1 w2 w3", "w3 w2 w1", "w7 w8 unheard", "w1 w1 w1"]
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in lines))
    made, given = tmp_path / "bundles", ["--data-root", texts / "data", "--tokens", 3]
    given += ["--agreement", 0.8]  # its weights are random, and its chain has one squaring
    assert call(server, "bundle", tmp_path / "run", "--out", made, *given) == 0
    of_client, keys = ["--bundle", made / "client", "--keys", tmp_path / "keys"], tmp_path / "keys" / "evaluation.keys"
    assert call(client_main, "keys", *of_client) == 0
    assert call(client_main, "encrypt", tmp_path / "lines.txt", *of_client, "--out", tmp_path / "up") == 0
    of_server = ["--bundle", made / "server", "--keys", keys, "--state", tmp_path / "state"]
    assert call(server, "run", tmp_path / "up", *of_server, "--out", tmp_path / "down") == 0
    assert call(client_main, "decrypt", tmp_path / "down", *of_client, "--out", tmp_path / "logits.json") == 0
    told = json.loads((tmp_path / "logits.json").read_text())["rows"]
    opened = open_checkpoint(str(tmp_path / "run"), "test", partial(task_from_node, root=str(texts / "data")))
    opened.put_in_place({"method": "plan"})
    opened.host.model.eval()
    encoded = opened.host.inputs.tokenizer(lines, return_tensors="pt")
    with torch.inference_mode():
        expected = opened.host.logits({k: encoded[k] for k in ("input_ids", "attention_mask")}).numpy()
    assert np.ptp(expected, axis=0).min() > 1e-2  # texts of the same words in another order differ
    got = np.array([row["logits"] for row in told])
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_pairs_and_texts_cut_at_their_start_have_no_bundle(texts, tmp_path, capsys, monkeypatch):
    """A client takes a text a line, and cuts it off at its end."""
    given = ("bundle", texts / "run", "--out", tmp_path / "o", "--tokens", 2, "--data-root")
    (tmp_path / "table").mkdir()
    for name in ("train.csv", "test.csv"):
        table = (texts / "data" / "table" / name).read_text()
        (tmp_path / "table" / name).write_text(table.replace(" w", MARK + "w"))
    with monkeypatch.context() as patched:  # as a task with a column for the second text says
        patched.setattr("cgf.data.text_task.TextTask.of_pairs", lambda task: True)
        patched.setattr("cgf.data.text_task.check_pairs", lambda *_: None)  # this tokenizer would run them together
        assert call(server, *given, tmp_path) == 2
    assert "takes a text a line, and task table has pairs of texts" in capsys.readouterr().err
    shutil.copytree(texts / "run", tmp_path / "run")
    for path in (tmp_path / "run").rglob("tokenizer_config.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "truncation_side": "left"}))
    reseal(tmp_path / "run" / "ckpt-1")
    assert call(server, "bundle", tmp_path / "run", *given[2:], texts / "data") == 2
    assert "cuts texts off at their end, and model 'small' does so on the left" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_what_has_no_bundle_is_refused(made, tmp_path, capsys):
    host = vit.load("small", "vit_tiny_patch16_224", 10, pretrained=False, options=OPTIONS)
    write(tmp_path / "exact", host, DIGITS)
    write(tmp_path / "gaussian" / "ckpt-1", host, DIGITS, VIT)
    reseal_softmax(tmp_path / "gaussian" / "ckpt-1", _target_="cgf.softmax.published.gaussian.GaussianKernel")
    cases = [
        ((tmp_path / "gaussian", "--out", tmp_path / "o"), "knows CGF-softmax of two cumulants alone"),
        ((tmp_path / "exact", "--out", tmp_path / "o"), "LayerNorm at blocks.0.norm1 stays exact"),
        ((tmp_path / "nothing", "--out", tmp_path / "o"), "nothing"),
        ((made / "run", "--out", tmp_path / "o", "--tokens", 4), "--tokens is for networks of texts"),
        ((made / "run", "--out", tmp_path / "o", "--samples", 0), "samples must be a whole number"),
        ((made / "run", "--out", made / "bundles"), "is there already and is not overwritten"),
    ]
    for given, said in cases:
        assert call(server, "bundle", *given) == 2
        error = capsys.readouterr().err
        assert said in error and error.startswith("error: ") and error.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_a_command_line_that_is_none_ends_with_two(capsys):
    for side in (server, client_main):
        for given in ((), ("nonsense",), ("run",), ("keys", "--bundle")):
            assert call(side, *given) == 2
        assert call(side, "--help") == 0
