"""Columns of a table that a user brings: CSV, TSV, JSON lines and parquet, by the suffix of the file.

Every value becomes text: a number as it is written, true and false in small letters. A fault is a UserError that names
the file, the line and the column.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cgf.checks import is_whole
from cgf.data.files import MOST_TEXT, most_unpacked, parsed_json, read_text
from cgf.errors import UserError
from cgf.named import listed, short
from cgf.target import check_regular
from cgf.types import JsonValue

SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
BATCH = 1024  # rows of a parquet file that are unpacked at once
Line = tuple[int, Mapping[str, object]]  # its number in the file, its values by column


def suffix_of(path: Path) -> str:
    """The suffix that says how a file is read, .gz left out; UserError for one that is not known."""
    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if suffix not in SUFFIXES or (suffix == ".parquet" and path.suffix == ".gz"):
        raise UserError(f"{path} needs to be one of {', '.join(SUFFIXES)} (all but .parquet also with .gz)")
    return suffix


def read_columns(path: Path, needed: Sequence[str], suffix: str | None = None) -> list[tuple[str, ...]]:
    """The values of the columns ``needed``, row by row, none of them empty; suffix: as which a file is read, its own
    where there is none.

    The quotes of a .csv file are those of CSV; in a .tsv file a quote is a plain character. A .json file holds one list
    of objects, a .jsonl file an object a line. UserError for a missing column, a row without a value, a file without
    rows, and text that is not UTF-8.
    """
    suffix = suffix or suffix_of(path)
    if suffix == ".parquet":
        lines = _parquet(path, needed)
    elif suffix in (".csv", ".tsv"):
        lines = _separated(path, needed, tabs=suffix == ".tsv")
    else:
        lines = _objects(path, needed, whole=suffix == ".json")
    records = []
    for number, line in lines:
        values = tuple(as_text(line.get(column)) for column in needed)
        for column, value in zip(needed, values, strict=True):
            if value is None and line.get(column) is not None:
                raise UserError(
                    f"{path} needs a text or a number in '{column}' of every row, and line {number} has "
                    f"{short(line[column])}"
                )
            if not value:
                raise UserError(f"{path} needs a value of '{column}' in every row, and line {number} has none")
            if not _is_unicode(value):
                raise UserError(f"{path} needs Unicode text, and '{column}' of line {number} holds half a character")
        records.append(tuple(str(value) for value in values))
    if not records:
        raise UserError(f"{path} needs rows, and it has none")
    return records


def _is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: JSON may name one half of a surrogate pair alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_text(value: object) -> str | None:
    """A value as text without blanks around it; None for what is no single value: null, NaN, a list, an object."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    return None


def in_order(labels: set[str]) -> list[str]:
    """Labels sorted as numbers where all of them are numbers, else as text: 2 comes before 10."""
    try:
        numbers = {label: float(label) for label in labels}
    except ValueError:
        return sorted(labels)
    if not all(map(math.isfinite, numbers.values())):  # comparisons with NaN give no order
        return sorted(labels)
    return sorted(labels, key=lambda label: (numbers[label], label))


def column_name(setting: str, value: object) -> str:
    """The name of a column; of one that is called 0 a command line makes a number. UserError for what is no name."""
    if not isinstance(value, str) and not is_whole(value):
        raise UserError(f"task.{setting} must be the name of a column, and {value!r} was given")
    return str(value)


def check_columns_of(where: object, needed: Sequence[str], have: Sequence[str]) -> None:
    """UserError unless all columns are there, each once."""
    if missing := [column for column in needed if column not in have]:
        raise UserError(
            f"{where} needs the column{'s' if missing[1:] else ''} {', '.join(missing)}, "
            f"and it has {listed(list(map(str, have)))}"
        )
    if twice := [column for column in needed if list(have).count(column) > 1]:
        raise UserError(f"{where} needs the column {twice[0]} once, and has it {list(have).count(twice[0])} times")


def _separated(path: Path, needed: Sequence[str], tabs: bool) -> Iterator[Line]:
    content = read_text(path)
    if tabs:
        lines = csv.reader([line.rstrip("\r") for line in content.split("\n")], delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        lines = csv.reader(io.StringIO(content, newline=""), strict=True)
    most = csv.field_size_limit(MOST_TEXT)  # of a value, for all of Python; 2**17 without this
    try:
        header = [name.strip() for name in next(lines, [])]
        check_columns_of(path, needed, header)
        for line in lines:
            if not line:
                continue
            if len(line) != len(header):
                raise UserError(
                    f"{path} needs {len(header)} values in every row, and line {lines.line_num} has {len(line)}: "
                    "a separator within a value, or a quote that is not closed"
                )
            yield lines.line_num, dict(zip(header, line, strict=True))
    except csv.Error as error:
        raise UserError(f"{path} needs to be a table, and line {lines.line_num} is not: {error}") from None
    finally:
        csv.field_size_limit(most)


def _objects(path: Path, needed: Sequence[str], whole: bool) -> Iterator[Line]:
    content = read_text(path)
    lines: Iterator[tuple[int, JsonValue]]
    try:
        if whole:
            data = parsed_json(content)
            if not isinstance(data, list):
                raise UserError(f"{path} needs to be a list of objects, and is a {type(data).__name__}")
            lines = iter(enumerate(data, 1))
        else:
            lines = ((i, parsed_json(text)) for i, text in enumerate(content.split("\n"), 1) if text.strip())
        for number, line in lines:
            if not isinstance(line, dict):
                raise UserError(f"{path} needs an object in every line, and line {number} has none")
            check_columns_of(f"line {number} of {path}", needed, list(line))
            yield number, line
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{path} needs to be {'JSON' if whole else 'JSON lines'}, and is not: {error}") from None


def _parquet(path: Path, needed: Sequence[str]) -> Iterator[Line]:
    import pyarrow
    import pyarrow.parquet

    try:
        check_regular(path, MOST_TEXT)
        columns, most = list(dict.fromkeys(needed)), most_unpacked(path.stat().st_size)
        with pyarrow.parquet.ParquetFile(path) as file:
            check_columns_of(path, needed, file.schema_arrow.names)
            records, held = [], 0
            for batch in file.iter_batches(BATCH, columns=columns):
                if (held := held + batch.nbytes) > most:
                    raise UserError(f"{path} may hold {most} bytes when unpacked, and holds more")
                records += batch.to_pylist()
    except UserError:
        raise
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} needs to be a parquet file, and reading it failed: {_first(error)}") from None
    yield from enumerate(records, 1)


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
