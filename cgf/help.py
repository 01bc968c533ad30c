"""What ``--help`` prints and the nearest name to a misspelled one, read from the comments in configs/.

No Hydra, no torch: the yaml files are read as text, since a parser would drop the comments.
"""

from __future__ import annotations

import difflib
import fnmatch
import itertools
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

CONFIGS = Path(__file__).resolve().parent / "configs"
KEY = re.compile(
    r"^(?P<indent> *)(?P<name>[\w-]+):(?P<value>(?: (?:\"[^\"]*\"|'[^']*'|[^#\"'])*)?)(?:#\s?(?P<comment>.*))?$"
)
DEFAULT = re.compile(r"^  - (?:optional )?(?P<group>[a-z]+): (?P<choice>[\w]+)")
OVERRIDE = re.compile(r"^  - override /(?P<group>[a-z]+): (?P<choice>[\w]+)")
NOTE = re.compile(r"^#   (?P<names>[\w.*]+): (?P<said>.+)$")  # in a header: what keys of many runs say
GLOBAL = "# @package _global_"  # Hydra's line of a choice whose keys are the entry point's own
WIDTH, NAMES, HIDDEN = 118, 24, ("defaults", "hydra")


@dataclass(frozen=True)
class Key:
    """A setting of a yaml file: its dotted name, the value that it has there, and what its comment says."""

    name: str
    value: str
    comment: str


def header(path: Path) -> list[str]:
    """The comment lines that a yaml file begins with, without their marks and without Hydra's package line."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            lines.append(line.lstrip("# ").rstrip())
    return lines


def one_line(path: Path) -> str:
    """What a choice is: the first line of its header that is no command, to the end of the sentence that it begins."""
    first, *more = [line for line in header(path) if not line.startswith("python ")] or [""]
    while more and not first.endswith("."):
        told, stop, _ = more.pop(0).partition(". ")
        first = f"{first} {told}{stop.strip()}"
        if stop:
            break
    return first


def examples(config_name: str) -> list[str]:
    """The commands in the header of an entry point's own file."""
    return [line for line in header(CONFIGS / f"{config_name}.yaml") if line.startswith("python ")]


def groups(config_name: str) -> dict[str, str]:
    """The groups that an entry point chooses from, each with its default; 'null' for none."""
    text = (CONFIGS / f"{config_name}.yaml").read_text(encoding="utf-8")
    matches = (DEFAULT.match(line) for line in text.splitlines())
    return {match["group"]: match["choice"] for match in matches if match and (CONFIGS / match["group"]).is_dir()}


def choices(group: str) -> dict[str, str]:
    """The choices of a group, each with its one line."""
    return {path.stem: one_line(path) for path in sorted((CONFIGS / group).glob("*.yaml"))}


def keys(path: Path, prefix: str = "") -> list[Key]:
    """The settings of a yaml file, in its order, with their comments; those of Hydra and the defaults left out."""
    result: list[Key] = []
    stack: list[tuple[int, str]] = []  # indents and names above the line
    for line in path.read_text(encoding="utf-8").splitlines():
        match = KEY.match(line)
        if match is None:
            more = re.match(r"^ {8,}# ?(.*)$", line)  # a comment that goes on
            if more and result:
                last = result.pop()
                result.append(Key(last.name, last.value, f"{last.comment} {more[1].strip()}"))
            continue
        indent, value = len(match["indent"]), match["value"].strip()
        while stack and stack[-1][0] >= indent:
            stack.pop()
        stack.append((indent, match["name"]))
        names = [name for _, name in stack]
        if names[0] in HIDDEN or names[-1].startswith("_"):
            continue
        result.append(Key(".".join([prefix, *names] if prefix else names), value, (match["comment"] or "").strip()))
    return result


def notes(path: Path) -> dict[str, str]:
    """What the header of a yaml file says of keys that stand in it many times: by a pattern of their names."""
    lines = path.read_text(encoding="utf-8").splitlines()
    matches = (NOTE.match(line) for line in itertools.takewhile(lambda line: line.startswith("#"), lines))
    return {match["names"]: match["said"] for match in matches if match}


