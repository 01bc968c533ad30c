"""Known models as whole networks under CKKS, predicted: the table of results/bench/what_it_takes.json."""

from __future__ import annotations

from cgf.report.columns import Column, markdown
from cgf.types import Json


def table(result: Json) -> str:
    """A row a model."""
    return markdown(COLUMNS, result["models"])


def _levels(r: Json) -> str:
    more = r["levels_of_masks_and_positions"]
    return str(r["levels"]) + (f" ({r['levels_of_blocks']} + {more})" if more else "")


def _fits(r: Json) -> str:
    return "yes" if r["fits"] else f"no: {r['would_fit']} would"


def _bootstraps(r: Json) -> str:
    if r["fits"]:
        return "0"
    return f"{r['bootstraps']:,} ({r['refreshes']} x {r['bootstraps'] // r['refreshes']:,})"


def _seconds(s: float) -> str:
    """Two figures of what is small, whole numbers of what is large."""
    return f"{s:,.0f}" if s >= 10 else f"{s:.2g}"


COLUMNS = [
    Column("model", lambda r: r["name"]),
    Column("blocks, width, heads, MLP, tokens, K", lambda r: _sizes(r)),
    Column("levels", _levels),
    Column("fits 36", _fits),
    Column("bootstraps", _bootstraps),
    Column("slots", lambda r: f"{r['ring_slots']:,}"),
    Column("samples a set", lambda r: f"{r['samples']:,}"),
    Column("core-s a set, no bootstraps", lambda r: _seconds(r["core_s_circuit"])),
    Column("core-s of bootstraps", lambda r: _seconds(r["bootstrap_s"]) if r["bootstraps"] else "0"),
    Column("core-s a sample", lambda r: _seconds(r["core_s_per_sample"])),
    Column("of multiply-adds, key switches", lambda r: _shares(r)),
    Column("GiB of ciphertexts", lambda r: f"{r['ciphertext_gib']:.1f}"),
    Column("GiB of keys", lambda r: f"{r['key_gib']:.1f}"),
]


def _sizes(r: Json) -> str:
    heads = f"{r['heads']}" + (f"/{r['kv_heads']}" if r["kv_heads"] else "")
    return f"{r['blocks']}, {r['width']:,}, {heads}, {r['mlp']:,}, {r['tokens']}, {r['k']}"


def _shares(r: Json) -> str:
    share = r["share"]
    return f"{100 * share['multiply-adds']:.0f} %, {100 * share['key switches']:.0f} %"
