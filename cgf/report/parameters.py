"""Rings, moduli and secrets of the engines beside the bound for 128 bits, from results/bench/parameters.json."""

from __future__ import annotations

from cgf.types import Json

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
