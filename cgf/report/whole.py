"""Whole test sets under CKKS: the table of results/he/*.json, the published times beside, accuracy against cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cgf.errors import UserError
from cgf.report.figure import colours, new_figure, png
from cgf.results import read_json

# microseconds a score entry of one softmax under CKKS, from publications: seconds, entries, what on
PUBLISHED = (
    ("CGF-softmax paper, 256 x 256 on [-128, 0]", 3.25, 256 * 256, "8 threads"),
    ("Cho et al. 2024 as the CGF-softmax paper ran it", 107.65, 256 * 256, "8 threads"),
    ("Cho et al. 2024, 8,192 rows of 256", 486.0, 8192 * 256, "one thread"),
    ("THOR, 256 rows of 128", 3.70, 256 * 128, "A100"),
)  # fmt: skip
TITLES = ["host", "task", "softmax", "exponential", "samples", "under CKKS", "in the clear", "as trained",
          "exact", "agreement", "levels", "max error", "beyond guard", "minutes", "samples/s", "µs an entry", "workers",
          "peak MiB"]  # fmt: skip


def results(folder: Path) -> list[dict[str, Any]]:
    found = [read_json(path) for path in sorted((folder / "he").glob("*.json"))]
    if not found:
        raise UserError(f"{folder / 'he'} holds no evaluations: python eval_he.py ckpt=RUN he.samples=null out=...")
    return found


def lines(folder: Path) -> list[list[str]]:
    """A line a result, in the order of TITLES; then the published ones, which have a time alone."""
    table = [[
        r["model"], r["task"], r["softmax"], exponential(r), f"{r['samples']:,}", _per_cent(r["accuracy"]),
        _per_cent(r["accuracy_plain"]), _per_cent(r["accuracy_exact"]), _exact(folder, r), f"{r['agreement']:.4f}",
        str(r["levels"]),
        f"{r['max_error']:.1e}", _or_dash(r["beyond_guard"]),
        f"{r['seconds']['total'] / 60:.1f}", f"{r['samples_per_s']:.2f}",
        f"{r['us_per_entry']:.1f}", str(r["workers"]), f"{r['peak_mib']:,.0f}",
    ] for r in results(folder)]  # fmt: skip
    for title, seconds, entries, machine in PUBLISHED:
        line = [f"*{title} (published, {machine})*", *["–"] * (len(TITLES) - 1)]
        line[TITLES.index("µs an entry")] = f"{1e6 * seconds / entries:.1f}"
        table.append(line)
    return table


def _exact(folder: Path, result: dict[str, Any]) -> str:
    """Accuracy of exact softmax, distilled from the same teacher in as many epochs: results/he/exact."""
    path = folder / "he" / "exact" / f"{result['model']}-{result['task']}.json"
    return _per_cent(read_json(path)["accuracy"]) if path.is_file() else "–"


def exponential(result: dict[str, Any]) -> str:
    """Method and squarings of what stood in for exp; the softmax as it is where nothing did."""
    fitted = result["polynomial"]
    if fitted is None:
        return "–"
    one = fitted[0] if isinstance(fitted, list) else fitted
    own = ", a layer" if isinstance(fitted, list) else ""
    return f"{result['approx']}, k={one['k']}{own}" if one.get("k") is not None else f"{result['approx']}{own}"


def draw(folder: Path) -> bytes:
    """PNG: accuracy under CKKS against microseconds an entry, with the levels at each point."""
    found = results(folder)
    sets = sorted({(r["model"], r["task"]) for r in found})
    figure, (ax,) = new_figure(4.0)
    for (model, task), colour in zip(sets, colours(len(sets)), strict=True):
        own = [r for r in found if (r["model"], r["task"]) == (model, task)]
        ax.scatter([r["us_per_entry"] for r in own], [100 * r["accuracy"] for r in own], color=colour,
                   label=f"{model}, {task}")
        for r in own:
            ax.annotate(f"{r['softmax']} {exponential(r)}, {r['levels']} levels",
                        (r["us_per_entry"], 100 * r["accuracy"]), xytext=(5, 4), textcoords="offset points", fontsize=7)
    ax.set(xscale="log", xlabel="µs a score entry, encryption included", ylabel="accuracy under CKKS (%)")
    ax.legend(fontsize=8)
    return png(figure)


def _per_cent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _or_dash(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"
