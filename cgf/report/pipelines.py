"""The two ways to CGF-softmax of the paper: adapters from the base model on, and distillation from a teacher."""

from __future__ import annotations

from pathlib import Path

from cgf.report.comparison import told
from cgf.report.training import ends_told, groups, read_results
from cgf.stats.labels import Comparison

POINTS = "points [95 %]"
TITLES = ["host", "task", "seeds", "pipeline", "exact softmax", "CGF-softmax", POINTS, "levels", "epochs (best)"]
PIPELINES = (
    ("SFT, then KD", "exact", "cgf"),
    ("LoRA SFT", "exact_lora", "lora"),
)  # name, runs of exact softmax and of CGF-softmax
SCALED = (
    ("SFT, then KD, scaled queries", "exact", "cgf_tempered"),
    ("LoRA SFT, scaled queries", "exact_lora", "lora_tempered"),
)  # beside them, where they have the same seeds


def lines(folder: Path) -> list[list[str]]:
    """Two lines for each host and task that has rows of both, over the seeds that all four runs share.

    A line with scaled queries follows where all of those seeds have it.
    """
    results, compared = read_results(folder), list[Comparison | None]()
    names = {run for _, *both in PIPELINES for run in both}
    table = []
    for host, task in sorted({(r["host"], r["task"]) for r in results}):
        here = [r for r in results if (r["host"], r["task"]) == (host, task)]
        seeds = set.intersection(*({r["seed"] for r in here if r["run"] == name} for name in names))
        by = {g["run"]: g for g in groups([r for r in here if r["seed"] in seeds])}
        for pipeline, _, cgf in (*PIPELINES, *SCALED) if seeds else ():
            group = by.get(cgf)
            if group is None or set(group["seeds"]) != seeds:
                continue
            compared.append(group["exact"])
            table.append(
                [
                    host,
                    task,
                    ", ".join(map(str, group["seeds"])),
                    pipeline,
                    # the exact softmax that was trained beside it: a later training of another row is none of its pair
                    f"{100 * group['accuracy'] - group['points']:.2f} %",
                    f"{100 * group['accuracy']:.2f} %",
                    "–" if group["levels"] is None else " to ".join(str(n) for n in dict.fromkeys(group["levels"])),
                    f"{ends_told(group['epochs'])} ({', '.join(f'{e:g}' for e in group['best_epochs'])})",
                ]
            )
    place = TITLES.index(POINTS)
    return [[*line[:place], words, *line[place:]] for line, words in zip(table, told(compared), strict=True)]
