"""Settings that a command line gives and that the others leave without effect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from cgf.types import Json

EXACT = "cgf.softmax.exact.Exact"
SHORT = "cgf.norm.short.ShortNorms"  # the norms whose inputs a penalty sees
UNREPLACED = ("cgf.norm.base.ExactNorms", "cgf.activation.base.ExactActivations")


def _no_teacher(config: Json) -> bool:
    return config["distill"]["teacher"] is None


def _no_penalty(config: Json) -> bool:
    penalty = config["penalty"]
    return not any(part["weight"] for part in (penalty, penalty["row_sum"], penalty["inputs"]))


def _nothing_replaced(config: Json) -> bool:
    return (config["norm"]["_target_"], config["activation"]["_target_"]) == UNREPLACED


def _no_inputs(config: Json) -> bool:
    return config["norm"]["_target_"] != SHORT and config["activation"]["_target_"] == UNREPLACED[1]


def _all_exact(config: Json) -> bool:
    return _nothing_replaced(config) and config["softmax"]["_target_"] == EXACT


# keys, when they have no effect, and what says so
RULES: tuple[tuple[tuple[str, ...], Callable[[Json], bool], str], ...] = (
    (("distill.tau", "distill.alpha", "distill.cache"), _no_teacher, "there is no teacher (distill=kd)"),
    (
        ("distill.tau", "distill.cache"),
        lambda c: not _no_teacher(c) and c["distill"]["alpha"] == 0,
        "distill.alpha is 0",
    ),
    (
        ("train.label_smoothing",),
        lambda c: not _no_teacher(c) and c["distill"]["alpha"] == 1,
        "distill.alpha is 1, and labels do not count",
    ),
    (
        ("penalty.bound", "penalty.high", "penalty.worst"),
        lambda c: not c["penalty"]["weight"],
        "penalty.weight is 0: the first two say what is reported, and nothing is held there",
    ),
    (
        ("penalty.row_sum.low", "penalty.row_sum.high"),
        lambda c: not c["penalty"]["row_sum"]["weight"],
        "penalty.row_sum.weight is 0",
    ),
    (("penalty.inputs.worst",), lambda c: not c["penalty"]["inputs"]["weight"], "penalty.inputs.weight is 0"),
    (("penalty.ramp",), _no_penalty, "every weight of a penalty is 0"),
    (("penalty.inputs.weight",), _no_inputs, "no activation is replaced, and no norm by norm=short"),
    (
        ("penalty.inputs.worst",),
        lambda c: c["penalty"]["inputs"]["weight"] and _no_inputs(c),
        "no activation is replaced, and no norm by norm=short",
    ),
    (("calibrate.samples",), _nothing_replaced, "no norm and no activation is replaced"),
    (("train.order",), lambda c: not c["train"]["staged"], "train.staged is 0"),
    (
        ("train.staged", "train.order"),
        lambda c: bool(c["train"]["staged"]) and _all_exact(c),
        "softmax, norms and activations stay exact",
    ),
    (
        ("tracker.project", "tracker.mode", "tracker.artifact"),
        lambda c: c["tracker"]["name"] == "none",
        "tracker.name is none",
    ),
    (("task.folds",), lambda c: c["task"].get("fold") is None, "task.fold is null"),
)


def idle(
    config: Json, given: Collection[str], *, local: bool, texts: bool, constants: bool, data: Mapping[str, str]
) -> list[str]:
    """A line for each setting of ``given`` that has no effect in this configuration of train.py, with the reason.

    local: whether the data come from a folder on this machine;  texts: whether they are texts, not images;
    constants: whether the softmax has constants that are trained;  data: settings of the task that its data leave
    without effect, with the reason (``Task.without_effect``). A setting that is refused has no line.
    """
    lines = []
    for keys, without_effect, reason in RULES:
        if without_effect(config):
            lines += [f"{key} has no effect: {reason}" for key in keys if key in given]
    lines += [f"task.{key} has no effect: {reason}" for key, reason in data.items() if f"task.{key}" in given]
    if local and config["task"].get("hub"):
        of_hub = sorted(key for key in given if key.startswith("task.hub_"))
        lines += [f"{key} has no effect: the data are those of the data root" for key in of_hub]
    if "train.length_pool" in given and not texts:
        lines.append("train.length_pool has no effect: images are of one size")
    if "train.softmax_lr" in given and not constants:
        lines.append("train.softmax_lr has no effect: the softmax has no constants that are trained")
    if "train.max_steps" in given and config["train"]["max_steps"] is not None:
        epochs, steps = (config["train"][key] for key in ("epochs", "max_steps"))
        lines.append(f"training ends after train.epochs={epochs} or train.max_steps={steps}, what comes first")
    return lines
