"""Result rows as tables: plain dicts first, then the same cells for the terminal, markdown and HTML."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeGuard

from rich.table import Table

from cgf.report.red import reasons
from cgf.types import JsonValue

MISSING = "–"
PLAIN, CKKS, NETWORK = "eval_plain", "eval_he", "eval_network"
USUAL = "folded"  # the circuit that is asked for unless a command says another
EVALUATIONS = (PLAIN, CKKS, NETWORK)


class Column(NamedTuple):
    """Where a row has a value, the title above it, and how the value reads."""

    key: str
    title: str
    text: Callable[[JsonValue], str]


# ---------------------------------------------------------------- values as text


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number, which a truth value is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain(value: object) -> str:
    """Any value in short: a count with its thousands set apart, a measure to four digits, an interval."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(plain(item) for item in value) + "]"
    return str(value)


def percent(value: object) -> str:
    """A share in [0, 1] as a percentage; one that is not 0 or 1 is never rounded to it."""
    if not is_number(value):
        return plain(value)
    if 0 < value < 5e-5:
        return "<0.01 %"
    if 0.99995 < value < 1:
        return ">99.99 %"
    return f"{100 * value:.2f} %"


def error(value: object) -> str:
    """An error in scientific notation; 0 and what is no number as ``plain`` has them."""
    return f"{value:.2e}" if is_number(value) and value else plain(value)


def rate(value: object) -> str:
    """A rate without decimals from 100 on."""
    return f"{value:,.0f}" if is_number(value) and value >= 100 else plain(value)


# ---------------------------------------------------------------- the main table

COLUMNS = (
    Column("model", "model", plain),
    Column("task", "task", plain),
    Column("softmax", "softmax", plain),
    Column("exponential", "exponential", plain),
    Column("engine", "engine", plain),
    Column("levels", "levels", plain),
    Column("accuracy", "accuracy", percent),
    Column("accuracy_ckks", "accuracy under CKKS", percent),
    Column("agreement", "agreement", percent),
    Column("max_error", "max error", error),
    Column("entries_per_s", "entries/s", rate),
    Column("outside_domain", "outside domain", percent),
    Column("samples", "samples", plain),
)
NOTES = (
    "accuracy: in the clear, on the samples of that row, with the row's exponential.",
    "agreement: share of samples with the same prediction as in the clear; max error: largest difference of "
    "a softmax weight from the same polynomial in the clear; of a whole attention, of an output; of a whole "
    "network, of a logit.",
    "entries/s: softmax entries by the whole time of the evaluation, encryption and decryption included.",
    "outside domain: share of entries outside the interval on which the polynomial's accuracy is stated.",
    "engine: 'clear' is plain arithmetic, 'simulator' the circuit of CKKS on plain numbers (no encryption, "
    "so no accuracy under CKKS); 'red' a result that is not to be believed, for a reason that its file says.",
)


def table_rows(results: list[dict]) -> list[dict]:
    """One dict of raw values for each evaluation, keys as in COLUMNS; None where a file says nothing."""
    evaluations = [result for result in results if result.get("kind") in EVALUATIONS]
    return [_row(result) for result in sorted(evaluations, key=_order)]


def _order(result: dict) -> tuple:
    """Task and model together; the exact softmax first, then the clear before CKKS, exact before others."""
    softmax, approx = str(result.get("softmax")), str(result.get("approx"))
    names = (str(result.get("task")), str(result.get("model")), softmax != "exact", softmax)
    return (*names, result["kind"] != PLAIN, approx != "exact", approx, str(result.get("_path")))


def engine_name(result: dict) -> str:
    """'clear', 'simulator', or the engine under CKKS; it says so of whole attentions and networks, and of a circuit
    that was asked for."""
    if result.get("kind") == PLAIN:
        return "clear"
    name = f"CKKS ({result.get('engine', 'unnamed')})" if under_ckks(result) else "simulator"
    if result.get("kind") == NETWORK:
        return f"{name}, whole network"
    ran = result.get("circuit")  # files of before say that alone
    if (circuit := result.get("circuit_asked", ran if ran == "paper" else USUAL)) != USUAL:
        name = f"{name}, he.circuit={circuit}"
    return f"{name}, whole attention" if "layout" in result else name


def under_ckks(result: dict) -> bool:
    """True for a result of real encryption; the simulator's is not one and must not be shown as one.

    Files of before it was written are told by their engine, a setting then, and by the owner that they name.
    """
    if result.get("kind") == NETWORK:
        return bool(result.get("encrypted"))
    owner = _dict(_dict(_dict(_dict(result.get("run")).get("config")).get("he")).get("owner")).get("_target_")
    simulated = result.get("engine") == "sim" or str(owner).endswith(".SimOwner")
    return result.get("kind") == CKKS and bool(result.get("encrypted", not simulated))


