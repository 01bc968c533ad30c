"""What softmaxes cost under CKKS: seconds on one matrix, depths and operations; as tables and as plots."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cgf.errors import UserError
from cgf.operations import KINDS, TITLES
from cgf.report.columns import Column, Entry, interval, median_and_range, or_dash, or_none, terminal, yes_or_no
from cgf.report.figure import new_figure, png
from cgf.report.own_figures import check_seconds
from cgf.results import read_json, write_bytes
from cgf.types import Json

CIRCUITS = {  # key in results/bench/softmax.json -> title
    "cho": "Cho et al. 2024 (normalize and square)",
    "paper_from_the_top": "Algorithm 1, from the engine's top level",
    "paper": "Algorithm 1, encrypted at the level it needs",
    "paper_smallest_ring": "Algorithm 1, smallest ring",
    "ours": "ours: chain of 6 squarings",
}


def _operation(kind: str, title: str | None = None) -> Column:
    return Column(title or TITLES[kind], lambda e: or_dash(e["ops"][kind]))


SECONDS = (
    Column("circuit", itemgetter("title")),
    Column("slots", lambda e: f"{e['ring_slots']:,}"),
    Column("levels", lambda e: str(e["levels_counted"])),
    _operation("cmult"),
    _operation("rotate"),
    Column("key switches", lambda e: str(e["ops"]["relinearize"] + e["ops"]["rotate"])),
    _operation("boot"),
    Column("seconds (range)", lambda e: median_and_range(e["seconds"])),
    Column("times ours", lambda e: f"{e['times_ours']:.1f}"),
    Column("max error", lambda e: f"{e['max_error']:.1e}"),
    Column("eta", lambda e: f"{e['eta']:.1e}"),
    Column("peak MiB", lambda e: f"{e['peak_mib']:,.0f}"),
)


def _spent(kind: str) -> Column:
    return Column(TITLES[kind], lambda e: median_and_range(e["seconds"]["by_operation"][kind]))


BY_OPERATION = (
    Column("circuit", itemgetter("title")),
    *map(_spent, KINDS),
    Column("total", lambda e: median_and_range(e["seconds"])),
)


def _as_published(entry: Entry) -> str:
    """Whether the paper's table says the same of maximum, division and adaptivity; empty where it says nothing."""
    stated = entry["published_traits"]
    same = stated is not None and tuple(stated) == (entry["maximum"], entry["division"], entry["adaptive"])
    return "" if stated is None else "yes" if same else "NO"


DEPTHS = (
    Column("softmax", itemgetter("method")),
    Column("maximum", itemgetter("maximum")),
    Column("division", lambda e: yes_or_no(e["division"])),
    Column("adaptive", lambda e: yes_or_no(e["adaptive"])),
    Column("as in the paper", _as_published, detail=True),
    Column("levels", lambda e: str(e["levels"])),
    Column("published", lambda e: or_dash(e["published_levels"])),
    _operation("cmult"),
    _operation("rotate"),
    _operation("boot"),
    Column("ct", lambda e: str(e["ciphertexts"]), detail=True),
    Column("domain", lambda e: interval(e["domain"])),
    Column("error bound", lambda e: or_none(e["error_bound"], ".0e")),
)


def read(folder: Path) -> Json:
    """results/bench/softmax.json; UserError where it is not there, or a median in it is not that of its runs."""
    path = folder / "bench" / "softmax.json"
    if not path.is_file():
        raise UserError(f"the table needs {path}, and it is not there")
    result = read_json(path)
    check_seconds(path, result)
    return result


def circuits(result: Json) -> list[Entry]:
    """The measured circuits of results/bench/softmax.json, each with its title and its time in units of ours."""
    ours = result["ours"]["seconds"]["median"]
    measured = [(title, result[key]) for key, title in CIRCUITS.items() if result.get(key)]
    return [{**row, "title": title, "times_ours": row["seconds"]["median"] / ours} for title, row in measured]


def print_softmax(result: Json) -> None:
    """Both tables of the matrix (operations summed over workers, totals by the clock), and the ratios."""
    console, measured = Console(width=200), circuits(result)
    console.print(terminal(SECONDS, measured))
    console.print(terminal(BY_OPERATION, measured, "seconds by operation"))
    for key, value in result.items():
        if key.startswith(("ratio_", "us_per", "workers")):
            print(f"{key}: {value if isinstance(value, dict) else round(value, 2)}")


