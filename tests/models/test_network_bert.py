"""What a network description of BERT refuses by name: layers and positions that it would read as something else."""

import pytest
import torch
from conftest_models import tokenizer
from friendly_hosts import bert as friendly
from transformers import BertConfig, BertForSequenceClassification
from transformers.models.bert.modeling_bert import BertAttention, BertLayer

from cgf.errors import UserError
from cgf.models import bert
from cgf.models.host import HostFacts
from cgf.models.network import network_of

SIZES = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


def crossed(model):
    config = BertConfig(**{**model.config.to_dict(), "is_decoder": True, "add_cross_attention": True})
    model.bert.encoder.layer[0].crossattention = BertAttention(config, is_cross_attention=True)


class Doubled(BertLayer):
    """A layer that computes something else than its parts say."""

    def forward(self, *inputs, **more):
        return 2 * super().forward(*inputs, **more)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: setattr(m.config, "is_decoder", True), "needs an encoder with positions .* has is_decoder=True"),
        (lambda m: setattr(m.config, "add_cross_attention", True), "has add_cross_attention=True"),
        (crossed, r"has cross attention at bert\.encoder\.layer\.0"),
        (
            lambda m: setattr(m.config, "position_embedding_type", "relative_key"),
            "has position_embedding_type='relative_key'",
        ),
        (lambda m: setattr(m.bert.encoder.layer[0], "__class__", Doubled), r"layer\.0 is Doubled"),
        (
            lambda m: setattr(m.bert.encoder.layer[0].attention, "self", torch.nn.MultiheadAttention(16, 2)),
            r"layer\.0\.attention\.self is MultiheadAttention",
        ),
        (lambda m: setattr(m.bert, "embeddings", torch.nn.Embedding(30, 16)), r"bert\.embeddings is Embedding"),
        (lambda m: setattr(m.bert.encoder.layer[0].attention.self, "is_causal", True), "attention.self is causal"),
    ],
)
def test_a_bert_of_other_layers_is_refused_by_name(change, message):
    host = friendly(1)
    network_of(host)
    change(host.model)
    with pytest.raises(UserError, match=message):
        network_of(host)


def test_relative_positions_are_refused_when_a_host_is_made():
    """transformers keeps the setting of older models and computes absolute positions, without a word."""
    config = BertConfig(**SIZES, num_labels=2, pad_token_id=0, position_embedding_type="relative_key_query")
    about = HostFacts(name="old", num_classes=2, trained=True, source={})
    with pytest.raises(UserError, match="model=old has position_embedding_type='relative_key_query'"):
        bert.host(BertForSequenceClassification(config), tokenizer("pad", pad_token="pad"), about)
