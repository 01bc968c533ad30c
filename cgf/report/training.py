"""Result rows of training (results/train/*.json): one line a host, task and run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cgf.errors import UserError
from cgf.former import current_row
from cgf.openings import FIRST, Register
from cgf.report.columns import grid
from cgf.report.comparison import (
    KEPT,
    Result,
    Verdict,
    accuracy_interval,
    against_exact,
    against_run,
    in_words,
    judged,
    kept,
    paired_by_beginnings,
    red_of,
)
from cgf.report.own_figures import check_row
from cgf.results import read_json
from cgf.types import Json

NEEDED = (
    "host",
    "task",
    "softmax",
    "run",
    "tuning",
    "tempered",
    "trained",
    "yardstick",
    "within",
    "seed",
    "accuracy",
    "accuracy_exact",
    "validation",
    "epochs",
    "best_epoch",
    "train_s",
    "total_levels",
    "paired",
    "trials",
    "all_trials",
    "predictions",
    "command",
    "commit",
    "dirty",
)
OPENED = "_opened"  # of a result that was read: its lines in the register of openings
TITLES = [
    "host",
    "task",
    "softmax",
    "levels",
    "seeds",
    "accuracy [95 %]",
    "points against exact [95 %]",
    "right alone / exact alone",
    "points against BPMax [95 %]",
    "with its polynomial",
    "epochs (best)",
    "trials",
    "opened",
]
DIGITS = 9  # to which two means over seeds are equal, whatever order they were summed in
REFERENCE = "exact"  # the run that rows are compared with, unless their study says another
NOT_RUN = "not run here: needs weights and data"
PAPER = (
    ("LLaMA-3.2-1B", "clinc150, banking77, sst2", "llama_{exact,cgf,cgf_low,bpmax,lora} task=TASK"),
    ("ViT-Base", "imagenet1k", "vit_{exact,cgf,cgf_low,bpmax} model=vit_base"),
    ("DeiT-Base", "imagenet1k", "vit_{exact,cgf,cgf_low,bpmax} model=deit_base"),
    ("ViT-Tiny", "imagenet1k", "vit_{exact,cgf,cgf_low,bpmax} model=vit_tiny"),
    ("DeiT-Tiny", "imagenet1k", "vit_{exact,cgf,cgf_low,bpmax} model=deit_tiny"),
)  # the paper's own rows and their configurations under configs/experiment


def read_results(folder: Path) -> list[Result]:
    """The results in a results folder, by file name, with their predictions and their openings.

    UserError for one that lacks a field, has another row's name, came from a changed tree, has other figures than its
    own evaluations, or whose predictions are not those it was made with.
    """
    results, opened = [], openings(folder)
    for path in sorted((folder / "train").glob("*.json")):
        result = current_row(read_json(path), path)
        if missing := [key for key in NEEDED if not isinstance(result, dict) or key not in result]:
            raise UserError(f"{path} is to be a row of training, and lacks {', '.join(missing)}")
        if path.stem != (named := f"{result['host']}-{result['task']}-{result['run']}-{result['seed']}"):
            raise UserError(
                f"{path} holds the row {named}, which belongs into a file of that name: a copy would count twice"
            )
        if result["dirty"]:
            raise UserError(f"{path} must come from a clean tree to be shown, and its tree was changed: train it anew")
        check_row(path, result)
        results.append({**result, KEPT: kept(result, path), OPENED: opened.get(f"train/{path.stem}", [])})
    if not results:
        raise UserError(f"{folder / 'train'} holds no row of training: python scripts/rows.py host=digits")
    return results


def openings(folder: Path) -> dict[str, list[Json]]:
    """Lines of the register in a results folder, by the row that they name."""
    by: dict[str, list[Json]] = {}
    for line in Register(folder / "opened.jsonl").lines():
        by.setdefault(line["row"], []).append(line)
    return by


def groups(results: list[Result]) -> list[Json]:
    """One entry a host, task and run over its seeds; the reference first, then by accuracy.

    points are means of 100 (accuracy - other), over the seeds that both have; alone are sums over the seeds. exact and
    yardstick are what was tested of both differences (cgf.stats); ends those of the accuracy's interval, in per cent.
    evaluation and evaluation_planned, ' (red)', are there where those of a seed are not to be believed.
    """
    by: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        by.setdefault((result["host"], result["task"], result["run"]), []).append(result)
    entries = [_entry(seeds, rivals(seeds[0], by)) for seeds in by.values()]
    return sorted(entries, key=lambda g: (g["host"], g["task"], g["run"] != REFERENCE, -g["accuracy"], g["run"]))


def _entry(seeds: list[Result], others: list[list[Result]]) -> Json:
    """The entry of one run from its results, one a seed, and those of the runs that it stands against."""
    first, rival = seeds[0], _closest(seeds, others)
    apart = None if rival is None else against_run(seeds, rival)
    levels = {r["total_levels"] for r in seeds}
    planned = [r["accuracy_planned"] for r in seeds if r.get("accuracy_planned") is not None]
    accuracies = [r["accuracy"] for r in seeds]
    return {
        **{key: first[key] for key in ("host", "task", "run", "softmax", "within")},
        "seeds": sorted(r["seed"] for r in seeds),
        "levels": None if None in levels else sorted(levels),
        "accuracy": _mean(accuracies),
        "least": min(accuracies),
        "most": max(accuracies),
        "points": 100 * _mean([r["accuracy"] - r["accuracy_exact"] for r in seeds]),
        "alone": [sum(r["paired"][k] for r in seeds) for k in ("this_alone", "exact_alone")],
        "against_yardstick": None if apart is None else apart.points,
        "exact": against_exact(seeds),
        "yardstick": apart,
        "ends": accuracy_interval(seeds),
        "planned": _mean(planned) if planned else None,
        "epochs": sorted({r["epochs"] for r in seeds}),
        "best_epochs": [r["best_epoch"] for r in sorted(seeds, key=lambda r: r["seed"])],
        "trials": max(r["trials"] for r in seeds),
        "all_trials": all(r["all_trials"] for r in seeds),
        "opened": [line for r in seeds for line in r[OPENED]],
        **{name: " (red)" for name in ("evaluation", "evaluation_planned") if red_of(seeds, name)},
    }


def rivals(result: Result, by: dict[tuple[str, str, str], list[Result]]) -> list[list[Result]]:
    """The results of each run that one stands against: the yardsticks of its host and task that are trained as it is.

    None for a yardstick itself, nor where no yardstick was tuned so, or left untrained.
    """
    if result["yardstick"]:
        return []
    alike = ("host", "task", "tuning", "trained")
    return [
        results
        for results in by.values()
        if results[0]["yardstick"]
        and all(results[0][key] == result[key] for key in alike)
        and _taught(results[0]) == _taught(result)
    ]


def _taught(result: Result) -> tuple[str, float, float, float]:
    """The run that a row learnt from, the weights of its hidden states and attentions, and the rate of drop path.

    Rows of before, and those that had no teacher, count as taught by the study's own.
    """
    config = (result.get("made") or {}).get("config", {})
    model, distill = config.get("model", {}), config.get("distill", {})
    matched = distill.get("hidden", 0.0), distill.get("attention", 0.0)
    return result.get("teacher") or "teacher", *matched, model.get("drop_path", 0.0)


def _closest(results: list[Result], others: list[list[Result]]) -> list[Result] | None:
    """Results of the yardstick that shares most seeds and beginnings, of those the best on validation there.

    Of equals the first by name, which is the paper's own form. None where none shares any.
    """

    def rank(other: list[Result]) -> tuple[int, float]:
        shared = [r["validation"] for _, r in paired_by_beginnings(results, other)]
        return len(shared), round(_mean(shared), DIGITS) if shared else 0.0

    by_name = sorted(others, key=lambda other: other[0]["run"])
    best = max(by_name, key=rank, default=None)
    return best if best is not None and rank(best)[0] else None


def judged_groups(results: list[Result]) -> list[tuple[Json, Verdict | None, Verdict | None]]:
    """The entries of ``groups``, each with what the table says of it against exact softmax and against BPMax.

    Holm's correction is one over all that the table compares.
    """
    entries = groups(results)
    exact = [None if g["run"] == REFERENCE else g["exact"] for g in entries]
    # a row of BPMax against exact softmax and exact softmax against it are one question, which the former asks
    both = judged([*exact, *(None if g["run"] == REFERENCE else g["yardstick"] for g in entries)])
    return list(zip(entries, both[: len(entries)], both[len(entries) :], strict=True))


def lines(results: list[Result]) -> list[list[str]]:
    """The cells of the table under TITLES; the paper's own rows, which were not run, come last."""
    cells, reasons = [], again(results)
    for g, against, apart in judged_groups(results):
        spread = f" ({100 * g['least']:.2f} to {100 * g['most']:.2f})" if len(g["seeds"]) > 1 else ""
        cells.append(
            [
                g["host"],
                g["task"],
                g["run"],
                levels_told(g["levels"]),
                ", ".join(map(str, g["seeds"])),
                f"{100 * g['accuracy']:.2f} %{spread} [{g['ends'][0]:.2f}, {g['ends'][1]:.2f}]"
                + g.get("evaluation", ""),
                in_words(against),
                "–" if g["run"] == REFERENCE else f"{g['alone'][0]} / {g['alone'][1]}",
                in_words(apart),
                "–" if g["planned"] is None else f"{100 * g['planned']:.2f} %{g.get('evaluation_planned', '')}",
                f"{ends_told(g['epochs'])} ({', '.join(f'{e:g}' for e in g['best_epochs'])})",
                ("" if g["all_trials"] else "at least ") + str(g["trials"]),
                _opened(g["opened"], reasons),
            ]
        )
    blank = ["–"] * (len(TITLES) - 4)
    return cells + [[host, task, f"`experiment={names}`", NOT_RUN, *blank] for host, task, names in PAPER]


