"""Settings with their comments as tables in Markdown, for pages that are made from configs/."""

from __future__ import annotations

from collections.abc import Iterable

from cgf.help import Key
from cgf.report.columns import grid


def cell(text: str) -> str:
    """Text that stays in its cell of a table, and is not read as HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def code(text: str) -> str:
    """Code in a cell; nothing for nothing."""
    return "`" + text.replace("|", "\\|") + "`" if text else ""


def value(text: str) -> str:
    """A default; one that goes on in the lines after ends with an ellipsis."""
    return f"{text} …" if text.count("[") > text.count("]") or text.count("{") > text.count("}") else text


def table(keys: Iterable[Key]) -> list[str]:
    """A row a key, after an empty line: name, default, comment."""
    table_rows = [[code(key.name), code(value(key.value)), cell(key.comment)] for key in keys]
    return ["", grid(["key", "default", "what it says"], table_rows)] if table_rows else []
