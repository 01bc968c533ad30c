"""What a folder of weights, a checkpoint and a teacher's node say of a model is checked before a library reads it."""

import json

import pytest
import torch
from conftest_models import CLASSES, batch_for, small_bert, small_llama, small_vit
from resealed import reseal
from safetensors.torch import load_file, save_file

from cgf.checkpoint import read, save
from cgf.config import build, compose
from cgf.distill.teacher import teacher_of
from cgf.errors import UserError
from cgf.models import bert, vit
from cgf.models.install import install_copies
from cgf.models.load import from_checkpoint
from cgf.softmax.bpmax import BPMax
from cgf.softmax.cgf import CGF


def write(host, softmaxes, folder):
    run = {**host.describe(), "task": "none", "config": {}}
    return save(folder, host.state(), softmaxes, run, host.write_surroundings)


@pytest.fixture
def weights(tmp_path):
    """A folder as transformers saves one."""
    host = small_bert()
    host.model.save_pretrained(tmp_path / "hf")
    host.inputs.tokenizer.save_pretrained(tmp_path / "hf")
    return tmp_path / "hf"


def config(name, **says):
    def change(folder):
        data = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**data, **says}))

    return change


def as_pickle(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    "change, says",
    [
        (as_pickle, r"has its weights as pytorch_model\.bin alone, a pickled file.*save_pretrained"),
        (config("config.json", auto_map={"AutoConfig": "evil.Evil"}), r"config\.json holds 'auto_map'"),
        (config("config.json", attn_implementation="owner/kernel"), "holds 'attn_implementation'"),
        (config("config.json", _attn_implementation="owner/kernel"), "holds '_attn_implementation'"),
        (config("config.json", quantization_config={"quant_method": "x"}), "holds 'quantization_config'"),
        (config("config.json", transformers_weights="adapter_model.bin"), "holds 'transformers_weights'"),
        (config("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", None]}), "holds 'auto_map'"),
        (config("tokenizer_config.json", tokenizer_class="EvilTokenizer"), "names 'EvilTokenizer'"),
        (lambda f: (f / "adapter_config.json").write_text("{}"), "holds adapters"),
    ],
    ids=[
        "pickle",
        "auto_map",
        "attn",
        "_attn",
        "quantization",
        "other weights",
        "tokenizer auto_map",
        "tokenizer class",
        "adapters",
    ],
)
def test_a_folder_of_weights_that_names_code_is_refused(change, says, weights):
    assert bert.load("tiny", CLASSES, path=str(weights)).head_trained
    change(weights)
    with pytest.raises(UserError, match=says) as error:
        bert.load("tiny", CLASSES, path=str(weights))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("make", [small_llama, small_bert, small_vit])
def test_weights_of_another_type_are_not_rounded_without_a_word(make, tmp_path):
    host = make()
    folder = write(host, install_copies(host.model, CGF()), tmp_path / "ckpt-1")
    tensors = load_file(folder / "model.safetensors")
    first = next(iter(tensors))
    save_file({**tensors, first: tensors[first].double()}, folder / "model.safetensors")
    reseal(folder)
    with pytest.raises(UserError, match=f"must have '{first}' in torch.float32.* has it in torch.float64"):
        from_checkpoint(read(folder))


def test_bpmax_that_never_measured_is_trained_and_not_evaluated(tmp_path):
    host = small_vit()
    softmaxes = install_copies(host.model, BPMax())
    folder = write(host, softmaxes, tmp_path / "ckpt-1")
    with pytest.raises(UserError, match=r"'bpmax' needs 'denominator', which training measures.*train\.epochs"):
        from_checkpoint(read(folder))
    assert len(from_checkpoint(read(folder), to_train=True)[1]) == len(softmaxes)
    host.model.train()
    host.logits(batch_for(host))
    assert len(from_checkpoint(read(write(host, softmaxes, tmp_path / "ckpt-2")))[1]) == len(softmaxes)


def test_reading_a_checkpoint_draws_the_random_numbers_of_one_model(tmp_path):
    """Shapes are compared on a model without memory, which must not draw any: a training's numbers hang on it."""
    host = small_vit()
    folder = write(host, install_copies(host.model, CGF()), tmp_path / "ckpt-1")
    torch.manual_seed(3)
    small = host.source
    vit.load("small_vit", small["timm"], CLASSES, pretrained=False, options=small["options"])
    after = torch.rand(3)
    torch.manual_seed(3)
    from_checkpoint(read(folder))
    assert torch.equal(torch.rand(3), after)


@pytest.mark.parametrize(
    "node, says",
    [
        ({"_target_": "cgf.models.load.torch.load", "f": "x"}, "the node of a model"),
        ({"_target_": "cgf.models.host.Host"}, "the node of a model"),
        ({"_target_": ["cgf.models.vit.load"]}, "the node of a model"),
        (
            {"_target_": "cgf.models.vit.load", "name": {"_target_": "os.mkdir", "path": "CANARY"}},
            "'_target_', which names",
        ),
        (
            {"_target_": "cgf.models.vit.load", "options": {"act_layer": [{"_target_": "os.mkdir", "path": "CANARY"}]}},
            "'_target_', which names code",
        ),
        ({"_target_": "cgf.models.vit.load", "_args_": ["x"]}, "'_args_', which names code"),
        ({"_target_": "cgf.models.vit.load", "_partial_": True}, "'_partial_', which names code"),
    ],
    ids=["alias", "another class", "a list", "nested", "nested in a list", "arguments", "partial"],
)
def test_a_teacher_is_one_of_the_models(node, says, tmp_path):
    student = build(compose("train").model, num_classes=10)
    text = json.dumps(node).replace("CANARY", str(tmp_path / "canary"))
    with pytest.raises(UserError, match=says):
        teacher_of(json.loads(text), None, student, lambda: student, build)
    assert not (tmp_path / "canary").exists()