def _row(result: dict) -> dict:
    shared = ("model", "task", "softmax", "levels", "outside_domain")
    row = {column.key: None for column in COLUMNS} | {key: result.get(key) for key in shared}
    row |= {"exponential": result.get("approx"), "engine": engine_name(result), "samples": samples(result)}
    if red := reasons(result):
        row |= {"engine": f"{row['engine']}, red", "red": [f"{result.get('_path')}: {reason}" for reason in red]}
    if result["kind"] == PLAIN:
        return row | {"accuracy": result.get("accuracy")}
    row |= {key: result.get(key) for key in ("agreement", "max_error")}
    row |= {"accuracy": result.get("accuracy_plain"), "entries_per_s": _rate(result)}
    return row | {"accuracy_ckks": result.get("accuracy") if under_ckks(result) else None}


def samples(result: dict) -> str | None:
    """'360 (test)': how many samples, and of which split."""
    if result.get("samples") is None:
        return None
    told = [str(result["split"])] if result.get("split") else []
    told += [f"shard {result['shard']}"] if result.get("shard") else []
    return plain(result["samples"]) + (f" ({', '.join(told)})" if told else "")


def _rate(result: dict) -> float | None:
    seconds = result.get("seconds")
    total = seconds.get("total") if isinstance(seconds, dict) else seconds
    entries = result.get("entries")
    return entries / total if is_number(entries) and is_number(total) and total > 0 else None


# ---------------------------------------------------------------- further tables, as lists of dicts


def circuit_rows(results: list[dict]) -> list[dict]:
    """What each encrypted evaluation cost: ring, levels read off and counted, operations by kind, seconds."""
    table = []
    for result in (result for result in results if result.get("kind") == CKKS):
        row = {"result": result.get("_path"), "engine": engine_name(result)}
        names = ("ring_slots", "levels", "levels_counted", "mean_error", "beyond_guard", "entries")
        row |= {name.replace("_", " "): result.get(name) for name in names}
        row |= {f"{name} (count)": count for name, count in _dict(result.get("ops")).items()}
        row |= {f"{name} (s)": time for name, time in _dict(result.get("seconds")).items()}
        table.append(row)
    return table


def layer_rows(results: list[dict]) -> list[dict]:
    """One dict a layer of every encrypted evaluation, with the path of its result."""
    return [
        {"result": result.get("_path")} | {str(key).replace("_", " "): value for key, value in layer.items()}
        for result in results
        if result.get("kind") == CKKS
        for layer in result.get("layers") or []
    ]


def plan_rows(plans: dict[str, dict]) -> list[dict]:
    """The scalar and interval fields of every plan, coefficients left to the file itself."""
    hashes = {"checkpoint": "checkpoint sha256", "seal": "seal sha256"}
    short = ((name, _short(plan)) for name, plan in plans.items())
    return [{"checkpoint": name} | {hashes.get(k, k.replace("_", " ")): said[k] for k in said} for name, said in short]


def other_rows(results: list[dict]) -> list[dict]:
    """Results of a kind this report has no table for: name, kind and scalar fields. Networks: cgf.report.scopes."""
    return [
        {"result": result.get("_path"), "kind": result.get("kind")} | _scalars(result)
        for result in results
        if result.get("kind") not in EVALUATIONS
    ]


def _scalars(data: dict) -> dict:
    return {
        key: value
        for key, value in data.items()
        if not key.startswith("_") and (value is None or isinstance(value, str | int | float))
    }


def _short(plan: JsonValue) -> dict:
    def pair(value: JsonValue) -> bool:
        return isinstance(value, list) and len(value) == 2 and all(is_number(end) for end in value)

    intervals = {key: value for key, value in _dict(plan).items() if pair(value)}
    return _scalars(_dict(plan)) | intervals


def _dict(value: JsonValue) -> dict:
    return value if isinstance(value, dict) else {}


# ---------------------------------------------------------------- the same cells, three ways


def cells(row: dict) -> list[str]:
    """The texts of a main row, in the order of COLUMNS."""
    return [column.text(row.get(column.key)) for column in COLUMNS]


def terminal(main: list[dict], title: str = "") -> Table:
    """A rich table of `table_rows()`. Columns that no row fills are left out: a terminal is narrow."""
    table = Table(title=title or None, title_justify="left", caption_justify="left")
    used = [column for column in COLUMNS if any(row.get(column.key) is not None for row in main)]
    for column in used:
        numeric = not any(isinstance(row.get(column.key), str) for row in main) or column.key == "samples"
        table.add_column(column.title, justify="right" if numeric else "left", overflow="fold")
    for row in main:
        table.add_row(
            *(column.text(row.get(column.key)).replace("[", r"\[") for column in used),
            style="red" if row.get("red") else None,
        )
    return table


def markdown(main: list[dict]) -> str:
    """A markdown table of `table_rows()`, all columns, for a README."""
    head = [column.title for column in COLUMNS]
    lines = [head, ["---"] * len(head), *(cells(row) for row in main)]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
