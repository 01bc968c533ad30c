"""What a polynomial network costs in accuracy: its parts replaced alone and together, over seeds, on the test split."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cgf.errors import UserError
from cgf.results import Json, read_json

KINDS = ("softmax", "norm", "activation")
# which kinds are replaced in each row of the table
ROWS: dict[str, tuple[str, ...]] = {"own": (), **{kind: (kind,) for kind in KINDS}, "all": KINDS}
EVALUATION = "test.json"


@dataclass(frozen=True)
class Case:
    """One host and task. common, own and one list for each kind are overrides of train.py.

    teacher   overrides that train the teacher, once for all seeds; teacher_path: a run that is trained already
    """

    name: str
    common: tuple[str, ...]
    own: tuple[str, ...]
    kinds: dict[str, tuple[str, ...]]
    teacher: tuple[str, ...]
    teacher_path: str | None = None

    @classmethod
    def of(cls, config: Json) -> Case:
        """The case of a configuration."""
        kinds = {kind: tuple(config[kind]) for kind in KINDS}
        common, own, teacher = (tuple(config[name]) for name in ("common", "own", "teacher"))
        return cls(config["name"], common, own, kinds, teacher, config["teacher_path"])

    def arguments(self, row: str) -> list[str]:
        """Overrides of train.py for a row of the table, whatever seed and folder; later ones win."""
        replaced = [option for kind in ROWS[row] for option in self.kinds[kind]]
        return [*self.common, *(() if "softmax" in ROWS[row] else self.own), *replaced]


def carry_out(case: Case, seeds: Sequence[int], outputs: Path, execute: Callable[[str, list[str]], None]) -> None:
    """Trains and evaluates every row and seed that is not done; execute: runs a script with arguments."""
    teacher = Path(case.teacher_path) if case.teacher_path else outputs / "teacher"
    if not case.teacher_path and not (teacher / "best.json").is_file():
        execute("train.py", [*case.teacher, f"outputs={outputs}", "run=teacher"])
    for seed in seeds:
        for row in ROWS:
            folder = outputs / f"{row}-{seed}"
            if (folder / EVALUATION).is_file():
                continue
            where = [f"distill.teacher={teacher}", f"seed={seed}", f"outputs={outputs}", f"run={folder.name}"]
            execute("train.py", [*case.arguments(row), *where])
            execute("eval_plain.py", [f"ckpt={folder}", f"out={folder / EVALUATION}"])


def table(case: Case, seeds: Sequence[int], outputs: Path) -> Json:
    """The rows of what is done: accuracies by seed, mean, and the mean difference to the own parts of the same seeds.

    UserError where nothing is done.
    """
    found: dict[str, dict[int, Json]] = {row: {} for row in ROWS}
    for row in ROWS:
        for seed in seeds:
            path = outputs / f"{row}-{seed}" / EVALUATION
            if path.is_file():
                found[row][seed] = read_json(path)
    if not any(found.values()):
        raise UserError(f"nothing of case {case.name} is trained and evaluated in {outputs}")
    return {
        "name": case.name,
        "seeds": list(seeds),
        "rows": [_row(case, row, found[row], found["own"], outputs) for row in ROWS if found[row]],
    }


def _row(case: Case, row: str, results: dict[int, Json], own: dict[int, Json], outputs: Path) -> Json:
    accuracies = {seed: result["accuracy"] for seed, result in results.items()}
    both = [accuracies[seed] - own[seed]["accuracy"] for seed in accuracies if seed in own]
    seconds = []
    for seed in results:
        best = read_json(outputs / f"{row}-{seed}" / "best.json")["checkpoint"]
        seconds.append(read_json(outputs / f"{row}-{seed}" / best / "run.json")["progress"]["seconds"])
    return {
        "replaced": list(ROWS[row]),
        "options": case.arguments(row),
        "accuracy": {str(seed): value for seed, value in accuracies.items()},
        "mean": statistics.mean(accuracies.values()),
        "difference_to_own": statistics.mean(both) if both and row != "own" else None,
        "samples": next(iter(results.values()))["samples"],
        "train_s": statistics.mean(seconds),
    }


def lines(made: Json) -> list[str]:
    """The table in words, one line a row."""
    shown = []
    for row in made["rows"]:
        name = " + ".join(row["replaced"]) or "its own norms, activations and softmax"
        each = ", ".join(f"{100 * value:.2f}" for value in row["accuracy"].values())
        apart = row["difference_to_own"]
        shown.append(
            f"{name:42s} {100 * row['mean']:6.2f} % ({each})"
            + ("" if apart is None else f"  {100 * apart:+.2f} points")
        )
    return shown
