"""The noise figure on the terminal and as a plot."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

from cgf.report.figure import new_figure, png
from cgf.results import write_bytes
from cgf.types import Json

NAMES = {"paper": "CGF, the paper's circuit", "ours": "CGF, ours"}


def print_noise(result: Json) -> None:
    """Every circuit on every engine: its errors, those of its polynomials alone, and the noise between the two."""
    console = Console(width=150)
    for engine in result["engines"]:
        table = Table(
            "softmax",
            "levels",
            "slots",
            "largest error",
            "mean",
            "eta",
            "polynomials alone: largest",
            "mean",
            "noise: largest",
            "mean",
            title=f"{engine['engine']}: {engine['inputs']}",
        )
        for name, row in _results(engine):
            alone, noise = row["polynomials"], row["noise"]
            errors = (
                row["max_error"],
                row["mean_error"],
                row["eta"],
                alone["max_error"],
                alone["mean_error"],
                noise["max_error"],
                noise["mean_error"],
            )
            table.add_row(name, str(row["levels"]), str(row["ring_slots"]), *(f"{e:.2e}" for e in errors))
        console.print(table)
        library = engine["authors_setting"]["library"]
        for what, values in (("uniform", "[-1, 1]"), ("sixteenth", "1/16")):
            error = library[f"square_{what}"]
            print(
                f"    one square of {values} in {library['slots']} slots: error {error['max_error']:.1e} at most, "
                f"{error['mean_error']:.1e} on average"
            )
    seeds, stated = result["polynomial_by_seed"], result["published"]
    print(
        f"published: {stated['cgf_depth_7']:.2e} at depth 7; mean error {stated['authors_mean_error']:.4e} in the "
        f"authors' setting, where their polynomial alone, in float64, leaves {seeds['mean']:.4e} "
        f"({seeds['least']:.3e} to {seeds['most']:.3e} over {seeds['seeds']} seeds)"
    )


def _results(engine: Json) -> list[tuple[str, Json]]:
    return [
        *((f"standard, {row['iterations']} iterations", row) for row in engine["standard"]),
        *((NAMES[name], row) for name, row in engine["cgf"].items()),
        ("CGF, authors' setting (256 x 256, k = 2)", engine["authors_setting"]),
    ]


def draw_noise(result: Json, path: Path) -> None:
    """Largest error by depth, a panel an engine: standard softmax, CGF, and lines of the usual number formats."""
    engines = result["engines"]
    figure, panels = new_figure(4.6, len(engines), share_y=True)
    for axes, engine in zip(panels, engines, strict=True):
        _panel(axes, engine, result)
    panels[0].set_ylabel("largest error against the plaintext definition")
    panels[0].legend(fontsize=8, loc="upper right", bbox_to_anchor=(1.0, 0.85))
    figure.suptitle(engines[0]["inputs"], fontsize=10)
    write_bytes(path, png(figure))


def _panel(axes: Axes, engine: Json, result: Json) -> None:
    standard = engine["standard"]
    depths = [row["levels"] for row in standard]
    axes.semilogy(depths, [row["max_error"] for row in standard], "o-", label="standard softmax")
    axes.semilogy(
        depths,
        [row["polynomials"]["max_error"] for row in standard],
        ":",
        color="tab:blue",
        label="... in float64, without noise",
    )
    for (name, row), style, colour in zip(engine["cgf"].items(), ("s", "D"), ("tab:orange", "tab:green"), strict=True):
        axes.semilogy([row["levels"]], [row["max_error"]], style, color=colour, label=NAMES[name])
        axes.semilogy([row["levels"]], [row["polynomials"]["max_error"]], "_", color=colour, markersize=14)
    lines = {**result["precisions"], "paper, depth 7": result["published"]["cgf_depth_7"]}
    axes.set_xlim(min(depths) - 0.6, max(depths) + 0.6)
    for name, value in lines.items():
        axes.axhline(value, color="k", lw=0.6, ls="--" if "paper" in name else ":")
        axes.text(max(depths) + 0.5, value, name, va="bottom", ha="right", fontsize=8)
    axes.set_xlabel("levels (a bar under a square or diamond: without noise)")
    axes.set_title(engine["engine"], fontsize=10)
