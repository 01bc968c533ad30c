"""How a run may begin: teachers, drop path, LoRA with adapters kept, a model saved as it stands."""

import dataclasses
import json

import pytest
import torch
from conftest_models import small_bert, tokenizer
from digits_checkpoint import call
from safetensors.torch import load_file

from cgf.checkpoint import read
from cgf.config import build, compose
from cgf.data.task import ImageInput, Inputs
from cgf.distill.prepare import training_samples
from cgf.distill.teacher import renormalisation, teacher_of
from cgf.distill.tune import _in_head, tune
from cgf.errors import UserError
from cgf.models.load import from_checkpoint

SMALL = ["train.batch_size=16", "task.limit={train: 48, val: 16, test: 16}"]


def digits(*overrides):
    cfg = compose("train", ["model=vit_digits", *overrides])
    torch.manual_seed(0)
    return build(cfg.model, num_classes=10)


def images(seed=0):
    return {"pixel_values": torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(seed))}


def trained(host):
    host.head_trained = True
    return host


def test_the_teacher_self_without_a_checkpoint_is_the_model_as_loaded():
    student, loaded = trained(digits()), trained(digits())
    assert teacher_of("self", None, student, lambda: loaded, build) is loaded
    with pytest.raises(UserError, match="never trained on this task"):
        teacher_of("self", None, digits(), digits, build)


def test_a_teacher_may_be_a_model_and_sees_images_normalised_for_it():
    student = digits()
    student.inputs = dataclasses.replace(student.inputs, image=ImageInput((1, 8, 8), (0.1,), (0.3,)))
    large = trained(digits())
    large.inputs = dataclasses.replace(large.inputs, image=ImageInput((1, 8, 8), (0.5,), (0.25,)))
    node = {"_target_": "cgf.models.vit.load", "name": "large"}
    teacher = teacher_of(node, None, student, digits, lambda got, num_classes: large)
    large.model.eval()
    raw = torch.rand(4, 1, 8, 8)
    seen = teacher.forward(teacher.model, {"pixel_values": (raw - 0.1) / 0.3})
    torch.testing.assert_close(seen, large.model((raw - 0.5) / 0.25), rtol=1e-4, atol=1e-5)
    for change, says in ((lambda: setattr(large, "head_trained", False), "no head that was trained for 10"),):
        change()
        with pytest.raises(UserError, match=says):
            teacher_of(node, None, student, digits, lambda got, num_classes: large)
    with pytest.raises(UserError, match="the node of a model"):
        teacher_of({"_target_": "os.system"}, None, student, digits, build)


def test_a_teacher_of_other_images_is_refused():
    student, other = digits(), trained(digits())
    other.inputs = dataclasses.replace(other.inputs, image=ImageInput((1, 16, 16), (0.5,), (0.5,)))
    with pytest.raises(UserError, match=r"takes images of \(1, 16, 16\), and the student \(1, 8, 8\)"):
        teacher_of({"_target_": "cgf.models.vit.load"}, None, student, digits, lambda node, num_classes: other)


def test_a_teacher_of_other_words_is_refused():
    student, other = small_bert(), small_bert()
    other.head_trained = True
    node = {"_target_": "cgf.models.bert.load"}
    assert teacher_of(node, None, student, digits, lambda node, num_classes: other) is other
    other.inputs = Inputs(tokenizer=tokenizer("pad", "another", pad_token="pad"))
    with pytest.raises(UserError, match="needs the tokenizer of student small_bert, whose tokens it is given"):
        teacher_of(node, None, student, digits, lambda node, num_classes: other)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("types", [False, True])
def test_a_teacher_that_reads_token_types_is_given_them(pairs, types):
    """The batches are the student's: without types every pair would be one text to such a teacher."""

    class Texts:
        def has_pairs(self, split):
            return pairs

        def dataset(self, split, inputs):
            raise LookupError("read")

    student, teacher = small_bert(), small_bert()
    teacher.inputs = dataclasses.replace(teacher.inputs, token_types=True)
    student.inputs = dataclasses.replace(student.inputs, token_types=types)
    refused = pytest.raises(UserError, match="tells the texts of a pair by token types, and student small_bert")
    with refused if pairs and not types else pytest.raises(LookupError):
        training_samples(None, Texts(), student, teacher, None)


