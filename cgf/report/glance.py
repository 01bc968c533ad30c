"""Training at a glance: what the table of training says of a few softmaxes, a line for each host and task."""

from __future__ import annotations

from pathlib import Path

from cgf.report.columns import grid
from cgf.report.comparison import STAR, Verdict
from cgf.report.training import REFERENCE, judged_groups, levels_told, read_results
from cgf.types import Json

OURS = ("cgf", "cgf_tempered")
RUNS = (*OURS, "bpmax", "bpmax_calibrated")
TITLES = ["host", "task", "seeds", "exact softmax", *(f"`{run}`" for run in RUNS)]
BESIDE_BPMAX = ["host", "task", *(f"`{run}` against BPMax" for run in OURS)]
# by run: its entry, what is said of it against exact softmax, and against BPMax
Found = dict[str, tuple[Json, Verdict | None, Verdict | None]]


def against_exact(folder: Path) -> str:
    """A markdown table: a line for each host and task that has rows of exact softmax, a column for each of RUNS.

    Labels, marks and intervals are those of the table of training, whose correction they have. Parentheses hold the
    levels and, of a run with fewer seeds than exact softmax, their number. UserError where the folder has no row of
    training.
    """
    return grid(TITLES, [_line(*names, runs) for names, runs in _by_set(folder).items() if REFERENCE in runs])


def against_bpmax(folder: Path) -> str:
    """The same for OURS against the form of BPMax that the table of training compares them with.

    Sets on which neither is compared with BPMax have no line.
    """
    lines = []
    for (host, task), runs in _by_set(folder).items():
        verdicts = [runs[run][2] if run in runs else None for run in OURS]
        if any(verdicts):
            lines.append([host, task, *("–" if v is None else v.brief() for v in verdicts)])
    return grid(BESIDE_BPMAX, lines)


def starred(folder: Path) -> str:
    """The labels of CGF-softmax's runs that hold after Holm's correction over the table of training, in a list of
    words; 'none' where none does."""
    found = []
    for entry, exact, bpmax in judged_groups(read_results(folder)):
        if entry["run"].startswith(OURS[0]):
            where = f"`{entry['run']}` of {entry['host']} on {entry['task']}"
            for verdict, other in ((exact, "exact softmax"), (bpmax, "BPMax")):
                labels = [] if verdict is None else [label for label in verdict.labels if STAR in label]
                found += [f"{where} is `{label.partition(STAR)[0]}` against {other}" for label in labels]
    return ", ".join(found) or "none"


def _by_set(folder: Path) -> dict[tuple[str, str], Found]:
    by: dict[tuple[str, str], Found] = {}
    for found in judged_groups(read_results(folder)):
        entry = found[0]
        by.setdefault((entry["host"], entry["task"]), {})[entry["run"]] = found
    return by


def _line(host: str, task: str, runs: Found) -> list[str]:
    exact = runs[REFERENCE][0]
    seeds = len(exact["seeds"])
    return [host, task, str(seeds), f"{100 * exact['accuracy']:.2f} %", *(_cell(runs, run, seeds) for run in RUNS)]


def _cell(runs: Found, run: str, seeds: int) -> str:
    if run not in runs or (against := runs[run][1]) is None:
        return "–"
    own = len(runs[run][0]["seeds"])
    fewer = "" if own == seeds else f", {own} seed{'s' if own != 1 else ''}"
    return f"{against.brief()} ({levels_told(runs[run][0]['levels'])}{fewer})"
