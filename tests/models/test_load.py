"""Hosts written to a checkpoint and read back, found by name, and tuned in part."""

import copy
import json
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import torch
from conftest_models import CLASSES, LAYERS, batch_for, small_bert, small_llama, small_vit, tokenizer
from resealed import reseal
from safetensors.torch import load_file, save_file

from cgf.checkpoint import read, save
from cgf.distill.tune import tune
from cgf.errors import UserError
from cgf.models import llama, vit
from cgf.models.install import install, install_copies, installed, installed_softmaxes, uninstall
from cgf.models.load import from_checkpoint
from cgf.models.pretrained import locate
from cgf.softmax.bpmax import BPMax, CalibratedBPMax
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact

SMALL = {"llama": small_llama, "bert": small_bert, "vit": small_vit}


def write(host, softmaxes, folder):
    run = {**host.describe(), "task": "none", "config": {}}
    return save(folder, host.state(), softmaxes, run, host.write_surroundings)


@pytest.fixture(params=SMALL)
def small(request):
    host = SMALL[request.param]()
    host.model.eval()
    return host


def one_sentence(error):
    text = str(error.value)
    assert "\n" not in text and 20 < len(text) < 400, text
    return text


# -- checkpoints ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("softmax", [CGF(), BPMax(p=3, c=4.0)], ids=lambda s: s.name)
def test_a_checkpoint_gives_the_same_logits_bit_for_bit(host, softmax, tmp_path):
    batch, softmaxes = batch_for(host), install_copies(host.model, softmax)
    host.model.train()
    with torch.no_grad():
        host.logits(batch)  # BPMax measures its denominators, one a layer
        host.model.eval()
        before = host.logits(batch)
        loaded, again = from_checkpoint(read(write(host, softmaxes, tmp_path / "ckpt-1")))
        loaded.model.eval()
        assert torch.equal(loaded.logits(batch), before)
    assert (loaded.name, loaded.family, loaded.num_classes) == (host.name, host.family, CLASSES)
    assert loaded.head_trained and loaded.describe() == host.describe()
    assert [s.layer for s in again] == list(range(len(softmaxes)))
    assert all(type(s) is type(softmax) and s.params() == softmax.params() for s in again)
    for own, kept in zip(again, softmaxes, strict=True):
        assert own.tensors().keys() == kept.tensors().keys()
        assert all(torch.equal(v, kept.tensors()[k]) for k, v in own.tensors().items())
    if loaded.family == "llama":
        assert loaded.inputs.tokenizer.padding_side == "right"
        assert loaded.model.config.pad_token_id == host.model.config.pad_token_id
    uninstall(host.model)
    tensors = load_file(tmp_path / "ckpt-1" / "model.safetensors")
    assert {k for k in tensors if not k.startswith("softmax.")} == set(host.model.state_dict())


def test_a_checkpoint_of_another_model_is_refused(small, tmp_path):
    folder = write(small, install_copies(small.model, CGF()), tmp_path / "ckpt-1")
    for other in set(SMALL) - {small.family}:
        save_file(SMALL[other]().state(), folder / "model.safetensors")
        reseal(folder)
        with pytest.raises(UserError, match="of another model") as error:
            from_checkpoint(read(folder))
        one_sentence(error)


def edit(folder, name, **changes):
    whole = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**whole, **changes}))
    reseal(folder)


def truncated(folder):
    raw = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(raw[: len(raw) // 2])


def stray_layer(folder):
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "softmax.9.denominator": torch.ones(1)}, folder / "model.safetensors")
    reseal(folder)


def without_host(folder):
    shutil.rmtree(folder / "host")
    reseal(folder)


@pytest.mark.parametrize(
    "damage, says",
    [
        (lambda f: (f / "run.json").unlink(), "run.json, which is written last"),
        (lambda f: (f / "model.safetensors").unlink(), "lacks model.safetensors"),
        (lambda f: (f / "softmax.json").unlink(), "lacks softmax.json"),
        (truncated, "model.safetensors cannot be read"),
        (without_host, "does not describe the model"),
        (lambda f: edit(f, "run.json", family="rnn"), "family 'rnn'"),
        (lambda f: edit(f, "softmax.json", layers=2), "2 softmaxes"),
        (lambda f: edit(f, "softmax.json", layers="three"), "not a checkpoint"),
        (lambda f: edit(f, "softmax.json", softmax=["cgf"]), "not a checkpoint"),
        (lambda f: (f / "run.json").write_text("[]"), "not a checkpoint"),
        (stray_layer, "softmax.9.denominator"),
        (lambda f: shutil.rmtree(f), "no folder"),
    ],
    ids=[
        "no run.json",
        "no weights",
        "no softmax.json",
        "truncated",
        "no host",
        "family",
        "layers",
        "layers of words",
        "softmax of another form",
        "run.json of another form",
        "stray layer",
        "nothing",
    ],
)
def test_a_damaged_checkpoint_is_refused_with_one_sentence(damage, says, tmp_path):
    host = small_llama()
    folder = write(host, install_copies(host.model, CGF()), tmp_path / "ckpt-1")
    damage(folder)
    with pytest.raises(UserError, match=says) as error:
        from_checkpoint(read(folder))
    one_sentence(error)


