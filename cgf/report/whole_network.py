"""Whole networks under CKKS, test sets from encrypted input to logits: the table of results/he/network/*.json."""

from __future__ import annotations

from pathlib import Path

from cgf.errors import UserError
from cgf.report.clean import clean
from cgf.report.columns import Column, markdown
from cgf.report.parameters import met
from cgf.report.red import reasons
from cgf.results import read_json
from cgf.stats.intervals import wilson
from cgf.stats.labels import in_words
from cgf.types import Json

MIB = 2**20
PARTS = {"softmax": "softmax", "norm": "norms", "activation": "activations"}


def _least(result: Json) -> float:
    """The lower end of Wilson's interval of the agreement."""
    return wilson(round(result["agreement"] * result["samples"]), result["samples"])[0]


COLUMNS = [
    Column("network", lambda r: r["file"]),
    Column("samples", lambda r: f"{r['samples']:,}" + (f" of {r['tokens']} tokens" if "tokens" in r else "")),
    Column("under CKKS", lambda r: f"{100 * r['accuracy']:.2f} %" + (" (red)" if reasons(r) else "")),
    Column("same algebra in the clear", lambda r: f"{100 * r['accuracy_plain']:.2f} %"),
    Column("as trained", lambda r: f"{100 * r['accuracy_exact']:.2f} %"),
    Column("agreement (95 % from)", lambda r: f"{r['agreement']:.4f} ({_least(r):.4f})"),
    Column("error of the largest logit", lambda r: f"{r['max_error'] / r['largest_logit']:.1e}"),
    Column("levels", lambda r: f"{r['levels']} ({r['levels_counted']} counted)"),
    Column("slots", lambda r: f"{r['ring_slots']:,}"),
    Column("128 bits", lambda r: r["met"]),
    Column("sets", lambda r: str(r["sets"])),
    Column("core-s", lambda r: f"{r['core_s']:,.0f}"),
    Column("wall s", lambda r: f"{r['wall_s']:,.0f}"),
    Column("workers x processes", lambda r: f"{r['workers']} x {r.get('processes', 1)}"),
    Column("core-s a sample", lambda r: f"{r['core_s'] / r['samples']:.2f}"),
    Column("s for one set", lambda r: f"{r['latency_s']:.0f}"),
    Column("peak MiB", lambda r: f"{r['peak_mib']:,.0f}"),
    Column("MiB up, down", lambda r: f"{r['bytes_up'] / MIB:.0f}, {r['bytes_down'] / MIB:.0f}"),
    Column("MiB of keys", lambda r: f"{r['key_bytes'] / MIB:.0f}"),
]


def sets(folder: Path) -> str:
    """A row a result. UserError where there is none."""
    files = sorted((folder / "he" / "network").glob("*.json"))
    if not files:
        raise UserError(f"{folder / 'he' / 'network'} holds no evaluations: bash scripts/network_sets.sh digits_1")
    results = [{**clean(path), "file": path.stem} for path in files]
    return markdown(COLUMNS, [{**result, "met": met(folder, result)} for result in results])


COST_COLUMNS = [
    Column("host and task", lambda r: r["name"]),
    Column("polynomial", lambda r: " + ".join(PARTS[kind] for kind in r["replaced"]) or "none"),
    Column(
        "seeds", lambda r: ", ".join(r["accuracy"]) + (f" (no result: {_listed(r['missing'])})" if r["missing"] else "")
    ),
    Column("samples", lambda r: f"{r['samples']:,}"),
    Column("accuracy by seed", lambda r: ", ".join(_of_seed(r, seed) for seed in r["accuracy"])),
    Column("mean", lambda r: f"{100 * r['mean']:.2f} %"),
    Column("against its own parts", lambda r: "" if r["against_own"] is None else in_words(r["against_own"])),
]


def _of_seed(row: Json, seed: str) -> str:
    """The accuracy of a seed; how many samples have no finite logits, which are wrong; and red: not to be encrypted."""
    lost, red = row.get("not_finite", {}).get(seed, 0), row.get("red", {}).get(seed)
    marks = [*([f"{lost:,} not finite"] if lost else []), *(["red"] if red else [])]
    return f"{100 * row['accuracy'][seed]:.2f} %" + (f" ({', '.join(marks)})" if marks else "")


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def costs(folder: Path) -> str:
    """What polynomial parts cost in accuracy, a row a replacement of each case. UserError where there is none."""
    files = sorted((folder / "network").glob("cost-*.json"))
    if not files:
        raise UserError(f"{folder / 'network'} holds no costs: python scripts/network_cost.py case=digits")
    made = [read_json(path) for path in files]
    return markdown(COST_COLUMNS, [{"name": one["name"], **row} for one in made for row in one["rows"]])
