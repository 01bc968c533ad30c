"""What softmaxes were trained to goes with the model's state_dict, whoever keeps it and loads it back."""

import copy
import warnings

import pytest
import timm
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

import cgf
from cgf.errors import UserError
from cgf.models.install import installed_softmaxes

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "pad_token_id": 0}
TINY = {"img_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
IDS = torch.randint(1, 40, (12, 7), generator=torch.Generator().manual_seed(1))
KEYS = ["cgf_softmax.0.denominator", "cgf_softmax.1.denominator"]


def bert(softmax="bpmax", seed=0):
    torch.manual_seed(seed)
    model = BertForSequenceClassification(BertConfig(**SIZES, intermediate_size=16, num_labels=3))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".query." in name or ".key." in name:
                parameter.mul_(20)
    cgf.install(model.eval(), softmax)
    return model


def measured(seed=0, softmax="bpmax"):
    """One batch in training, which is what BPMax measures its denominators on."""
    model = bert(softmax, seed).train()
    model(input_ids=IDS[4 * seed : 4 * seed + 4])
    return model.eval()


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits


def added(model):
    return [key for key in model.state_dict() if key.startswith("cgf_softmax.")]


def chain(model):
    with pytest.warns(UserWarning, match="has constants that are trained"):
        slots = cgf.install(model, cgf.ChainCGF(k=2, trainable="layer"))
    for layer, slot in enumerate(slots):
        slot.load_tensors({name: tensor + 0.01 * (1 + layer) for name, tensor in slot.tensors().items()})
    return model


def test_denominators_come_back_with_the_weights(tmp_path):
    model, other = measured(), measured(seed=1)
    assert added(model) == KEYS and added(bert()) == [] and not torch.equal(logits(model), logits(other))
    torch.save(model.state_dict(), tmp_path / "student.pt")
    for again in (bert(seed=1), other):  # one that never measured, and one that measured something else
        assert again.load_state_dict(torch.load(tmp_path / "student.pt", weights_only=True)).missing_keys == []
        assert torch.equal(logits(again), logits(model))
    # they are copies: what one measures next is not the other's
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    other.train()(input_ids=IDS)
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())
    assert not torch.equal(other.state_dict()[KEYS[0]], before[KEYS[0]])


def test_constants_of_a_chain_come_back_within_another_model():
    class Around(nn.Module):
        def __init__(self, seed):
            super().__init__()
            self.inner = chain(bert("exact", seed))

    model, again = Around(0), Around(1)
    for slot in installed_softmaxes(again.inner):
        slot.load_tensors({name: tensor * 0.5 for name, tensor in slot.tensors().items()})
    parameters = [p for slot in installed_softmaxes(again.inner) for p in slot.parameters()]
    state = model.state_dict()
    assert sorted(key for key in state if "cgf_softmax" in key) == [
        f"inner.cgf_softmax.{layer}.{name}" for layer in (0, 1) for name in ("alpha", "beta", "constants")
    ]
    again.load_state_dict(state)
    assert torch.equal(logits(again.inner), logits(model.inner))
    now = [p for slot in installed_softmaxes(again.inner) for p in slot.parameters()]
    assert all(a is b for a, b in zip(parameters, now, strict=True))  # those that an optimizer holds


def test_a_state_of_another_softmax_is_refused_key_by_key():
    model, plain = measured(), bert("exact")
    weights = {key: tensor for key, tensor in model.state_dict().items() if key not in KEYS}
    assert list(plain.state_dict()) == list(weights)
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "cgf_softmax\.0\.denominator"'):
        model.load_state_dict(weights)
    assert model.load_state_dict(weights, strict=False).missing_keys == KEYS
    with pytest.raises(RuntimeError, match=r"exact keeps no tensors, and the checkpoint has \['denominator'\]"):
        plain.load_state_dict(model.state_dict())
    cgf.uninstall(plain)
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "cgf_softmax\.0\.denominator"'):
        plain.load_state_dict(model.state_dict())
    state = {key.replace("cgf_softmax.1", "cgf_softmax.2"): tensor for key, tensor in model.state_dict().items()}
    with pytest.raises(RuntimeError, match=r'Missing .*"cgf_softmax\.1\.d.*\n.*Unexpected .*"cgf_softmax\.2\.d'):
        model.load_state_dict(state)
    bert().load_state_dict(weights)  # one that has measured nothing lacks nothing


