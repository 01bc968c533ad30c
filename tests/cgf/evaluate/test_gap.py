"""What CGF-softmax costs by layer and head: row sums by hand, costs beside a model with one head changed by hand."""

import json
import math

import numpy as np
import pytest
import torch
from digits_checkpoint import call

from cgf.config import task_maker
from cgf.errors import UserError
from cgf.evaluate.gap import Gap, HeadSums, finite, log_row_sums, newton, tells, unit_rows
from cgf.evaluate.open_checkpoint import open_checkpoint
from cgf.report.gap import heads as heads_table
from cgf.report.gap import whole as whole_table
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact
from cgf.softmax.slot import Around

SCORES = torch.randn(3, 2, 5, 7, generator=torch.Generator().manual_seed(1)) * 3
VALID = torch.ones(3, 1, 5, 7, dtype=torch.bool)
VALID[1, :, :, 4:] = False


@pytest.mark.parametrize("valid", [None, VALID], ids=["full rows", "masked rows"])
@pytest.mark.parametrize("order", [2, 4])
def test_weights_are_the_exact_ones_times_their_row_sums(valid, order):
    weights = CGF(order=order).weights(SCORES.double(), valid)
    s = log_row_sums(CGF(order=order), SCORES.double(), valid).exp()
    torch.testing.assert_close(weights, Exact().weights(SCORES.double(), valid) * s[..., None])
    torch.testing.assert_close(weights.sum(-1), s)


def test_rows_put_right():
    weights = CGF().weights(SCORES.double(), VALID)
    sums = weights.sum(-1, keepdim=True)
    unit = unit_rows(weights, sums, VALID)
    torch.testing.assert_close(unit.sum(-1), torch.ones(3, 2, 5, dtype=torch.float64))
    assert (unit[1, :, :, 4:] == 0).all()
    assert torch.equal(unit[1, ..., :4].argsort(-1), weights[1, ..., :4].argsort(-1))
    torch.testing.assert_close(unit[0], unit_rows(weights[:1], sums[:1], None)[0])
    near = torch.tensor([[[[0.5, 0.6]]]])
    torch.testing.assert_close(newton(near, near.sum(-1, keepdim=True), None), near * 0.9)


def test_sums_over_rows_by_hand():
    sums = HeadSums()
    log = torch.tensor([[[math.log(0.25), 0.0, math.log(4.0)]]], dtype=torch.float64)
    outputs = torch.tensor([[[[3.0, 4.0], [1.0, 0.0], [9.0, 9.0]]]])
    sums.add(log, outputs, torch.tensor([[[True, True, False]]]))
    (row,) = sums.heads()
    assert (row["rows"], row["outside"]) == (2, 0.5)
    assert row["log_mean"] == pytest.approx(math.log(0.25) / 2)
    assert row["log_deviation"] == pytest.approx(-math.log(0.25) / 2)
    assert row["row_sum_off"] == pytest.approx(0.375)
    assert row["output_error"] == pytest.approx(math.sqrt(0.75**2 * 25 / 26))


def test_ranks_and_what_is_no_number():
    measures = ("log_size", "log_deviation", "row_sum_off", "outside", "output_error")
    rows = [{**dict.fromkeys(measures, float(i)), "cost": cost} for i, cost in enumerate((0.1, 0.3, 0.2, None))]
    told = tells([{**row, "outside": 0.0} for row in rows])
    assert told["log_size"]["rho"] == pytest.approx(0.8) and told["outside"] is None  # None ranks above all
    assert finite(math.nan) is None and finite(math.inf) is None and finite(1.5) == 1.5


def test_two_heads_have_no_ranks_to_compare():
    measures = ("log_size", "log_deviation", "row_sum_off", "outside", "output_error")
    rows = [{**dict.fromkeys(measures, float(i)), "cost": float(i)} for i in range(2)]
    assert set(tells(rows).values()) == {None}


class OneHead(Around):
    """CGF-softmax but for head 1, which is exact."""

    def weights(self, scores, valid=None):
        weights = super().weights(scores, valid).clone()
        weights[:, 1] = scores.softmax(-1)[:, 1]
        return weights


