"""What an encrypted evaluation tells its user: figures, warnings by layer and head, the exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from cgf.report.trace import draw
from cgf.results import write_bytes


def tell(result: dict[str, Any], path: Path, whose: str) -> None:
    """Prints the result of ``path`` and draws its trace beside it.

    whose: plan or polynomial, for the words. Ends with exit code 1 where an entry lay beyond the guard (one such slot
    may ruin its whole ciphertext), a slot of the simulator beyond what a ciphertext holds, or a sample was ruined.
    """
    write_bytes(path.with_suffix(".png"), draw(result))
    print(f"accuracy {result['accuracy']:.4f} under CKKS ({result['engine']}), {result['accuracy_plain']:.4f} in the "
          f"clear with the same polynomial, {result['accuracy_exact']:.4f} as trained; agreement "
          f"{result['agreement']:.4f}")
    print(f"largest error {result['max_error']:.2e}, levels {result['levels']} ({result['levels_counted']} counted), "
          f"{result['us_per_entry']:.1f} us an entry, {result['samples_per_s']:.2f} samples/s; {result['scope']}")
    print(circuits(result))
    print(path)
    if result["outside_domain"]:
        print(f"warning: {result['outside_domain']:.2%} of the entries lay outside the {whose}'s accuracy domain: "
              f"{places(result['layers'], 'outside')}", file=sys.stderr)
    if found := complaints(result, whose):
        print("\n".join(found), file=sys.stderr)
        sys.exit(1)


def circuits(result: dict[str, Any]) -> str:
    """Which circuits ran, and that another than the one asked for did."""
    asked, ran = result["circuit"], result["circuits"]
    shown = "circuits: " + ", ".join(f"{name} ({count} entries)" for name, count in ran.items())
    other = sum(count for name, count in ran.items() if name not in (asked, "not recorded"))
    return shown + (f"; he.circuit={asked} was asked for, and {other} of {result['entries']} entries went through "
                    "another: it takes other rows, or the softmax has one of its own" if other else "")


def complaints(result: dict[str, Any], whose: str) -> list[str]:
    """A sentence for each reason not to believe the result."""
    found, cure = [], "calibrate on more samples or train with a range penalty"
    if result["beyond_guard"]:
        found.append(f"error: {result['beyond_guard']} entries lay beyond the {whose}'s guard, so their ciphertexts "
                     f"may be ruined: {places(result['layers'], 'beyond')}; {cure}")
    if result["overflow"]:
        found.append(f"error: {result['overflow']} slots of the simulator, summed over operations, held more than a "
                     f"ciphertext can; {cure}")
    if result["ruined"]:
        found.append(f"error: {result['ruined']} of {result['samples']} samples are ruined, counted as wrong: their "
                     f"weights came back as no finite numbers: {places(result['layers'], 'ruined')}; {cure}")
    return found


def places(layers: list[dict[str, Any]], key: str) -> str:
    """Layers and heads where ``key`` (outside, beyond, ruined) counts: 'layer 2 head 5 (17), ...', the most first."""
    found = [(count, layer["layer"], head) for layer in layers if layer["heads"]
             for head, count in enumerate(layer["heads"][key]) if count]
    found.sort(key=lambda x: (-x[0], x[1:]))
    named = ", ".join(f"layer {layer} head {head} ({count})" for count, layer, head in found[:5])
    return named + (f" and {len(found) - 5} more heads" if len(found) > 5 else "")
