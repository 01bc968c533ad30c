"""How well each class is predicted, under the name that the user's own data gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

SHOWN = 12  # classes told in full; of more the ones predicted worst


def by_class(names: Sequence[str], pairs: Iterable[tuple[int, int | None]]) -> dict[str, dict[str, int]]:
    """{class: {samples, correct}} of (label, prediction), in the order of the classes; None is a wrong prediction."""
    counts = {name: {"samples": 0, "correct": 0} for name in names}
    for label, prediction in pairs:
        counts[names[label]]["samples"] += 1
        counts[names[label]]["correct"] += label == prediction
    return counts


def worded(counts: Mapping[str, Mapping[str, int]]) -> str:
    """One line: the correct samples of each class; of many classes those that are predicted worst."""
    there = [(name, of["correct"], of["samples"]) for name, of in counts.items() if of["samples"]]
    many = len(there) > SHOWN
    if many:
        there = sorted(there, key=lambda each: each[1] / each[2])[:5]
    return ("worst classes: " if many else "by class: ") + ", ".join(f"{n} {ok} of {all_}" for n, ok, all_ in there)
