"""What CGF-softmax costs by layer and head: what scripts/gap.py prints, and the table of results/gap/*.json."""

from __future__ import annotations

import math
from pathlib import Path

from cgf.errors import UserError
from cgf.report.columns import Column, grid, markdown
from cgf.results import read_json
from cgf.types import Json

WAYS = {
    "exact": "exact softmax",
    "as_it_is": "as it is",
    "mean_off": "mean of ln s off, by head",
    "unit_rows": "w + (1 - s) / n",
    "newton": "w (2 - s)",
}
MEASURES = {
    "log_size": "size of ln s",
    "log_deviation": "deviation of ln s",
    "row_sum_off": "mean distance of s from 1",
    "outside": "rows outside 1/2 to 2",
    "output_error": "error of outputs",
}


def cost(head: Json) -> float:
    """A head's cost; infinite where it is no number."""
    return math.inf if head["cost"] is None else float(head["cost"])


def told(result: Json) -> str:
    """For the terminal: the heads that cost most, what tells the cost, and the whole model each way."""
    most = sorted(result["heads"], key=cost, reverse=True)[:8]
    lines = [
        f"{result['name']}, trained with {result['trained_with']}; the heads where {result['softmax']} costs most:"
    ]
    lines += [
        f"  layer {head['layer']} head {head['head']}: cross-entropy {cost(head):+.4f}, ln s {head['log_mean']:+.2f} "
        f"+- {head['log_deviation']:.2f}, outputs off by {head['output_error']:.2g} of their size"
        for head in most
    ]
    lines.append("rank correlation with the cost over all heads:")
    lines += [f"  {MEASURES[name]}: {_rho(one)}" for name, one in result["tells"].items()]
    lines.append("the whole model:")
    lines += [f"  {WAYS[name]}: {_whole(one)}" for name, one in result["whole"].items()]
    return "\n".join(lines)


def _rho(one: Json | None) -> str:
    return "all alike" if one is None else f"{one['rho']:.2f} (p = {one['p']:.1g})"


def _whole(one: Json) -> str:
    loss = "no number" if one["loss"] is None else f"{one['loss']:.3f}"
    return f"{100 * one['accuracy']:.2f} %, {loss}"


def _way(name: str) -> Column:
    return Column(WAYS[name], lambda r: _whole(r["whole"][name]))


def _results(folder: Path) -> list[Json]:
    files = sorted((folder / "gap").glob("*.json"))
    if not files:
        raise UserError(f"{folder / 'gap'} holds no results: python scripts/gap.py ckpt=RUN out={folder}/gap/NAME.json")
    return [{**read_json(path), "file": path.stem} for path in files]


def whole(folder: Path) -> str:
    """Accuracy and cross-entropy on validation, with exact softmax and with CGF-softmax as it is and put right."""
    columns = [
        Column("model", lambda r: r["file"]),
        Column("trained with", lambda r: r["trained_with"]),
        Column("samples", lambda r: f"{r['samples']:,}"),
        *[_way(name) for name in WAYS],
    ]
    return markdown(columns, _results(folder))


def heads(folder: Path) -> str:
    """What the row sums are over the heads, the costs, and what tells them."""
    lines = []
    for result in _results(folder):
        costs = sorted(map(cost, result["heads"]))
        sizes = sorted(head["log_size"] for head in result["heads"])
        lines.append(
            [
                result["file"],
                str(len(costs)),
                f"{sizes[len(sizes) // 2]:.2f} (to {sizes[-1]:.1f})",
                f"{costs[len(costs) // 2]:+.4f} (to {costs[-1]:+.4f})",
                *[_rho(result["tells"][name]) for name in MEASURES],
            ]
        )
    titles = [f"rank correlation: {title}" for title in MEASURES.values()]
    return grid(["model", "heads", "size of ln s, median head", "cost of the median head", *titles], lines)
