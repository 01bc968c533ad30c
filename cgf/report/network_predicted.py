"""Whole networks predicted and measured: the table of results/bench/network_predicted.json."""

from __future__ import annotations

from cgf.report.columns import Column, markdown
from cgf.types import Json


def table(result: Json) -> str:
    """A row a network."""
    return markdown(COLUMNS, result["networks"])


def _pair(key: str) -> Column:
    titles = {"core_s": "core-s", "set_s": "s for one set", "mib": "peak MiB"}

    def cell(r: Json) -> str:
        both = r[key]
        return f"{both['predicted']:,.0f} / {both['measured']:,.0f} ({both['ratio']:.2f})"

    return Column(f"{titles[key]}, predicted / measured", cell)


COLUMNS = [
    Column("network", lambda r: r["network"]),
    Column("sets", lambda r: str(r["sets"])),
    Column("processes", lambda r: str(r["processes"])),
    Column("levels, predicted / used", lambda r: f"{r['levels']['predicted']} / {r['levels']['measured']}"),
    _pair("core_s"),
    _pair("set_s"),
    _pair("mib"),
]
