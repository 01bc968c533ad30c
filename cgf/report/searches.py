"""What was searched: a line for each search of settings, and accuracy on validation over a whole grid of two axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cgf.errors import UserError
from cgf.report.columns import NONE, grid
from cgf.results import read_lines
from cgf.search_file import finished, trained
from cgf.types import Json

WHOLE = "_whole"  # how the name of a grid ends that is trained whole, and from which no row takes settings
TITLES = ["host", "task", "grid", "configurations", "rounds", "trials", "ran off", "best on validation", "its settings"]


def table(folder: Path) -> str:
    """A line a search below ``folder``/search; UserError where there is none."""
    return grid(TITLES, [_line(path) for path in _files(folder) if not path.stem.endswith(WHOLE)])


def _files(folder: Path) -> list[Path]:
    files = sorted((folder / "search").glob("*.jsonl"))
    if not files:
        raise UserError(f"the table needs searches in {folder / 'search'}, and it has none: python scripts/search.py")
    return files


def _line(path: Path) -> list[str]:
    """One search: how much of its budget was trained, and what it found; a dash while its last round lacks a trial."""
    head, *trials = read_lines(path)
    drawn = len(head["drawn"])
    own = trained(trials)
    wanted = sum(min(count, drawn) for count, _ in head["rounds"]) - (len(trials) - len(own))
    found = finished(path)
    best, settings = NONE, NONE
    if found is not None:
        best = f"{100 * found[0]['validation']:.2f} %"
        settings = "`" + " ".join(option for option in found[0]["options"] if option not in _shared(trials)) + "`"
    off = sum(trial["validation"] is None for trial in own)
    return [
        head["host"],
        head["task"],
        head["grid"],
        f"{head['size']:,}",
        ", ".join(f"{min(count, drawn)} x {'full' if epochs is None else epochs}" for count, epochs in head["rounds"]),
        f"{len(own)} of {wanted}",
        str(off),
        best,
        settings,
    ]


def _shared(trials: Sequence[Json]) -> set[str]:
    return set.intersection(*(set(trial["options"]) for trial in trials))


def whole_grids(folder: Path) -> str:
    """Accuracy on validation for every p (a line) and c (a column) of the grids that were trained whole; the best of a
    grid is bold. UserError where a grid has other axes, or was trained in part or for other epochs."""
    files = [path for path in _files(folder) if path.stem.endswith(WHOLE)]
    heads = [read_lines(path)[0] for path in files]
    columns = sorted({value for head in heads for value in _axes(head)[1]})
    lines = [line for path, head in zip(files, heads, strict=True) for line in _grid_lines(path, head, columns)]
    return grid(["host", "softmax", "p", *(f"c = {value:g}" for value in columns)], lines)


def _axes(head: Json) -> tuple[list[float], list[float]]:
    axes = head["axes"]
    if set(axes) != {"softmax.p", "softmax.c"} or head["factors"]:
        raise UserError(f"a whole grid has p and c alone, and {head['grid']} has {', '.join(axes)}")
    if len(head["drawn"]) != head["size"] or [epochs for _, epochs in head["rounds"]] != [None]:
        raise UserError(
            f"a whole grid is one round of all its configurations at full length, rounds=[[{head['size']},null]], and "
            f"{head['grid']} of {head['host']} has {head['rounds']}"
        )
    return axes["softmax.p"], axes["softmax.c"]


def _grid_lines(path: Path, head: Json, columns: list[float]) -> list[list[str]]:
    trials = {_place(trial): trial["validation"] for trial in read_lines(path)[1:]}
    most = max((value for value in trials.values() if value is not None), default=None)

    def cell(p: float, c: float) -> str:
        if (p, c) not in trials:
            return NONE
        value = trials[p, c]
        if value is None:
            return "ran off"
        shown = f"{100 * value:.1f}"
        return f"**{shown}**" if value == most else shown

    softmax = head["grid"].removesuffix(WHOLE)
    return [[head["host"], f"`{softmax}`", f"{p:g}", *(cell(p, c) for c in columns)] for p in _axes(head)[0]]


def _place(trial: Json) -> tuple[float, float]:
    given = dict(option.split("=", 1) for option in trial["options"])
    return float(given["softmax.p"]), float(given["softmax.c"])
