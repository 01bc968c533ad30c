"""Numbers of the code at any commits, side by side: python scripts/repo/house.py [COMMIT ...] [--list]

Without a commit those of the working tree. Counted is every Python file but those of tests/, links left out:
what DESIGN and reviews set bounds for, and what each bound is broken by (--list names it, of the last column).
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from inner_imports import KINDS, Sources

from cgf.ending import refusals
from cgf.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
LINES, LONGEST, POSITIONAL = 250, 50, 7  # of a file, of a function; and as many parameters are too many
Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources_at(commit: str | None) -> tuple[dict[str, str], frozenset[str]]:
    """(texts of the Python files but tests, by path; names of the modules of tests) of a commit, or as they lie here.

    UserError for a commit that git does not know.
    """
    texts, tests = {}, set[str]()
    for path, text in _files(commit):
        if path.startswith("tests/"):
            tests.add(Path(path).stem)
        else:
            texts[path] = text
    return texts, frozenset(tests)


def _files(commit: str | None) -> Iterator[tuple[str, str]]:
    """(path, text) of each Python file that git tracks, or that it does not ignore here."""
    if commit is None:
        listed = _git("ls-files", "--cached", "--others", "--exclude-standard", "*.py").decode().split()
        files = [path for path in listed if (ROOT / path).is_file() and not (ROOT / path).is_symlink()]
        yield from ((path, (ROOT / path).read_text(encoding="utf-8")) for path in sorted(files))
        return
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit))) as archive:
        for member in archive.getmembers():
            if member.isfile() and member.name.endswith(".py") and (file := archive.extractfile(member)) is not None:
                yield member.name, file.read().decode()


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise UserError(f"git {arguments[0]} did not end well: {done.stderr.decode().strip()}")
    return done.stdout


def long_files(texts: dict[str, str]) -> list[str]:
    """Files of more than LINES lines, longest first."""
    counts = {path: len(text.splitlines()) for path, text in texts.items()}
    return [f"{path}: {n}" for path, n in sorted(counts.items(), key=lambda item: -item[1]) if n > LINES]


def _functions(trees: dict[str, ast.Module]) -> Iterator[tuple[str, Function]]:
    for path, tree in trees.items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, Function))


def long_functions(trees: dict[str, ast.Module]) -> list[str]:
    """Functions of more than LONGEST lines, from def to the last."""
    sizes = [(path, f.name, (f.end_lineno or f.lineno) - f.lineno + 1) for path, f in _functions(trees)]
    return [f"{path}: {name} {size}" for path, name, size in sizes if size > LONGEST]


def many_parameters(trees: dict[str, ast.Module]) -> list[str]:
    """Functions of POSITIONAL or more parameters that may be given by place; self and cls do not count."""
    long_lists = []
    for path, function in _functions(trees):
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count >= POSITIONAL:
            long_lists.append(f"{path}: {function.name} {count}")
    return long_lists


def any_names(trees: dict[str, ast.Module]) -> list[str]:
    """Uses of the name Any, by file; where it is imported does not count."""
    counts = {
        path: sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree))
        for path, tree in trees.items()
    }
    return [f"{path}: {count}" for path, count in counts.items() for _ in range(count)]


def ignored_types(texts: dict[str, str]) -> list[str]:
    """Comments that silence the type checker."""
    return [
        f"{path}:{token.start[0]}"
        for path, text in texts.items()
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and re.search(r"\btype: ignore\b", token.string)
    ]


def undocumented(trees: dict[str, ast.Module]) -> list[str]:
    """Public functions, classes and methods without a docstring; overloads, which their function documents, apart.

    What lies within a function is not public.
    """

    def below(path: str, node: ast.Module | ast.ClassDef) -> Iterator[str]:
        for child in node.body:
            if isinstance(child, Function | ast.ClassDef) and not child.name.startswith("_"):
                overload = any(isinstance(d, ast.Name) and d.id == "overload" for d in child.decorator_list)
                if ast.get_docstring(child) is None and not overload:
                    yield f"{path}:{child.lineno} {child.name}"
                if isinstance(child, ast.ClassDef):
                    yield from below(path, child)

    return [each for path, tree in trees.items() for each in below(path, tree)]


def measured(commit: str | None) -> dict[str, list[str] | int]:
    """Every number of a commit, as what it counts, or as the number alone."""
    texts, tests = sources_at(commit)
    sources = Sources(texts, tests)
    inner = sources.inner
    kinds = Counter(each.kind or "no reason" for each in inner)
    lists: dict[str, list[str] | int] = {
        "files": len(texts),
        "lines": sum(len(text.splitlines()) for text in texts.values()),
        f"files over {LINES} lines": long_files(texts),
        f"functions over {LONGEST} lines": long_functions(sources.trees),
        f"functions of {POSITIONAL} or more positional parameters": many_parameters(sources.trees),
        "Any": any_names(sources.trees),
        "type: ignore": ignored_types(texts),
        "public definitions without a docstring": undocumented(sources.trees),
        "imports within functions": len(inner),
    }
    return {**lists, **{f"  {kind}": kinds[kind] for kind in (*KINDS, "no reason")}}


def size(value: list[str] | int) -> int:
    """A number, or how many are listed."""
    return value if isinstance(value, int) else len(value)


def main() -> None:
    """Prints the numbers of each commit in a column, and with --list what the last one's count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", help="whatever git knows as a commit; none: the working tree")
    parser.add_argument("--list", action="store_true", help="name what the last column counts, Any and imports apart")
    given = parser.parse_args()
    columns = [measured(commit) for commit in given.commits or [None]]
    for name, *values in [
        ("", *(commit[:10] for commit in given.commits or ["here"])),
        *((name, *(size(column[name]) for column in columns)) for name in columns[-1]),
    ]:
        print(f"{name:<52}" + "".join(f"{value!s:>12}" for value in values))
    if given.list:
        for name, value in columns[-1].items():
            if isinstance(value, list) and name != "Any":
                print("\n".join([f"\n{name}:", *(f"  {each}" for each in value)]))


if __name__ == "__main__":
    with refusals():
        main()