def test_a_copy_keeps_its_own_and_an_uninstalled_model_none():
    model = measured()
    twin = copy.deepcopy(model)
    assert added(twin) == KEYS
    twin.train()(input_ids=IDS[:2])
    assert not torch.equal(twin.state_dict()[KEYS[0]], model.state_dict()[KEYS[0]])
    cgf.uninstall(twin)
    assert added(twin) == [] and added(model) == KEYS
    cgf.install(twin, "bpmax")
    twin.load_state_dict(model.state_dict())
    assert torch.equal(logits(twin.eval()), logits(model))


def test_a_model_of_timm_keeps_them_in_its_state_and_out_of_the_weights_that_timm_reads(tmp_path):
    def vit(seed):
        torch.manual_seed(seed)
        made = timm.create_model("vit_tiny_patch16_224", num_classes=3, **TINY)
        cgf.install(made, "bpmax")
        return made

    images = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    model, again = vit(0), vit(1)
    model.train()(images)
    again.load_state_dict(model.state_dict())
    assert added(again) == KEYS and torch.equal(again.eval()(images), model.eval()(images))
    cgf.save(model, tmp_path / "out")
    assert not [key for key in load_file(tmp_path / "out" / "model.safetensors") if "cgf" in key]
    assert added(model) == KEYS and torch.equal(cgf.load(tmp_path / "out")(images), model(images))


def test_torchs_distributed_checkpoints_find_every_key():
    model, again = measured(), bert(seed=1)
    state = get_model_state_dict(model)
    assert set(KEYS) <= set(state)
    set_model_state_dict(again, state)
    assert torch.equal(logits(again), logits(model))


def test_adapters_that_are_merged_leave_the_denominators(tmp_path):
    adapted = get_peft_model(bert("exact"), LoraConfig(r=2, target_modules=["query"]))
    cgf.install(adapted, "bpmax")  # in the place of what stood there before the adapters
    adapted.train()(input_ids=IDS[:4])
    assert [key.rpartition("cgf_softmax")[2] for key in adapted.state_dict() if "cgf_softmax" in key] == [
        ".0.denominator",
        ".1.denominator",
    ]
    merged = adapted.eval().merge_and_unload()
    assert added(merged) == KEYS
    cgf.install(again := bert(seed=1), "bpmax")
    again.load_state_dict(merged.state_dict())
    assert torch.equal(logits(again), logits(merged))


@pytest.mark.parametrize("cut", [lambda t: t[:1], lambda t: t[..., 0], lambda t: torch.cat([t, t], 2)])
def test_denominators_of_another_shape_are_refused(cut):
    model = measured()
    state = {key: cut(tensor) if key in KEYS else tensor for key, tensor in model.state_dict().items()}
    with pytest.raises(
        RuntimeError, match=r"bpmax needs 'denominator' of shape \(2, queries, 1\), and the checkpoint h"
    ):
        bert().load_state_dict(state)


def test_denominators_of_other_heads_are_not_put_in():
    softmax = cgf.BPMax()
    softmax.denominator = torch.ones(3, 7, 1)
    with pytest.raises(UserError, match="bpmax has denominators of 3 heads, and this layer has 2"):
        cgf.install(bert("exact"), softmax)


def test_bpmax_that_has_measured_nothing_says_so_when_it_is_evaluated():
    with pytest.warns(UserWarning, match="bpmax has measured no denominators, and computes with R = 1"):
        logits(bert())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bert().train()(input_ids=IDS[:2])


class WorseEachTime(TrainerCallback):
    """The first evaluation is the best one: the Trainer goes back to its checkpoint at the end."""

    def on_evaluate(self, args, state, control, metrics=None, **_):
        metrics["eval_loss"] = float(state.global_step)


def test_the_best_checkpoint_of_transformers_trainer_has_its_own_denominators(tmp_path):
    data = [{"input_ids": row, "labels": int(row[0]) % 3} for row in IDS]
    model = bert("bpmax_calibrated")
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "out"),
        num_train_epochs=3,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_only_model=True,
    )
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data, callbacks=[WorseEachTime()])
    trainer.train()
    best, last = (tmp_path / "out" / f"checkpoint-{step}" for step in (3, 9))
    assert trainer.state.best_model_checkpoint == str(best)
    assert torch.equal(logits(model.eval()), logits(cgf.load(best)))
    assert not torch.equal(cgf.load(best).state_dict()[KEYS[0]], cgf.load(last).state_dict()[KEYS[0]])