def again(results: list[Result]) -> list[str]:
    """The reasons for which test figures of the table's rows were opened once more, in the order of the table."""
    return list(
        dict.fromkeys(line["reason"] for g in groups(results) for line in g["opened"] if line["reason"] != FIRST)
    )


def block(results: list[Result]) -> str:
    """The table as markdown, below it a line for each reason of a second opening, by the number that its rows show."""
    notes = [f"- ({number}) {reason}" for number, reason in enumerate(again(results), start=1)]
    return "\n".join([grid(TITLES, lines(results)), *(["", "Opened once more:", "", *notes] if notes else [])])


def _opened(lines: list[Json], reasons: list[str]) -> str:
    """Days on which the test figures of a run were opened, and the numbers of the reasons for more than one time."""
    days = sorted({line["date"] for line in lines})
    numbers = sorted({reasons.index(line["reason"]) + 1 for line in lines if line["reason"] != FIRST})
    shown = days[0] + (f" to {days[-1]}" if len(days) > 1 else "") if days else "not registered"
    return shown + "".join(f" ({number})" for number in numbers)


def levels_told(levels: list[int] | None) -> str:
    """Levels of a run over its seeds, least to most; a dash where they are not known."""
    return "–" if levels is None else ends_told(levels)


def ends_told(numbers: Sequence[float]) -> str:
    """Least and most of numbers in order, or the one that there is."""
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
