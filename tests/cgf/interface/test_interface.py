"""The Python interface on small models: what it returns is what the model computes, and the model is left as it was."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    Trainer,
    TrainingArguments,
)

import cgf
from cgf.activation.base import ExactActivations
from cgf.errors import UserError
from cgf.models import places
from cgf.models.replace import replace, restore
from cgf.norm.batch import BatchNorms

SMALL = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "pad_token_id": 0}


def sharpened(model):
    """Of a random model: its rows of weights are far from uniform, where all softmaxes would be nearly equal."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if any(part in name for part in (".query.", ".key.", "q_proj", "k_proj", ".qkv.")):
                parameter.mul_(20)
    return model.eval()


def bert():
    torch.manual_seed(0)
    return sharpened(BertForSequenceClassification(BertConfig(**SMALL, intermediate_size=16, num_labels=3)))


def llama():
    torch.manual_seed(0)
    config = LlamaConfig(**SMALL, num_key_value_heads=1, intermediate_size=16, num_labels=3)
    return sharpened(LlamaForSequenceClassification(config))


def vit():
    torch.manual_seed(0)
    sizes = {"img_size": 8, "patch_size": 4, "in_chans": 1, "embed_dim": 16, "depth": 2, "num_heads": 2}
    return sharpened(timm.create_model("vit_tiny_patch16_224", num_classes=3, **sizes))


def texts(count=6, types=False):
    draw = torch.Generator().manual_seed(1)
    ids, lengths = torch.randint(1, 40, (count, 7), generator=draw), [7, 5, 6, 7, 4, 7]
    mask = torch.tensor([[1] * n + [0] * (7 - n) for n in lengths[:count]])
    batch = {"input_ids": ids * mask, "attention_mask": mask, "labels": torch.arange(count) % 3}
    return [batch | ({"token_type_ids": mask * 0} if types else {})]


def images():
    draw = torch.Generator().manual_seed(1)
    return [(torch.randn(4, 1, 8, 8, generator=draw), torch.tensor([0, 1, 2, 0]))]


def logits(model, loader):
    with torch.no_grad():
        batch = loader[0]
        return model(batch[0]) if isinstance(batch, tuple) else model(**batch).logits


CASES = [(bert, texts), (llama, texts), (vit, images)]


def test_importing_the_package_loads_nothing():
    code = "import sys, cgf; print(cgf.__version__, [m for m in sys.modules if m.startswith(('cgf.', 'torch'))])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(cgf.__file__).parents[1]
    )
    assert done.stdout.split(maxsplit=1)[1].strip() == "[]", done.stdout + done.stderr


def test_every_name_loads_and_packages_stay_packages():
    for name in cgf._MODULES:
        assert getattr(cgf, name).__name__ == name
    package = importlib.import_module("cgf.plan")

    assert cgf.plan is package and name in dir(cgf)
    with pytest.raises(AttributeError, match="nothing"):
        _ = cgf.nothing


@pytest.mark.parametrize(("make", "data"), CASES)
def test_install_changes_the_weights_and_uninstall_gives_the_model_back_bit_for_bit(make, data):
    model, loader = make(), data()
    before, keys, modules = logits(model, loader), list(model.state_dict()), [type(m) for m in model.modules()]
    assert len(cgf.install(model, "cgf")) == 2
    assert not torch.allclose(logits(model, loader), before, atol=1e-5) and list(model.state_dict()) == keys
    assert len(cgf.install(model, cgf.Exact())) == 2
    assert torch.allclose(logits(model, loader), before, atol=1e-5)
    assert cgf.uninstall(model) == 2
    assert torch.equal(logits(model, loader), before) and [type(m) for m in model.modules()] == modules
    assert "save_pretrained" not in vars(model) and not [n for n in vars(model) if n.startswith("_cgf")]


