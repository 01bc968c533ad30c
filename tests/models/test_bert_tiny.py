"""A small BERT that starts from the embeddings of a larger one."""

import pytest
import torch
from conftest_models import tokenizer
from transformers import BertConfig, BertModel

from cgf.activation.polynomial import Squares
from cgf.checkpoint import read, save
from cgf.errors import UserError
from cgf.models import bert_tiny
from cgf.models.install import install_copies
from cgf.models.load import from_checkpoint
from cgf.models.replace import parts_of
from cgf.models.replace_check import replaced, start_from
from cgf.norm.batch import BatchNorms
from cgf.softmax.chain_cgf import ChainCGF


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("larger")
    torch.manual_seed(0)
    model = BertModel(
        BertConfig(
            vocab_size=50,
            hidden_size=24,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            pad_token_id=0,
        )
    )
    with torch.no_grad():  # words that lie near a plane of 4 dimensions
        words = model.embeddings.word_embeddings.weight
        words.copy_(torch.randn(50, 4) @ torch.randn(4, 24) + 0.01 * torch.randn(50, 24) + 3)
    model.save_pretrained(folder)
    tokenizer("pad", pad_token="pad").save_pretrained(folder)
    return folder


def made(larger, **options):
    return bert_tiny.load("tiny", 5, path=str(larger), width=8, heads=2, **options)


BATCH = {
    "input_ids": torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]]),
    "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]),
}


def test_words_keep_their_distances(larger):
    host = made(larger)
    own = host.model.bert.embeddings.word_embeddings.weight
    theirs = BertModel.from_pretrained(larger).embeddings.word_embeddings.weight
    small, large = torch.cdist(own, own), torch.cdist(theirs, theirs)
    factor = (small * large).sum() / large.square().sum()
    assert (small - factor * large).abs().max() < 0.02 * small.max()
    assert float(own.square().mean().sqrt()) == pytest.approx(0.25, rel=1e-4) and own.mean().abs() < 1e-6
    assert not host.head_trained and not host.causal and host.family == "bert_tiny"


@torch.no_grad()
def test_the_pooling_is_the_mean_of_the_real_tokens_and_linear(larger):
    host = made(larger)
    host.model.eval()
    hidden = host.model.bert(**BATCH).last_hidden_state
    mean = torch.stack([hidden[0].mean(0), hidden[1, :2].mean(0)])
    torch.testing.assert_close(host.logits(BATCH), host.model.classifier(mean))
    alone = {key: value[1:, :2] for key, value in BATCH.items()}
    torch.testing.assert_close(host.logits(alone), host.logits(BATCH)[1:])
    assert host.model.bert.pooler is None
    torch.testing.assert_close(host.model(BATCH["input_ids"][:1]).logits, host.logits(BATCH)[:1])


@torch.no_grad()
@pytest.mark.parametrize("said", [True, False])
def test_pairs_reach_it_with_token_types_as_it_was_trained(said, larger, tmp_path):
    host = made(larger)
    assert host.inputs.token_types and host.describe()["token_types"] is True
    host.model.eval()
    pair = {**BATCH, "token_type_ids": torch.tensor([[0, 0, 1, 1], [0, 1, 0, 0]])}
    own = host.model(**pair).logits
    assert torch.equal(host.logits(pair), own) and not torch.allclose(host.logits(BATCH), own, atol=1e-4)
    softmaxes = install_copies(host.model, ChainCGF(k=2, domain=[-10.0, 1.2]))
    run = {**host.describe(), "task": "t", "config": {}}
    if not said:  # one of before
        del run["token_types"]
    again, _ = from_checkpoint(read(save(tmp_path / "ckpt-1", host.state(), softmaxes, run, host.write_surroundings)))
    again.model.eval()
    assert again.inputs.token_types is said
    torch.testing.assert_close(again.logits(pair), host.logits(pair if said else BATCH), rtol=1e-6, atol=1e-6)


@torch.no_grad()
def test_everything_of_it_is_replaced_and_comes_back_from_a_checkpoint(larger, tmp_path):
    host = made(larger)
    softmaxes = install_copies(host.model, ChainCGF(k=2, domain=[-10.0, 1.2]))
    parts = replaced(host, BatchNorms(keep=["embeddings.LayerNorm"]), Squares())
    assert (len(parts.norms), len(parts.activations)) == (4, 2)
    host.model.eval()
    start_from(host, BATCH)
    run = {**host.describe(), "task": "t", "config": {}}
    folder = save(tmp_path / "ckpt-1", host.state(), softmaxes, run, host.write_surroundings, parts=parts.described())
    again, _ = from_checkpoint(read(folder))
    again.model.eval()
    assert again.family == "bert_tiny" and again.inputs.tokenizer.pad_token_id == 0
    assert list(parts_of(again.model).norms) == list(parts.norms)
    torch.testing.assert_close(again.logits(BATCH), host.logits(BATCH), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 7}, "divisible"),
        ({"dropout": 1.0}, "dropout"),
        ({"layers": 0}, "model.layers"),
        ({"width": 32}, "at least 32 features, and .* is a bert of 24"),
    ],
)
def test_sizes_that_make_no_model_are_refused(options, message, larger):
    with pytest.raises(UserError, match=message):
        bert_tiny.load("tiny", 5, **{"path": str(larger), "width": 8, "heads": 2, **options})