# -- installing -----------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_refused_install_leaves_the_softmax_in_place(small):
    kept, batch = install_copies(small.model, CGF()), batch_for(small)
    before = small.logits(batch)

    def breaks(layer):
        if layer == 2:
            raise UserError("no softmax for layer 2")
        return Exact()

    for attempt in ({"make": lambda _: Exact(), "expected": 4}, {"make": breaks}):
        with pytest.raises(UserError):
            install(small.model, **attempt)
        assert installed_softmaxes(small.model) == kept and [s.layer for s in kept] == [0, 1, 2]
        assert torch.equal(small.logits(batch), before)
    with pytest.raises(UserError), installed(small.model, breaks):
        pass
    assert installed_softmaxes(small.model) == kept


@torch.no_grad()
def test_blocks_within_blocks_give_back_what_stood_there(small):
    batch = batch_for(small)
    bare = small.logits(batch)
    outer = install_copies(small.model, CGF())
    first = small.logits(batch)
    with installed(small.model, lambda _: BPMax()):
        second = small.logits(batch)
        with pytest.raises(RuntimeError, match="stop"), installed(small.model, lambda _: Exact()):
            raise RuntimeError("stop")
        assert torch.equal(small.logits(batch), second)
    assert installed_softmaxes(small.model) == outer and torch.equal(small.logits(batch), first)
    assert not torch.equal(first, second)
    assert uninstall(small.model) == 3 and uninstall(small.model) == 0
    assert torch.equal(small.logits(batch), bare)


def test_every_layer_has_constants_of_its_own(small):
    slots = install_copies(small.model, CalibratedBPMax())
    small.model.train()
    small.logits(batch_for(small))
    denominators = [s.denominator for s in slots]
    assert not torch.equal(denominators[0], denominators[1])
    assert not any(key.startswith("softmax") or "cgf" in key for key in small.model.state_dict())


# -- tuning ---------------------------------------------------------------------------------------------


ATTENTION = {"llama": "self_attn", "bert": "attention", "vit": "attn"}
HEAD = {"llama": ("score.",), "bert": ("classifier.", "bert.pooler."), "vit": ("head.", "fc_norm.")}


@pytest.mark.parametrize("mode", ["full", "attention", "lora"])
def test_which_parameters_train(small, mode):
    install_copies(small.model, CGF())
    count = tune(small, mode, rank=2)
    trained = {n for n, p in small.model.named_parameters() if p.requires_grad}
    assert count == sum(p.numel() for n, p in small.model.named_parameters() if n in trained)
    names = [n for n, _ in small.model.named_parameters()]
    attention = {n for n in names if ATTENTION[small.family] in n.split(".") and not n.startswith(HEAD[small.family])}
    head = {n for n in names if n.startswith(HEAD[small.family])}
    assert head and attention
    if mode == "full":
        assert trained == set(names)
    elif mode == "attention":
        assert trained == attention | head
    else:
        adapters = {n for n in names if "lora_" in n}
        projections = 2 if small.family == "vit" else 4  # timm keeps query, key and value in one
        assert len(adapters) == 2 * 3 * projections and adapters <= attention and trained == adapters | head


