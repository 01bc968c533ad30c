"""What a polynomial network costs in accuracy: its parts replaced alone and together, over seeds, on the test split."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cgf.checkpoint import read
from cgf.checks import path_part, whole
from cgf.errors import UserError
from cgf.results import read_json
from cgf.seal import MODEL
from cgf.stats.labels import compare, in_words
from cgf.study.folded_row import joined
from cgf.types import Json

KINDS = ("softmax", "norm", "activation")
# which kinds are replaced in each variant, a row of the table
VARIANTS: dict[str, tuple[str, ...]] = {"own": (), **{kind: (kind,) for kind in KINDS}, "all": KINDS}
EVALUATION = "test.json"


@dataclass(frozen=True)
class Case:
    """One host and task. common, own and one list for each kind are overrides of train.py.

    teacher   overrides that train the teacher, once for all seeds; teacher_path: a run that is trained already
    folds     parts of the data set, each of which is the test set once, with a teacher of its own; None: its own split
    """

    name: str
    common: tuple[str, ...]
    own: tuple[str, ...]
    kinds: dict[str, tuple[str, ...]]
    teacher: tuple[str, ...]
    teacher_path: str | None = None
    folds: int | None = None

    @classmethod
    def of(cls, config: Json) -> Case:
        """The case of a configuration; UserError for folds that have one teacher, which has seen every test sample."""
        kinds = {kind: tuple(config[kind]) for kind in KINDS}
        common, own, teacher = (tuple(config[name]) for name in ("common", "own", "teacher"))
        path, folds = config["teacher_path"], config["folds"]
        if folds is not None:
            whole("folds", folds, 2)
            if path is not None:
                raise UserError(
                    f"folds need a teacher each, and teacher_path={path} is one that saw all of their images"
                )
        return cls(path_part("name", config["name"]), common, own, kinds, teacher, path, folds)

    def arguments(self, variant: str) -> list[str]:
        """Overrides of train.py for a variant, whatever seed and folder; later ones win."""
        replaced = [option for kind in VARIANTS[variant] for option in self.kinds[kind]]
        return [*self.common, *(() if "softmax" in VARIANTS[variant] else self.own), *replaced]

    def parts(self, outputs: Path) -> list[tuple[Path, list[str]]]:
        """(folder, overrides of train.py) of each fold; of the data's own split alone where there are none."""
        if self.folds is None:
            return [(outputs, [])]
        return [(outputs / f"fold-{i}", [f"task.fold={i}", f"task.folds={self.folds}"]) for i in range(self.folds)]


def checked_variants(asked: Sequence[str]) -> list[str]:
    """The variants that are asked for, with the host's own parts, which the others are compared with.

    UserError for a name that is none of the table's.
    """
    if unknown := sorted(set(asked) - set(VARIANTS)):
        raise UserError(f"rows names rows of the table ({', '.join(VARIANTS)}), and {', '.join(unknown)} was given")
    return [variant for variant in VARIANTS if variant in {"own", *asked}]


def carry_out(
    case: Case, variants: Sequence[str], seeds: Sequence[int], outputs: Path, execute: Callable[[str, list[str]], None]
) -> None:
    """Trains and evaluates every variant and seed, on every fold, that is not done; execute: runs a script.

    train.py is asked in any case: it does nothing where a run is finished, and refuses one of other settings or of
    another teacher. An evaluation is left as it is where it is of the run's weights, on test.
    """
    for folder, part in case.parts(outputs):
        teacher = Path(case.teacher_path) if case.teacher_path else folder / "teacher"
        if not case.teacher_path:
            execute("train.py", [*case.teacher, *part, f"outputs={folder}", "run=teacher"])
        for seed in seeds:
            for variant in variants:
                run = folder / f"{variant}-{seed}"
                where = [f"distill.teacher={teacher}", f"seed={seed}", f"outputs={folder}", f"run={run.name}"]
                execute("train.py", [*case.arguments(variant), *part, *where])
                out = run / EVALUATION
                if out.is_file() and _fault(out) is None:
                    continue
                out.unlink(missing_ok=True)
                execute("eval_plain.py", [f"ckpt={run}", "predictions=true", "not_finite=wrong", f"out={out}"])


