"""What a calibration pass shows: every row that encrypted evaluation can meet, padding included."""

from functools import partial
from pathlib import Path

import pytest
import torch
from conftest_models import small_bert, small_llama, small_vit
from torch import nn

from cgf.approx.fit import chain
from cgf.data.text_items import collate_text
from cgf.errors import UserError
from cgf.evaluate.calibrate import padded_to, run
from cgf.evaluate.he_lines import SampleLog
from cgf.evaluate.he_run import EncryptedEvaluation
from cgf.evaluate.loop import batches_by_length, evaluate
from cgf.evaluate.observe import Calibrator
from cgf.evaluate.observed_host import own_weights
from cgf.he.engines.sim import SimOwner
from cgf.he.session import Session
from cgf.models.install import install_copies, installed, installed_softmaxes
from cgf.softmax.cgf import CGF

LENGTHS = [3, 9, 11, 14, 5, 3]


class Texts:
    lengths = LENGTHS

    def __init__(self):
        generator = torch.Generator().manual_seed(5)
        self.ids = [torch.randint(3, 50, (n,), generator=generator) for n in LENGTHS]

    def __len__(self):
        return len(LENGTHS)

    def __getitem__(self, index):
        return self.ids[index]


def collate(items):
    ids = nn.utils.rnn.pad_sequence(items, batch_first=True)
    lengths = torch.tensor([len(i) for i in items])
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.zeros(len(items), dtype=torch.long)}


def observed(host):
    calibrator = Calibrator()
    for softmax in install_copies(host.model, CGF()):
        softmax.observers.append(calibrator)
    return calibrator


def calibrated(make, **options):
    host = make()
    calibrator = observed(host)
    run(host, Texts(), collate, range(len(LENGTHS)), 4, **options)
    return calibrator


def batched(make, batches):
    """What batches of an evaluation show."""
    host = make()
    calibrator = observed(host)
    evaluate(host.model, host.logits, Texts(), collate, batches)
    return calibrator


@pytest.mark.parametrize("make", [small_llama, small_bert])
@pytest.mark.parametrize("batches", [[[0, 3], [1, 2, 4, 5]], [[i] for i in range(6)], [[0, 1], [2, 3], [4, 5]]])
def test_padding_to_the_longest_shows_the_rows_of_any_batching(make, batches):
    whole, part = calibrated(make, padding="longest"), batched(make, batches)
    for layer, seen in part.layers.items():
        all_seen = whole.layers[layer]
        assert all_seen.slots.low <= seen.slots.low + 1e-4 and seen.slots.high - 1e-4 <= all_seen.slots.high
        # real tokens do not see padding: their figures are the same however they are batched
        assert all_seen.entries == seen.entries
        assert (all_seen.low, all_seen.high) == pytest.approx((seen.low, seen.high), abs=1e-3)
        assert all_seen.kappa.std == pytest.approx(seen.kappa.std, rel=1e-3)


def test_rows_of_padding_reach_where_no_real_row_does():
    whole, bare = calibrated(small_llama, padding="longest"), calibrated(small_llama, padding="none")
    assert any(whole.layers[i].reach() != bare.layers[i].reach() for i in range(3))
    assert all(whole.layers[i].domain() == pytest.approx(bare.layers[i].domain(), abs=1e-3) for i in range(3))


def test_auto_pads_causal_hosts_alone_and_by_a_third():
    slots = {
        name: calibrated(make).layers[0].slots.count for name, make in (("llama", small_llama), ("bert", small_bert))
    }
    assert slots == {"llama": 4 * sum((n * 4 // 3) ** 2 for n in LENGTHS), "bert": 4 * sum(n * n for n in LENGTHS)}


def test_auto_shows_every_row_that_encrypted_evaluation_meets():
    """Its own batches, read off its code: no row of them lies outside what the plan was made from."""
    host = small_llama()
    calibrator, session = observed(host), Session(SimOwner)
    softmaxes = installed_softmaxes(host.model)
    for softmax in softmaxes:
        softmax.exponential = chain(-64.0, 4.0, 6)
    evaluation = EncryptedEvaluation(
        host=host,
        softmaxes=softmaxes,
        installed=installed,
        session=session,
        dataset=Texts(),
        collate=collate,
        indices=list(range(6)),
        lines=SampleLog(Path("unused")),
        as_trained=None,
        masked=True,
    )
    batches = evaluation.plan.of(list(range(6)))
    assert any(len({LENGTHS[i] for i in batch}) > 1 for batch in batches)  # some are padded
    for softmax in softmaxes:
        softmax.exponential = None
    calibrator.heads.clear()
    evaluate(host.model, host.logits, Texts(), collate, batches)
    whole = calibrated(small_llama)
    for layer, seen in calibrator.layers.items():
        lo, hi = whole.layers[layer].reach()
        assert lo <= seen.slots.low + 1e-4 and seen.slots.high - 1e-4 <= hi
        assert whole.layers[layer].entries == seen.entries


def test_padded_to_keeps_what_is_long_enough():
    pad = padded_to(collate, lambda _: 6, 7)
    batch = pad([torch.arange(3), torch.arange(2)])
    assert batch["input_ids"].shape == (2, 6) and batch["input_ids"][0].tolist() == [0, 1, 2, 7, 7, 7]
    assert batch["attention_mask"].sum(1).tolist() == [3, 2]
    assert pad([torch.arange(9)])["input_ids"].shape == (1, 9)


def test_token_types_of_pairs_are_padded_as_their_tokens_are():
    pairs = [{"input_ids": [5, 6, 8], "label": 0, "token_type_ids": [0, 1, 1]}]
    batch = padded_to(partial(collate_text, pad_id=0), lambda _: 5, 0)(pairs)
    assert batch["token_type_ids"].tolist() == [[0, 1, 1, 0, 0]] and batch["labels"].tolist() == [0]


def test_unknown_padding():
    with pytest.raises(UserError, match="auto, none, longest, and 'left'"):
        calibrated(small_bert, padding="left")


class Task:
    name, num_classes = "texts", 7

    def dataset(self, split, inputs):
        return Texts() if inputs.tokenizer is not None else Images()

    def collate(self, inputs):
        return (
            collate
            if inputs.tokenizer is not None
            else lambda items: {"pixel_values": torch.stack(items), "labels": torch.zeros(len(items), dtype=torch.long)}
        )


class Images:
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(index))


@pytest.mark.parametrize("make", [small_llama, small_bert, small_vit])
def test_the_model_runs_as_trained_while_it_is_looked_at(make):
    """Scores of an untouched model, read off its own queries and keys, are what the report sees."""
    trained, swapped = (own_weights(make, Task(), "train", None, forward) for forward in ("trained", "softmax"))
    for looked in (trained, swapped):
        assert looked.run(None, 0, 3, "none") == 6
    assert (trained.forward, swapped.forward) == ("exact", "cgf")
    first, second = trained.calibrator.layers, swapped.calibrator.layers
    assert first[0].low == pytest.approx(second[0].low) and first[0].kappa.std == pytest.approx(second[0].kappa.std)
    assert first[2].low != pytest.approx(second[2].low)  # later layers are fed by other weights
    collate_own, data = Task().collate(trained.host.inputs), Task().dataset("train", trained.host.inputs)
    own = make()
    batches = batches_by_length(data, 3)
    a, b = (evaluate(h.model, h.logits, data, collate_own, batches).logits for h in (own, trained.host))
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
