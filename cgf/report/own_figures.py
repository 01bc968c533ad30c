"""Figures of a result file beside what the file, or its predictions, keep beneath them: one that differs is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np

from cgf.errors import UserError
from cgf.predictions import EncryptedPredictions
from cgf.types import Json, JsonValue

SAME = 1e-9  # two shares of the same samples, or two orders of one sum, differ by less


def check_encrypted(path: Path, result: Json, kept: EncryptedPredictions) -> None:
    """UserError where a result under CKKS has another share than its predictions; a field that it lacks is passed."""
    whole = kept.ruined == 0
    shares = {
        "accuracy": kept.right(),
        "accuracy_plain": kept.plain == kept.labels,
        "accuracy_exact": kept.exact == kept.labels,
        "agreement": (kept.encrypted == kept.plain) & whole,
        "agreement_exact": (kept.encrypted == kept.exact) & whole,
    }
    _check_count(path, result, len(kept.labels))
    for field, same in shares.items():
        if field in result:
            _check(path, field, result[field], float(same.mean()), "its predictions have")


def check_clear(path: Path, result: Json) -> None:
    """UserError where a result in the clear that lists its predictions has another accuracy, or another count."""
    if "predictions" not in result:
        return
    predictions, labels = result["predictions"], result.get("labels")
    if not isinstance(labels, list) or not isinstance(predictions, list) or len(labels) != len(predictions):
        raise UserError(f"{path} lists predictions, and needs a label for each of them")
    right = np.array(predictions) == np.array(labels)
    _check_count(path, result, len(labels))
    _check(path, "accuracy", result["accuracy"], float(right.mean()), "its predictions have")
    if "correct" in result:
        _check(path, "correct", result["correct"], int(right.sum()), "its predictions have")


def check_row(path: Path, row: Json) -> None:
    """UserError where a row of training has another accuracy, or other counts of right answers, than its evaluations.

    ``accuracy`` and ``paired`` are held against ``evaluation``, and those with a plan against ``evaluation_planned``.
    """
    for end in ("", "_planned"):
        within = f"evaluation{end}"
        if (evaluation := row.get(within)) is None:
            continue
        if row.get(f"accuracy{end}") is not None:
            _check(path, f"accuracy{end}", row[f"accuracy{end}"], evaluation["accuracy"], f"its {within} has")
        if "samples" not in evaluation or "correct" not in evaluation:
            continue
        share = evaluation["correct"] / evaluation["samples"]
        _check(path, f"{within}.accuracy", evaluation["accuracy"], share, f"its {within}.correct has")
        if row.get(f"paired{end}") is not None:
            paired = row[f"paired{end}"]
            right = paired["both"] + paired["this_alone"]
            _check(path, f"paired{end}", right, evaluation["correct"], f"its {within} has", " right answers")
            _check(path, f"paired{end}", sum(paired.values()), evaluation["samples"], f"its {within} has", " samples")


def check_seconds(path: Path, content: Json) -> None:
    """UserError where a median or a range of seconds is not that of the runs beside it, or a ratio not that of medians.

    A ratio ``ratio_NAME`` is the median of NAME in units of the one of ``ours``.
    """
    for field, seconds in _timed(content):
        runs = seconds["runs"]
        for key, value in {"median": median(runs), "low": min(runs), "high": max(runs)}.items():
            _check(path, f"{field}.{key}", seconds.get(key), value, "its runs have")
    for field in content:
        name = field.removeprefix("ratio_")
        if name != field and name in content:
            ratio = content[name]["seconds"]["median"] / content["ours"]["seconds"]["median"]
            _check(path, field, content[field], ratio, "its medians have")


def _timed(content: JsonValue, place: str = "") -> Iterator[tuple[str, Json]]:
    """Each dict of seconds that lists its runs, with the dotted name of its place."""
    if not isinstance(content, dict):
        return
    if isinstance(content.get("runs"), list) and "median" in content:
        yield place, content
    for key, value in content.items():
        yield from _timed(value, f"{place}.{key}" if place else str(key))


def _check_count(path: Path, result: Json, count: int) -> None:
    if "samples" in result:
        _check(path, "samples", result["samples"], count, "its predictions have")


def _check(path: Path, field: str, said: JsonValue, found: float, whose: str, what: str = "") -> None:
    if not isinstance(said, int | float) or not abs(said - found) <= SAME * max(1.0, abs(found)):
        raise UserError(f"{path} says {field} {said}{what}, and {whose} {found}{what}")
