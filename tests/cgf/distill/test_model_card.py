"""The model card in a checkpoint: what it says is what was trained, and nothing of a result depends on it."""

import json

from digits_checkpoint import checkpoint_fixture, trained_run_fixture  # noqa: F401

from cgf.checkpoint import read
from cgf.distill.model_card import model_card
from cgf.softmax.bpmax import BPMax
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact

RUN = {
    "model": "small",
    "family": "bert",
    "num_classes": 3,
    "task": "a|b <i>",
    "source": {},
    "data": {"file.csv": "c0ffee"},
    "git": {"commit": "abc", "dirty": True},
    "config": {"train": {"epochs": 3, "lr": 0.001}, "distill": {"name": "self"}},
    "progress": {"step": 12, "epoch": 1, "best": 0.9512},
}


def test_a_card_says_what_was_trained():
    card = model_card(RUN, CGF(), 4)
    front, rest = card.split("---\n")[1:3]
    assert dict(line.split(": ", 1) for line in front.splitlines())["library_name"] == json.dumps("cgf-softmax")
    assert "| small (bert), 4 attentions, 3 classes |" in rest and "95.12 %" in rest and "teacher | self" in rest
    assert "a\\|b &lt;i>" in rest and "<i>" not in rest and "abc with uncommitted changes" in rest
    assert '"order": 2' in rest and '"lr": 0.001' in rest and "scripts/plan.py" in rest


def test_a_card_says_which_norms_and_activations_were_replaced():
    parts = {"norm": {"variant": "batch", "places": [{"name": "a", "features": 4}, {"name": "b", "features": 4}]}}
    card = model_card(RUN, CGF(), 4, parts)
    assert "| norms | batch at 2 places |" in card and "he.scope=network" in card and "activations" not in card
    plain = model_card(RUN, CGF(), 4)
    assert "norms" not in plain and "he.scope=network" not in plain


def test_its_commands_are_those_of_the_softmax():
    assert "eval_he.py" not in model_card(RUN, Exact(), 2)
    shown = model_card(RUN, BPMax(), 2)
    assert "approx=exact" in shown and "plan.py" not in shown
    assert "not validated" in model_card({**RUN, "progress": {"step": 0, "best": -1.0}}, CGF(), 2)


def test_every_checkpoint_of_a_run_has_one_and_reads_without_it(checkpoint):
    card = (checkpoint / "README.md").read_text()
    run = json.loads((checkpoint / "run.json").read_text())
    assert f"step {run['progress']['step']}," in card and "vit_digits on digits with cgf" in card
    digest = read(checkpoint).digest
    (checkpoint / "README.md").write_text("changed by hand")
    assert read(checkpoint).digest == digest
    (checkpoint / "README.md").write_text(card)
