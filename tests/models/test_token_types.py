"""Pairs reach an encoder with token types where it has two of them; a checkpoint is read as it was trained."""

import pytest
import torch
from conftest_models import small_bert, small_llama, tokenizer, untrained
from test_load import write
from tokenizers.processors import BertProcessing
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
)

from cgf.checkpoint import read
from cgf.data.pairs import joined
from cgf.data.text_items import TextDataset, collate_text
from cgf.data.tokens import token_types, tokenized
from cgf.models import bert
from cgf.models.install import install_copies
from cgf.models.load import from_checkpoint
from cgf.softmax.cgf import CGF

PAIRS = [joined("w5 w6", "w7"), joined("w9", "w10 w11 w12 w13")]


def pair_tokenizer():
    made = tokenizer("pad", "cls", "sep", pad_token="pad")
    made.backend_tokenizer.post_processor = BertProcessing(("sep", 2), ("cls", 1))
    made.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    made.padding_side = "right"
    return made


def batch_of(types):
    words = pair_tokenizer()
    ids = tokenized(PAIRS, words, 16)
    data = TextDataset(ids, [0, 1], token_types(PAIRS, words, 16) if types else None)
    return collate_text([data[0], data[1]], 0)


def test_types_are_those_of_the_tokenizer_truncated_as_the_tokens_are():
    words = pair_tokenizer()
    assert token_types(PAIRS, words, 16) == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1]]
    assert [len(t) for t in token_types(PAIRS, words, 5)] == [len(i) for i in tokenized(PAIRS, words, 5)] == [5, 5]
    assert token_types(["w1", "w2"], words, 16) is None  # no pairs
    words.model_input_names = ["input_ids", "attention_mask"]
    assert token_types(PAIRS, words, 16) is None


def test_a_bert_is_told_and_one_without_types_is_not():
    host = small_bert()
    assert host.inputs.token_types and host.describe()["token_types"] is True
    host.model.eval()
    batch = batch_of(types=True)
    with torch.no_grad():
        own = host.model(
            **pair_tokenizer()(["w5 w6", "w9"], ["w7", "w10 w11 w12 w13"], padding=True, return_tensors="pt")
        )
        told, untold = host.logits(batch), host.logits(batch_of(types=False))
    assert torch.allclose(told, own.logits, atol=1e-6) and not torch.allclose(told, untold, atol=1e-3)
    sizes = {"vocab_size": 50, "dim": 32, "hidden_dim": 32, "n_layers": 1, "n_heads": 2, "num_labels": 7}
    other = DistilBertForSequenceClassification(DistilBertConfig(**sizes))
    without = bert.host(other.eval(), tokenizer("pad", pad_token="pad"), untrained("d"))
    assert not without.inputs.token_types and "token_types" not in without.describe()
    with torch.no_grad():  # a teacher of another kind is given the student's batches
        assert torch.equal(without.logits(batch), without.logits(batch_of(types=False)))
    assert not small_llama().inputs.token_types
    single = BertForSequenceClassification(BertConfig(**{**host.model.config.to_dict(), "type_vocab_size": 1}))
    assert not bert.reads_types(single)


@pytest.mark.parametrize("said", [True, False])
def test_a_checkpoint_is_read_as_it_was_trained(said, tmp_path):
    host = small_bert()
    host.model.eval()
    if not said:  # one of before
        host = bert.host(host.model, host.inputs.tokenizer, untrained("small_bert"), token_types=False)
    batch = batch_of(types=True)
    with torch.no_grad():
        softmaxes = install_copies(host.model, CGF())
        before = host.logits(batch)
        again, _ = from_checkpoint(read(write(host, softmaxes, tmp_path / "ckpt-1")))
        again.model.eval()
        assert again.inputs.token_types is said and torch.equal(again.logits(batch), before)
