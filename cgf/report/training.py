"""Result rows of training (results/train/*.json): one line a host, task and run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cgf.errors import UserError
from cgf.former import current_row
from cgf.results import read_json

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
    "command",
    "commit",
    "dirty",
)
TITLES = [
    "host",
    "task",
    "softmax",
    "levels",
    "seeds",
    "accuracy",
    "points against exact",
    "right alone / exact alone",
    "points against BPMax",
    "with its polynomial",
    "epochs (best)",
    "trials",
]
REFERENCE = "exact"  # the run that rows are compared with, unless their study says another
NOT_RUN = "not run here: needs weights and data"
PAPER = (
    ("LLaMA-3.2-1B", "clinc150, banking77, sst2", "llama_{exact,cgf,cgf_low,bpmax,lora} task=TASK"),
    ("ViT-Base", "imagenet1k", "vit_{exact,cgf,cgf_low,bpmax} model=vit_base"),
    ("DeiT-Base", "imagenet1k", "vit_{exact,cgf,cgf_low,bpmax} model=deit_base"),
    ("ViT-Tiny", "imagenet1k", "vit_{exact,cgf,cgf_low,bpmax} model=vit_tiny"),
    ("DeiT-Tiny", "imagenet1k", "vit_{exact,cgf,cgf_low,bpmax} model=deit_tiny"),
)  # the paper's own rows and their configurations under configs/experiment


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows in a results folder, by file name. UserError for one that lacks a field or came from a changed tree."""
    rows = []
    for path in sorted((folder / "train").glob("*.json")):
        row = current_row(read_json(path), path)
        if missing := [key for key in NEEDED if not isinstance(row, dict) or key not in row]:
            raise UserError(f"{path} is to be a row of training, and lacks {', '.join(missing)}")
        if row["dirty"]:
            raise UserError(f"{path} must come from a clean tree to be shown, and its tree was changed: train it anew")
        rows.append(row)
    if not rows:
        raise UserError(f"{folder / 'train'} holds no row of training: python scripts/rows.py host=digits")
    return rows


def groups(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry a host, task and run over its seeds; the reference first, then by accuracy.

    points are means of 100 (accuracy - other), over the seeds that both have; alone are sums over the seeds.
    """
    by: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        by.setdefault((row["host"], row["task"], row["run"]), []).append(row)
    entries = [_entry(seeds, rivals(seeds[0], by)) for seeds in by.values()]
    return sorted(entries, key=lambda g: (g["host"], g["task"], g["run"] != REFERENCE, -g["accuracy"], g["run"]))


def _entry(seeds: list[dict[str, Any]], others: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """The entry of one run from its rows, one a seed, and those of the runs that it stands against."""
    first, apart = seeds[0], _apart(seeds, others)
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
        "against_yardstick": 100 * _mean(apart) if apart else None,
        "planned": _mean(planned) if planned else None,
        "epochs": max(r["epochs"] for r in seeds),
        "best_epochs": [r["best_epoch"] for r in sorted(seeds, key=lambda r: r["seed"])],
        "trials": max(1, max(len(r.get("trials") or []) for r in seeds)),
    }


def rivals(row: dict[str, Any], by: dict[tuple[str, str, str], list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """The rows of each run that a row stands against: the yardsticks of its host and task that are trained as it is.

    None for a yardstick itself, nor where no yardstick was tuned so, or left untrained.
    """
    if row["yardstick"]:
        return []
    alike = ("host", "task", "tuning", "trained")
    return [rows for rows in by.values() if rows[0]["yardstick"] and all(rows[0][key] == row[key] for key in alike)]


def _apart(rows: list[dict[str, Any]], others: list[list[dict[str, Any]]]) -> list[float]:
    """Differences of accuracy by seed from the yardstick that shares most seeds, of those the most accurate one."""
    by_seed = [{r["seed"]: r["accuracy"] for r in other} for other in others]
    seeds = {r["seed"] for r in rows}
    best = max(by_seed, key=lambda p: (len(seeds & set(p)), _mean([*p.values()])), default={})
    return [r["accuracy"] - best[r["seed"]] for r in rows if r["seed"] in best]


def lines(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The cells of the table under TITLES; the paper's own rows, which were not run, come last."""
    cells = []
    for g in groups(rows):
        exact = g["run"] == REFERENCE
        spread = f" ({100 * g['least']:.2f} to {100 * g['most']:.2f})" if len(g["seeds"]) > 1 else ""
        cells.append(
            [
                g["host"],
                g["task"],
                g["run"],
                _levels(g["levels"]),
                ", ".join(map(str, g["seeds"])),
                f"{100 * g['accuracy']:.2f} %{spread}",
                "–" if exact else _points(g),
                "–" if exact else f"{g['alone'][0]} / {g['alone'][1]}",
                _against(g["against_yardstick"]),
                "–" if g["planned"] is None else f"{100 * g['planned']:.2f} %",
                f"{g['epochs']} ({', '.join(f'{e:g}' for e in g['best_epochs'])})",
                str(g["trials"]),
            ]
        )
    blank = ["–"] * (len(TITLES) - 4)
    return cells + [[host, task, f"`experiment={names}`", NOT_RUN, *blank] for host, task, names in PAPER]


def _points(group: dict[str, Any]) -> str:
    """Points against exact softmax; a row that is further below than it is to stay says so."""
    within = group["within"]
    beyond = within is not None and group["points"] < -within
    return f"{group['points']:+.2f}" + (f", not within {within:g}" if beyond else "")


def _against(points: float | None) -> str:
    """Points against the yardstick, and whether they are above it; a dash where it stands against none."""
    return "–" if points is None else f"{points:+.2f}, {'above' if points > 0 else 'not above'}"


def _levels(levels: list[int] | None) -> str:
    if levels is None:
        return "–"
    return str(levels[0]) if len(levels) == 1 else f"{levels[0]} to {levels[-1]}"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
