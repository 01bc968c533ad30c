"""Which lengths of text share ciphertexts of whole attentions: the cheapest runs, and what padding then changes."""

import itertools
import json

import numpy as np
import pytest
import torch
from digits_checkpoint import call
from hypothesis import given
from hypothesis import strategies as st
from test_attention import cgf, in_the_clear, tensors
from test_attention_means import of_lengths
from test_evaluate_he_text import APPROX, HEADS, LAYERS, SAMPLES, checkpoint_fixture, clear_logits  # noqa: F401

from cgf.evaluate.he_batches import Batches
from cgf.evaluate.he_lengths import SHORTEST, Joint, SetKind, cheapest_price, runs_of_lengths
from cgf.he.encrypted_attention import EncryptedAttention, stand_ins
from cgf.he.engines.sim import SimOwner
from cgf.he.session import Session
from cgf.models.host import Host
from cgf.results import read_lines


def price(shortest, longest, samples):
    """As a layout costs: products for the square of the tokens, encryptions for each token, a level for padding."""
    return -(-samples * longest // 40) * (longest**2 + 30 * longest) * (1.2 if longest > 1.5 * shortest else 1.0)


def cuts(lengths):
    for marks in itertools.product((False, True), repeat=len(lengths) - 1):
        edges = [0, *(i + 1 for i, mark in enumerate(marks) if mark), len(lengths)]
        yield [(lengths[a], lengths[b - 1]) for a, b in itertools.pairwise(edges)]


def total(counts, runs):
    return sum(price(low, high, sum(counts[n] for n in counts if low <= n <= high)) for low, high in runs)


@given(st.dictionaries(st.integers(3, 40), st.integers(1, 30), min_size=1, max_size=8))
def test_no_other_cut_of_the_lengths_costs_less(counts):
    runs = runs_of_lengths(counts, price)
    allowed = [cut for cut in cuts(sorted(counts)) if all(low >= SHORTEST * high for low, high in cut)]
    assert runs in allowed
    assert total(counts, runs) == pytest.approx(min(total(counts, cut) for cut in allowed))


@given(st.lists(st.integers(4, 90), min_size=1, max_size=60))
def test_every_sample_once_and_no_set_beyond_what_fits(lengths):
    class Texts:
        def __len__(self):
            return len(lengths)

    texts = Texts()
    texts.lengths = lengths
    probed = []

    def probe(index):
        probed.append(lengths[index])
        return 12, 1, 240

    batches = Batches(texts, probe, pieces=False, joint=Joint(price)).of(list(range(len(lengths))))
    assert sorted(i for b in batches for i in b) == list(range(len(lengths)))
    assert all(len(b) <= 20 and lengths[b[-1]] == max(lengths[i] for i in b) for b in batches)
    assert probed == [lengths[b[-1]] for b in batches] and probed == sorted(probed, reverse=True)


def test_few_texts_of_many_lengths_share_sets_and_many_of_one_length_do_not():
    kinds = [SetKind(8192, True, 1500.0, means=even, even=even) for even in (False, True)]

    def real(shortest, longest, samples):
        return cheapest_price(12 * samples, longest, 32, kinds[longest <= 2 * shortest])

    assert len(runs_of_lengths(dict.fromkeys(range(20, 30), 3), real)) == 1
    assert runs_of_lengths({12: 680, 13: 680}, real) == [(12, 12), (13, 13)]


def test_queries_of_padding_are_those_of_the_last_token():
    query = torch.arange(2 * 3 * 4 * 2.0).view(2, 3, 4, 2)
    real = torch.tensor([[True, True, False, False], [False, True, True, True]])
    given_ones = stand_ins(query, real)
    assert torch.equal(given_ones[0], query[0][:, [0, 1, 1, 1]])
    assert torch.equal(given_ones[1], query[1][:, [3, 1, 2, 3]])


def evaluated(folder, root, *more, name="joint"):
    out = folder / "eval" / f"{name}.json"
    done = call(
        "eval_he",
        f"ckpt={folder}",
        f"out={out}",
        "he=sim",
        "he.scope=attention",
        "he.samples=null",
        f"data.root={root}",
        "approx=limit",
        f"approx.k={APPROX['k']}",
        f"approx.range={APPROX['range']}",
        *more,
    )
    assert done.returncode == 0, done.stderr
    logits = {x["index"]: x["logits"] for x in read_lines(out.with_suffix(".jsonl")) if "index" in x}
    return json.loads(out.read_text()), logits


@pytest.mark.parametrize("checkpoint", ["bert"], indirect=True)
def test_padded_texts_have_the_logits_that_they_have_alone(checkpoint, monkeypatch):
    folder, root, _ = checkpoint
    clear, lengths = clear_logits(folder, root)
    apart, _ = evaluated(folder, root, "he.batch=8", name="apart")  # a size by hand: texts of one length alone
    seen, honest = [], Host.logits

    def spied(host, batch):
        seen.append(batch["attention_mask"])
        return honest(host, batch)

    monkeypatch.setattr(Host, "logits", spied)
    result, logits = evaluated(folder, root)
    assert any(not bool(mask.all()) and len(mask) > 2 for mask in seen)
    np.testing.assert_allclose([logits[i] for i in range(SAMPLES)], [clear[i] for i in range(SAMPLES)], atol=1e-4)
    assert result["batches"] < apart["batches"] == len(set(lengths)) and result["agreement"] == 1.0
    # padding counts nowhere, though it takes slots: entries, multiply-adds (8 and 8 features), what ran, what was seen
    assert result["entries"] == HEADS * LAYERS * sum(n * n for n in lengths) == apart["entries"]
    assert result["macs"] == apart["macs"] and sum(result["circuits"].values()) == result["entries"]
    assert apart["circuits"] == {"folded": apart["entries"]} and "masked" in result["circuits"]
    assert result["levels"] == result["levels_counted"] == apart["levels"] + 1  # six squarings: no means for padding
    assert result["max_error"] < 1e-9
    for joint, alone in zip(result["layers"], apart["layers"], strict=True):
        assert joint["range"] == pytest.approx(alone["range"])


@pytest.mark.parametrize("checkpoint", ["bert"], indirect=True)
def test_a_host_whose_logits_hang_on_padding_gets_texts_of_one_length(checkpoint, monkeypatch):
    folder, root, _ = checkpoint
    honest = Host.logits
    monkeypatch.setattr(Host, "logits", lambda host, batch: honest(host, batch) + batch["input_ids"].shape[1])
    result, _ = evaluated(folder, root)
    assert result["batches"] == len(set(clear_logits(folder, root)[1])) and result["circuits"].keys() == {"folded"}


@pytest.mark.parametrize("hostile", [1e6, float("nan")])
def test_what_padding_holds_reaches_no_token(hostile):
    """Queries and keys of padding far beyond any domain: outputs of the others, and what is counted, do not know."""
    softmax = cgf()
    slot = EncryptedAttention(softmax, Session(SimOwner))
    heads = of_lengths((6, 9))
    query, key, value = tensors(heads)
    present = torch.arange(9) < torch.tensor([[6], [9]])
    gone, valid = ~present[:, None, :, None], torch.from_numpy(heads.valid)
    slot.given_tokens(present.long())
    outputs, _ = slot.attention(
        query.masked_fill(gone, hostile), key.masked_fill(gone, hostile), value, heads.scaling, valid, None
    )
    wanted = in_the_clear(softmax, heads)
    for sample, length in enumerate((6, 9)):
        np.testing.assert_allclose(outputs[sample, :, :length], wanted[sample, :, :length], rtol=0, atol=1e-9)
    seen = slot.take_record()
    assert seen.entries == 3 * (36 + 81) == seen.circuits["folded"] and seen.macs == 8 * seen.entries
    assert seen.levels == 6 and seen.overflow == 0 and seen.ruined == set() and seen.beyond == 0


def test_where_padding_is_attended_to_its_queries_stay():
    slot = EncryptedAttention(cgf(), Session(SimOwner))
    slot.given_tokens(torch.tensor([[1, 1, 0]]))
    query = torch.zeros(1, 2, 3, 4)
    assert slot._real(query, torch.tensor([[[[True, True, False]]]])) is not None
    assert slot._real(query, torch.tensor([[[[True, True, True]]]])) is None
    assert slot._real(query[:, :, :2], torch.tensor([[[[True, True, False]]]])) is None  # no query a token
