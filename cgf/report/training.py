"""Result rows of training (results/train/*.json): one line a host, task and softmax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cgf.errors import UserError
from cgf.results import read_json

NEEDED = (
    "host",
    "task",
    "softmax",
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
CGF = ("cgf", "cgf_attention", "cgf_tempered", "cgf_tempered_attention", "cgf_tempered_hidden", "lora", "lora_tempered")
WITHIN = 0.5  # points below exact softmax that CGF-softmax is to stay within
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
    found = []
    for path in sorted((folder / "train").glob("*.json")):
        row = read_json(path)
        if missing := [key for key in NEEDED if not isinstance(row, dict) or key not in row]:
            raise UserError(f"{path} is to be a row of training, and lacks {', '.join(missing)}")
        if row["dirty"]:
            raise UserError(f"{path} must come from a clean tree to be shown, and its tree was changed: train it anew")
        found.append(row)
    if not found:
        raise UserError(f"{folder / 'train'} holds no row of training: python scripts/rows.py host=digits")
    return found


def groups(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry a host, task and softmax over its seeds; the exact one first, then by accuracy.

    points are means of 100 (accuracy - other), over the seeds that both have; alone are sums over the seeds.
    """
    by: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        by.setdefault((row["host"], row["task"], row["softmax"]), []).append(row)
    found = []
    for (host, task, softmax), own in by.items():
        apart = _apart(own, [by.get((host, task, name), []) for name in rivals(softmax)])
        levels = {r["total_levels"] for r in own}
        planned = [r["accuracy_planned"] for r in own if r.get("accuracy_planned") is not None]
        accuracies = [r["accuracy"] for r in own]
        found.append(
            {
                "host": host,
                "task": task,
                "softmax": softmax,
                "seeds": sorted(r["seed"] for r in own),
                "levels": None if None in levels else sorted(levels),
                "accuracy": _mean(accuracies),
                "least": min(accuracies),
                "most": max(accuracies),
                "points": 100 * _mean([r["accuracy"] - r["accuracy_exact"] for r in own]),
                "alone": [sum(r["paired"][k] for r in own) for k in ("this_alone", "exact_alone")],
                "against_bpmax": 100 * _mean(apart) if apart else None,
                "planned": _mean(planned) if planned else None,
                "epochs": max(r["epochs"] for r in own),
                "best_epochs": [r["best_epoch"] for r in sorted(own, key=lambda r: r["seed"])],
                "trials": max(1, max(len(r.get("trials") or []) for r in own)),
            }
        )
    return sorted(found, key=lambda g: (g["host"], g["task"], g["softmax"] != "exact", -g["accuracy"], g["softmax"]))


def rivals(softmax: str) -> tuple[str, ...]:
    """The forms of BPMax that a row stands against: as it was trained itself, in its attention alone or as a whole.

    None for BPMax itself, nor for adapters and what was not trained at all, since BPMax was not trained so.
    """
    if softmax.startswith("bpmax") or "lora" in softmax or "untrained" in softmax:
        return ()
    return ("bpmax_attention",) if softmax.endswith("_attention") else ("bpmax", "bpmax_calibrated", "bpmax_tempered")


def _apart(own: list[dict[str, Any]], others: list[list[dict[str, Any]]]) -> list[float]:
    """Differences of accuracy by seed from the form of BPMax that shares most seeds, of those the most accurate one."""
    known = [{r["seed"]: r["accuracy"] for r in other} for other in others]
    best = max(known, key=lambda p: (len({r["seed"] for r in own} & set(p)), _mean([*p.values()] or [0.0])), default={})
    return [r["accuracy"] - best[r["seed"]] for r in own if r["seed"] in best]


def lines(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The cells of the table under TITLES; the paper's own rows, which were not run, come last."""
    cells = []
    for g in groups(rows):
        exact = g["softmax"] == "exact"
        spread = f" ({100 * g['least']:.2f} to {100 * g['most']:.2f})" if len(g["seeds"]) > 1 else ""
        cells.append(
            [
                g["host"],
                g["task"],
                g["softmax"],
                _levels(g["levels"]),
                ", ".join(map(str, g["seeds"])),
                f"{100 * g['accuracy']:.2f} %{spread}",
                "–" if exact else _points(g),
                "–" if exact else f"{g['alone'][0]} / {g['alone'][1]}",
                "–" if g["against_bpmax"] is None else f"{g['against_bpmax']:+.2f}{_above(g['against_bpmax'])}",
                "–" if g["planned"] is None else f"{100 * g['planned']:.2f} %",
                f"{g['epochs']} ({', '.join(f'{e:g}' for e in g['best_epochs'])})",
                str(g["trials"]),
            ]
        )
    blank = ["–"] * (len(TITLES) - 4)
    return cells + [[host, task, f"`experiment={names}`", NOT_RUN, *blank] for host, task, names in PAPER]


def _points(group: dict[str, Any]) -> str:
    """Points against exact softmax; a row of CGF-softmax that is further below than WITHIN says so."""
    beyond = group["softmax"] in CGF and group["points"] < -WITHIN
    return f"{group['points']:+.2f}" + (f", not within {WITHIN:g}" if beyond else "")


def _above(points: float) -> str:
    return ", above" if points > 0 else ", not above"


def _levels(levels: list[int] | None) -> str:
    if levels is None:
        return "–"
    return str(levels[0]) if len(levels) == 1 else f"{levels[0]} to {levels[-1]}"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
