"""A model saved with its softmax comes back as it was, of whatever library; else the sentence says what to do."""

import json
import warnings

import pytest
import timm
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

import cgf
from cgf.errors import UserError
from cgf.models.install import installed_softmaxes
from scripts.repo import hosts

TINY = {"img_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
CASES = {case: make for case, make in hosts.cases().items() if case[0] == "transformers"}


def vit(**options):
    torch.manual_seed(0)
    return hosts.sharpened(timm.create_model("vit_tiny_patch16_224", num_classes=3, **{**TINY, **options}))


def logits(model):
    """Of a model on a batch that it takes, drawn with one seed."""
    draw, model = torch.Generator().manual_seed(5), model.eval()
    with torch.no_grad():
        if getattr(model, "main_input_name", "") == "input_ids":
            mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
            out = model(input_ids=torch.randint(1, 50, (2, 7), generator=draw) * mask, attention_mask=mask)
        else:
            side = getattr(model.config, "vision_config", model.config).image_size if hasattr(model, "config") else 16
            out = model(torch.randn(2, 3, side, side, generator=draw))
    return getattr(out, "logits", out)


def test_every_host_of_transformers_comes_back_from_its_own_save_pretrained(tmp_path):
    """Those that docs/hosts.md has as working; the others are not given a softmax, and save as they always did."""
    came, refused = [], []
    for number, (case, make) in enumerate(CASES.items()):
        model, folder = make(), tmp_path / str(number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                # CLIP's exponentials of third cumulants overflow untrained, and no numbers are equal to none
                cgf.install(model, cgf.CGF(order=2 if case[1] == "CLIP" else 3))
            except UserError:
                refused.append(case)
                assert "save_pretrained" not in vars(model)
                continue
            before = logits(model)
            model.save_pretrained(folder)
            again = cgf.load(folder)
            assert torch.equal(logits(again), before), case
        assert [slot.to_json() for slot in installed_softmaxes(again)] == [
            slot.to_json() for slot in installed_softmaxes(model)
        ]
        came.append(case)
    page = hosts.PAGE.read_text().splitlines()
    works = [line for line in page if line.startswith("| transformers") and "| works |" in line]
    assert len(came) == len(works) and len(came) + len(refused) == len(CASES)


@pytest.mark.parametrize(
    "name, options",
    [
        ("vit_tiny_patch16_224", TINY),
        ("deit3_small_patch16_224", TINY),
        ("vit_tiny_patch16_224", {**TINY, "class_token": False, "global_pool": "avg"}),
    ],
    ids=["vit", "deit3", "mean"],
)
def test_a_model_of_timm_comes_back_with_its_softmax(name, options, tmp_path):
    torch.manual_seed(0)
    model = hosts.sharpened(timm.create_model(name, num_classes=3, **options))
    cgf.install(model, cgf.CGF(order=3))
    before, modules = logits(model), [type(m) for m in model.train().modules()]
    cgf.save(model, tmp_path / "out")
    assert model.training and [type(m) for m in model.modules()] == modules
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["config.json", "model.safetensors", "softmax.json"]
    again = cgf.load(tmp_path / "out")
    assert torch.equal(logits(again), before) and installed_softmaxes(again)[1].order == 3
    untouched = timm.create_model(f"local-dir:{tmp_path / 'out'}", pretrained=True)  # timm reads the weights alone
    assert cgf.uninstall(again) == 2 and torch.equal(logits(untouched), logits(again))


@pytest.mark.parametrize("make", [vit, CASES["transformers", "Bert", ""]], ids=["timm", "transformers"])
def test_trained_constants_of_every_layer_come_back_and_another_save_takes_their_place(make, tmp_path):
    model = make()
    with pytest.warns(UserWarning, match="has constants that are trained"):
        slots = cgf.install(model, cgf.ChainCGF(k=2, trainable="layer"))
    for layer, slot in enumerate(slots):
        slot.load_tensors({name: tensor + 0.01 * (1 + layer) for name, tensor in slot.tensors().items()})
    cgf.save(model, tmp_path)
    with pytest.warns(UserWarning, match="has constants that are trained"):
        again = cgf.load(tmp_path)
    assert torch.equal(logits(again), logits(model))
    for own, other in zip(slots, installed_softmaxes(again), strict=True):
        assert own.describe() == other.describe() != slots[0 if own is slots[1] else 1].describe()
        assert own.tensors() and all(torch.equal(t, other.tensors()[n]) for n, t in own.tensors().items())
    cgf.install(model, "cgf")
    cgf.save(model, tmp_path)
    assert not (tmp_path / "softmax.safetensors").exists() and installed_softmaxes(cgf.load(tmp_path))[0].name == "cgf"


def test_cgf_save_of_a_transformers_model_is_its_own_save_pretrained(tmp_path):
    model = CASES["transformers", "Bert", ""]()
    with pytest.raises(UserError, match=r"no softmax put in: cgf\.install"):
        cgf.save(model, tmp_path / "out")
    cgf.install(model, "cgf")
    model.train()
    drawn = torch.get_rng_state()
    cgf.save(model, tmp_path / "out")
    assert torch.equal(torch.get_rng_state(), drawn) and model.training  # a training goes on as it would have
    assert torch.equal(logits(cgf.load(tmp_path / "out")), logits(model))


class Head(nn.Module):
    """A model around one of timm's."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.num_classes, self.patch_embed = inner, inner.num_classes, inner.patch_embed

    def forward(self, x):
        return self.inner(x)


def test_a_model_that_cannot_be_made_again_is_refused_with_what_to_do_and_nothing_is_left(tmp_path):
    changed, wrapped, other = vit(), Head(vit()), vit(act_layer=nn.ReLU)
    changed.norm = nn.LayerNorm(16, eps=0.5)  # the same names and shapes, other numbers
    for model, says in (
        (changed, "made again by timm gives other numbers"),
        (wrapped, r"was not made by timm\.create_model.* keep model\.state_dict\(\)"),
        (other, "cannot be saved by timm: Model argument 'act_layer'"),
    ):
        cgf.install(model, "cgf")
        with pytest.raises(UserError, match=says):
            cgf.save(model, tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == [] and len(installed_softmaxes(model)) == 2


class MeanBertForSequenceClassification(BertForSequenceClassification):
    """One of somebody's own, with the weights of transformers' own and another reading of them."""

    def forward(self, input_ids=None, attention_mask=None, **more):
        hidden = self.bert(input_ids, attention_mask=attention_mask, **more).last_hidden_state
        weights = attention_mask[..., None].to(hidden.dtype)
        return SequenceClassifierOutput(logits=self.classifier((hidden * weights).sum(1) / weights.sum(1)))


def small_bert(kind=BertForSequenceClassification):
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    return kind(BertConfig(vocab_size=50, num_labels=5, **size)).eval()


def test_a_transformers_model_that_would_be_made_otherwise_is_not_saved(tmp_path):
    own, by_hand, wider = small_bert(MeanBertForSequenceClassification), small_bert(), small_bert()
    by_hand.bert.encoder.layer[0].intermediate.intermediate_act_fn = nn.ReLU()
    wider.classifier = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 5))
    for model, says in (
        (own, r"MeanBertForSequenceClassification is no .* of transformers' own, .* keep model\.state_dict\(\)"),
        (by_hand, "BertForSequenceClassification made again by transformers gives other numbers"),
        (wider, "has other weights than transformers makes of it"),
    ):
        slots = cgf.install(model, "cgf")
        before = logits(model)
        with pytest.raises(UserError, match=says):
            cgf.save(model, tmp_path / "out")
        assert not (tmp_path / "out").exists() and installed_softmaxes(model) == slots
        assert torch.equal(logits(model), before)


def test_weights_that_a_class_of_ones_own_saved_are_not_read_as_anothers(tmp_path):
    model = small_bert(MeanBertForSequenceClassification)
    cgf.install(model, "cgf")
    model.save_pretrained(tmp_path / "own")
    with pytest.raises(UserError, match="was saved by the class MeanBertForSequenceClassification, which transformers"):
        cgf.load(tmp_path / "own")


def test_a_model_in_half_precision_is_saved_as_it_is(tmp_path):
    model = small_bert()
    cgf.install(model, "cgf")
    cgf.save(model.half(), tmp_path / "out")
    assert torch.equal(cgf.load(tmp_path / "out").classifier.weight, model.classifier.weight.float())


def test_adapters_that_are_not_merged_are_not_saved(tmp_path):
    peft = pytest.importorskip("peft")
    model = small_bert()
    cgf.install(model, "cgf")
    wrapped = peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query"]))
    with pytest.raises(UserError, match=r"keeps its adapters alone where it is saved: merge them first"):
        cgf.save(wrapped, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    cgf.save(wrapped.merge_and_unload(), tmp_path / "out")
    assert installed_softmaxes(cgf.load(tmp_path / "out"))[0].name == "cgf"


def test_weights_that_are_no_finite_numbers_are_not_saved(tmp_path):
    model = timm.create_model("vit_tiny_patch16_224", num_classes=3, depth=1, img_size=32)
    cgf.install(model, "cgf")
    with torch.no_grad():
        model.head.bias[1] = float("nan")
    with pytest.raises(UserError, match=r"needs finite weights to be saved, and head\.bias has others"):
        cgf.save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_folder_that_was_changed_is_refused(tmp_path):
    model = vit()
    cgf.install(model, "cgf")
    cgf.save(model, tmp_path)
    described = json.loads((tmp_path / "softmax.json").read_text())
    (tmp_path / "softmax.json").write_text(json.dumps({**described, "layers": 3}))
    with pytest.raises(UserError, match="of 3 layers, and the model has 2"):
        cgf.load(tmp_path)
    for odd in (None, []):
        (tmp_path / "softmax.json").write_text(json.dumps({**described, "weights": odd}))
        with pytest.raises(UserError, match=r"'weights' of .*softmax\.json needs hashes by name of file"):
            cgf.load(tmp_path)
    (tmp_path / "softmax.json").write_text(json.dumps({k: v for k, v in described.items() if k != "weights"}))
    cgf.load(tmp_path)  # an older folder, which does not state its weights


@pytest.mark.parametrize("make", [vit, CASES["transformers", "Bert", ""]])
def test_weights_saved_since_without_their_softmax_are_refused(make, tmp_path):
    """A model that was trained on with exact softmax would be given CGF-softmax."""
    model = make()
    cgf.install(model, "cgf")
    cgf.save(model, tmp_path)
    assert installed_softmaxes(cgf.load(tmp_path))[0].name == "cgf"
    cgf.uninstall(model)
    with torch.no_grad():
        next(model.parameters()).add_(0.5)
    if hasattr(model, "save_pretrained"):
        model.save_pretrained(tmp_path)
    else:
        timm.models.save_for_hf(model, tmp_path, safe_serialization=True)
    with pytest.raises(
        UserError, match=r"are not those that softmax\.json was saved with: save the model by cgf\.save"
    ):
        cgf.load(tmp_path)


@pytest.mark.parametrize("change", [{"model_type": "no_such_model"}, {"num_attention_heads": 5}, {"model_type": None}])
def test_a_configuration_that_describes_no_model_is_refused(tmp_path, change):
    config = BertConfig(
        vocab_size=40, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_labels=3
    )
    model = BertForSequenceClassification(config)
    cgf.install(model, "cgf")
    cgf.save(model, tmp_path)
    described = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**described, **change}))
    with pytest.raises(UserError, match="no model that transformers can make"):
        cgf.load(tmp_path)
