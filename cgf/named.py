"""What a file names is looked up in a table, and what it gives is checked: no file says what code runs."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Union, get_args, get_origin, get_type_hints

from cgf.errors import UserError, inert
from cgf.types import Json, JsonValue

RESERVED = ("_target_", "_args_", "_partial_", "_recursive_", "_convert_")  # what Hydra reads as code to call
LONGEST = 2**16  # entries of a list or an object, letters of a text
DEEPEST = 16


def plain(value: object, where: str, depth: int = 0) -> None:
    """UserError unless value is made of JSON's own values: finite numbers, texts, lists, objects with texts for keys.

    A key that Hydra would read as code to call is refused wherever it stands, and so is what is too long or too deep.
    """
    if depth > DEEPEST:
        raise UserError(f"{where} may be {DEEPEST} levels deep at most, and is deeper")
    if isinstance(value, Mapping | list | tuple | str) and len(value) > LONGEST:
        raise UserError(f"{where} may have {LONGEST} entries at most, and has {len(value)}")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in RESERVED:
                raise UserError(f"{where} holds '{key}', which names code to run: only plain values are read there")
            if not isinstance(key, str):
                raise UserError(f"{where} must have texts for keys, and has {short(key)}")
            plain(item, f"{where}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            plain(item, f"{where}[{index}]", depth + 1)
    elif not isinstance(value, str | int | float | None) or (isinstance(value, float) and not math.isfinite(value)):
        raise UserError(f"{where} must be a plain value, and is {short(value)}")


def arguments(call: Callable[..., object], given: Mapping[str, JsonValue], what: str) -> Json:
    """``given`` as keyword arguments of ``call``, a dataclass or a function, each of the type declared there.

    what: what is built, for the message. UserError for a name that it does not take, a value of another type, and
    whatever is no plain value.
    """
    plain(given, what)
    if not isinstance(given, Mapping):
        raise UserError(f"{what} must be an object, and is {short(given)}")
    taken = inspect.signature(call).parameters
    if unknown := sorted(set(given) - set(taken)):
        raise UserError(f"{what} has no setting '{unknown[0]}': there are {', '.join(taken)}")
    written = {name: taken[name].annotation for name in given}
    types = get_type_hints(type("Given", (), {"__annotations__": written}), globals())
    for name, value in given.items():
        if not fits(value, types[name]):
            raise UserError(f"'{name}' of {what} must be {_spelt(written[name])}, and is {short(value)}")
    if missing := [p.name for p in taken.values() if p.default is p.empty and p.name not in given]:
        raise UserError(f"{what} needs '{missing[0]}', and it is not given")
    return dict(given)


def fits(value: JsonValue, hint: object) -> bool:
    """Whether a plain value is of a declared type; a whole number is a number too, and a list may be a tuple."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is JsonValue:
        return True
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in inner)
    if origin in (list, tuple):
        return isinstance(value, list | tuple) and all(fits(item, inner[0]) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(fits(item, inner[1]) for item in value.values())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    assert hint in (str, bool, NoneType), hint
    return isinstance(value, hint)


def short(value: object) -> str:
    """A value's repr of at most 80 letters, for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def listed(names: Sequence[str]) -> str:
    """Names for a message, at most twelve of at most 40 letters each; 'none' where there are none."""
    few = [name if len(name) <= 40 else f"{name[:37]}..." for name in names[:12]]
    more = [f"{len(names) - len(few)} more"] if len(names) > len(few) else []
    return inert(", ".join(few + more)) or "none"


def _spelt(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    for ours, theirs in (
        ("collections.abc.", ""),
        ("typing.", ""),
        ("None", "null"),
        ("JsonValue", "value"),
        ("Json", "object"),
    ):
        text = text.replace(ours, theirs)
    return text
