"""Measured figures that a document's sentences type by hand, in place of a reference to a file under results/.

A figure is a number with digits behind a point, in powers of ten or with its thousands set off, a whole number
before a unit of measurement or before what results count: '12 levels', '4 to 7 %', '13 seeds', '359 test images', and
any other whole number of two digits or more, with the word behind it: '40 epochs'.
What was measured is written by reference (cgf.report.values); what remains is defined, published or a version, and
stands in a list with the reason. Other numbers of one digit ('2 blocks'), numbers in words and dates are no figures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cgf.errors import UserError

MARKED = re.compile(r"<!-- (table|value|list): .*?<!-- end -->", re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
TARGET = re.compile(r"\]\([^)\n]*\)")
_PRECISE = r"\d+\.\d+(?:e[+-]?\d+)?|\d+e-\d+|\d{1,3}(?:,\d{3})+"
_UNIT = r"%|points?|k?s|ms|µs|(?:core-)?seconds?|minutes?|hours?|[KMGT]i?B|levels?|times"
_COUNTED = r"(?:(?:test|training|validation)\s+)?(?:seeds?|images?|sentences?|texts?|samples?|configurations?|draws?)"
_MEASURED = rf"\d+(?:(?:, | to | and | or )\d+)*\s+(?:{_UNIT}|{_COUNTED})"
_WHOLE = r"\d{2,}(?:\s+[^\W\d_]+)?"
DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
FIGURE = re.compile(rf"(?<![\w.,^/-])-?(?:{_PRECISE}|{_MEASURED}|{_WHOLE})(?![\w]|[.,]\d)")


def typed(text: str, tables: bool = False) -> list[str]:
    """The figures of a document's prose, in order, with ``tables`` those of tables that are typed too.

    Code, links and what comes from results are left out.
    """
    prose = DATE.sub(" ", TARGET.sub("]", CODE.sub(_code, MARKED.sub("…", text))))
    lines = [line for line in prose.splitlines() if tables or not line.startswith("|")]
    return [" ".join(figure.split()) for figure in FIGURE.findall("\n".join(lines))]


def _code(code: re.Match[str]) -> str:
    """Nothing of code; but a figure with its unit that stands alone between backticks is no code."""
    within = code.group().strip("`").strip()
    return within if re.fullmatch(rf"-?\d[\d.,]*\s*(?:{_UNIT}|{_COUNTED})", within) else " "


def check(name: str, text: str, allowed: Mapping[str, Mapping[str, str]]) -> None:
    """UserError for a figure that is neither by reference nor in the list, and for one in the list that is gone.

    name: of the document; in README.md and docs/results tables that are typed are looked at too.
    allowed: document -> figure -> why it is no measurement of a file under results/.
    """
    of_results = name == "README.md" or name.startswith("docs/results/")
    there, known = set(typed(text, tables=of_results)), set(allowed.get(name, {}))
    if unknown := sorted(there - known):
        raise UserError(
            f"{name} types the figure {unknown[0]} by hand: write it as <!-- value: file PATH KEY FORMAT -->, or say "
            "in scripts/repo/prose_figures.yaml why it is none of a result"
        )
    if gone := sorted(known - there):
        raise UserError(f"scripts/repo/prose_figures.yaml lists {gone[0]} of {name}, which has it no more")