def test_two_models_of_one_configuration_keep_an_attention_each():
    config = BertConfig(**SMALL, intermediate_size=16, num_labels=3)
    teacher, student = (sharpened(BertForSequenceClassification(config)) for _ in range(2))
    before = logits(teacher, texts())
    cgf.install(student, "cgf")
    assert torch.equal(logits(teacher, texts()), before) and teacher.config is config
    assert all(m.config is student.config for m in student.modules() if "config" in vars(m))
    cgf.install(teacher, "taylor")
    cgf.uninstall(student)
    assert not torch.equal(logits(teacher, texts()), before)
    assert cgf.uninstall(teacher) == 2 and torch.equal(logits(teacher, texts()), before)


@pytest.mark.parametrize(("make", "data"), [(llama, texts), (vit, images)])
def test_report_plan_and_evaluation_of_a_model_at_hand(make, data):
    model, loader = make(), data()
    report = cgf.friendly_report(model, loader)
    assert len(report.layers) == 2 and report.friendly and "layer 1" in str(report)
    with pytest.raises(UserError, match="no softmax put in"):
        cgf.make_plan(model, loader)
    cgf.install(model, cgf.CGF())
    inside = logits(model, loader)
    plan = cgf.make_plan(model, loader)
    result = cgf.evaluate_model(model, loader, plan, engine="sim", samples=4)
    assert torch.equal(logits(model, loader), inside)
    assert result.samples == 4 and result.agreement == 1.0 and not result.red and not result.encrypted
    assert result.max_error < 1e-6 and 0 < result.levels <= plan.levels + 1 and plan.ring_slots >= 4096
    labels = (loader[0][1] if isinstance(loader[0], tuple) else loader[0]["labels"])[:4]
    assert result.accuracy == float((inside[:4].argmax(-1) == labels).float().mean())
    with pytest.raises(UserError, match="needs a plan"):
        cgf.evaluate_model(model, loader)


@pytest.mark.parametrize("make", [bert, llama])
def test_a_saved_model_comes_back_with_its_softmax(make, tmp_path):
    model, loader = make(), texts()
    cgf.install(model, cgf.CGF(order=3))
    model.save_pretrained(tmp_path / "out")
    again = cgf.load(tmp_path / "out").eval()
    assert torch.equal(logits(again, loader), logits(model, loader))
    (tmp_path / "out" / "softmax.json").unlink()
    with pytest.raises(UserError, match=r"no softmax\.json"):
        cgf.load(tmp_path / "out")


def test_a_softmax_that_was_never_measured_is_not_evaluated_nor_loaded_in_part(tmp_path):
    model, loader = bert(), texts()
    cgf.install(model, "bpmax")
    says = "needs 'denominator', which training measures, and "
    with pytest.raises(UserError, match=says + "layer 0 of the model has none"):
        cgf.evaluate_model(model, loader)
    with torch.no_grad():
        model.train()(**{key: value for key, value in loader[0].items() if key != "labels"})
    model.eval().save_pretrained(tmp_path)
    assert torch.equal(logits(cgf.load(tmp_path), loader), logits(model, loader))
    kept = load_file(tmp_path / "softmax.safetensors")
    save_file({key: value for key, value in kept.items() if not key.startswith("1.")}, tmp_path / "softmax.safetensors")
    with pytest.raises(UserError, match=r"softmax\.safetensors is not the one that softmax\.json was saved with"):
        cgf.load(tmp_path)
    described = json.loads((tmp_path / "softmax.json").read_text())
    described["weights"].pop("softmax.safetensors")  # as folders of before have it
    (tmp_path / "softmax.json").write_text(json.dumps(described))
    with pytest.raises(UserError, match=says + r".*softmax\.safetensors has none of layer 1"):
        cgf.load(tmp_path)


@pytest.mark.parametrize("plan", ["outputs/run/plan.json", {"method": "chain"}])
def test_a_plan_that_is_none_is_refused(plan):
    model = bert()
    cgf.install(model, "cgf")
    with pytest.raises(UserError, match=r"plan must be what cgf\.make_plan returned, or None, and is"):
        cgf.evaluate_model(model, texts(), plan)


