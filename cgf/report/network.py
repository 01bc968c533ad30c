"""What an evaluation of a whole network under CKKS tells its user."""

from __future__ import annotations

from pathlib import Path

from cgf.report.red import tell_red
from cgf.types import Json


def tell_network(result: Json, path: Path, whose: str) -> None:
    """Prints the ``judged`` result of ``path``; exit code 1 where it is red. whose: plan or polynomial."""
    print(told(result))
    print(path)
    tell_red(result)


def told(result: Json) -> str:
    """What a result says, in lines for the terminal."""
    where = f"under CKKS ({result['engine']})" if result["encrypted"] else f"simulated ({result['engine']})"
    up, down = (None if result[key] is None else result[key] / 2**20 for key in ("bytes_up", "bytes_down"))
    sizes = "" if up is None or down is None else f", {up:.0f} MiB up, {down:.1f} MiB down"
    chosen = (
        [f"{result['samples']:,} of the {result['of_so_many']:,} samples of {result['tokens']} tokens in the split"]
        if "tokens" in result
        else []
    )
    return "\n".join(
        [
            *chosen,
            f"accuracy {result['accuracy']:.4f} {where}, {result['accuracy_plain']:.4f} by the same algebra in the "
            f"clear, {result['accuracy_exact']:.4f} by the model as trained; agreement {result['agreement']:.4f} and "
            f"{result['agreement_exact']:.4f}",
            f"largest error of a logit {result['max_error']:.2e} of {result['largest_logit']:.3g} (folding alone "
            f"{result['unfolded_error']:.1e}), levels {result['levels']} ({result['levels_counted']} counted), "
            f"{result['ring_slots']} slots",
            f"{result['core_s']:.1f} core-seconds in {result['sets']} sets, {result['s_per_sample']:.3f} s a sample, "
            f"{result['latency_s']:.1f} s a set{sizes}; {result['scope']}",
        ]
    )
