"""Single figures within a sentence of a document, each read from the files under results/.

A document holds ``<!-- value: NAME ARGUMENTS -->figure<!-- end -->`` within a line. Six names are known:

    points HOST TASK RUN [OTHER]   by how many points the mean accuracy of a run of training over its seeds lies below
                                   that of OTHER on these seeds; without OTHER below exact softmax, as the rows have it
    seeds HOST TASK RUN            how many seeds a run of training has
    levels HOST TASK RUN           '5' or '5 to 6': the levels that its seeds take, the fewest and the most
    file PATH KEY FORMAT [FACTOR]  what a JSON file under results/ says at a dotted key, in a format of Python's
    range PATH KEY FORMAT          '0.9 to 1.1': the smallest and the largest number there, where parts of the key are *
    text PATH KEY                  the words that a JSON file under results/ has at a dotted key

A part of a dotted key is a name, within a list a place from 0, and in a range * for every element of a list.
"""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean

from cgf.errors import UserError
from cgf.report.comparison import alike
from cgf.results import read_json
from cgf.types import JsonValue

VALUE = re.compile(r"(<!-- value: ([^<>]+?) -->)[^<>]*(<!-- end -->)")


def with_values(text: str, folder: Path) -> str:
    """The document with every figure made anew from the results in ``folder``; UserError as of ``value``."""
    return VALUE.sub(lambda match: f"{match[1]}{value(match[2].split(), folder)}{match[3]}", text)


def value(asked: list[str], folder: Path) -> str:
    """The figure that a mark asks for. UserError for another name or arguments, and results that are not there."""
    match asked:
        case ["points", host, task, run]:
            return points(folder, (host, task, run), None)
        case ["points", host, task, run, other]:
            return points(folder, (host, task, run), other)
        case ["seeds", host, task, run]:
            return f"{len(_seeds(folder, (host, task, run)))}"
        case ["levels", host, task, run]:
            return levels(folder, (host, task, run))
        case ["file", path, key, form]:
            return of_file(folder / path, key, form, 1.0)
        case ["file", path, key, form, factor]:
            return of_file(folder / path, key, form, float(factor))
        case ["range", path, key, form]:
            return range_of_file(folder / path, key, form)
        case ["text", path, key]:
            return text_of_file(folder / path, key)
        case _:
            raise UserError(
                "a value is points HOST TASK RUN [OTHER], seeds or levels HOST TASK RUN, file PATH KEY FORMAT "
                f"[FACTOR], range PATH KEY FORMAT or text PATH KEY, and the document asks for '{' '.join(asked)}'"
            )


def points(folder: Path, row: tuple[str, str, str], other: str | None) -> str:
    """'2.9': mean over the seeds of a row of training, in points below exact softmax or the row ``other``."""
    own = _seeds(folder, row)
    if other is None:
        return f"{100 * fmean(one['accuracy_exact'] - one['accuracy'] for one in own.values()):.1f}"
    beside = _seeds(folder, (*row[:2], other))
    if not own.keys() <= beside.keys():
        raise UserError(
            f"{'-'.join(row)} is compared on its seeds {sorted(own)}, and {other} has {sorted(beside)} alone"
        )
    if apart := [seed for seed in own if not alike(own[seed], beside[seed])]:
        raise UserError(
            f"{'-'.join(row)} and {other} need one teacher and one exact student a seed, and have two on seed "
            f"{apart[0]}"
        )
    return f"{100 * fmean(beside[seed]['accuracy'] - own[seed]['accuracy'] for seed in own):.1f}"


def levels(folder: Path, row: tuple[str, str, str]) -> str:
    """'5 to 6': the fewest and the most levels that a run's seeds take; UserError for a seed that counts none."""
    every = _seeds(folder, row)
    counts = [own["total_levels"] for own in every.values()]
    if None in counts:
        raise UserError(f"{'-'.join(row)} has seeds without levels, and a document asks for them")
    low, high = int(min(counts)), int(max(counts))
    return f"{low}" if low == high else f"{low} to {high}"


def _seeds(folder: Path, row: tuple[str, str, str]) -> dict[int, dict[str, float]]:
    name = "-".join(row)
    paths = sorted(path for path in (folder / "train").glob(f"{name}-*.json") if path.stem[len(name) + 1 :].isdigit())
    results = [read_json(path) for path in paths]
    if not results:
        raise UserError(f"a value needs rows of training of {name}, and {folder / 'train'} has none")
    return {int(one["seed"]): one for one in results}


def of_file(path: Path, key: str, form: str, factor: float) -> str:
    """What a JSON file says at a dotted key, times a factor, in a format such as ``,.0f``."""
    return _formatted(_number(path, key, _at(path, key)) * factor, form)


def range_of_file(path: Path, key: str, form: str) -> str:
    """The smallest and the largest number at a dotted key whose parts ``*`` stand for every element of a list.

    One figure where the format leaves no difference. UserError for a key without ``*``, and for one that finds nothing.
    """
    if "*" not in key.split("."):
        raise UserError(f"a range is over the elements of a list, a * in its key, and a document asks for {key}")
    numbers = [_number(path, key, one) for one in _every(read_json(path), key.split("."), path, key)]
    if not numbers:
        raise UserError(f"{path} has an empty list at {key}, which a document asks for")
    low, high = _formatted(min(numbers), form), _formatted(max(numbers), form)
    return low if low == high else f"{low} to {high}"


def _formatted(number: float, form: str) -> str:
    try:
        return format(float(number), form)
    except ValueError as error:
        raise UserError(f"a value needs a format for a float, such as ,.0f, and a document has {form}") from error


def _number(path: Path, key: str, value: JsonValue) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UserError(f"{path} must have a number at {key}, and has {value!r}")
    return value


def text_of_file(path: Path, key: str) -> str:
    """The words that a JSON file has at a dotted key."""
    value = _at(path, key)
    if not isinstance(value, str):
        raise UserError(f"{path} must have words at {key}, and has {value!r}")
    return value


def _at(path: Path, key: str) -> JsonValue:
    """The value at a dotted key without ``*``."""
    value: JsonValue = read_json(path)
    for part in key.split("."):
        value = _step(value, part, path, key)
    return value


def _every(value: JsonValue, parts: list[str], path: Path, key: str) -> list[JsonValue]:
    """What stands at the rest of a key below ``value``, in order."""
    if not parts:
        return [value]
    if parts[0] == "*" and isinstance(value, list):
        return [found for one in value for found in _every(one, parts[1:], path, key)]
    return _every(_step(value, parts[0], path, key), parts[1:], path, key)


def _step(value: JsonValue, part: str, path: Path, key: str) -> JsonValue:
    if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
        return value[int(part)]
    if isinstance(value, dict) and part in value:
        return value[part]
    raise UserError(f"{path} has no {key}, which a document asks for")