@pytest.mark.parametrize("other", ["taylor", cgf.CGF(order=3)])
def test_a_plan_for_another_softmax_is_refused_and_a_result_names_its_own(other):
    model = bert()
    cgf.install(model, "cgf")
    plan = cgf.make_plan(model, texts())
    data = cgf.evaluate_model(model, texts(), plan, samples=2).data
    assert (data["softmax"], data["approx"]) == ("cgf", plan.data["method"])
    cgf.install(model, other)
    name = r"taylor \(order=2, .*" if other == "taylor" else r"cgf \(order=3, .*"
    with pytest.raises(UserError, match=rf"the plan is for cgf \(order=2, .*\), and the model has {name}\): plan it"):
        cgf.evaluate_model(model, texts(), plan, samples=2)


def test_what_is_no_model_and_no_setting_is_refused_by_one_sentence(tmp_path):
    calls = {
        "install": lambda: cgf.install("FOLDER", "cgf"),
        "uninstall": lambda: cgf.uninstall("FOLDER"),
        "friendly_report": lambda: cgf.friendly_report("FOLDER", texts()),
        "make_plan": lambda: cgf.make_plan("FOLDER", texts()),
        "evaluate_model": lambda: cgf.evaluate_model("FOLDER", texts()),
        "save": lambda: cgf.save("FOLDER", tmp_path),
    }
    for call in calls.values():
        with pytest.raises(UserError, match="a model is needed, and str is no torch module"):
            call()
    model = bert()
    cgf.install(model, "cgf")
    for call in (lambda: cgf.load(None), lambda: cgf.save(model, None)):
        with pytest.raises(UserError, match="folder must be a path, and is None"):
            call()
    with pytest.raises(UserError, match="per_layer must be True or False, and is 'no'"):
        cgf.make_plan(model, texts(), per_layer="no")


def test_a_model_that_torch_compile_wraps_is_refused_before_and_after_its_softmax_is_put_in():
    model = bert()
    compiled = torch.compile(model, backend="eager")
    for prepare in (lambda: None, lambda: cgf.install(model, "cgf")):
        prepare()
        for call in (cgf.install, cgf.uninstall, lambda m: cgf.friendly_report(m, texts()), lambda m: cgf.save(m, "x")):
            with pytest.raises(UserError, match=r"OptimizedModule is what torch\.compile made of a model: give"):
                call(compiled)
    assert cgf.uninstall(model) == 2


@pytest.mark.parametrize(
    ("make", "data", "says"),
    [
        (vit, lambda: texts(), "VisionTransformer takes images, and the loader gives texts"),
        (bert, lambda: images(), "BertForSequenceClassification takes texts, and the loader gives images"),
    ],
)
def test_a_loader_of_the_other_kind_is_refused(make, data, says):
    model = make()
    cgf.install(model, "cgf")
    for use in (cgf.make_plan, cgf.friendly_report):
        with pytest.raises(UserError, match=says):
            use(model, data())


def test_a_plan_for_an_engine_that_there_is_not_is_refused():
    model = bert()
    cgf.install(model, "cgf")
    with pytest.raises(UserError, match="engine must be one of sim, desilo, and 'x' was given"):
        cgf.make_plan(model, texts(), engine="x")


def test_a_model_with_replaced_norms_is_not_saved_and_saves_itself_again_without_them(tmp_path):
    """In whatever order softmaxes and norms come and go."""

    def refused(says):
        for part in (model, model.bert):
            with pytest.raises(UserError, match=says):
                part.save_pretrained(tmp_path / "out")
        assert not (tmp_path / "out").exists()

    model, norms = bert(), dict.fromkeys(places.norms(bert()), 16)
    replace(model, BatchNorms(), ExactActivations(), norms, {})
    refused("without the norms and activations put in")
    cgf.install(model, "cgf")
    refused("without the norms and activations put in")
    restore(model)
    with pytest.raises(UserError, match="without their softmax"):
        model.bert.save_pretrained(tmp_path / "part")
    model.save_pretrained(tmp_path / "softmax")
    assert (tmp_path / "softmax" / "softmax.json").is_file()
    replace(model, BatchNorms(), ExactActivations(), norms, {})
    cgf.uninstall(model)
    refused("without the norms and activations put in")
    restore(model)
    model.save_pretrained(tmp_path / "plain")
    assert not any("save_pretrained" in vars(part) for part in model.modules())