def test_the_command_measures_what_a_changed_head_costs(checkpoint, tmp_path):
    out = tmp_path / "gap" / "small.json"
    done = call("gap", f"ckpt={checkpoint}", f"out={out}")
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert (result["trained_with"], result["split"], result["samples"]) == ("cgf", "val", 60)
    plain = call("eval_plain", f"ckpt={checkpoint}", "split=val", f"out={tmp_path}/plain.json")
    assert plain.returncode == 0, plain.stderr
    clear = json.loads((tmp_path / "plain.json").read_text())
    as_it_is = result["whole"]["as_it_is"]
    assert as_it_is["accuracy"] == clear["accuracy"] and as_it_is["loss"] == pytest.approx(clear["loss"], abs=1e-6)

    opened = open_checkpoint(str(checkpoint), "val", task_maker(None))
    batch = opened.collate([opened.dataset[i] for i in range(60)])
    labels, entropy = batch.pop("labels"), torch.nn.functional.cross_entropy
    host = opened.host
    host.model.eval()
    from cgf.models.install import install

    slots = [CGF() for _ in opened.softmaxes]
    slots[0] = OneHead(CGF())
    install(host.model, slots.__getitem__)
    with torch.inference_mode():
        changed = entropy(host.logits(batch).float(), labels).item()
    head = next(h for h in result["heads"] if (h["layer"], h["head"]) == (0, 1))
    assert head["cost"] == pytest.approx(as_it_is["loss"] - changed, abs=1e-5) and head["cost"] != 0
    assert len({(h["layer"], h["head"]) for h in result["heads"]}) == len(result["heads"])
    tokens = head["rows"] / 60
    assert tokens == int(tokens) > 1
    assert result["whole"]["exact"]["loss"] != as_it_is["loss"] != result["whole"]["unit_rows"]["loss"]
    assert f"{100 * as_it_is['accuracy']:.2f} %" in done.stdout
    assert f"{100 * as_it_is['accuracy']:.2f} %, {as_it_is['loss']:.3f}" in whole_table(tmp_path)
    assert "| small | " in heads_table(tmp_path)


def test_a_file_that_is_no_result_of_this_checkpoint_is_left_as_it_is(checkpoint, tmp_path):
    for content in ('{"important": 1}', '{"kind": "eval_plain"}', '{"kind": "gap", "name": "other/ckpt-1"}'):
        (out := tmp_path / "own.json").write_text(content)
        refused = call("gap", f"ckpt={checkpoint}", "samples=1", f"out={out}")
        assert refused.returncode == 2 and "is not overwritten" in refused.stderr and out.read_text() == content


def test_a_model_of_exact_softmax_gets_cgf_put_in(checkpoint):
    opened = open_checkpoint(str(checkpoint), "val", task_maker(None))
    host, outcomes = opened.host, []

    def run():
        from cgf.evaluate.loop import evaluate

        outcomes.append(evaluate(host.model, host.logits, opened.dataset, opened.collate, [list(range(60))]))
        return outcomes[-1]

    own = [Exact() for _ in opened.softmaxes]
    result = Gap(host, own, CGF(), run, say=lambda line: None).measured()
    assert result["whole"]["exact"]["loss"] == outcomes[0].loss  # as trained comes first
    costs = np.array([head["cost"] for head in result["heads"]])
    np.testing.assert_allclose(costs, [one.loss - outcomes[0].loss for one in outcomes[1 : 1 + len(costs)]], atol=1e-12)
    with pytest.raises(UserError, match="the checkpoint was trained with"):
        Gap(host, opened.softmaxes, CGF(order=3), run)


@pytest.mark.parametrize(("arguments", "says"), [
    (("split=test",), "choices never see test data: split=val or split=train"),
    (("softmax=bpmax",), "the gap is that of CGF-softmax (softmax=cgf, cgf3 or cgf4), and this is bpmax"),
    (("softmax=cgf3",), "leave softmax out"),
    (("samples=0",), "samples must be a whole number of at least 1"),
])  # fmt: skip
def test_what_is_refused(checkpoint, arguments, says):
    done = call("gap", f"ckpt={checkpoint}", *arguments)
    assert done.returncode == 2 and says in done.stderr, done.stderr
    assert not (checkpoint / "gap.json").exists()