def draw_softmax(result: Json, path: Path) -> None:
    """Left: seconds by the clock, logarithmic. Right: which share of the work each operation has."""
    names = [name for name in CIRCUITS if result.get(name)]
    figure, (clock, work) = new_figure(0.6 * len(names) + 1.4, 2, share_y=True)
    totals = [result[name]["seconds"]["median"] for name in names]
    clock.barh(names, totals, color="0.6")
    for i, total in enumerate(totals):
        clock.text(total, i, f" {total:.2f} s", va="center")
    clock.set(xscale="log", xlim=(min(totals) / 3, max(totals) * 4), xlabel="seconds by the clock")
    spent = [[result[name]["seconds"]["by_operation"][kind]["median"] for kind in KINDS] for name in names]
    left = [0.0] * len(names)
    for column, kind in enumerate(KINDS):
        widths = [row[column] / (sum(row) or 1.0) for row in spent]
        work.barh(names, widths, left=left, label=kind)
        left = [x + y for x, y in zip(left, widths, strict=True)]
    work.set_xlabel("share of the seconds that operations took")
    figure.legend(loc="outside lower center", ncols=len(KINDS), fontsize=8)
    write_bytes(path, png(figure))


def print_complexity(result: Json) -> None:
    """Methods (the paper's Table 1 with counts), formulas beside counts by k, and the depth column."""
    console = Console(width=170)
    console.print(terminal(DEPTHS, result["methods"], f"{result['rows']} x {result['columns']} in 2^15 slots"))
    console.print(_by_k(result["by_k"]))
    console.print(_paper_k(result["paper_k"]))
    for note in result["notes"]:
        print(f"- {note}")


def _by_k(entries: Iterable[Entry]) -> Table:
    """Counted, and in brackets the paper's formula."""
    kinds = ("levels", "cmult", "rotate", "boot")

    def count(name: str, kind: str) -> Column:
        def cell(entry: Entry) -> str:
            counts = {"levels": entry[name]["levels"], **entry[name]["ops"]}
            return f"{counts[kind]} ({entry[name]['formula'][kind]})"

        return Column(f"{name} {kind}", cell)

    columns = (
        Column("k", lambda e: str(e["k"])),
        *(count("cgf", kind) for kind in kinds),
        Column("error", lambda e: f"{e['cgf']['max_error']:.0e}"),
        *(count("cho", kind) for kind in kinds),
        Column("bound", lambda e: f"{e['cho']['max_error']:.0e}"),
        Column("ours levels", lambda e: str(e["ours"]["levels"])),
        Column("cmult", lambda e: str(e["ours"]["ops"]["cmult"])),
        Column("rotate", lambda e: str(e["ours"]["ops"]["rotate"])),
        Column("error", lambda e: f"{e['ours']['max_error']:.0e}"),
    )
    title = "one ciphertext of whole rows: counted (the paper's formula); on [-8 2^k, 0], Cho [-4 2^k, 0]"
    return terminal(columns, entries, title)


def _paper_k(entries: Iterable[Entry]) -> Table:
    columns = (
        Column("model", itemgetter("model")),
        Column("k (Chebyshev, limit)", lambda e: str(e["k"])),
        Column("levels", lambda e: str(e["levels"])),
        Column("least", lambda e: str(e["least"])),
    )
    return terminal(columns, entries)


def draw_depths(result: Json, path: Path) -> None:
    """Levels of every method, counted, on a logarithmic axis; published ones as marks."""
    methods = sorted(result["methods"], key=lambda entry: -entry["levels"])
    figure, (axes,) = new_figure(0.35 * len(methods) + 1.2)
    axes.barh([entry["method"] for entry in methods], [entry["levels"] for entry in methods])
    for i, entry in enumerate(methods):
        axes.text(entry["levels"], i, f" {entry['levels']}", va="center")
        for stated in _numbers(entry["published_levels"]):
            axes.plot(stated, i, "|", color="tab:orange", markersize=13, markeredgewidth=2)
    axes.set(xscale="log", xlim=(1, 2 * max(entry["levels"] for entry in methods)))
    axes.set_xlabel(f"levels without a bootstrap, rows of {result['columns']} (orange: as published, elsewhere)")
    write_bytes(path, png(figure))


def _numbers(stated: int | str | None) -> list[int]:
    """30 -> [30], '22 / 26 / 30' -> all three, '7 to 10' -> both ends, None -> nothing."""
    return [] if stated is None else [int(word) for word in str(stated).split() if word.isdigit()]
