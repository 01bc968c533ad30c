"""Whole attentions by shape, from results/bench/attention.json: what they cost, and what was predicted before."""

from __future__ import annotations

from cgf.report.columns import Column, markdown
from cgf.types import Json

Shape = Json  # one of the file's shapes


def seconds(shape: Shape) -> float:
    """Of the key holder and the server together, one thread."""
    return float(shape["client_s"] + shape["server_s"])


def spread(shape: Shape) -> str:
    """Seconds of the fastest and the slowest run; a dash where there was one."""
    runs = shape.get("runs")
    return "–" if runs is None else f"{runs['least_s']:.1f} to {runs['most_s']:.1f} ({runs['count']} runs)"


def together(shape: Shape) -> str:
    """Milliseconds a head where several processes take a set each, and how many times fewer than one alone takes."""
    beside = shape.get("side_by_side")
    if beside is None:
        return "–"
    return f"{beside['ms_per_head']:.1f} ({shape['ms_per_head'] / beside['ms_per_head']:.2f} times)"


def divided(shape: Shape) -> str:
    """Seconds of a layer whose heads are shared out over several processes; a dash where that was not measured."""
    shared = shape.get("shared_out")
    return "–" if shared is None else f"{shared['seconds']:.1f} ({shared['workers']} workers)"


COLUMNS = [
    Column("attention", lambda s: f"{s['samples']:,} x {s['heads']} heads, {s['tokens']} tokens, {s['rows']}"),
    Column("features", lambda s: str(s["features"])),
    Column("layout", lambda s: s["layout"]),
    Column("levels", lambda s: str(s["levels"])),
    Column("ciphertexts in, out", lambda s: "{encrypted:,}, {decrypted:,}".format(**s["ciphertexts"])),
    Column("key holder s", lambda s: f"{s['client_s']:.1f}"),
    Column("server s", lambda s: f"{s['server_s']:.1f}"),
    Column("both, range of the runs, s", spread),
    Column("ms a head", lambda s: f"{s['ms_per_head']:.1f}"),
    Column("µs a multiply-add", lambda s: f"{s['us_per_mac']:.2f}"),
    Column("µs a score entry", lambda s: f"{s['us_per_entry']:.1f}"),
    Column("peak MiB", lambda s: f"{s['peak_mib']:,.0f}"),
    Column("predicted / measured s", lambda s: f"{s['predicted']['total_s'] / seconds(s):.2f}"),
    Column("predicted / measured MiB", lambda s: f"{s['predicted']['mib'] / s['peak_mib']:.2f}"),
    Column("error of the largest output", lambda s: f"{s['max_error'] / s['largest']:.1e}"),
]


# where the result was made with several workers
BESIDE = {
    "side_by_side": Column("ms a head, a set a worker at once", together),
    "shared_out": Column("one sample's layer shared out over the workers, s", divided),
}


def table(result: Json) -> str:
    """A markdown table, a row a shape."""
    measured = [column for field, column in BESIDE.items() if any(field in shape for shape in result["shapes"])]
    return markdown([*COLUMNS, *measured], result["shapes"])
