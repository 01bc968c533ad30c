"""Rings, moduli and secrets of the engines beside the bound for 128 bits, from results/bench/parameters.json."""

from __future__ import annotations

from pathlib import Path

from cgf.results import read_json
from cgf.types import Json

FILE = "bench/parameters.json"  # below results
MEASURED = "desilo"  # the engine whose sizes it has
UNKNOWN, NONE = "unknown", "–"
TITLES = ["max_level", "N", "log Q", "log P", "log QP", "digits", "secret", "128-bit bound", "met"]


def lines(result: Json) -> list[list[str]]:
    """A line an engine."""
    return [
        [
            str(row["max_level"]),
            f"{row['n']:,}",
            str(row["log_q"]),
            "unknown" if row["log_p"] is None else str(row["log_p"]),
            str(row["log_qp"]),
            str(row["digits"]),
            secret(row["secret"]),
            str(row["bound_128"]),
            "met" if row["met"] else "not met",
        ]
        for row in result["engines"]
    ]


def secret(shares: dict[str, float] | None) -> str:
    """'ternary, 66.7 % not zero'."""
    return "unknown" if shares is None else f"ternary, {100 * (1 - shares.get('0', 0.0)):.1f} % not zero"


def met(folder: Path, result: Json) -> str:
    """Whether the engine sizes that a result under CKKS ran in meet the bound for 128 bits: 'met', or 'not met'.

    In each ring that the result names, the size is that of its levels, or of he.max_level where that was set higher, or
    of all that the ring has where the result takes more in a larger one. A dash where the engine was not measured,
    'unknown' where no measured size tells.
    """
    path = folder / FILE
    if result.get("engine") != MEASURED or not path.is_file():
        return NONE
    rings = result["ring_slots"] if isinstance(result["ring_slots"], list) else [result["ring_slots"]]
    told = {_of_ring([row for row in read_json(path)["engines"] if row["slots"] == slots], result) for slots in rings}
    return next((word for word in ("not met", UNKNOWN) if word in told), "met")


def _of_ring(engines: list[Json], result: Json) -> str:
    """Of the sizes of one ring, whose modulus grows with the level: met below one that is, not met above one that is
    not."""
    run = result.get("run", {})
    run = run.get("shards", [run])[0]  # a merged result's own command evaluated nothing; its shards are of one setting
    asked = run.get("config", {}).get("he", {}).get("max_level") or 0
    levels = min(max(result["levels"], asked), max((row["max_level"] for row in engines), default=0))
    if any(row["met"] and row["max_level"] >= levels for row in engines):
        return "met"
    return "not met" if any(not row["met"] and row["max_level"] <= levels for row in engines) else UNKNOWN
