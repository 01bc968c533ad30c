"""Writes the list of error messages in docs/troubleshooting.md from the source: --check fails where it is stale."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from cgf.report.made_files import maker

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
ADVICE = Path(__file__).with_name("error_advice.yaml")
BEGIN, END = "<!-- messages: made by scripts/repo/errors.py -->", "<!-- end of messages -->"
SOURCES = ("cgf/", "models", "scripts", "train.py", "eval_plain.py", "eval_he.py")
ERRORS = ("UserError", "Divergence", "OutOfLevels")  # the first, and what is derived from it
EXPLAINS = "with_reason"  # its argument begins a message that ends in what a library said
FIELD = "…"  # what a message fills in


@dataclass(frozen=True)
class Message:
    """The template of an error message, and the file that raises it, from the repository's root."""

    text: str
    path: str


@dataclass(frozen=True)
class Part:
    """A section of the page: its title, the paths that it is about, and advice by pattern."""

    title: str
    paths: tuple[str, ...]
    advice: dict[str, str]

    def holds(self, path: str) -> bool:
        """Whether a file belongs here."""
        return any(path == own or path.startswith(f"{own}/") for own in self.paths)

    def pattern(self, text: str) -> str:
        """The pattern that decides what is advised on a message; LookupError where none does."""
        for pattern in self.advice:
            if re.search(pattern, text):
                return pattern
        raise LookupError(f"{ADVICE.name} needs advice in '{self.title}' for: {text}")


def template(node: ast.expr) -> str:
    """A message as it is written, with an ellipsis for what is filled in."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(template(value) for value in values)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return template(left) + template(right)
        case _:
            return FIELD


def files() -> list[Path]:
    """The source files that messages come from, without links."""
    starts = [ROOT / name for name in SOURCES]
    paths = [path for start in starts for path in ([start] if start.is_file() else sorted(start.rglob("*.py")))]
    return [path for path in paths if not any(p.is_symlink() for p in (path, *path.parents))]


@dataclass(frozen=True)
class Index:
    """Every function of the source, and every call inside one, by name: messages that are passed on are found there."""

    functions: dict[str, list[ast.FunctionDef]]
    calls: dict[str, list[tuple[ast.Call, ast.FunctionDef]]]

    @classmethod
    def of(cls, trees: Iterable[ast.Module]) -> Index:
        """The index of these files."""
        index = cls(defaultdict(list), defaultdict(list))
        for function in (n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
            index.functions[function.name].append(function)
            for call in (n for n in ast.walk(function) if isinstance(n, ast.Call)):
                index.calls[called(call)].append((call, function))
        return index

    def passed_on(self, function: ast.FunctionDef, node: ast.expr) -> Iterator[ast.expr]:
        """The messages that a function may raise as ``node``: by its callers, where that is a parameter, by what the
        function that makes it returns, or itself."""
        parameters = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        match node:
            case ast.Name(id=name) if name in parameters:
                place = parameters.index(name)
                for call, caller in self.calls[function.name]:
                    for given in call.args[place : place + 1]:
                        yield from self.passed_on(caller, given)
            case ast.Call(func=ast.Name(id=name)):
                returns = (node for maker in self.functions[name] for node in ast.walk(maker))
                yield from (node.value for node in returns if isinstance(node, ast.Return) and node.value)
            case _:
                yield node


def called(call: ast.Call) -> str:
    """The last name of what a call calls."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def raised(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls that make an error for a user, with their message."""
    return (n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args and called(n) in ERRORS)


def explained(tree: ast.AST) -> Iterator[ast.expr]:
    """The messages that end in a library's reason."""
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args and called(n) == EXPLAINS):
        yield ast.BinOp(call.args[0], ast.Add(), ast.Constant(f": {FIELD}"))


@functools.cache
def messages() -> list[Message]:
    """Every message once a file, in the order of the source; those that hold nothing but what is filled in are not."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files()}
    index = Index.of(trees.values())
    result: dict[Message, None] = {}
    for path, tree in trees.items():
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        given = [node for f in functions for call in raised(f) for node in index.passed_on(f, call.args[0])]
        nodes = [call.args[0] for call in raised(tree)] + given + list(explained(tree))
        for text in (" ".join(template(node).split()) for node in nodes):
            if text.replace(FIELD, "").strip():
                result[Message(text, path.relative_to(ROOT).as_posix())] = None
    return list(result)


def parts() -> list[Part]:
    """The sections with their advice, from the file beside this one."""
    data = yaml.safe_load(ADVICE.read_text(encoding="utf-8"))
    return [Part(title, tuple(part["paths"]), part["advice"]) for title, part in data.items()]


def escaped(text: str) -> str:
    """Text that is read neither as HTML nor as Markdown."""
    return re.sub(r"([\\|*_`\[\]#])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")


def block() -> str:
    """The list as Markdown. LookupError for a message without advice, a file of no part, or advice that none takes."""
    lines, sections, used = [BEGIN], parts(), set[tuple[str, str]]()
    by_part: dict[str, dict[str, set[str]]] = {p.title: {said: set() for said in p.advice.values()} for p in sections}
    for message in messages():
        part = next((part for part in sections if part.holds(message.path)), None)
        if part is None:
            raise LookupError(f"{ADVICE.name} needs a part for {message.path}")
        pattern = part.pattern(message.text)
        used.add((part.title, pattern))
        by_part[part.title][part.advice[pattern]].add(message.text)
    idle = [f"{p.title}: {pattern!r}" for p in sections for pattern in p.advice if (p.title, pattern) not in used]
    if idle:
        raise LookupError(f"{ADVICE.name} has patterns that no message takes: {'; '.join(idle)}")
    for title, advised in by_part.items():
        lines += ["", f"### {title}"]
        for advice, texts in advised.items():
            lines += ["", f"**{advice}**", "", *(f"- {escaped(text)}" for text in sorted(texts))]
    return "\n".join([*lines, "", END])


def filled() -> str:
    """docs/troubleshooting.md with the list as it is now; LookupError as of ``block``."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + block() + rest.partition(END)[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the list; with --check refuses a stale one instead."""
    return maker(lambda: {PAGE: filled()}, __doc__ or "", "scripts/repo/errors.py", arguments)


if __name__ == "__main__":
    sys.exit(main())
