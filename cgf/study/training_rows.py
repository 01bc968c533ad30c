"""Result rows of training: which are asked for, and one file a host, run and seed, beside an exact student."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

from cgf.errors import UserError
from cgf.former import current_row
from cgf.openings import Register
from cgf.results import read_json, write_json
from cgf.study.compared import evaluation, evaluations, taught_alike
from cgf.study.folded_row import folded, joined
from cgf.study.opened import check_closed, keep, registered, row_name
from cgf.study.row_content import deciding_seed, row
from cgf.study.seed import Seed
from cgf.study.study import EXACT, TEACHER, Study
from cgf.types import Json


def wanted(study: Study, softmaxes: list[str]) -> list[str]:
    """The runs whose rows are asked for, in the order of the study; UserError for a name that is none of them."""
    names = [run.name for run in study.runs if run.name != TEACHER]
    if not softmaxes or not set(softmaxes) <= set(names):
        raise UserError(f"softmaxes names runs ({', '.join(names)}), and {softmaxes} was given")
    return [name for name in names if name in softmaxes]


def check_decided(study: Study, names: list[str]) -> None:
    """UserError where a run of a study in folds still has choices: one fold's would be made on its own trainings."""
    open_ones = [name for name in names if len(study.chooser(study.run(name)).choices) > 1]
    if study.folds is not None and open_ones:
        raise UserError(
            f"folds need runs whose settings a search has found (searches=results/search), and {', '.join(open_ones)} "
            "has several to choose from"
        )


def path_of(out: Path, study: Study, task: str, name: str, seed: int) -> Path:
    """File of the row of a run and seed."""
    return out / f"{row_name(study, task, name, seed)}.json"


def needed(study: Study, names: list[str], decides: bool, kept: Container[str] = ()) -> list[str]:
    """Runs to carry out for the rows of ``names``: those, what they start from, the exact student they compare with.

    decides: choices are made on this seed, so that runs whose choice another takes over are needed too.
    kept: runs whose row of before is compared with, so that they are not carried out for that.
    """
    compared = {study.run(name).against or EXACT for name in names}
    names_needed = set[str]()
    left = [TEACHER, *names, *(name for name in compared if name not in kept)] if names else []
    while left:
        run = study.run(left.pop())
        names_needed.add(run.name)
        others = (run.after, run.teacher, run.like if decides else None)
        left += [other for other in others if other and other not in names_needed]
    return [run.name for run in study.runs if run.name in names_needed]


def unsearched(study: Study, names: Sequence[str]) -> list[str]:
    """Of the runs of these names those whose settings no search has found, their own or that of a run they follow."""
    return [name for name in names if study.chooser(study.run(name)).searches is None]


def write_results(folds: Sequence[Seed], names: list[str], task: str, out: Path, register: Register) -> list[Path]:
    """Writes the rows of ``names`` that are trained and not there yet, predictions first; returns their files.

    folds: a seed's runs on each fold of the data in order; one alone where the data has a split of its own.
    """
    written = []
    study, number = folds[0].study, folds[0].seed
    before = recorded(study, task, out, deciding_seed(folds[0]))
    for name in names:
        path = path_of(out, study, task, name, number)
        if not path.exists() and all(done(seed, name) for seed in folds):
            run = study.run(name)
            results = [row(seed, run, task, before) for seed in folds]
            made = results[0] if study.fold is None else folded(results)
            found = [evaluations(seed, run) for seed in folds]
            this, against, planned = zip(*found, strict=True)
            made["predictions"] = keep(
                out, path.stem, joined(this), joined(against), None if None in planned else joined(planned)
            )
            made["opened"] = register.of(registered(path.stem))
            write_json(path, made)
            written.append(path)
    return written


def recorded(study: Study, task: str, out: Path, decides: int) -> dict[str, list[Json]]:
    """Trials of each run in the row of the seed that decides, of those alone whose choices are the study's of now."""
    by_run = {}
    for run in study.runs:
        path = path_of(out, study, task, run.name, decides)
        if len(run.choices) > 1 and path.is_file():
            told = current_row(read_json(path), path)["tried"]
            if [tuple(t["options"]) for t in told] == list(run.choices):
                by_run[run.name] = told
    return by_run


def known(before: dict[str, list[Json]]) -> dict[str, int]:
    """Which of its trials was taken, by name of the run: for a Seed that has no folder of the seed that decides."""
    return {name: [t["chosen"] for t in told].index(True) for name, told in before.items()}


def carry_out(seed: Seed, names: list[str], task: str, decides: bool, register: Register) -> None:
    """Trains and evaluates what the rows of ``names`` need, teachers first.

    A kept row whose teacher is another than this seed's teacher is told, and its run is carried out in its place.
    UserError before any training where a test figure would be opened once more without a reason.
    """
    runs = needed(seed.study, names, decides, seed.kept)
    check_closed(register, seed, task, runs)
    seed.carry_out([seed.study.run(name).teacher or TEACHER for name in seed.kept])
    unlike = [name for name in seed.kept if not taught_alike(seed, name)]
    for name in unlike:
        print(
            f"the row {seed.kept[name]['row']} has another teacher than here: run {name} is trained here too",
            flush=True,
        )
    if unlike:
        runs = needed(seed.study, names, decides, [name for name in seed.kept if name not in unlike])
        check_closed(register, seed, task, runs)
    seed.carry_out(runs)


def done(seed: Seed, name: str) -> bool:
    """Whether a run (its plan too, if it has one), its teacher and the exact student are evaluated, as the study has
    them now."""
    run = seed.study.run(name)
    names = (name, TEACHER, run.teacher or TEACHER)
    files = [seed.result(n) for n in names]
    if run.plan is not None:
        files.append(seed.planned(name))
    own = all(path.is_file() for path in files) and all(seed.as_studied(seed.study.run(n)) for n in names)
    return own and evaluation(seed, run.against or EXACT) is not None
