"""Test figures of a row: their predictions kept beside it, and each opening of them written down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cgf.checkpoint import read
from cgf.errors import UserError
from cgf.openings import PLANNED, TRAINED, Register, of_fold
from cgf.predictions import Predictions, packed, write
from cgf.run_checkpoints import ended
from cgf.study.seed import Seed
from cgf.study.study import Run, Study
from cgf.target import file_hash
from cgf.types import Json


def row_name(study: Study, task: str, run: str, seed: int) -> str:
    """Name of the row of a run and seed, of its file and of its predictions."""
    return f"{study.name}-{task}-{run}-{seed}"


def registered(name: str) -> str:
    """The name of a row of training in the register of openings."""
    return f"train/{name}"


def register_of(out: Path, opened: str | None, again: str | None) -> Register:
    """The register of rows in ``out``: the file named, or opened.jsonl beside that folder, as it is of results/train.

    Rows elsewhere have a register of their own: a script that makes them anew for another purpose opens none of these.
    """
    return Register(out.parent / "opened.jsonl" if opened is None else Path(opened).expanduser(), again)


def opening(register: Register, study: Study, task: str, seed: int) -> Callable[[Run, Path, bool], None]:
    """What a Seed tells before an evaluation: it writes the opening down, and refuses a second one without a reason.

    What is evaluated is known by the hash of the checkpoint, with a plan by that of the plan too.
    """

    def tell(run: Run, folder: Path, planned: bool) -> None:
        checkpoint = read(folder)
        of = checkpoint.digest
        if planned:
            of = f"{of} {file_hash(checkpoint.path / 'plan.json')}"
        figure = of_fold(PLANNED if planned else TRAINED, study.fold)
        register.open(registered(row_name(study, task, run.name, seed)), figure, of)

    return tell


def check_closed(register: Register, seed: Seed, task: str, runs: list[str]) -> None:
    """UserError where carrying out ``runs`` trains a row anew whose test figures, of this fold, were opened before.

    It is asked for before anything is trained. What is trained already is told by its weights when it is evaluated.
    """
    untrained = [name for name in runs if not any(ended(seed.folder / t) for t in seed.study.run(name).tries())]
    names = [registered(row_name(seed.study, task, name, seed.seed)) for name in untrained]
    register.check_closed(names, [of_fold(figure, seed.study.fold) for figure in (TRAINED, PLANNED)])


def keep(folder: Path, name: str, result: Json, against: Json, planned: Json | None) -> dict[str, str]:
    """Writes a row's predictions, of evaluations in the clear on the same samples; returns what the row says of them.

    UserError where two evaluations have other samples, or another order of them.
    """
    for other in (against, planned):
        if other is not None and other["labels"] != result["labels"]:
            raise UserError("predictions are kept of results on the same samples in the same order, and these differ")
    kept = Predictions(
        packed("labels", result["labels"]),
        packed("predictions", result["predictions"]),
        packed("predictions of the run compared with", against["predictions"]),
        None if planned is None else packed("predictions with the plan", planned["predictions"]),
    )
    return write(folder, name, kept)


def paired(result: Json, exact: Json) -> dict[str, int]:
    """Samples by who is right: both, neither, this softmax alone, the exact one alone.

    UserError where two results were not measured on the same samples.
    """
    if result["labels"] != exact["labels"]:
        raise UserError("paired counts need results on the same samples in the same order, and these differ")
    pairs = [
        (a == truth, b == truth)
        for a, b, truth in zip(result["predictions"], exact["predictions"], exact["labels"], strict=True)
    ]
    return {
        "both": pairs.count((True, True)),
        "neither": pairs.count((False, False)),
        "this_alone": pairs.count((True, False)),
        "exact_alone": pairs.count((False, True)),
    }
