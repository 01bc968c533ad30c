"""Whole test sets under CKKS: the table of results/he/*.json, the published times beside, accuracy against cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cgf.errors import UserError
from cgf.predictions import read_encrypted
from cgf.published import RUNTIMES
from cgf.report import parameters
from cgf.report.clean import clean
from cgf.report.comparison import KEPT, told
from cgf.report.figure import colours, new_figure, png
from cgf.report.own_figures import check_clear, check_encrypted
from cgf.report.red import reasons
from cgf.results import read_json
from cgf.stats.intervals import wilson
from cgf.stats.labels import Comparison, compare
from cgf.types import Json, JsonValue

TITLES = [
    "host",
    "task",
    "softmax",
    "exponential",
    "samples",
    "under CKKS",
    "in the clear",
    "as trained",
    "exact",
    "against exact",
    "agreement",
    "levels",
    "128 bits",
    "max error",
    "beyond guard",
    "minutes",
    "samples/s",
    "µs an entry",
    "workers",
    "peak MiB",
]
NAMED_BEFORE = {"minilm-clinc150-cgf_chain": "minilm-clinc150"}  # result -> its exact one, in the register by that name


def results(folder: Path) -> list[Json]:
    """The result files, each with its name; UserError where there are none."""
    files = [read(path) for path in sorted((folder / "he").glob("*.json"))]
    if not files:
        raise UserError(f"{folder / 'he'} holds no evaluations: python eval_he.py ckpt=RUN he.samples=null out=...")
    return files


def read(path: Path) -> Json:
    """A result with its name, the host that this begins with and, where it has them, its predictions.

    UserError where the predictions are not its own, or have another accuracy or agreement than it says.
    """
    result = {**clean(path), "file": path.stem}
    host, between, _ = path.stem.partition(f"-{result['task']}-")
    result["host"] = host if between else result["model"]
    kept = read_encrypted(path.parent, path.stem, result["predictions"]) if "predictions" in result else None
    if kept is not None:
        check_encrypted(path, result, kept)
    return {**result, KEPT: kept}


def against_exact(folder: Path, result: Json) -> Comparison | None:
    """A result under CKKS against exact softmax, of one seed; None where no result of exact softmax is there.

    Samples are paired where both kept their predictions. UserError where those are of other samples.
    """
    exact, kept = exact_result(folder, result), result[KEPT]
    if exact is None:
        return None
    right = None
    if kept is not None and "predictions" in exact:
        if exact["labels"] != kept.labels.tolist():
            raise UserError(f"{result['file']} and its exact softmax need the same samples in one order, and differ")
        right = [(kept.right(), np.array(exact["predictions"]) == kept.labels)]
    return compare([(result["accuracy"], exact["accuracy"])], result["samples"], right)


def lines(folder: Path) -> list[list[str]]:
    """A line a result, in the order of TITLES; then the published ones, which have a time alone."""
    files = results(folder)
    against = told([against_exact(folder, r) for r in files])
    table = [
        [
            r["host"],
            r["task"],
            softmax_of(r),
            exponential(r),
            f"{r['samples']:,}",
            _per_cent(r["accuracy"]) + _interval(r) + (" (red)" if reasons(r) else ""),
            _per_cent(r["accuracy_plain"]),
            _per_cent(r["accuracy_exact"]),
            _exact(folder, r),
            compared,
            f"{r['agreement']:.4f}",
            str(r["levels"]),
            parameters.met(folder, r),
            f"{r['max_error']:.1e}",
            _or_dash(r["beyond_guard"]),
            f"{r['seconds']['total'] / 60:.1f}",
            f"{r['samples_per_s']:.2f}",
            f"{r['us_per_entry']:.1f}",
            str(r["workers"]),
            f"{r['peak_mib']:,.0f}",
        ]
        for r, compared in zip(files, against, strict=True)
    ]
    for published in RUNTIMES:
        line = [f"*{published.title} (published, {published.machine})*", *["–"] * (len(TITLES) - 1)]
        line[TITLES.index("µs an entry")] = f"{published.us_per_entry:.1f}"
        table.append(line)
    return table


def softmax_of(result: Json) -> str:
    """Name of the softmax; where the file's own says more (cgf_untrained), that."""
    rest = result["file"].removeprefix(f"{result['host']}-{result['task']}-")
    return rest if rest.startswith(f"{result['softmax']}_") else result["softmax"]


