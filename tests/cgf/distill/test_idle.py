"""A setting of a training that has no effect beside the others is told, and one that has is not."""

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from cgf.distill.idle import idle
from cgf.overrides import compose
from cgf.softmax.load import trains_constants


def lines(*arguments, local=False, texts=True, data=None):
    config = OmegaConf.to_container(compose("train", list(arguments)), resolve=True)
    constants = trains_constants(instantiate(config["softmax"]), config["softmax"])
    given = [argument.split("=")[0].lstrip("+") for argument in arguments]
    return idle(config, given, local=local, texts=texts, constants=constants, data=data or {})


# what else the command line says where a setting has no effect for this reason
BESIDE = {
    "distill.alpha is 0": ["distill=kd", "distill.alpha=0"],
    "distill.alpha is 1, and labels do not count": ["distill=kd", "distill.alpha=1"],
    "softmax, norms and activations stay exact": ["softmax=exact"],
}


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
        ("penalty.inputs.weight=1", "no activation is replaced, and no norm by norm=short", ["activation=square"]),
        ("penalty.inputs.weight=1", "no activation is replaced, and no norm by norm=short", ["norm=short"]),
        ("calibrate.samples=9", "no norm and no activation is replaced", ["norm=batch"]),
        ("train.order=[norm,softmax,activation]", "train.staged is 0", ["train.staged=0.5"]),
        ("train.softmax_lr=9", "the softmax has no constants that are trained", ["softmax=cgf_chain"]),
        ("train.staged=0.5", "softmax, norms and activations stay exact", ["softmax=cgf"]),
        ("tracker.mode=offline", "tracker.name is none", ["tracker.name=wandb"]),
        ("task.folds=7", "task.fold is null", ["task.fold=1"]),
    ],
)
def test_a_setting_without_effect_is_told_with_what_it_waits_for(setting, reason, with_effect):
    beside = BESIDE.get(reason, [])
    (line,) = [told for told in lines(setting, *beside) if told.startswith(setting.split("=")[0])]
    assert line.startswith(f"{setting.split('=')[0]} has no effect: {reason}")
    assert lines(setting, *with_effect) == []


def test_a_penalty_on_inputs_sees_none_of_a_batch_norm():
    told = lines("norm=batch", "penalty.inputs.weight=1", "penalty.inputs.worst=0.5")
    reason = "no activation is replaced, and no norm by norm=short"
    assert told == [f"penalty.inputs.{key} has no effect: {reason}" for key in ("weight", "worst")]


def test_settings_of_the_hub_have_no_effect_beside_a_data_root():
    given = ("task=banking77", "task.hub_text=x", "task.hub_config=y")
    told = "has no effect: the data are those of the data root"
    assert lines(*given, local=True) == [f"task.hub_config {told}", f"task.hub_text {told}"] and lines(*given) == []


def test_what_the_data_leave_without_effect_is_told():
    told = {"val_fraction": "val is given, and not cut off"}
    (line,) = lines("task=csv", "task.train=x", "task.val_fraction=0.2", "task.test_fraction=0.2", data=told)
    assert line == "task.val_fraction has no effect: val is given, and not cut off"


def test_what_the_command_line_does_not_name_is_not_told():
    assert lines() == [] and lines("softmax=bpmax", "train.epochs=1") == []


def test_which_of_two_lengths_ends_a_training_is_told():
    assert lines("train.max_steps=50") == ["training ends after train.epochs=3 or train.max_steps=50, what comes first"]
    assert lines("train.max_steps=null") == []


def test_constants_that_stay_as_they_are_have_no_rate():
    told = ["train.softmax_lr has no effect: the softmax has no constants that are trained"]
    assert lines("train.softmax_lr=2", "softmax=cgf_chain", "softmax.trainable=none") == told
    assert lines("train.softmax_lr=2", "softmax=cgf_chain", "softmax.trainable=head") == []


def test_images_have_no_lengths_that_are_put_together():
    told = ["train.length_pool has no effect: images are of one size"]
    assert (lines("train.length_pool=9", texts=False), lines("train.length_pool=9")) == (told, [])


def test_a_revision_of_the_hub_beside_local_data_is_told():
    given = ("task=clinc150", "task.hub_revision=abc")
    assert lines(*given, local=True) == ["task.hub_revision has no effect: the data are those of the data root"]
    assert lines(*given) == []
