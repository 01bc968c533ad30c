"""Writes docs/reference/ (settings, Python interface) from configs/ and docstrings: --check fails where stale."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import cgf.help as shown
from cgf.report.made_files import maker
from cgf.report.settings_table import cell, code, table

ROOT = Path(__file__).resolve().parents[2]

CONFIGS = ROOT / "configs"
PAGES = ROOT / "docs" / "reference"
MADE = "<!-- made by scripts/repo/reference.py -->"
LONGEST = 88  # of a signature on one line


def told(keys: Iterable[shown.Key]) -> list[shown.Key]:
    """The keys without the headings above others that say nothing."""
    keys = list(keys)
    names = [key.name for key in keys]
    return [
        key for key in keys if key.value or key.comment or not any(name.startswith(f"{key.name}.") for name in names)
    ]


def entry_points() -> list[str]:
    """The names of the files at the top of configs/, those that users call most first."""
    files = sorted(CONFIGS.glob("*.yaml"))
    names = [path.stem for path in files if "\nhydra:" in path.read_text(encoding="utf-8")]  # paper.yaml is a list
    first = [name for name in ("train", "plan", "eval_plain", "eval_he") if name in names]
    return [*first, *(name for name in names if name not in first)]


def group_names() -> list[str]:
    """The folders of configs/ that hold choices."""
    return sorted({str(path.parent.relative_to(CONFIGS)) for path in CONFIGS.rglob("*/*.yaml")})


def keys_of(group: str, choice: str) -> list[shown.Key]:
    """The keys of a choice under the names that a command line gives them."""
    path = CONFIGS / group / f"{choice}.yaml"
    return told(shown.explained(path, group.replace("/", ".")))


def settings() -> tuple[str, int]:
    """The page of settings, and how many keys on it have no comment."""
    lines = [
        "# Settings",
        MADE,
        "",
        "Every key of every command, from the comments in `configs/`. A command takes `GROUP=CHOICE` and `KEY=VALUE`,",
        "and `--help` prints its part of this page.",
        "",
        "## Commands",
    ]
    every: list[shown.Key] = []
    for name in entry_points():
        keys = told(shown.explained(CONFIGS / f"{name}.yaml"))
        every += keys
        lines += ["", f"### {name}"]
        if examples := shown.examples(name):
            lines += ["```", *examples, "```"]
        elif said := shown.one_line(CONFIGS / f"{name}.yaml"):
            lines += ["", cell(said)]
        chosen = [
            f"[`{group}`](#{anchor(group)}) (`{'none' if choice == 'null' else choice}`)"
            for group, choice in shown.groups(name).items()
        ]
        if chosen:
            lines += ["", f"Groups, with the choice made without you: {', '.join(chosen)}."]
        lines += table(keys)
    lines += ["", "## Groups"]
    for group in group_names():
        lines += ["", f"### Group {group}", "", "| choice | what it is |", "| --- | --- |"]
        choices = shown.choices(group)
        lines += [f"| {code(choice)} | {cell(said)} |" for choice, said in choices.items()]
        for choice in choices:
            keys = keys_of(group, choice)
            every += keys
            if keys:
                lines += ["", f"Keys of `{group}={choice}`:", *table(keys)]
    return "\n".join(lines) + "\n", sum(not key.comment for key in every)


def anchor(group: str) -> str:
    """What Markdown makes of the heading of a group's section."""
    return f"group-{group.replace('/', '')}"


class _Bare:
    """An annotation that is shown as it was written, without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def signature(name: str, thing: Callable[..., object]) -> str:
    """How a function or a class is called, a parameter a line where one line is too long."""
    declared = inspect.signature(thing)

    def bare(annotation: object) -> object:
        return _Bare(annotation) if isinstance(annotation, str) else annotation

    parameters = [p.replace(annotation=bare(p.annotation)) for p in declared.parameters.values()]
    returns = inspect.Signature.empty if inspect.isclass(thing) else bare(declared.return_annotation)
    one = f"{name}{declared.replace(parameters=parameters, return_annotation=returns)}"
    if len(one) <= LONGEST:
        return one
    starred = next((i for i, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY), None)
    listed = [str(p) for p in parameters]
    if starred is not None:
        listed.insert(starred, "*")
    end = "" if returns is inspect.Signature.empty else f" -> {returns!r}"
    return "\n".join([f"{name}(", *(f"    {parameter}," for parameter in listed), f"){end}"])


def sentence(text: str) -> str:
    """The first sentence of a docstring."""
    paragraph = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", paragraph)[0]


def methods(thing: type) -> list[str]:
    """The public methods and properties that a class itself defines and explains: name and first sentence."""
    table_rows = []
    for name, member in vars(thing).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name.startswith("_") or not (inspect.isfunction(function) and function.__doc__):
            continue
        call = "" if isinstance(member, property) else "()"
        table_rows.append(f"| `{name}{call}` | {cell(sentence(function.__doc__))} |")
    return ["", "| method | what it does |", "| --- | --- |", *table_rows] if table_rows else []


def interface() -> str:
    """The page of the Python interface: what the package's table of names leads to."""
    lines = [
        "# Python interface",
        MADE,
        "",
        "What `import cgf` offers; each name loads its module when it is first used.",
    ]
    package = importlib.import_module("cgf")
    names = {name: getattr(importlib.import_module(module), name) for name, module in package._MODULES.items()}
    parts: dict[str, Callable[[object], bool]] = {
        "Functions": inspect.isfunction,
        "Results and softmaxes": inspect.isclass,
    }
    for title, kind in parts.items():
        lines += ["", f"## {title}"]
        for name in sorted((name for name in names if kind(names[name])), key=str.lower):
            thing = names[name]
            lines += ["", f"### cgf.{name}", "```python", signature(name, thing), "```"]
            lines += ["```text", inspect.getdoc(thing) or "", "```"]
            if inspect.isclass(thing):
                lines += methods(thing)
    return "\n".join(lines) + "\n"


def pages() -> tuple[dict[str, str], int]:
    """Both pages by file name, and how many keys lack a comment."""
    page, silent = settings()
    return {"settings.md": page, "python.md": interface()}, silent


def every_page() -> dict[Path, str]:
    """Both pages by path. LookupError where keys of configs/ have no comment."""
    made, silent = pages()
    if silent:
        raise LookupError(f"{silent} keys of configs/ have no comment")
    return {PAGES / name: text for name, text in made.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the pages; with --check refuses stale ones instead."""
    return maker(every_page, __doc__ or "", "scripts/repo/reference.py", arguments)


if __name__ == "__main__":
    sys.exit(main())