def _interval(result: Json) -> str:
    """95 % interval of an accuracy over test samples (Wilson), in per cent."""
    low, high = wilson(round(result["accuracy"] * result["samples"]), result["samples"])
    return f" [{100 * low:.2f}, {100 * high:.2f}]"


def exact_result(folder: Path, result: Json) -> Json | None:
    """The evaluation of exact softmax, distilled from the same teacher in as many epochs; None where there is no file.

    It lies in results/he/exact, by the name of the result: that of another one would be of another teacher. UserError
    where its accuracy is not that of the predictions that it lists.
    """
    name = NAMED_BEFORE.get(result["file"], result["file"])
    path = folder / "he" / "exact" / f"{name}.json"
    if not path.is_file():
        return None
    exact = read_json(path)
    check_clear(path, exact)
    return exact


def _exact(folder: Path, result: Json) -> str:
    exact = exact_result(folder, result)
    return "–" if exact is None else _per_cent(exact["accuracy"])


def exponential(result: Json) -> str:
    """Method and squarings of what stood in for exp; the softmax as it is where nothing did."""
    fitted = result["polynomial"]
    if fitted is None:
        return "–"
    several = isinstance(fitted, list)
    a_layer, ks = ", a layer" if several else "", [one.get("k") for one in (fitted if several else [fitted])]
    if None in ks:
        return f"{result['approx']}{a_layer}"
    span = str(min(ks)) if min(ks) == max(ks) else f"{min(ks)} to {max(ks)}"
    return f"{result['approx']}, k={span}{a_layer}"


def draw(folder: Path) -> bytes:
    """PNG: accuracy under CKKS against microseconds an entry, a panel a host and task with several results, and one
    for all the others; exact softmax of as many epochs as a line, red results as crosses."""
    files = results(folder)
    of: dict[tuple[str, str], list[Json]] = {}
    for r in files:
        of.setdefault((r["host"], r["task"]), []).append(r)
    panels = [(f"{host}, {task}", own) for (host, task), own in of.items() if len(own) > 1]
    if rest := [r for own in of.values() if len(own) == 1 for r in own]:
        panels.append(("one result each", rest))
    figure, axes = new_figure(4.6, len(panels))
    for ax, (title, own) in zip(axes, panels, strict=True):
        for r, colour in zip(own, colours(len(own)), strict=True):
            name = f"{r['host']}, {r['task']}: " if own is rest else ""
            ax.scatter(
                r["us_per_entry"],
                100 * r["accuracy"],
                color=colour,
                marker="x" if reasons(r) else "o",
                label=f"{name}{softmax_of(r)} {exponential(r)}, {r['levels']} levels"
                + (" (red)" if reasons(r) else ""),
            )
        if own is not rest:
            for exact in sorted({_exact(folder, r) for r in own} - {"–"}):
                ax.axhline(float(exact.removesuffix(" %")), color="0.3", ls="--", lw=1, label=f"exact softmax {exact}")
        ax.set(
            xlim=(0, 1.1 * max(r["us_per_entry"] for r in own)),
            xlabel="µs a score entry, encryption included",
            ylabel="accuracy under CKKS (%)",
        )
        ax.set_title(title, fontsize=10)
        ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return png(figure, shown(folder))


def shown(folder: Path) -> list[JsonValue]:
    """All that the figure shows (``figure.is_current``)."""
    keys = ("host", "task", "levels", "us_per_entry", "accuracy")
    return [
        [*(r[k] for k in keys), softmax_of(r), exponential(r), _exact(folder, r), bool(reasons(r))]
        for r in results(folder)
    ]


def _per_cent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _or_dash(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"
