"""What an encrypted evaluation tells its user: figures, warnings by layer and head, the exit code."""

from __future__ import annotations

import sys
from pathlib import Path

from cgf.report.red import judged as judged
from cgf.report.red import places, polynomial_told, tell_red
from cgf.report.trace import draw
from cgf.results import write_bytes
from cgf.types import Json

ONLY = ("formula", "plain", "rooted")  # circuits of softmaxes that have no folded one


def tell(result: Json, path: Path, whose: str) -> None:
    """Prints the ``judged`` result of ``path`` and draws its trace beside it; exit code 1 where it is red.

    whose: plan or polynomial, for the words.
    """
    write_bytes(path.with_suffix(".png"), draw(result))
    print(
        f"accuracy {result['accuracy']:.4f} {where(result)}, {result['accuracy_plain']:.4f} in the "
        f"clear with the same polynomial, {result['accuracy_exact']:.4f} as trained; agreement "
        f"{result['agreement']:.4f}, with the checkpoint as trained {result['agreement_exact']:.4f}"
    )
    print(
        f"largest error {result['max_error']:.2e}, levels {result['levels']} ({result['levels_counted']} counted), "
        f"{result['us_per_entry']:.1f} us an entry, {result['samples_per_s']:.2f} samples/s; {result['scope']}"
    )
    print(circuits(result))
    if told := polynomial_told(result):
        print(f"exponential {result['approx']}{told}")
    print(path)
    if result.get("replaced"):
        print(
            f"warning: the checkpoint was trained with softmax '{result['trained_with']}', and '{result['softmax']}' "
            f"stands in its place untrained: {result['agreement_exact']:.2%} of the samples are predicted as trained",
            file=sys.stderr,
        )
    if result["outside_domain"]:
        print(
            f"warning: {result['outside_domain']:.2%} of the entries lay outside the {whose}'s accuracy domain: "
            f"{places(result['layers'], 'outside')}",
            file=sys.stderr,
        )
    tell_red(result)


def where(result: Json) -> str:
    """'under CKKS (desilo)'; of a simulation that nothing was encrypted."""
    if not result.get("encrypted", result["engine"] != "sim"):
        return f"simulated ({result['engine']}, nothing encrypted)"
    return f"under CKKS ({result['engine']})"


def circuits(result: Json) -> str:
    """Which circuits ran, and that another than the one asked for did."""
    asked, ran = result.get("circuit_asked", result["circuit"]), result["circuits"]
    shown = "circuits: " + ", ".join(f"{name} ({count} entries)" for name, count in ran.items())
    if asked == "abreast" and any(name in ONLY for name in ran):
        return f"{shown}; he.circuit=abreast was asked for, and softmax '{result['softmax']}' has no such circuit"
    other = sum(count for name, count in ran.items() if name not in (asked, *ONLY, "not recorded"))
    return shown + (
        f"; he.circuit={asked} was asked for, and {other} of {result['entries']} entries went through "
        "another, which computes the same: rows with padding or a causal mask have one of their own, as have columns "
        "that share a ciphertext with empty ones (few rows at once), and chains of more than 10 squarings on few keys"
        if other
        else ""
    )