def explained(path: Path, prefix: str = "") -> list[Key]:
    """``keys`` with a comment where another place has it.

    A key without one takes the header's note of its name. A choice whose keys are the entry point's own then takes the
    comment of the same key of that entry point, its notes, or the comment of the group's choice that it overrides.
    """
    text = path.read_text(encoding="utf-8")
    there, said = keys(path, prefix), notes(path)
    if GLOBAL in text.splitlines():
        there = keys(path)
        entry = next(f for f in sorted(CONFIGS.glob("*.yaml")) if path.parent.name in groups(f.stem))
        said |= notes(entry)
        said |= {key.name: key.comment for key in keys(entry) if key.comment}
        for match in filter(None, map(OVERRIDE.match, text.splitlines())):
            choice = CONFIGS / match["group"] / f"{match['choice']}.yaml"
            said |= {key.name: key.comment for key in keys(choice, match["group"]) if key.comment}
    start = len(prefix) + 1 if prefix and GLOBAL not in text else 0

    def comment(key: Key) -> str:
        return key.comment or next((s for n, s in said.items() if fnmatch.fnmatchcase(key.name[start:], n)), "")

    return [Key(key.name, key.value, comment(key)) for key in there]


def chosen(config_name: str, overrides: Iterable[str]) -> dict[str, str]:
    """The choice of every group: the defaults, and what the command line says."""
    there = groups(config_name)
    given = dict(text.split("=", 1) for text in overrides if "=" in text)
    return {group: given.get(group, default) for group, default in there.items()}


def known(config_name: str, overrides: Iterable[str]) -> list[str]:
    """Every group and key that the command line may name, with these choices."""
    names = [*groups(config_name), *(key.name for key in keys(CONFIGS / f"{config_name}.yaml"))]
    for group, choice in chosen(config_name, overrides).items():
        if (path := CONFIGS / group / f"{choice}.yaml").is_file():
            names += [key.name for key in keys(path, group)]
    return names


def nearest(name: str, there: Sequence[str]) -> str:
    """'; did you mean X?' where a name is close to one that there is, else nothing."""
    close = difflib.get_close_matches(name, there, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def text(config_name: str, about: str, program: str, overrides: Sequence[str]) -> str:
    """The whole of ``--help``: what the command does, examples, groups with their choices, keys.

    about: the docstring of the entry point, whose first paragraph is shown up to its own example. overrides: of the
    command line; the keys of each group whose choice it names are shown too.
    """
    shown = examples(config_name)
    if program.startswith("cgf "):
        own = re.compile(rf"^python (scripts/)?{config_name}\.py")
        shown = [own.sub(program, line) for line in shown]
    told = re.split(r": python |\n\n", about.strip())[0].replace("\n", " ").rstrip(".")
    lines = [f"{told}.", "", f"usage: {program} [GROUP=CHOICE ...] [KEY=VALUE ...]", "", "examples:"]
    lines += [f"  {line}" for line in shown]
    there = groups(config_name)
    named = {group for group in there if any(text.startswith(f"{group}=") for text in overrides)}
    for group, default in there.items():
        lines += ["", f"{group}=CHOICE   ({'none' if default == 'null' else default} without it)"]
        lines += _columns((name, said) for name, said in choices(group).items())
    lines += ["", "keys, each with its default and what it is for:"]
    lines += _keys(explained(CONFIGS / f"{config_name}.yaml"))
    for group, choice in chosen(config_name, overrides).items():
        if group in named and (path := CONFIGS / group / f"{choice}.yaml").is_file():
            lines += ["", f"keys of {group}={choice}:", *_keys(explained(path, group))]
    if there:
        first = next(iter(there))
        lines += ["", f"the keys of a choice: {program} {first}={next(iter(choices(first)))} --help"]
    return "\n".join(lines)


def _keys(there: Iterable[Key]) -> list[str]:
    shown = (key for key in there if key.value or key.comment)  # a heading that says nothing is none
    return _columns((key.name + (f"={key.value}" if key.value else ""), key.comment) for key in shown)


def _columns(table_rows: Iterable[tuple[str, str]]) -> list[str]:
    lines = []
    for name, said in table_rows:
        wrapped = textwrap.wrap(said, WIDTH - NAMES - 3) or [""]
        start = [f"  {name:{NAMES}} {wrapped[0]}".rstrip()] if len(name) <= NAMES else [f"  {name}"]
        rest = wrapped[1:] if len(name) <= NAMES else [line for line in wrapped if line]
        lines += [*start, *(" " * (NAMES + 3) + line for line in rest)]
    return lines