def test_transformers_trainer_trains_and_saves_it(tmp_path):
    model = bert()
    cgf.install(model, "cgf")
    batch = texts(types=True)[0]
    samples = [{key: value[i] for key, value in batch.items()} for i in range(6)]
    settings = {"max_steps": 2, "report_to": [], "use_cpu": True, "save_steps": 2, "disable_tqdm": True}
    Trainer(model, TrainingArguments(str(tmp_path), **settings), train_dataset=samples).train()
    again = cgf.load(tmp_path / "checkpoint-2").eval()
    assert torch.equal(logits(again, [batch]), logits(model.eval(), [batch]))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda b: {**b, "attention_mask": b["attention_mask"].flip(1)}, "padded on the right"),
        (lambda b: {k: v for k, v in b.items() if k != "attention_mask"}, "needs its attention_mask"),
        (lambda b: {**b, "position_ids": b["input_ids"]}, "position_ids"),
        (lambda b: {k: v for k, v in b.items() if k != "labels"}, "needs the labels"),
        (lambda b: {**b, "labels": b["labels"].float()}, "whole numbers"),
        (lambda b: {**b, "attention_mask": b["attention_mask"] * 2}, "1 for each token and 0 for padding"),
        (lambda b: {**b, "attention_mask": b["attention_mask"] * 0.5}, "1 for each token and 0 for padding"),
        (lambda b: {**b, "attention_mask": (1.0 - b["attention_mask"]) * -1e9}, "1 for each token and 0 for padding"),
        (lambda b: {key: value[0] for key, value in b.items()}, "a row for each sample"),
        (lambda b: {**b, "labels": b["labels"][0]}, "a row for each sample"),
        (lambda b: {**b, "input_ids": b["input_ids"].short()}, r"input_ids .* in torch\.long, and is in torch\.int16"),
        (
            lambda b: {**b, "input_ids": b["input_ids"].float()},
            r"input_ids .* in torch\.long, and is in torch\.float32",
        ),
        (lambda b: {**b, "token_type_ids": b["labels"]}, r"token_type_ids .* the shape of input_ids, and has \(\d+,\)"),
        (lambda b: {**b, "token_type_ids": b["input_ids"] * 0.0}, r"token_type_ids .* in torch\.long"),
    ],
)
def test_a_batch_that_is_not_read_is_refused(change, says):
    model = bert()
    cgf.install(model, "cgf")
    plan = cgf.make_plan(model, texts())
    with pytest.raises(UserError, match=says):
        cgf.evaluate_model(model, [change(texts()[0])], plan)


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        (torch.zeros(4, 3, 8, 8), r"takes images \(C, H, W\) of \(1, 8, 8\), and one of the loader is \(3, 8, 8\)"),
        (torch.zeros(4, 8, 8, 1), r"one of the loader is \(8, 8, 1\)"),
        (torch.zeros(()), "a tensor with a row for each sample"),
        (torch.zeros(4, 1, 8, 8).double(), r"images in torch\.float32 are needed, .* and one is in torch\.float64"),
        (torch.zeros(4, 1, 8, 8, dtype=torch.uint8), r"and one is in torch\.uint8"),
    ],
)
def test_images_that_the_model_does_not_take_are_refused(batch, says):
    model = vit()
    cgf.install(model, "cgf")
    with pytest.raises(UserError, match=says):
        cgf.make_plan(model, [(batch, torch.tensor([0, 1, 2, 0]))])
    with pytest.raises(UserError, match="need a loader of batches, such as a DataLoader, and NoneType was given"):
        cgf.make_plan(model, None)


@pytest.mark.parametrize("label", [3, -100])
def test_a_label_that_is_no_class_is_refused(label):
    """It would count as wrong, and labels that begin at 1 with it."""
    model, loader = bert(), texts()
    cgf.install(model, "cgf")
    loader[0]["labels"][2] = label
    with pytest.raises(UserError, match=rf"labels must be classes, 0 to 2, and one of the loader's is {label}"):
        cgf.evaluate_model(model, loader, cgf.make_plan(model, texts()))