def test_renormalisation_by_hand():
    factor, offset = renormalisation(ImageInput((1, 8, 8), (0.2,), (0.5,)), ImageInput((1, 8, 8), (0.4,), (0.25,)))
    assert float(factor) == pytest.approx(2.0) and float(offset) == pytest.approx(-0.8)


def test_drop_path_acts_in_training_alone():
    host, plain, batch = digits("model.drop_path=0.5"), digits(), images()
    host.model.load_state_dict(plain.model.state_dict())
    assert host.source["options"]["drop_path_rate"] == 0.5 and "drop_path_rate" not in plain.source["options"]
    rates = [block.drop_path1.drop_prob for block in host.model.blocks[1:]]
    assert rates == pytest.approx([0.5 / 3, 1 / 3, 0.5])
    for one in (host, plain):
        one.model.eval()
    torch.testing.assert_close(host.forward(host.model, batch), plain.forward(plain.model, batch))
    host.model.train()
    assert not torch.equal(host.forward(host.model, batch), host.forward(host.model, batch))
    with pytest.raises(UserError, match="rate from 0 to below 1"):
        digits("model.drop_path=1.0")


def test_no_epoch_saves_the_model_as_it_stands(tmp_path):
    done = call("train", "softmax=exact", "train.epochs=0", "run=zero", f"outputs={tmp_path}", *SMALL)
    assert done.returncode == 0, done.stderr
    host, _ = from_checkpoint(read(tmp_path / "zero"))
    torch.manual_seed(42)
    cfg = compose("train")
    fresh = build(cfg.model, num_classes=10)
    for key, value in fresh.model.state_dict().items():
        assert torch.equal(host.model.state_dict()[key], value), key
    again = call("train", "softmax=exact", "train.epochs=0", "run=zero", f"outputs={tmp_path}", *SMALL)
    assert again.returncode == 0 and "finished already" in again.stdout


def test_lora_from_the_base_model_merges_and_keeps(tmp_path):
    """Base weights + the kept adapters, loaded by peft, are the merged weights of the checkpoint."""
    from peft import PeftConfig, PeftModel

    done = call(
        "train",
        "tune=lora",
        "tune.keep=true",
        "tune.rank=4",
        "tune.scale=8",
        "train.max_steps=3",
        "train.lr=0.01",
        "run=lora",
        f"outputs={tmp_path}",
        *SMALL,
    )
    assert done.returncode == 0, done.stderr
    checkpoint = read(tmp_path / "lora")
    merged, _ = from_checkpoint(checkpoint)
    folder = checkpoint.path / "host" / "adapters"
    assert json.loads((folder / "adapter_config.json").read_text())["r"] == 4
    assert PeftConfig.from_pretrained(str(folder)).lora_alpha == 8
    assert len(load_file(folder / "adapter_model.safetensors")) == 2 * 2 * 4  # A and B, qkv and proj, four blocks
    torch.manual_seed(42)
    base = build(compose("train").model, num_classes=10)
    before = {k: v.clone() for k, v in base.model.state_dict().items()}
    joined = PeftModel.from_pretrained(base.model, str(folder)).merge_and_unload()
    for name in (f"blocks.{i}.attn.{part}.weight" for i in range(4) for part in ("qkv", "proj")):
        assert not torch.equal(before[name], merged.model.state_dict()[name])
        torch.testing.assert_close(joined.state_dict()[name], merged.model.state_dict()[name])
    without = call("train", "tune=lora", "train.max_steps=1", "run=merged", f"outputs={tmp_path}", *SMALL)
    assert without.returncode == 0 and not list((tmp_path / "merged").rglob("adapters"))


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("head_dist.weight", True),  # of a distilled DeiT
        ("pre_classifier.bias", True),  # of DistilBERT
        ("dense.weight", True),  # of EuroBERT
        ("bert.encoder.layer.0.attention.output.dense.weight", False),
        ("blocks.0.mlp.fc1.weight", False),
    ],
)
def test_every_layer_of_a_head_is_one(name, head):
    assert _in_head(name) is head


def test_targets_that_match_nothing():
    with pytest.raises(UserError, match="LoRA with rank 16 on nowhere does not fit vit_digits"):
        tune(digits(), "lora", targets=["nowhere"])
    with pytest.raises(UserError, match="names porj, which is the end of no layer of vit_digits with an adapter"):
        tune(digits(), "lora", targets=["qkv", "porj"])
    assert tune(digits(), "lora", targets=["qkv", "attn.proj"]) > 0