def table(case: Case, variants: Sequence[str], seeds: Sequence[int], outputs: Path) -> Json:
    """The rows of what is done on every fold: accuracies by seed, and the difference to the own parts, with labels.

    The samples of all folds count together. A row's ``missing`` are seeds that were asked for and have no result.
    UserError where nothing is done, and for an evaluation of other weights than its run's or on another split.
    """
    folders = [folder for folder, _ in case.parts(outputs)]
    done: dict[str, dict[int, Json]] = {variant: {} for variant in variants}
    for variant in variants:
        for seed in seeds:
            paths = [folder / f"{variant}-{seed}" / EVALUATION for folder in folders]
            if all(path.is_file() for path in paths):
                results = [_own(path) for path in paths]
                red = [reason for result in results for reason in result.get("red", [])]
                done[variant][seed] = {**joined(results), "red": red}
    if not any(done.values()):
        raise UserError(f"nothing of case {case.name} is trained and evaluated in {outputs}")
    return {
        "name": case.name,
        "folds": case.folds,
        "seeds": list(seeds),
        "rows": [
            _result(case, variant, done[variant], done["own"], folders)
            | {"missing": [seed for seed in seeds if seed not in done[variant]]}
            for variant in variants
            if done[variant]
        ],
    }


def _own(path: Path) -> Json:
    """The evaluation of the run that it lies in. UserError where it is another's."""
    if fault := _fault(path):
        raise UserError(f"{path} must be an evaluation of its run on test, and {fault}: evaluate the run anew")
    return read_json(path)


def _fault(path: Path) -> str | None:
    """What makes a result none of its run on test, in words; weights that were removed are not asked."""
    result, run = read_json(path), path.parent
    if result.get("split") != "test":
        return f"is on {result.get('split')}"
    weights = run / read_json(run / "best.json")["checkpoint"] / MODEL
    if weights.is_file() and result.get("checkpoint_sha256") != read(run).digest:
        return "is of other weights"
    return None


def _result(case: Case, variant: str, results: dict[int, Json], own: dict[int, Json], folders: Sequence[Path]) -> Json:
    accuracies = {seed: result["accuracy"] for seed, result in results.items()}
    seconds = [_seconds(folder / f"{variant}-{seed}") for seed in results for folder in folders]
    samples = next(iter(results.values()))["samples"]
    return {
        "replaced": list(VARIANTS[variant]),
        "options": case.arguments(variant),
        "accuracy": {str(seed): value for seed, value in accuracies.items()},
        "mean": statistics.mean(accuracies.values()),
        "against_own": None if variant == "own" else _against(results, own),
        "samples": samples,
        "not_finite": {str(seed): result["predictions"].count(None) for seed, result in results.items()},
        "red": {str(seed): result["red"] for seed, result in results.items()},
        "train_s": statistics.mean(seconds),
        "ran": _ran(folder / f"{variant}-{seed}" / EVALUATION for seed in results for folder in folders),
    }


def _ran(evaluations: Iterable[Path]) -> list[Json]:
    """Commit and machine of these evaluations, each once: those of their trainings too, one run after the other."""
    made: list[Json] = []
    for path in evaluations:
        run = read_json(path)["run"]
        one = {**run["git"], "cpu_model": run["hardware"]["cpu_model"], "gpu": run["hardware"]["gpu"]}
        made += [] if one in made else [one]
    return made


def _against(results: dict[int, Json], own: dict[int, Json]) -> Json | None:
    """The difference to the model with its own parts, over the seeds that both have; None where there is none.

    points and interval are 100 times differences of accuracies; labels are those of ``cgf.stats.labels``. UserError for
    results on other samples.
    """
    pairs = [(results[seed], own[seed]) for seed in results if seed in own]
    if not pairs:
        return None
    if any(a["labels"] != b["labels"] for a, b in pairs):
        raise UserError("results can only be compared on the same samples in the same order, and these differ")
    made = compare(
        [(a["accuracy"], b["accuracy"]) for a, b in pairs],
        pairs[0][0]["samples"],
        [(_right(a), _right(b)) for a, b in pairs],
    )
    return {"points": made.points, "interval": made.interval, "labels": made.labels, "seeds": made.seeds}


def _right(result: Json) -> np.ndarray:
    return np.asarray(result["predictions"]) == np.asarray(result["labels"])


def _seconds(run: Path) -> float:
    best = read_json(run / "best.json")["checkpoint"]
    return float(read_json(run / best / "run.json")["progress"]["seconds"])


def lines(made: Json) -> list[str]:
    """The table in words, one line a row."""
    shown = []
    for result in made["rows"]:
        name = " + ".join(result["replaced"]) or "its own norms, activations and softmax"
        each = ", ".join(f"{100 * value:.2f}" for value in result["accuracy"].values())
        told = "" if result["against_own"] is None else f"  {in_words(result['against_own'])}"
        left = f"  no result of seed {', '.join(map(str, result['missing']))}" if result["missing"] else ""
        lost = sum(result["not_finite"].values())
        red = [seed for seed, why in result["red"].items() if why]
        left += f"  red: seed {', '.join(red)}" if red else ""
        left += f"  {lost} predictions of no finite logits, counted as wrong" if lost else ""
        shown.append(f"{name:42s} {100 * result['mean']:6.2f} % ({each}){told}{left}")
    return shown