@pytest.mark.parametrize("odd", [40, 1000, -1])
def test_a_token_id_that_the_model_does_not_embed_is_refused(odd):
    model, loader = bert(), texts()
    cgf.install(model, "cgf")
    plan = cgf.make_plan(model, texts())
    loader[0]["input_ids"][2, 1] = odd
    for use in (lambda: cgf.evaluate_model(model, loader, plan), lambda: cgf.make_plan(model, loader)):
        with pytest.raises(UserError, match=f"embeds the token ids 0 to 39, and a text of the loader has {odd}"):
            use()


def test_a_text_that_the_models_own_head_reads_at_another_token_is_refused():
    """transformers' heads read the last id that is not that of padding, whatever the mask says."""
    model = llama()
    model.config.pad_token_id = 3
    cgf.install(model, "cgf")
    ids = torch.tensor([[5, 6, 7, 8], [9, 6, 7, 3]])
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([0, 1])}
    with pytest.raises(UserError, match=r"a text of the loader ends in the id of padding \(3\), before which the head"):
        cgf.make_plan(model, [batch])
    batch["input_ids"][1, 3] = 4
    assert cgf.make_plan(model, [batch]).levels > 0


@pytest.mark.parametrize("make, head", [(bert, "bert"), (llama, "model")])
def test_another_attention_put_over_a_softmax_is_refused(make, head):
    model = make()
    own = model.config._attn_implementation
    cgf.install(model, "cgf")
    for part in (model, getattr(model, head)):
        with pytest.raises(UserError, match=r"set_attn_implementation\('sdpa'\) would pass the softmax by"):
            part.set_attn_implementation("sdpa")
    assert model.config._attn_implementation == "cgf"
    model.config._attn_implementation = "eager"  # past the method
    for use in (lambda: cgf.make_plan(model, texts()), lambda: cgf.install(model, "cgf"), lambda: model.state_dict()):
        with pytest.raises(
            UserError, match=r"runs the attention 'eager', .* and passes it by: uninstall the softmaxes"
        ):
            use()
    assert cgf.uninstall(model) == 2 and model.config._attn_implementation == own
    model.set_attn_implementation("eager")
    assert len(cgf.install(model, "cgf")) == 2


def test_a_module_that_says_nothing_of_its_images_is_refused_in_a_sentence():
    for model in (torch.nn.Sequential(vit()), torch.nn.DataParallel(bert())):
        with pytest.raises(UserError, match="does not say what size its images have"):
            cgf.install(model, "cgf")


def test_hooks_and_modes_of_a_timm_attention_stay():
    model, seen = vit(), []
    attention = model.blocks[0].attn
    attention.register_forward_hook(lambda *_: seen.append("before"))
    attention.register_forward_pre_hook(lambda *_: seen.append("pre"))
    model.train()
    attention.attn_drop.eval()
    cgf.install(model, "cgf")
    handle = model.blocks[0].attn.register_forward_hook(lambda *_: seen.append("after"))
    seen.clear()
    model(torch.zeros(1, 1, 8, 8))
    assert seen == ["pre", "before", "after"] and not model.blocks[0].attn.attn_drop.training
    cgf.uninstall(model)
    handle.remove()
    seen.clear()
    model(torch.zeros(1, 1, 8, 8))
    assert seen == ["pre", "before"] and model.blocks[0].attn is attention
    assert attention.training and not attention.attn_drop.training


@pytest.mark.parametrize("task", ["SEQ_CLS", None])
def test_a_decoder_within_adapters_is_refused_by_name(task):
    peft = pytest.importorskip("peft")
    wrapped = peft.get_peft_model(llama(), peft.LoraConfig(task_type=task, target_modules=["q_proj"]))
    with pytest.raises(UserError, match=r"is a decoder within adapters, .*: merge the adapters first"):
        cgf.install(wrapped, "cgf")
    assert len(cgf.install(wrapped.merge_and_unload(), "cgf")) == 2


