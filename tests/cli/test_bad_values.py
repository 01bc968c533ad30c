"""Values of the wrong kind for settings, told on the command line before anything is loaded, and counts of threads."""

import re

import pytest
from omegaconf import DictConfig, OmegaConf

from cgf.config import check_overrides, compose
from cgf.errors import UserError
from cgf.he.engines.desilo_library import build_engine
from cgf.overrides import check_type

WRONG = {
    bool: ("x", 3, 0.5, [True], {"a": 1}),
    int: ("x", True, 0.5, float("nan"), float("inf"), -float("inf"), [1], {"a": 1}),
    float: ("x", True, float("nan"), float("inf"), -float("inf"), {"a": 1}),
    str: ({"a": 1}, float("nan")),
}


def settings(node, above=""):
    for key in node:
        if OmegaConf.is_missing(node, key) or key in ("hydra", "_target_"):
            continue
        yield f"{above}{key}", node[key]
        if isinstance(node[key], DictConfig):
            yield from settings(node[key], f"{above}{key}.")


def values_of(command):
    """(key, default, wrong value) of every setting of a command."""
    for key, default in settings(compose(command)):
        wrong = (None, 3, "x", [1]) if isinstance(default, DictConfig) else WRONG.get(type(default), ())
        for value in wrong:
            # a name may look like a number: nan in a text is told where the text is used
            yield key, default, OmegaConf.create({"value": value}).value


@pytest.mark.parametrize("command, least", [("train", 250), ("plan", 40), ("eval_he", 60), ("eval_plain", 15)])
def test_every_setting_refuses_values_of_another_kind(command, least):
    cases, accepted = 0, []
    for key, default, value in values_of(command):
        cases += 1
        try:
            check_type(key, default, value)
        except UserError as error:
            assert "\n" not in str(error) and key in str(error)
        else:
            accepted.append((key, value))
    assert not accepted and cases >= least


def test_right_values_are_taken():
    defaults = compose("train")
    for key, value in (("train.lr", 1e-3), ("train.lr", 1), ("train.epochs", 0), ("penalty", {"weight": 0.1})):
        check_type(key, OmegaConf.select(defaults, key), OmegaConf.create({"value": value}).value)


@pytest.mark.parametrize(
    "command, argument, says",
    [
        ("train", "train=null", "train holds settings of its own"),
        ("train", "penalty=3", "penalty holds settings of its own"),
        ("train", "train.lr=nan", "train.lr must be finite"),
        ("train", "train.warmup=inf", "train.warmup must be finite"),
        ("train", "run=nan", "run must be a name, and nan is read as nan: quoted it is one, \"run='nan'\""),
        ("train", "run=1e5", "run must be a name, and 1e5 is read as 100000.0"),
        ("train", "run=true", "run must be a name, and true is read as True"),
        ("train", "run=[a]", "run must be a name"),
        ("train", "ckpt=1e5", "ckpt must be a name, and 1e5 is read as 100000.0: quoted it is one, \"ckpt='1e5'\""),
        ("train", "outputs=7", "outputs must be a name, and 7 is read as 7"),
        ("eval_plain", "ckpt=true", "ckpt must be a name"),
        ("plan", "data=null", "data holds settings of its own"),
        ("eval_he", "he.memory_mib=[1]", "he.memory_mib must be a whole number"),
    ],
)
def test_on_the_command_line(command, argument, says):
    with pytest.raises(UserError, match=says):
        check_overrides(command, [argument])


@pytest.mark.parametrize(
    "command, argument, says",
    [
        ("train", "train.checkpointing=no,off", "train.checkpointing must be true or false, and 'no' was given"),
        ("train", "train.checkpointing=true,off", "train.checkpointing must be true or false, and 'off' was given"),
        ("eval_plain", "predictions=no,off", "predictions must be true or false, and 'no' was given"),
        ("train", "seed=-1", "seed must be a whole number from 0 to 4294967295, and -1 was given"),
        ("train", "seed=-1,1", "seed must be a whole number from 0 to 4294967295, and -1 was given"),
        ("train", "seed=1,4294967296", "seed must be a whole number from 0 to 4294967295, and 4294967296 was given"),
        ("train", "seed=range(-1,2)", "seed must be a whole number from 0 to 4294967295, and -1 was given"),
        ("train", "seed=range(4294967295,4294967297)", "and 4294967296 was given"),
        ("train", "run=a,true", "run must be a name, and True is read as True"),
        ("train", "train.epoch=1,2", "unknown setting 'train.epoch' for train; did you mean 'train.epochs'"),
    ],
)
def test_every_value_of_a_sweep_is_checked_as_a_single_one(command, argument, says):
    with pytest.raises(UserError, match=re.escape(says)):
        check_overrides(command, [argument])


def test_a_sweep_of_right_values_is_taken():
    check_overrides("train", ["softmax=cgf,bpmax", "seed=range(0,10000)", "train.lr=1e-3,1", "ckpt=a-1,outputs/b"])
    check_overrides("train", ["model=timm", "+model.options.depth=2,3", "penalty.bound=3,[1,2]"])


@pytest.mark.parametrize("name", ["'1e5'", "'nan'", "7", "null", "a-1", "a,b"])
def test_a_name_of_a_run_may_look_like_a_number_in_quotes(name):
    check_overrides("train", [f"run={name}"])


@pytest.mark.parametrize("threads", [-1, 0, 100_000, 1.5, True])
def test_counts_of_threads(threads):
    with pytest.raises(UserError, match=r"he\.owner\.threads must be a whole number from 1 to 1024"):
        build_engine(3, "parallel", threads)
