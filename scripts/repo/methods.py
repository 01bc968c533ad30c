"""Writes docs/methods/, a page a softmax, from methods.yaml, configs/ and results/: --check fails where stale."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from cgf.help import CONFIGS, explained
from cgf.report.columns import NONE, grid
from cgf.report.made_files import maker
from cgf.report.settings_table import cell, code, table
from cgf.softmax.load import TARGETS
from cgf.types import Json

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "methods"
WORDS = Path(__file__).with_name("methods.yaml")
BENCH = ROOT / "results" / "bench"
MADE = "<!-- made by scripts/repo/methods.py -->"

COST = ("levels", "published", "CMult", "Rot", "Boot", "domain", "largest error")


def read(name: str) -> Json:
    """A result file of results/bench."""
    result: Json = json.loads((BENCH / f"{name}.json").read_text(encoding="utf-8"))
    return result


def says(entry: bool | None) -> str:
    """yes, no, or a dash where it was not tried."""
    return NONE if entry is None else "yes" if entry else "no"


def properties(names: Sequence[str]) -> list[str]:
    """What random rows did not contradict, of each choice."""
    by_name = {entry["softmax"]: entry for entry in read("alternatives")["table"]}
    table_rows = [
        (code(n), by_name[n]["order"] or NONE, by_name[n]["positive"] or NONE, says(by_name[n]["shift_invariant"]))
        for n in names
    ]
    titles = ("softmax", "keeps the order of scores", "positive weights", "unchanged by a shift of the row")
    return [
        "## Properties",
        "",
        "Found by trying random rows (`results/bench/alternatives.json`).",
        "",
        grid(titles, table_rows),
    ]


def cost(page: Json) -> list[str]:
    """Levels and operations of its circuits, counted in dry runs."""
    result = read("complexity")
    wanted = page.get("counted")
    circuits = [m for m in result["methods"] if (m["method"] in wanted if wanted else m["name"] in page["names"])]
    if not circuits:
        return ["## What it costs", "", "It has no circuit of its own."]
    lines = [
        (
            cell(m["method"]),
            str(m["levels"]),
            str(m["published_levels"] or NONE),
            str(m["ops"]["cmult"]),
            str(m["ops"]["rotate"]),
            NONE if m["ops"]["boot"] is None else str(m["ops"]["boot"]),
            m["domain"] if isinstance(m["domain"], str) else " to ".join(f"{x:g}" for x in m["domain"]),
            m["error_bound"] if isinstance(m["error_bound"], str) else f"{m['error_bound']:.0e}",
        )
        for m in circuits
    ]
    about = f"Counted on {result['rows']} rows of {result['columns']} (`results/bench/complexity.json`)."
    terms = "CMult are products of ciphertexts, Rot rotations, Boot bootstraps; *published* is what its authors report."
    return ["## What it costs", "", f"{about} {terms}", "", grid(("circuit", *COST), lines)]


def settings(names: Sequence[str]) -> list[str]:
    """The keys of each choice."""
    lines = ["## Settings"]
    for name in names:
        keys = explained(CONFIGS / "softmax" / f"{name}.yaml", "softmax")
        lines += ["", f"`softmax={name}`" + (":" if keys else " has none."), *table(keys)]
    return lines


def source(names: Sequence[str]) -> str:
    """What the definitions name as their source, and what of them is a stand-in."""
    said = []
    for name in names:
        target = yaml.safe_load((CONFIGS / "softmax" / f"{name}.yaml").read_text(encoding="utf-8"))["_target_"]
        cls = TARGETS[target]
        for text in (cls.source, cls.stand_in and f"`{name}`: {cls.stand_in}"):
            if text and text not in said:
                said.append(text)
    return "; ".join(said) or "Eq. (1) of the CGF-softmax paper"


def page_of(page: Json) -> str:
    """A page in Markdown."""
    names = page["names"]
    lines = [f"# {page['title']}", MADE, "", "```", page["formula"].rstrip(), "```"]
    lines += ["", page["about"].rstrip(), "", "## When to take it", "", page["when"].rstrip(), ""]
    lines += [*properties(names), "", *cost(page), "", *settings(names), ""]
    return "\n".join([*lines, "## Source", "", f"{source(names)}."]) + "\n"


def index(words: dict[str, Json]) -> str:
    """The page that lists the others, with the levels of each."""
    counted = read("alternatives")
    levels = {entry["softmax"]: entry["levels"] for entry in counted["table"]}
    table_rows = [
        (
            f"[{page['title']}]({name}.md)",
            ", ".join(code(n) for n in page["names"]),
            ", ".join(str(levels[n] or "no circuit") for n in page["names"]),
            code(page["formula"].splitlines()[-1].strip()),
        )
        for name, page in words.items()
    ]
    lines = [
        "# Methods",
        MADE,
        "",
        "Each softmax that a model can be trained with, or that can take its place.",
        "A score or a sum is *served* where the polynomials of a softmax are as accurate as it states.",
    ]
    lines += [
        f"Levels are of full rows of {counted['columns']}, with {counted['exponential']} where exp needs one.",
        "",
    ]
    return "\n".join([*lines, grid(("method", "`softmax=`", "levels", "weights"), table_rows)]) + "\n"


def pages() -> dict[str, str]:
    """Every page by its file's name. LookupError where a softmax of configs/ is on none."""
    words: dict[str, Json] = yaml.safe_load(WORDS.read_text(encoding="utf-8"))
    missing = {path.stem for path in (CONFIGS / "softmax").glob("*.yaml")} - {
        n for w in words.values() for n in w["names"]
    }
    if missing:
        raise LookupError(f"{WORDS.name} needs a page for softmax {', '.join(sorted(missing))}")
    return {"index.md": index(words), **{f"{name}.md": page_of(page) for name, page in words.items()}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the pages; with --check refuses stale ones instead."""
    return maker(
        lambda: {PAGES / name: text for name, text in pages().items()},
        __doc__ or "",
        "scripts/repo/methods.py",
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main())
