"""How much of a model stayed encrypted: evaluations of softmaxes, whole attentions and whole networks side by side."""

from __future__ import annotations

from rich.table import Table

from cgf.report.columns import NONE, Column, terminal
from cgf.report.red import reasons
from cgf.report.tables import CKKS, NETWORK
from cgf.types import Json

KINDS = (CKKS, NETWORK)
SEES = {
    "softmax": "scores and weights of each layer",
    "attention": "outputs of each layer's attention",
    "network": "logits",
}


def what(result: Json) -> str:
    """softmax, attention or network: what was computed on ciphertexts."""
    if result["kind"] == NETWORK:
        return "network"
    return "attention" if str(result.get("scope", "")).startswith("attention") else "softmax"


def core_seconds(result: Json) -> float | None:
    """Of the ciphertexts alone; None where an older file does not tell."""
    if "core_s" in result:
        return float(result["core_s"])
    if "client_s" in result:
        return float(result["client_s"] + result["server_s"])
    seconds = result.get("seconds") or {}
    parts = [seconds[name] for name in ("pack", "encrypt", "circuit", "decrypt") if name in seconds]
    return float(sum(parts)) if parts else None


def _share(result: Json) -> str:
    spent = core_seconds(result)
    count = result.get("samples")
    return NONE if spent is None or not count else f"{spent / count:.2f}"


def _cell(result: Json, key: str, form: str) -> str:
    value = result.get(key)
    return NONE if value is None else format(value, form)


def _accuracy(result: Json) -> str:
    share = result.get("accuracy")
    told = NONE if share is None else f"{100 * share:.2f} %"
    return told + (" (red)" if reasons(result) else "")


COLUMNS = [
    Column("encrypted", lambda r: what(r) if r.get("encrypted") else f"{what(r)} (simulated)"),
    Column("model", lambda r: f"{r.get('model', NONE)}, {r.get('softmax', NONE)}"),
    Column("samples", lambda r: _cell(r, "samples", ",")),
    Column("accuracy", _accuracy),
    Column("agreement", lambda r: _cell(r, "agreement", ".4f")),
    Column("largest error", lambda r: _cell(r, "max_error", ".1e")),
    Column("levels", lambda r: _cell(r, "levels", "")),
    Column("slots", lambda r: str(r.get("ring_slots", NONE))),
    Column("core-s", lambda r: NONE if core_seconds(r) is None else f"{core_seconds(r):.1f}"),
    Column("core-s a sample", _share),
    Column("the key holder sees", lambda r: SEES[what(r)]),
]


def compared(results: list[Json]) -> list[Json]:
    """The evaluations to show, least encrypted first: those on ciphertexts, and whole networks on the simulator too.

    None where softmaxes alone, or attentions alone, were evaluated: they have a table of their own.
    """
    shown = [r for r in results if r.get("kind") in KINDS and (r.get("encrypted") or r["kind"] == NETWORK)]
    order = list(SEES)
    several = len({what(r) for r in shown}) > 1 or any(r["kind"] == NETWORK for r in shown)
    return sorted(shown, key=lambda r: order.index(what(r))) if several else []


def side_by_side(results: list[Json]) -> Table | None:
    """A table for the terminal; None where there is nothing to compare."""
    shown = compared(results)
    return terminal(COLUMNS, shown, title="how much stays encrypted") if shown else None


def table_rows(results: list[Json]) -> list[Json]:
    """The same table as a dict a row, of column and cell."""
    return [{column.title: column.cell(result) for column in COLUMNS} for result in compared(results)]
