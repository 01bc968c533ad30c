"""Writes the trees of README (folders) and docs/architecture.md (files) from first lines: --check fails where stale."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from pathlib import Path

from cgf.report.made_files import maker

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- tree: made by scripts/repo/tree.py -->", "<!-- end of tree -->"
TOP = ("cgf", "models", "scripts", "examples")
ENTRIES = ("train.py", "eval_plain.py", "eval_he.py")
SAID = {  # what has no module of its own to say it
    "configs": "One folder a question, one yaml an answer; the entry points' own files at the top.",
    "models": "Adapters of host models alone: how a softmax gets into an attention, and out of it again.",
    "scripts": "Commands of users; bench/ measures, repo/ looks after this repository.",
    "scripts/bench": "Commands that measure, each with its result file.",
    "scripts/repo": "Commands that look after the repository: tables, trees, comparisons of two commits.",
    "examples": "The Python interface in use, one script each, on small models with random weights.",
    "tests": "Mirror cgf/, models/ and the commands by path.",
    "results": "What the commands measured, one JSON file each, and the figures drawn from them.",
}


def first_line(path: Path) -> str:
    """The first line of a module's docstring, a script's first comment, or what is said of a folder without either."""
    if path.is_dir():
        init = path / "__init__.py"
        said = SAID.get(str(path.relative_to(ROOT)))
        return said or (first_line(init) if init.is_file() else "")
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sh":
        return next((line[2:] for line in text.splitlines()[1:] if line.startswith("# ")), "")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def listed(folder: Path) -> list[Path]:
    """Sub-folders and files of the project in a folder, without links and packages' own files."""
    paths = [p for p in sorted(folder.iterdir()) if not p.is_symlink() and p.name[0] not in "._"]
    return [p for p in paths if p.is_dir() or p.suffix in (".py", ".sh")]


def lines(paths: list[Path], indent: int, files: bool) -> list[str]:
    """A line a path and, below a folder, its own: folders alone, or files too."""
    result = []
    for path in paths:
        if path.is_file() and not files:
            continue
        name = " " * indent + path.name + ("/" if path.is_dir() else "")
        result.append(f"{name:<26} {first_line(path)}".rstrip())
        if path.is_dir() and path.name not in ("configs", "tests", "results"):
            result += lines(listed(path), indent + 2, files)
    return result


def tree(files: bool) -> str:
    """The whole tree as a block of Markdown."""
    top = [ROOT / name for name in ("configs", *TOP, "tests", "results")]
    entries = [f"{name:<26} {first_line(ROOT / name)}" for name in ENTRIES]
    body = [*lines(top[:1], 0, files), *lines(top[1:3], 0, files), *entries, *lines(top[3:], 0, files)]
    return "\n".join([BEGIN, "```", *body, "```", END])


def filled(text: str, block: str) -> str:
    """The document with the block between its two marks; ValueError where they are not there."""
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"a document with the marks {BEGIN} and {END} is needed")
    return before + block + after


def documents() -> dict[Path, str]:
    """The documents with their trees as they are now."""
    wanted = ((ROOT / "README.md", False), (ROOT / "docs" / "architecture.md", True))
    return {path: filled(path.read_text(encoding="utf-8"), tree(files)) for path, files in wanted}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the trees; with --check refuses stale ones instead."""
    return maker(documents, __doc__ or "", "scripts/repo/tree.py", arguments)


if __name__ == "__main__":
    sys.exit(main())
