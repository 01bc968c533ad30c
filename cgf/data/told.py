"""What a person is told of the data before training starts: rows by class, lengths, and what is unusual."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from cgf.data.task import LabelledItems, Task
from cgf.errors import inert

SHOWN = 12  # classes with their counts; of more the largest and the smallest


def told(task: Task, sets: Mapping[str, LabelledItems], max_length: int | None = None) -> list[str]:
    """Lines on the splits in ``sets`` (datasets of ``task``): counts by class, and lengths where they are texts.

    max_length: where texts are cut; those of that length, cut or not, are counted.
    """
    lines = []
    for split, data in sets.items():
        count = Counter(data.labels)
        of = [(name, count.get(i, 0)) for i, name in enumerate(task.class_names)]
        if len(of) > SHOWN:
            of.sort(key=lambda pair: -pair[1])
            shown = f"{len(of)} classes of {of[0][1]} ({of[0][0]}) down to {of[-1][1]} ({of[-1][0]})"
        else:
            shown = ", ".join(f"{name} {number}" for name, number in of)
        lines.append(f"{task.name} {split}: {len(data)} samples: {shown}{_lengths(data, max_length)}")
        if split == "train" and (empty := [name for name, number in of if not number]):
            lines.append(f"{task.name} train: no sample of {', '.join(empty[:5])}{', ...' if empty[5:] else ''}")
    if alike := near(task.class_names):
        lines.append(f"{task.name}: {', '.join(map(ascii, alike))} are classes of their own, and nearly the same name")
    return [inert(line) for line in [*lines, *(f"{task.name}: {note}" for note in task.notes())]]


def near(names: Sequence[str]) -> list[str]:
    """The first names that differ in case, blanks, the form of a letter or how a number is written alone; or none."""
    same: dict[object, list[str]] = {}
    for name in names:
        same.setdefault(_plain(name), []).append(name)
    return next((group for group in same.values() if len(group) > 1), [])


def _plain(name: str) -> object:
    text = "".join(unicodedata.normalize("NFKC", name).casefold().split())
    try:
        return number if math.isfinite(number := float(text)) else text
    except ValueError:
        return text


def _lengths(data: LabelledItems, max_length: int | None) -> str:
    lengths = getattr(data, "lengths", None)
    if not lengths:
        return ""
    cut = (
        ""
        if max_length is None
        else f", {sum(n >= max_length for n in lengths)} of them as long as a text may be ({max_length})"
    )
    return f"; {min(lengths)} to {max(lengths)} tokens, {median(lengths):g} in the middle{cut}"