@torch.no_grad()
def test_merged_adapters_are_the_model_with_adapters(small):
    plain, batch = copy.deepcopy(small), batch_for(small)
    keys = list(plain.model.state_dict())
    softmaxes = install_copies(small.model, CGF())
    tune(small, "lora", rank=2, scale=4)
    for name, parameter in small.model.named_parameters():
        if "lora_B" in name:  # zero at first
            parameter.normal_(0, 0.2, generator=torch.Generator().manual_seed(len(name)))
    adapted = small.logits(batch)
    state = small.state()
    assert sorted(state) == sorted(keys)
    plain.model.load_state_dict(state)
    with installed(plain.model, lambda _: copy.deepcopy(softmaxes[0])):
        torch.testing.assert_close(plain.logits(batch), adapted, atol=1e-4, rtol=1e-4)
    with installed(small.model, lambda _: Exact()):  # adapters survive a swap and the way back
        torch.testing.assert_close(small.logits(batch), plain.logits(batch), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(small.logits(batch), adapted, atol=1e-6, rtol=1e-6)
    uninstall(small.model)
    torch.testing.assert_close(small.logits(batch), plain.logits(batch), atol=1e-4, rtol=1e-4)
    base = SMALL[small.family]().model.state_dict()
    assert any(not torch.equal(base[k], state[k]) for k in keys), "the adapters changed nothing"


def test_an_unknown_mode_of_tuning_is_refused(small):
    with pytest.raises(UserError, match="full, attention, lora, and 'half'"):
        tune(small, "half")


# -- finding weights ------------------------------------------------------------------------------------


def test_where_weights_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("CGF_DATA_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights" / "tiny").mkdir(parents=True)
    assert locate("m", path="owner/name") == "owner/name"
    assert locate("m", path="weights/tiny") == "weights/tiny"
    assert locate("m", subfolder="weights/tiny", data_root=str(tmp_path)) == str(tmp_path / "weights" / "tiny")
    monkeypatch.setenv("CGF_DATA_ROOT", str(tmp_path))
    assert locate("m", subfolder="weights/tiny") == str(tmp_path / "weights" / "tiny")
    assert Path(locate("m", package="models")) == Path(vit.__file__).resolve().parent


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"package": "no_such_package_of_weights"}, "needs the Python package no_such_package_of_weights"),
        ({"package": "models", "subfolder": "nowhere"}, "needs the folder .*nowhere"),
        ({"path": "./nowhere"}, "needs the folder nowhere"),
        ({"path": "/nowhere/at/all"}, "/nowhere/at/all"),
        ({"subfolder": "weights"}, "CGF_DATA_ROOT"),
        ({"subfolder": "weights", "data_root": "/nowhere"}, "/nowhere/weights"),
    ],
)
def test_weights_that_are_not_there(arguments, says, monkeypatch):
    monkeypatch.delenv("CGF_DATA_ROOT", raising=False)
    with pytest.raises(UserError, match=f"model=tiny.*{says}") as error:
        locate("tiny", **arguments)
    one_sentence(error)


def saved(host, folder):
    host.model.save_pretrained(folder)
    host.inputs.tokenizer.save_pretrained(folder)
    return str(folder)


def test_a_folder_with_a_head_of_these_classes_keeps_it(tmp_path):
    host = small_llama()
    host.model.eval()
    where = saved(host, tmp_path / "hf")
    same, other = (llama.load("tiny", classes, path=where) for classes in (CLASSES, CLASSES + 1))
    assert same.head_trained and not other.head_trained
    batch = batch_for(host)
    with torch.no_grad():
        torch.testing.assert_close(same.logits(batch), host.logits(batch), atol=1e-6, rtol=0)
        assert other.logits(batch).shape == (3, CLASSES + 1)
    assert next(same.model.parameters()).dtype == torch.float32


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(UserError, match="needs a LLaMA or another decoder .*BertFor.* is none") as error:  # noqa: RUF043
        llama.load("tiny", CLASSES, path=saved(small_bert(), tmp_path / "bert"))
    one_sentence(error)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty cannot be loaded") as error:
        llama.load("tiny", CLASSES, path=str(tmp_path / "empty"))
    one_sentence(error)
    with pytest.raises(UserError, match="timm does not know 'vit_nonsense'"):
        vit.load("tiny", "vit_nonsense", CLASSES, pretrained=False)


@pytest.mark.parametrize(
    "words, special, padded_with",
    [
        (["pad"], {"pad_token": "pad"}, 0),
        (["end", "<|finetune_right_pad_id|>"], {"eos_token": "end"}, 1),
        (["start", "end"], {"eos_token": "end"}, 1),
    ],
)
def test_a_pad_id_is_set_where_the_tokenizer_has_none(words, special, padded_with):
    host = small_llama()
    host.model.config.pad_token_id = None
    llama.set_padding(host.model, tokenizer(*words, **special))
    assert host.model.config.pad_token_id == padded_with


def test_a_tokenizer_that_cannot_pad_is_refused():
    with pytest.raises(UserError, match="neither a pad token nor an end token"):
        llama.set_padding(small_llama().model, tokenizer())


def hub_answers():
    try:
        urllib.request.urlopen("https://huggingface.co", timeout=5)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "load, wanted",
    [
        (lambda: llama.load("llama", 2, path="meta-llama/Llama-3.2-1B"), "meta-llama/Llama-3.2-1B"),
        (lambda: vit.load("vit_tiny", "vit_tiny_patch16_224", 1000), "vit_tiny_patch16_224"),
    ],
    ids=["transformers", "timm"],
)
def test_a_hub_out_of_reach_is_one_sentence_within_seconds(load, wanted, tmp_path, monkeypatch):
    if hub_answers():
        pytest.skip("the hub can be reached from here")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))  # nothing of an earlier download
    start = time.monotonic()
    with pytest.raises(UserError, match=wanted) as error:
        load()
    assert time.monotonic() - start < 30
    one_sentence(error)


def test_the_layers_of_the_table_are_those_of_the_configurations(host):
    assert LAYERS[{"stories260k": "stories"}.get(host.name, host.name)] == len(install_copies(host.model, CGF()))
