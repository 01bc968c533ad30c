"""Writes docs/paper.md from configs/paper.yaml, a command for every row of the paper: --check fails where stale."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from cgf.help import CONFIGS
from cgf.report.columns import grid
from cgf.report.made_files import maker
from cgf.report.settings_table import cell, code

PAGE = Path(__file__).resolve().parents[2] / "docs" / "paper.md"
ABOUT = """# The paper's rows
<!-- made by scripts/repo/paper_page.py -->

Every row of every table and figure of the CGF-softmax paper, by its label there, with the command that makes it.
The list is `configs/paper.yaml`, and a test composes every command.

A `ckpt` is the run that the experiment's own command names without `--multirun`. After the whole grid, take the run
that is best on validation. What the paper leaves open is ours: the interval of the scores for Cho et al. is
[-64, 64], and `fixed_max` stands in for the softmax of EncryptedLLM. The models of the paper need weights and data
that this repository does not hold; what was measured here is in [results](results/training.md)."""


def page() -> str:
    """The page in Markdown."""
    lines = [ABOUT]
    for label, commands in yaml.safe_load((CONFIGS / "paper.yaml").read_text(encoding="utf-8")).items():
        kind, name = label.split(" ", 1)
        lines += ["", f"## {kind.capitalize()} {name}", ""]
        lines.append(grid(["row", "command"], [[cell(row), code(command)] for row, command in commands.items()]))
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page; with --check refuses a stale one instead."""
    return maker(lambda: {PAGE: page()}, __doc__ or "", "scripts/repo/paper_page.py", arguments)


if __name__ == "__main__":
    sys.exit(main())
