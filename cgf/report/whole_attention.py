"""Whole attentions of whole test sets under CKKS, what was published beside, and the library's matrix form."""

from __future__ import annotations

from pathlib import Path

from cgf.errors import UserError
from cgf.published import ATTENTIONS
from cgf.report.clean import clean
from cgf.report.columns import NONE, Column, grid, markdown
from cgf.report.parameters import met
from cgf.report.red import reasons
from cgf.report.whole import exponential
from cgf.types import Json

Result = Json

COLUMNS = [
    Column("host", lambda r: r["model"]),
    Column("task", lambda r: r["task"]),
    Column("softmax", lambda r: f"{r['softmax']}, {exponential(r)}"),
    Column("samples", lambda r: f"{r['samples']:,}"),
    Column("under CKKS", lambda r: _per_cent(r["accuracy"]) + (" (red)" if reasons(r) else "")),
    Column("in the clear", lambda r: _per_cent(r["accuracy_plain"])),
    Column("agreement", lambda r: f"{r['agreement']:.4f}"),
    Column("levels", lambda r: str(r["levels"])),
    Column("128 bits", lambda r: r["met"]),
    Column("largest error", lambda r: f"{r['max_error']:.1e}"),
    Column("minutes", lambda r: f"{r['seconds']['total'] / 60:.1f}"),
    Column("workers", lambda r: str(r["workers"])),
    Column("key holder core-s", lambda r: f"{r['client_s']:,.0f}"),
    Column("server core-s", lambda r: f"{r['server_s']:,.0f}"),
    Column("core-s a sample", lambda r: f"{(r['client_s'] + r['server_s']) / r['samples']:.2f}"),
    Column("µs a score entry", lambda r: f"{r['us_per_entry_core']:.1f}"),
    Column("peak MiB, all processes", lambda r: f"{r['peak_mib']:,.0f}"),
    Column("peak MiB, largest worker", lambda r: f"{r['worker_mib']:,.0f}" if r.get("worker_mib") else "–"),
]


def sets(folder: Path) -> str:
    """A row a result of results/he/attention. UserError where there is none."""
    files = sorted((folder / "he" / "attention").glob("*.json"))
    if not files:
        raise UserError(f"{folder / 'he' / 'attention'} holds no evaluations: bash scripts/attention_sets.sh clinc150")
    results = [clean(path) for path in files]
    return markdown(COLUMNS, [{**result, "met": met(folder, result)} for result in results])


def published() -> str:
    """What others report of encrypted attentions and of their products; other machines, nothing measured here."""
    lines = [
        [f"*{a.title}*", a.figure, a.machine, a.source, "second hand" if a.second_hand else NONE] for a in ATTENTIONS
    ]
    return grid(["work", "figure", "machine", "source", "remark"], lines)


def matrix_form(result: Result) -> str:
    """The matrix form and products of prepared operands on the same matrices."""
    lines = [
        [
            f"256 x ({p['size']} x {p['size']})",
            f"{p['matrix_form']['s']:.2f}",
            f"{p['matrix_form']['us_per_mac']:.2f}",
            f"{p['matrix_form']['max_error']:.1e}",
            f"{p['prepared']['s']:.2f}",
            f"{p['prepared']['us_per_mac']:.2f}",
            f"{p['prepared']['us_per_mac_full']:.2f}",
            f"{p['prepared']['max_error']:.1e}",
            f"{p['difference']:.1e}",
        ]
        for p in result["products"]
    ]
    titles = [
        "products",
        "matrix form s",
        "µs a multiply-add",
        "error",
        "prepared s",
        "µs a multiply-add (256 instances)",
        "µs a multiply-add (all slots)",
        "error",
        "difference",
    ]
    return grid(titles, lines)


def _per_cent(share: float) -> str:
    return f"{100 * share:.2f} %"
