"""Which settings of configs/plan.yaml a scope reads: those that it would leave without effect are refused by name."""

from __future__ import annotations

from collections.abc import Iterable

from cgf.checks import one_of
from cgf.errors import UserError
from cgf.named import short
from cgf.types import Json, JsonValue

APPROX = ("method", "degree", "k", "range")  # of configs/approx
SQUARES = ("chain", "limit")  # methods without a degree
SCOPES = ("softmax", "attention", "network")
POLYNOMIAL = (  # what is about the polynomial that scope=softmax alone plans
    "range",
    "rows",
    "columns",
    "mask",
    "per_layer",
    "whole",
    "tolerance",
    "outside",
    "margin",
    "objective",
    "pareto",
    "cache",
    "padding",
    "batch_size",
)
CALIBRATED = ("split", "samples", "seed", "whole", "batch_size", "padding")  # what a checkpoint is looked at on
EVALUATED = ("workers", "memory_mib")  # of evaluations of whole attentions and networks
WIDENED = ("margin", "outside", "pareto")  # how a plan of a checkpoint follows from what was seen
NETWORK = ("alone", "processes")  # of whole networks


def checked_approx(node: JsonValue) -> Json:
    """The ``approx`` node of a configuration. UserError unless it names its method, by keys of APPROX."""
    if not isinstance(node, dict) or not isinstance(node.get("method"), str):
        raise UserError(f"approx must be a file of configs/approx, which names its method, and {short(node)} was given")
    if unknown := sorted(set(node) - set(APPROX)):
        raise UserError(f"approx has the keys {', '.join(APPROX)}, and approx.{unknown[0]} was given")
    return node


def check_scope(config: Json, given: Iterable[str]) -> str:
    """The scope of a plan; given: dotted names of the settings that the command line names.

    UserError for a scope that is none, and for a given setting that would have no effect: of attentions and networks
    one that is about the polynomial, of a range or a shape one that chooses samples, and the like.
    """
    scope = one_of("scope", config["scope"], SCOPES)
    if config["shape"] is not None and scope != "network":
        raise UserError(f"shape is of a whole network, and scope={scope} was given: scope=network")
    method = checked_approx(config["approx"])["method"]
    if scope == "softmax" and method in ("exact", "plan"):
        raise UserError(
            f"a plan is a polynomial that is chosen here, and approx={method} is for evaluations: leave it out"
        )
    if scope == "network" and method != "auto":
        raise UserError(
            "scope=network takes the polynomials that are planned or trained, and "
            f"approx={method} was given: leave it out, and plan a polynomial without scope"
        )
    subjects = {"ckpt": "a checkpoint", "shape": "a shape", "range": "a range"}
    subject = next((what for key, what in subjects.items() if config[key] is not None), "nothing")
    unread = _unread(scope, subject)
    for name in given:
        key = name.partition(".")[0]
        if (scope, subject, name) == ("softmax", "a range", "approx.range"):
            raise UserError("range=[LO,HI] is the range that is planned for, and approx.range was given beside it")
        if scope != "softmax" and (key in POLYNOMIAL or name.startswith("approx.")):
            raise UserError(f"scope={scope} plans no polynomial, and {name}={_at(config, name)} is about one")
        if key in unread:
            raise UserError(
                f"scope={scope} does not read {key} for {subject}, and {key}={config[key]} was given: leave it out"
            )
        if scope == "softmax" and (reason := _by_hand(config, name)):
            raise UserError(f"{reason}, and {name}={_at(config, name)} was given: leave it out")
    return scope


def _by_hand(config: Json, name: str) -> str | None:
    """Why a setting is without effect beside a polynomial, or a part of it, that is given by hand; None: it has one."""
    approx = config["approx"]
    method, k = approx["method"], approx.get("k")
    if method in SQUARES and name == "approx.degree":
        return f"approx={method} is made of squares and has no degree"
    if config["ckpt"] is None:  # a table of a range has every row that serves, and one is picked
        return None
    if method != "auto" and k is not None and (name == "objective" or (name == "pareto" and config["pareto"])):
        return f"approx={method} with k={k} is one polynomial, which is taken as it is"
    by_hand = method != "auto" and k is not None
    if name in ("times", "engine") and (by_hand or not config["pareto"]):
        return "one polynomial is taken, and no seconds are predicted"
    if approx.get("range") is not None and name == "outside":
        return f"approx.range={approx['range']} is the accuracy domain"
    return None


def _unread(scope: str, subject: str) -> tuple[str, ...]:
    """Settings without effect in a scope on a checkpoint, a range or a shape."""
    if subject == "a checkpoint":
        return {
            "softmax": (*EVALUATED, *NETWORK, "mask"),
            "attention": (*NETWORK, "engine", "out"),
            "network": ("engine", "memory_mib", "out"),
        }[scope]
    if subject == "nothing":  # which is refused further down
        return ()
    if (scope, subject) == ("softmax", "a range"):
        return (*EVALUATED, *NETWORK, *CALIBRATED, *WIDENED)
    return (*EVALUATED, *NETWORK, *CALIBRATED) if scope == "softmax" else ("engine", "memory_mib", *CALIBRATED)


def _at(config: Json, name: str) -> object:
    """The value of a dotted name."""
    value: object = config
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
