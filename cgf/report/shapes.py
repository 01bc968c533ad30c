"""The shape of files that a report shows: one that is damaged, or of another hand, is named by a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cgf.errors import UserError
from cgf.report.red import KINDS
from cgf.types import Json, JsonValue


def _number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _object(value: JsonValue) -> bool:
    return isinstance(value, dict)


def _objects(value: JsonValue) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _texts(value: JsonValue) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _numbers(value: JsonValue) -> bool:
    return _number(value) or (isinstance(value, list) and all(map(_number, value)))


Shape = tuple[Callable[[JsonValue], bool], str]
OBJECT, OBJECTS, TEXTS = (_object, "an object"), (_objects, "a list of objects"), (_texts, "a list of texts")
NUMBER, NUMBERS = (_number, "a number"), (_numbers, "a number or a list of numbers")
# of a result that is there and not null; a dot leads into the object before it
RUN: dict[str, Shape] = {
    "run": OBJECT,
    "run.command": TEXTS,
    **dict.fromkeys(("run.git", "run.versions", "run.hardware", "run.config"), OBJECT),
}
EVALUATION: dict[str, Shape] = {
    "layers": OBJECTS,
    "made_by": OBJECTS,
    "ops": OBJECT,
    "circuits": OBJECT,
    "red": TEXTS,
    "ring_slots": NUMBERS,
    "seconds": (lambda value: _number(value) or _object(value), "a number or an object"),
    "polynomial": (lambda value: _object(value) or isinstance(value, list), "an object or a list"),
    **dict.fromkeys(
        ("samples", "accuracy", "accuracy_plain", "accuracy_exact", "agreement", "agreement_asked"), NUMBER
    ),
    **dict.fromkeys(("max_error", "mean_error", "levels", "noise_stated", "us_per_entry"), NUMBER),
    **dict.fromkeys(("core_s", "client_s", "server_s"), NUMBER),
    **dict.fromkeys(("ruined", "wrong", "inexact", "overflow", "beyond_guard"), NUMBER),
}
FRIENDLY: dict[str, Shape] = {
    "layers": OBJECTS,
    "one_plan": OBJECT,
    "kappa": OBJECTS,
    "tolerance": NUMBER,
    "levels": NUMBER,
    **dict.fromkeys(("name", "task", "softmax", "forward", "split", "rows"), (lambda v: isinstance(v, str), "a text")),
    "samples": NUMBER,
}


def check_result(path: Path, result: Json) -> None:
    """UserError where a field of a result file is of another shape than this project writes it in."""
    for field, shape in {**RUN, **(EVALUATION if result.get("kind") in KINDS else {})}.items():
        outer, _, inner = field.rpartition(".")
        within = result.get(outer) if outer else result
        value = (within or {}).get(inner)
        if value is not None:
            _check(path, field, value, shape)
    for layer in result.get("layers") or [] if result.get("kind") in KINDS else []:
        if layer.get("heads") is not None:
            _check(path, "layers.heads", layer["heads"], OBJECT)


def check_lines(path: Path, lines: list[Json]) -> None:
    """UserError where a line of metrics is no object."""
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, dict):
            raise UserError(f"{path} needs an object in each line, and line {number} has {line!r:.40}")


def check_plan(path: Path, plan: JsonValue) -> None:
    """UserError where a plan is no object."""
    if not isinstance(plan, dict):
        raise UserError(f"{path} needs to hold an object, and holds a {type(plan).__name__}")


def check_friendly(path: Path, report: JsonValue) -> None:
    """UserError where a report of friendliness lacks a field that its page shows, or has it in another shape."""
    check_plan(path, report)
    if missing := [field for field in FRIENDLY if field not in report]:
        raise UserError(f"{path} is to be of scripts/friendly.py, and lacks {', '.join(missing)}")
    for field, shape in FRIENDLY.items():
        _check(path, field, report[field], shape)


def _check(path: Path, field: str, value: JsonValue, shape: Shape) -> None:
    holds, words = shape
    if not holds(value):
        raise UserError(f"{path} needs {words} as '{field}', and has {value!r:.40}")
