"""What a row is compared with: the evaluation of that run, or its row of before, whose predictions are kept.

A new softmax needs no second training of the exact student: where that has a row of the same settings, seed and
teacher, its predictions are those of its evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cgf.former import current_names, current_row
from cgf.predictions import read
from cgf.results import read_json
from cgf.run_checkpoints import complete_checkpoints
from cgf.seal import json_hash
from cgf.study.opened import row_name
from cgf.study.seed import Seed, last_of_each
from cgf.study.study import EXACT, TEACHER, Run, Study
from cgf.types import Json

PLACES = ("ckpt", "run", "outputs", "resume", "overwrite", "data", "tracker")  # where a training lies, not what it is


Configured = Callable[[list[str]], Json]  # what train.py's configuration is with these arguments


def kept(
    study: Study,
    seed: int,
    names: Sequence[str],
    task: str,
    out: Path,
    taken: Mapping[str, int],
    configured: Configured,
) -> Json:
    """Of the runs that rows of ``names`` are compared with, those that have a row with predictions in ``out``.

    taken: which of its choices a run took, by name (``training_rows.known``). Returns by the run's name what an
    evaluation says of labels, predictions and accuracy, with ``row``, the name of the row, and what that says of
    its teacher.
    A row of other settings than the study has now is left out, and so are rows of data in folds and of a choice that
    is still to be made.
    """
    others = {study.run(name).against or EXACT for name in names} - set(names) if study.fold is None else set()
    found = {}
    for name in sorted(others):
        run, chooser = study.run(name), study.chooser(study.run(name))
        if len(chooser.choices) == 1 or chooser.name in taken:
            arguments = [*study.arguments(run, taken.get(chooser.name, 0)), f"seed={seed}"]
            wanted = configured(last_of_each(arguments))
            found[name] = _of_row(out, row_name(study, task, name, seed), _settings(wanted))
    return {name: told for name, told in found.items() if told is not None}


def _of_row(out: Path, name: str, settings: Json) -> Json | None:
    """What a row says in an evaluation's terms; None where there is none of these settings and with predictions."""
    path = out / f"{name}.json"
    if not path.is_file():
        return None
    row = current_row(read_json(path), path)
    if "predictions" not in row or _settings(row["made"]["config"]) != settings:
        return None
    predictions = read(out, name, row["predictions"])
    return {
        "row": name,
        "accuracy": row["accuracy"],
        "accuracy_teacher": row["accuracy_teacher"],
        "teacher_settings": row.get("teacher_settings"),
        "labels": predictions.labels.tolist(),
        "predictions": predictions.this.tolist(),
    }


def _settings(config: Json) -> Json:
    """What a training is, of its configuration: nothing of where its files lie."""
    settings = {key: value for key, value in current_names(config).items() if key not in PLACES}
    return {**settings, "distill": {k: v for k, v in settings.get("distill", {}).items() if k != "teacher"}}


def teacher_settings(seed: Seed, taught_by: str) -> str:
    """A hash of the settings that a teacher of this seed was trained with, wherever its files lie."""
    newest = complete_checkpoints(seed.chosen(taught_by))[-1]
    return json_hash(_settings(read_json(newest / "run.json")["config"]))


def evaluation(seed: Seed, name: str) -> Json | None:
    """What a run that rows are compared with says of labels, predictions and accuracy; None: not evaluated.

    Its own evaluation first, else its row of before, where that was taught by a teacher as good on the test set as
    this seed's.
    """
    if seed.result(name).is_file() and seed.as_studied(seed.study.run(name)):
        return read_json(seed.result(name))
    return seed.kept[name] if name in seed.kept and taught_alike(seed, name) else None


def taught_alike(seed: Seed, name: str) -> bool:
    """Whether the teacher of a kept row has the test accuracy of this seed's, which is evaluated by now.

    Its settings must be the same too; rows of before do not say theirs.
    """
    taught_by, kept_row = seed.study.run(name).teacher or TEACHER, seed.kept[name]
    own = seed.result(taught_by)
    if not own.is_file() or read_json(own)["accuracy"] != kept_row["accuracy_teacher"]:
        return False
    return kept_row["teacher_settings"] in (None, teacher_settings(seed, taught_by))


def evaluations(seed: Seed, run: Run) -> tuple[Json, Json, Json | None]:
    """Results of a run as trained, of the run that it is compared with, and with its plan (None: it has none)."""
    planned = read_json(seed.planned(run.name)) if run.plan is not None else None
    against = evaluation(seed, run.against or EXACT)
    assert against is not None  # a row is made of what is done
    return read_json(seed.result(run.name)), against, planned
