"""A small BERT that starts from the embeddings of a larger one."""

import dataclasses
import shutil

import numpy as np
import pytest
import torch
from conftest_models import tokenizer
from hub_cache import NEW, OLD, cached_fixture  # noqa: F401
from transformers import BertConfig, BertModel

from cgf.activation.polynomial import Squares
from cgf.checkpoint import read, save
from cgf.errors import UserError
from cgf.evaluate.network_eval import features_of
from cgf.models import bert_tiny
from cgf.models.install import install_copies
from cgf.models.load import from_checkpoint
from cgf.models.network import network_of
from cgf.models.replace import parts_of
from cgf.models.replace_check import replaced, start_from
from cgf.network.files import load_inputs, save_inputs
from cgf.network.program import program_of
from cgf.network.twin import twin
from cgf.norm.batch import BatchNorms
from cgf.server.make import _tokens
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


def test_embeddings_of_a_hub_are_those_of_one_commit_that_is_named(cached, larger):
    def make(folder, seed):
        shutil.copytree(larger, folder, dirs_exist_ok=True)
        model = BertModel.from_pretrained(larger)
        with torch.no_grad():
            model.embeddings.word_embeddings.weight.mul_(1 + torch.arange(24) * seed)
        model.save_pretrained(folder)

    snapshots = cached("owner/model", make)
    for asked, commit in ((None, NEW), ("v1", OLD)):
        host = bert_tiny.load("tiny", 5, path="owner/model", width=8, heads=2, hub_revision=asked)
        assert host.source == {"embeddings": "owner/model", "commit": commit}
        own = bert_tiny.load("tiny", 5, path=str(snapshots / commit), width=8, heads=2)
        assert torch.equal(*(h.model.bert.embeddings.word_embeddings.weight for h in (host, own)))
    with pytest.raises(UserError, match=r"hub_revision=v1 is of a hub id .* is a folder"):
        made(larger, hub_revision="v1")


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


# -- texts that are filled up ----------------------------------------------------------------------


def polynomial(larger, **options):
    """A host whose every layer stays encrypted, and its softmaxes."""
    host = made(larger, **options)
    softmaxes = install_copies(host.model, ChainCGF(k=2, domain=[-10.0, 1.2]))
    parts = replaced(host, BatchNorms(keep=["embeddings.LayerNorm"]), Squares())
    host.model.eval()
    start_from(host, BATCH)
    return host, softmaxes, parts


@torch.no_grad()
def test_padding_that_is_read_counts_as_words(larger):
    """A text's logits are those of the text with its padding written out, in any batch."""
    host, plain = made(larger, pad_to_multiple_of=3), made(larger)
    plain.model.load_state_dict(host.model.state_dict())
    host.model.eval(), plain.model.eval()
    ones = torch.ones(1, 6, dtype=torch.long)
    written = torch.tensor([[5, 6, 7, 8, 0, 0]])
    own = plain.model(input_ids=written, attention_mask=ones).logits
    torch.testing.assert_close(host.logits(BATCH)[:1], own)
    short = plain.model(input_ids=torch.tensor([[9, 10, 0]]), attention_mask=ones[:, :3]).logits
    torch.testing.assert_close(host.logits(BATCH)[1:], short)
    torch.testing.assert_close(host.logits({key: value[1:, :2] for key, value in BATCH.items()}), short)
    torch.testing.assert_close(host.model(torch.tensor([[9, 10]])).logits, short)
    assert not torch.allclose(short, plain.logits(BATCH)[1:], atol=1e-4)


def test_what_stands_behind_a_text_is_forgotten_and_its_types_with_it():
    ids, mask = torch.tensor([[5, 6, 7], [8, 9, 9]]), torch.tensor([[1, 1, 1], [1, 0, 0]])
    ids, mask, types = bert_tiny.filled(ids, mask, torch.tensor([[0, 1, 1], [1, 1, 1]]), 2, 4)
    assert ids.tolist() == [[5, 6, 7, 4], [8, 4, 4, 4]] and mask.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert types.tolist() == [[0, 1, 1, 0], [1, 0, 0, 0]]


@torch.no_grad()
def test_a_network_of_filled_texts_computes_what_the_model_does(larger, tmp_path):
    host, softmaxes, parts = polynomial(larger, pad_to_multiple_of=3)
    run = {**host.describe(), "task": "t", "config": {}}
    folder = save(tmp_path / "ckpt-1", host.state(), softmaxes, run, host.write_surroundings, parts=parts.described())
    again, _ = from_checkpoint(read(folder))
    again.model.eval().double()
    assert bert_tiny.multiple_of(again.model) == 3
    network, table = network_of(again)
    save_inputs(tmp_path, table)
    table = load_inputs(tmp_path)
    assert (table.multiple, table.padding, table.tokens_of(4)) == (3, 0, 6)
    for row, words in ((0, 4), (1, 2)):
        features = table.prepared(BATCH["input_ids"][row : row + 1, :words].numpy())
        assert features.shape[1] == table.tokens_of(words)
        got = twin(program_of(network, features.shape[1]), features)
        expected = again.logits(BATCH).numpy()[row : row + 1]
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9)
    features = features_of(table, {"input_ids": torch.tensor([[5, 6, 9], [8, 9, 10]]), "attention_mask": torch.tensor(
        [[1, 1, 0], [1, 1, 1]])})  # fmt: skip
    np.testing.assert_array_equal(features[:1], table.prepared(np.array([[5, 6]])))
    with pytest.raises(UserError, match="needs texts of one length"):
        features_of(table, BATCH)
    assert _tokens(network, table, [3, 6]) == [3, 6]
    with pytest.raises(UserError, match=r"--tokens must be multiples of 3, .*, and 4 was given"):
        _tokens(network, table, [3, 4])
    with pytest.raises(UserError, match="a multiple of at least 1 with an id below"):
        dataclasses.replace(table, padding=len(table.rows))


@pytest.mark.parametrize("wrong", [0, 513, "4", True, None])
def test_a_checkpoint_that_says_something_else_is_refused(wrong, larger):
    host = made(larger)
    host.model.config.pad_to_multiple_of = wrong
    with pytest.raises(UserError, match="pad_to_multiple_of must be a whole number from 1 to 512"):
        host.model(**BATCH)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 7}, "divisible"),
        ({"dropout": 1.0}, "dropout"),
        ({"layers": 0}, "model.layers"),
        ({"pad_to_multiple_of": 0}, "model.pad_to_multiple_of"),
        ({"width": 32}, "at least 32 features, and .* is a bert of 24"),
    ],
)
def test_sizes_that_make_no_model_are_refused(options, message, larger):
    with pytest.raises(UserError, match=message):
        bert_tiny.load("tiny", 5, **{"path": str(larger), "width": 8, "heads": 2, **options})
