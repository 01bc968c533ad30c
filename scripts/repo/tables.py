"""Writes tables, lists and plots of README and docs/ from results/: scripts/repo/tables.py (--check: none stale?)"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import yaml

from cgf.bench.alternatives import choices, training_results, with_accuracies
from cgf.config import built
from cgf.ending import refusals
from cgf.errors import UserError
from cgf.report import alternatives, depth, depth_plot, epochs, frontier, glance, opened, prose, whole
from cgf.report.blocks import filled
from cgf.report.figure import is_current
from cgf.report.training import read_results
from cgf.report.training_plot import PLOT, plot, shown
from cgf.results import plain_json, read_json, write_json, write_text
from cgf.softmax.base import Softmax
from cgf.softmax.load import DEFINITIONS
from cgf.types import Json

ROOT = Path(__file__).resolve().parents[2]
BY_HAND = ROOT / "scripts" / "repo" / "prose_figures.yaml"
MADE = {"methods", "reference", "architecture.md", "troubleshooting.md"}  # below docs/, made by other scripts
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> None:
    """Fills the documents and draws what is stale; with --check refuses instead."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a table is stale")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("documents", nargs="*", type=Path, default=DOCUMENTS)
    arguments = parser.parse_args()
    softmaxes, by_hand = built("softmax"), yaml.safe_load(BY_HAND.read_text(encoding="utf-8"))
    check_complete(arguments.results, softmaxes)
    if arguments.check:
        opened.check(arguments.results)
    draw_alternatives(arguments.results, arguments.check)
    if any((arguments.results / "train").glob("*.json")):
        draw(arguments.results, arguments.check)
        draw_depths(arguments.results, arguments.check)
        draw_epochs(arguments.results, arguments.check)
    lists = {"softmax": choices(softmaxes)}
    if any((arguments.results / "train").glob("*.json")):
        lists["starred"] = glance.starred(arguments.results)
    for path in (given.resolve() for given in arguments.documents):
        if not path.is_file():
            raise UserError(f"a document with tables is needed, and {path} is not there")
        text = path.read_text(encoding="utf-8")
        if arguments.check and path.is_relative_to(ROOT) and not MADE & set(path.relative_to(ROOT).parts):
            prose.check(str(path.relative_to(ROOT)), text, by_hand)
        new = filled(text, arguments.results, lists)
        if arguments.check and new != text:
            raise UserError(f"{path.name} has stale tables: python scripts/repo/tables.py")
        if new != text:
            write_text(path, new)
        print(path)
    if (arguments.results / "he").is_dir():
        figure = arguments.results / "he" / "cost_accuracy.png"
        if not is_current(figure, whole.shown(arguments.results)):
            write(figure, lambda: whole.draw(arguments.results), arguments.check)


def check_complete(results: Path, softmaxes: Mapping[str, Softmax]) -> None:
    """UserError where a table of all softmaxes was measured before one of them was there."""
    circuits = {cls.name for cls in DEFINITIONS if cls.encryptable}
    for name, key, field, wanted in (
        ("alternatives", "table", "softmax", set(softmaxes)),
        ("complexity", "methods", "name", circuits),
    ):
        path = results / "bench" / f"{name}.json"
        if path.is_file() and (missing := sorted(wanted - {record[field] for record in read_json(path)[key]})):
            raise UserError(f"{path.name} lacks softmax {', '.join(missing)}: python scripts/bench/{name}.py")


def write(path: Path, made: Callable[[], bytes], check: bool) -> None:
    """Writes a figure; UserError instead where only ``check`` is asked for."""
    if check:
        raise UserError(f"{path.name} is stale: python scripts/repo/tables.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made())
    print(path)


def draw(results: Path, check: bool) -> None:
    """Draws the plot of training where its results changed; UserError instead where only ``check`` is asked for."""
    trained, path = read_results(results), results / PLOT
    if not is_current(path, shown(trained)):
        write(path, lambda: plot(trained), check)


def draw_alternatives(results: Path, check: bool) -> None:
    """Draws all softmaxes with the accuracies of the rows of training as they are now, as the table beside it does."""
    file = results / "bench" / "alternatives.json"
    if file.is_file():
        counted = read_json(file)["table"]
        result, path = (
            {"table": with_accuracies(counted, training_results(results / "train"))},
            file.with_suffix(".png"),
        )
        if not is_current(path, alternatives.shown(result)):
            write(path, partial(alternatives.plot, result), check)


def draw_depths(results: Path, check: bool) -> None:
    """The figures of accuracy against depth, what each shows as JSON beside it, and the frontier; stale ones alone."""
    points = depth.points(results)
    data(results / frontier.FILE, {"note": frontier.NOTE, "rows": frontier.entries(points)}, check)
    for family, hosts in depth.FAMILIES.items():
        if not any(point["host"] in hosts for point in points):
            continue
        figure, path = depth.of_family(points, family), results / "figures" / f"depth_{family}.png"
        data(path.with_suffix(".json"), figure, check)
        if not is_current(path, depth_plot.shown(figure)):
            write(path, partial(depth_plot.plot, figure), check)


def draw_epochs(results: Path, check: bool) -> None:
    """The figure of accuracy on validation by epoch, where rows tell it, and what it shows as JSON beside it."""
    figure, path = epochs.curves(read_results(results)), results / f"{epochs.FILE}.png"
    if not figure["panels"]:
        return
    data(path.with_suffix(".json"), figure, check)
    if not is_current(path, epochs.shown(figure)):
        write(path, partial(epochs.plot, figure), check)


def data(path: Path, content: Json, check: bool) -> None:
    """Writes a JSON file that is not as it should be; UserError instead where only ``check`` is asked for."""
    wanted = plain_json(content)
    if path.is_file() and read_json(path) == wanted:
        return
    if check:
        raise UserError(f"{path.name} is stale: python scripts/repo/tables.py")
    write_json(path, content)
    print(path)


if __name__ == "__main__":
    with refusals():
        main()
