"""Checks of what a person gives: each returns what it was given, or says in one sentence what is needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import TypeGuard

from cgf.errors import UserError
from cgf.types import JsonValue

Interval = tuple[float, float]


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number; true and false, which Python counts as 1 and 0, are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def whole(name: str, value: JsonValue, least: int, most: int | None = None) -> int:
    """The value as a whole number from least to most (None: no end); UserError for anything else."""
    counts = isinstance(value, Integral) and not isinstance(value, bool)
    if not counts or value < least or (most is not None and value > most):
        reach = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise UserError(f"{name} must be a whole number {reach}, and {value!r} was given")
    return int(value)


def positive(name: str, value: JsonValue) -> float:
    """The value as a finite number above 0; UserError for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and value > 0):
        raise UserError(f"{name} must be positive, and is {value}")
    return value


def share(name: str, value: JsonValue, of: str) -> float:
    """The value as a share from 0 to below 1; UserError for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise UserError(f"{name} is a share of {of}, from 0 to below 1, and {value} was given")
    return value


def interval(name: str, value: JsonValue) -> Interval:
    """The value as (lo, hi), two finite floats, lo below hi; UserError for anything else."""
    try:
        lo, hi = (float(end) for end in value)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be two numbers [lo, hi], and is {value!r}") from None
    if not (math.isfinite(lo) and math.isfinite(hi) and lo < hi):
        raise UserError(f"{name} needs finite lo < hi, and is [{lo}, {hi}]")
    return lo, hi


def one_of(name: str, value: object, known: Sequence[str]) -> str:
    """The value, where it is one of the known names; UserError for any other."""
    if value not in known:
        raise UserError(f"{name} must be one of {', '.join(known)}, and {value!r} was given")
    return str(value)


def path_part(name: str, value: object) -> str:
    """The value as one name in a path, with no folder in it and none above it; UserError for anything else."""
    text = str(value)
    if text in ("", ".", "..") or any(mark in text for mark in "/\\\0"):
        raise UserError(f"{name} becomes part of a path: it must be one name without '/', and {text!r} was given")
    return text
