"""A setting of a training that has no effect beside the others is told, and one that has is not."""

import pytest
from omegaconf import OmegaConf

from cgf.distill.idle import idle
from cgf.overrides import compose


def lines(*arguments, local=False):
    config = OmegaConf.to_container(compose("train", list(arguments)), resolve=True)
    return idle(config, [argument.split("=")[0].lstrip("+") for argument in arguments], local)


@pytest.mark.parametrize(
    ("setting", "reason", "with_effect"),
    [
        ("distill.tau=9", "there is no teacher (distill=kd)", ["distill=kd"]),
        ("distill.cache=DIR", "distill.alpha is 0", ["distill=kd", "distill.alpha=0.5"]),
        ("train.label_smoothing=0.1", "distill.alpha is 1, and labels do not count", ["distill=kd"]),
        ("penalty.bound=16", "penalty.weight is 0: the first two say what", ["penalty.weight=0.1"]),
        ("penalty.row_sum.low=0.1", "penalty.row_sum.weight is 0", ["penalty.row_sum.weight=0.1"]),
        ("penalty.inputs.worst=0.5", "penalty.inputs.weight is 0", ["penalty.inputs.weight=0.1", "norm=short"]),
        ("penalty.ramp=0.5", "every weight of a penalty is 0", ["penalty.row_sum.weight=0.1"]),
        ("penalty.inputs.weight=1", "no norm and no activation is replaced", ["activation=square"]),
        ("calibrate.samples=9", "no norm and no activation is replaced", ["norm=batch"]),
        ("train.order=[norm,softmax,activation]", "train.staged is 0", ["train.staged=0.5"]),
        ("tracker.mode=offline", "tracker.name is none", ["tracker.name=wandb"]),
        ("task.folds=7", "task.fold is null", ["task.fold=1"]),
    ],
)
def test_a_setting_without_effect_is_told_with_what_it_waits_for(setting, reason, with_effect):
    beside = {"distill.alpha is 0": ["distill=kd", "distill.alpha=0"], "distill.alpha is 1, and labels do not count": [
        "distill=kd", "distill.alpha=1"]}.get(reason, [])  # fmt: skip
    (line,) = [told for told in lines(setting, *beside) if told.startswith(setting.split("=")[0])]
    assert line.startswith(f"{setting.split('=')[0]} has no effect: {reason}")
    assert lines(setting, *with_effect) == []


def test_what_the_command_line_does_not_name_is_not_told():
    assert lines() == [] and lines("softmax=bpmax", "train.epochs=1") == []


def test_which_of_two_lengths_ends_a_training_is_told():
    assert lines("train.max_steps=50") == ["training ends after train.epochs=3 or train.max_steps=50, what comes first"]
    assert lines("train.max_steps=null") == []


def test_a_revision_of_the_hub_beside_local_data_is_told():
    given = ("task=clinc150", "task.hub_revision=abc")
    assert lines(*given, local=True) == ["task.hub_revision has no effect: the data are those of the data root"]
    assert lines(*given) == []
