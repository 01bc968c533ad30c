from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from cgf.errors import UserError
from cgf.evaluate.loop import Outcome, batches_by_length, batches_of_one_length, batches_of_rows, evaluate
from cgf.evaluate.observe import ExponentMonitor
from cgf.evaluate.plain_result import classes, figures, measure


class Texts(list):
    """A dataset that knows the length of its texts."""

    @property
    def lengths(self):
        return [len(t) for t in self]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 7))
def test_batches_hold_every_sample_once(lengths, size):
    data = Texts("x" * n for n in lengths)
    for batches in (
        batches_by_length(data, size),
        batches_of_one_length(data, size, range(len(data))),
        batches_by_length(lengths, size),
        batches_of_one_length(lengths, size, range(len(data))),
    ):
        assert sorted(i for b in batches for i in b) == list(range(len(data)))
        assert all(1 <= len(b) <= size for b in batches)
    assert all(len({lengths[i] for i in b}) == 1 for b in batches_of_one_length(data, size, range(len(data))))


def test_full_rows_are_never_padded():
    data = Texts("x" * n for n in (3, 1, 3, 2, 1))
    assert batches_of_rows(data, 8, range(5), masked=True) == [[1, 4, 3, 0, 2]]
    assert batches_of_rows(data, 8, range(5), masked=False) == [[1, 4], [3], [0, 2]]


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_a_batch_holds_something(size):
    for batches in (batches_by_length, batches_of_one_length):
        with pytest.raises(UserError, match="at least 1"):
            batches([1, 2, 3], size, [0, 1])


def test_evaluate_in_the_order_of_the_indices():
    model, labels = nn.Dropout(0.5), [0, 1, 1, 0]
    points = [torch.tensor([2.0, 1.0]), torch.tensor([0.0, 1.0]), torch.tensor([3.0, 1.0]), torch.tensor([9.0, 1.0])]
    data = list(zip(points, labels, strict=True))
    seen = []

    def collate(samples):
        return {"x": torch.stack([r[0] for r in samples]), "labels": torch.tensor([r[1] for r in samples])}

    outcome = evaluate(
        model,
        lambda batch: model(batch["x"]),
        data,
        collate,
        [[3, 1], [2, 0]],
        lambda chosen, logits, truth: seen.append(chosen),
    )
    assert model.training and seen == [[3, 1], [2, 0]]
    torch.testing.assert_close(outcome.logits, torch.stack(points))  # no dropout: evaluation mode
    assert outcome.index.tolist() == [0, 1, 2, 3] and outcome.predictions.tolist() == [0, 1, 0, 0]
    assert outcome.accuracy == 0.75
    expected = -sum(torch.log_softmax(p, -1)[n] for p, n in data) / 4
    assert outcome.loss == pytest.approx(float(expected))
    other = Outcome(-outcome.logits, outcome.labels, outcome.index)
    assert outcome.agreement(outcome) == 1.0 and outcome.agreement(other) == 0.0
    with pytest.raises(UserError, match="same samples"):
        outcome.agreement(Outcome(outcome.logits, outcome.labels, outcome.index + 1))
    with pytest.raises(UserError, match="at least one sample"):
        evaluate(model, lambda batch: batch, data, collate, [])


def opened(logits, labels):
    """A checkpoint whose model gives these logits, a row a sample."""
    rows = torch.tensor(logits)

    def collate(samples):
        return {"n": torch.tensor([n for n, _ in samples]), "labels": torch.tensor([label for _, label in samples])}

    host = SimpleNamespace(model=nn.Identity(), logits=lambda batch: rows[batch["n"]], row_kind="full")
    softmax = SimpleNamespace(name="cgf_chain")
    return SimpleNamespace(host=host, softmaxes=[softmax], dataset=list(enumerate(labels)), collate=collate)


def test_samples_without_finite_logits_are_refused_or_wrong_as_asked():
    nan, inf = float("nan"), float("inf")
    watch, all_of_them = ExponentMonitor(), list(range(4))
    made = opened([[3.0, 1.0], [inf, 0.0], [nan, nan], [0.0, 2.0]], [0, 0, 0, 1])  # argmax would be right four times
    with pytest.raises(UserError, match="softmax 'cgf_chain' gives no finite numbers here"):
        measure(made, watch, all_of_them, 2)
    with pytest.raises(UserError, match="gives no finite numbers here"):  # though the loss is a finite number
        measure(opened([[3.0, -inf]] + [[1.0, 0.0]] * 3, [0] * 4), watch, all_of_them, 2)
    outcome = measure(made, watch, all_of_them, 2, "wrong")
    assert outcome.finite.tolist() == [True, False, False, True] == outcome.right.tolist()
    assert outcome.accuracy == 0.5 and classes(outcome) == [0, None, None, 1]
    watch(
        SimpleNamespace(layer=0, intervals=lambda: None),
        torch.tensor([[[[-inf, 1.0]]]]),
        torch.tensor([[[[inf, 1.0]]]]),
        None,
    )
    made.task = SimpleNamespace(class_names=["a", "b"])
    made.levels, made.facts = lambda _: 3, lambda _: {}
    told = figures(made, None, watch, outcome)
    assert (told["not_finite"], told["correct"], told["loss"]) == (2, 2, None)
    assert told["range"] == [None, 1.0] and told["row_sum"] == {"min": None, "median": None, "max": None}
    assert told["by_class"] == {"a": {"samples": 3, "correct": 1}, "b": {"samples": 1, "correct": 1}}
    with pytest.raises(UserError, match="gives no finite numbers here"):  # not one sample is left
        measure(opened([[nan, 0.0]] * 4, [0] * 4), watch, all_of_them, 2, "wrong")
    with pytest.raises(UserError, match=r"not_finite .*refuse, wrong.* 'drop'"):
        measure(made, watch, all_of_them, 2, "drop")
    assert measure(opened([[1.0, 0.0]] * 4, [0] * 4), watch, all_of_them, 2).accuracy == 1.0