def test_a_text_longer_than_the_model_can_read_is_refused():
    model = bert()
    cgf.install(model, "cgf")
    ids = torch.ones(2, model.config.max_position_embeddings + 1, dtype=torch.int64)
    loader = [{"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([0, 1])}]
    with pytest.raises(UserError, match=f"cannot read the longest text of the loader, of {ids.shape[1]} tokens"):
        cgf.make_plan(model, loader)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("make", [bert, llama])
def test_the_models_own_gradient_checkpointing_counts_a_batch_once(make, reentrant):
    after = {}
    for checkpointing in (False, True):
        model = make().train()
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
            model.get_input_embeddings().weight.requires_grad_()
        slots = cgf.install(model, "bpmax_calibrated")
        for seed in (1, 2, 3):  # another batch each: of the same one a mean does not tell how often it was counted
            torch.manual_seed(seed)
            batch = texts()[0]
            model(**{**batch, "input_ids": batch["input_ids"] * seed % 40}).loss.backward()
        gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        after[checkpointing] = torch.cat([slot.denominator.flatten() for slot in slots]), gradients
    for without, with_it in zip(*after.values(), strict=True):
        torch.testing.assert_close(with_it, without)


def test_a_plan_leaves_every_modules_mode_as_it_was():
    """A part that is frozen in the middle of a training stays so."""
    model = bert()
    cgf.install(model, "cgf")
    model.train()
    model.bert.embeddings.eval()
    before = {name: module.training for name, module in model.named_modules()}
    cgf.evaluate_model(model, texts(), cgf.make_plan(model, texts()))
    assert before == {name: module.training for name, module in model.named_modules()} and False in before.values()


def test_models_and_softmaxes_that_are_not_taken_are_refused_by_name():
    for classes, made in (
        (1, BertForSequenceClassification(BertConfig(**SMALL, intermediate_size=16, num_labels=1))),
        (0, timm.create_model("vit_tiny_patch16_224", num_classes=0, depth=1)),
    ):
        with pytest.raises(UserError, match=f"gives {classes} logits, and a classifier of at least 2 is needed"):
            cgf.install(made, "cgf")
    with pytest.raises(UserError, match="one of"):
        cgf.install(bert(), "cfg")
    with pytest.raises(UserError, match="float32"):
        cgf.install(bert().half())
    with pytest.raises(UserError, match="no attention"):
        cgf.install(timm.create_model("resnet10t", num_classes=3))
    config = GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, num_labels=3)
    with pytest.raises(UserError, match="pad_token_id"):
        cgf.install(GPT2ForSequenceClassification(config))


def test_texts_as_long_as_a_model_has_positions_for_are_planned():
    config = GPT2Config(
        vocab_size=40, n_positions=16, n_embd=16, n_layer=1, n_head=2, num_labels=3, pad_token_id=0, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    model = GPT2ForSequenceClassification(config)
    cgf.install(model, "cgf")
    ids = torch.randint(3, 40, (6, 16), generator=torch.Generator().manual_seed(0))
    whole = [{"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.zeros(6, dtype=torch.long)}]
    assert cgf.make_plan(model, whole).levels > 0  # rows of padding beyond a text would have no positions


@pytest.mark.parametrize("method, scale", [("cgf", 1.0), ("standard", 0.5)])  # standard has a guard of its own
def test_one_matrix_through_a_circuit(method, scale):
    scores = scale * np.random.default_rng(0).normal(size=(6, 16))
    done = cgf.apply_softmax(scores, method, engine="sim")
    assert done.weights.shape == (6, 16) and done.levels > 0 and done.error < 1e-3
    if method == "cgf":
        y = scores - scores.mean(1, keepdims=True) - scores.var(1, keepdims=True) / 2 - np.log(16)
        assert np.abs(done.weights - np.exp(y)).max() < 2e-4


def test_the_error_of_a_matrix_is_that_against_the_true_exponential():
    """A method that carries a polynomial of its own states what that leaves out, not only what its circuit adds."""
    scores = np.random.default_rng(0).normal(size=(8, 16))
    y = scores - scores.mean(1, keepdims=True) - scores.var(1, keepdims=True) / 2 - np.log(16)
    for method in ("taylor", "cgf_chain", "cgf"):
        done = cgf.apply_softmax(scores, method, engine="sim")
        assert done.error == pytest.approx(np.abs(done.weights - np.exp(y)).max(), rel=1e-6)
    assert cgf.apply_softmax(np.zeros((4, 8)), "cgf", engine="sim").error < 1e-3  # rows that do not vary


@pytest.mark.parametrize(
    "method, scale, says",
    [
        ("relu", 30.0, "entries lie beyond what its polynomials hold"),
        ("quad", 30.0, "they came back as no finite numbers"),
        ("cgf_chain", 30.0, "slots held more than a ciphertext can"),
        ("thor", 1.0, "further from what it defines than ten times its stated error"),
        ("cgf", 1000.0, "its rows vary too much"),
    ],
)
def test_weights_that_are_not_to_be_believed_are_refused(method, scale, says):
    scores = scale * np.random.default_rng(0).normal(size=(8, 16))
    with np.errstate(all="ignore"), pytest.raises(UserError, match=says):
        cgf.apply_softmax(scores, method, engine="sim")


def test_a_softmax_of_ones_own_is_left_as_it_was():
    softmax = cgf.CGF()
    softmax.training = True
    cgf.apply_softmax([[1.0, 2.0], [0.5, 0.0]], softmax, engine="sim")
    assert softmax.training and softmax.exponential is None


@pytest.mark.parametrize("method", ["cgf", "quad", "relu"])
@pytest.mark.parametrize("large", [2e12, torch.finfo(torch.float32).min])
def test_scores_that_nothing_is_encrypted_of_are_refused(method, large):
    """Their weights came back as NaN without a word; the least float32 is what masked scores of a model hold."""
    with pytest.raises(UserError, match=r"scores of at most 2\^40 are needed, and one is -?[0-9.]+e\+"):
        cgf.apply_softmax([[large, 1.0, 2.0]], method, engine="sim")


def test_a_method_that_is_no_name_is_refused():
    with pytest.raises(UserError, match=r"softmax must be a Softmax or one of .*, and is \['cgf'\]"):
        cgf.apply_softmax([[1.0, 2.0]], ["cgf"], engine="sim")


def test_a_matrix_that_is_none_is_refused():
    with pytest.raises(UserError, match="finite"):
        cgf.apply_softmax([[1.0, float("nan")]], engine="sim")
    for odd in ([["a", "b"]], [[1.0, 2.0], [3.0]], np.array([[1j, 2.0]]), torch.tensor([[1j, 2.0]])):
        with pytest.raises(UserError, match=r"a matrix \(R, N\) of finite numbers is needed, and this one is none"):
            cgf.apply_softmax(odd, engine="sim")
    hidden = np.ma.masked_array([[1.0, 30.0]], mask=[[False, True]])
    for masked in (hidden, [hidden[0]]):
        with pytest.raises(UserError, match="without masked entries"):
            cgf.apply_softmax(masked, engine="sim")
    half = cgf.apply_softmax(torch.tensor([[1.0, 2.0], [0.5, 0.0]], dtype=torch.bfloat16), engine="sim")
    whole = cgf.apply_softmax([[1.0, 2.0], [0.5, 0.0]], engine="sim")
    np.testing.assert_array_equal(half.weights, whole.weights)
    with pytest.raises(UserError, match="no circuit"):
        cgf.apply_softmax([[1.0, 2.0]], "exact", engine="sim")
    with pytest.raises(UserError, match="denominator"):
        cgf.apply_softmax([[1.0, 2.0]], "bpmax", engine="sim")
    with pytest.raises(UserError, match="engine"):
        cgf.apply_softmax([[1.0, 2.0]], engine="seal")
    with pytest.raises(UserError, match=r"softmax 'quad' is given no polynomial, and tolerance=0\.5 is about one"):
        cgf.apply_softmax([[1.0, 2.0]], "quad", engine="sim", tolerance=0.5)
    with pytest.raises(UserError, match="tolerance='x' is about one"):
        cgf.apply_softmax([[1.0, 2.0]], "quad", engine="sim", tolerance="x")
