"""Pieces of HTML that a page is made of: sections, images and tables, every text escaped."""

from __future__ import annotations

import base64
from html import escape

from cgf.report import tables
from cgf.types import JsonValue


def section(title: str, body: str) -> str:
    """A section with its heading; body is HTML already."""
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


def image(drawing: bytes, title: str, caption: str) -> str:
    """A figure of a PNG or SVG, which the page itself holds."""
    kind = "png" if drawing.startswith(b"\x89PNG") else "svg+xml"
    source = f"data:image/{kind};base64," + base64.b64encode(drawing).decode()
    image = f'<img src="{source}" alt="{escape(title)}">'
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def inline(drawing: str, caption: str) -> str:
    """A figure of SVG as it is, whose points can be pointed at."""
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def dict_table(table_rows: list[dict], style: str = "") -> str:
    """A table of dicts whose keys may differ; a column of numbers only is set to the right."""
    keys = list(dict.fromkeys(key for row in table_rows for key in row))
    values = [[row.get(key) for key in keys] for row in table_rows]
    numeric = [all(v is None or tables.is_number(v) for v in column) for column in zip(*values, strict=True)]
    texts = [[_text(key, value) for key, value in zip(keys, line, strict=True)] for line in values]
    return table(keys, texts, numeric, style)


def side_by_side(table_rows: list[dict]) -> str:
    """The same with a column a dict, headed by its first value: for few dicts of many keys whose values are numbers."""
    return _turned(table_rows, right=True)


def texts_side_by_side(table_rows: list[dict]) -> str:
    """The same of values that are texts: set to the left, long ones broken into lines."""
    return _turned(table_rows, right=False, style="texts")


def _turned(table_rows: list[dict], right: bool, style: str = "") -> str:
    name, *keys = dict.fromkeys(key for row in table_rows for key in row)
    lines = [[key, *(_text(key, row.get(key)) for row in table_rows)] for key in keys]
    titles = [name, *(str(row.get(name)) for row in table_rows)]
    return table(titles, lines, [False] + [right] * len(table_rows), style)


def _text(key: str, value: JsonValue) -> str:
    if key == "command" and isinstance(value, list):
        return " ".join(str(item) for item in value)
    return tables.error(value) if key.endswith("error") else tables.plain(value)


def table(
    titles: list[str], lines: list[list[str]], numeric: list[bool], style: str = "", red: list[bool] | None = None
) -> str:
    """A table of texts; numeric: columns that are set to the right, red: lines that are marked as wrong."""

    def cell(tag: str, text: str, right: bool) -> str:
        return f"<{tag}{' class=number' if right else ''}>{escape(text)}</{tag}>"

    def line(tag: str, texts: list[str], marked: bool = False) -> str:
        cells = "".join(cell(tag, t, r) for t, r in zip(texts, numeric, strict=True))
        return f"<tr{' class=red' if marked else ''}>{cells}</tr>"

    body = "\n".join(line("td", *row) for row in zip(lines, red or [False] * len(lines), strict=True))
    head = line("th", titles)
    table = f'<table class="{style}">\n<thead>{head}</thead>\n<tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'
