"""The content of a result row of training, from a run's own files: accuracies, levels, what was tried, what made it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from cgf.checkpoint import read
from cgf.errors import UserError
from cgf.former import ROW_SCHEMA
from cgf.he.dryrun import depth
from cgf.plan.cost import mask_rows
from cgf.plan.load import read_plan
from cgf.results import read_json, read_lines
from cgf.run_checkpoints import complete_checkpoints, ended
from cgf.study.compared import evaluations, teacher_settings
from cgf.study.opened import paired
from cgf.study.range_rows import check_of, epochs
from cgf.study.seed import Seed
from cgf.study.study import EXACT, TEACHER, Run
from cgf.types import Json

MEASURED = (
    "samples",
    "correct",
    "accuracy",
    "loss",
    "range",
    "row_sum",
    "outside_domain",
    "beyond_guard",
    "max_error_exponential",
)
DECIDES = 42  # the deciding seed that configs/rows.yaml has
SHAPE = {"full": ("full", 256, 128), "masked": ("causal", 256, 128)}  # mask, rows, columns of the counted circuit


def row(seed: Seed, run: Run, task: str, before: dict[str, list[Json]] | None = None) -> Json:
    """The row of a run that is trained and evaluated; before: trials recorded elsewhere (``training_rows.recorded``).

    accuracy (test) is with the softmax as it was trained, accuracy_planned with the polynomial of the plan, to
    which total_levels belongs; accuracy_exact is that of the exact student of this schedule and seed, or of the
    run that this one is compared with, exact_of_row the row that it stands in, or None where it was trained beside this
    one. accuracy_teacher is that of the run 'teacher' or the one that it learns from in its place, and teacher_settings
    a hash of the settings that it was trained with. teacher names it, and is None for a run that starts from the
    model's own weights, which has none. epochs counts what was trained, best_epoch is the one kept, and
    validation_by_epoch has every validation on the way. train_s has the seconds of this training alone, trials_s those
    of all that the choice was made from. tried is what the choice was made from, trials how many trainings led to the
    row, those outside of the study included. dirty: of the training or of any evaluation. UserError where an evaluation
    is of other weights, or of another plan, than its run has now.
    """
    result, exact, planned = evaluations(seed, run)
    for own in (result, planned or {}):
        check_of(own, seed.chosen(run.name))
    if "row" not in exact:
        check_of(exact, seed.chosen(run.against or EXACT))
    taught_by = run.teacher or TEACHER
    teacher, folder, has_plan = read_json(seed.result(taught_by)), seed.chosen(run.name), planned is not None
    best, newest = read_json(folder / "best.json"), complete_checkpoints(folder)[-1]
    trained, tried = read_json(newest / "run.json"), trials(seed, run, before or {})
    return {
        "host": seed.study.name,
        "task": task,
        "schema": ROW_SCHEMA,
        "run": run.name,
        "softmax": result["softmax"],
        **_training_of(trained["config"]),
        "yardstick": run.yardstick,
        "within": run.within,
        "seed": seed.seed,
        "model": result["model"],
        "accuracy": result["accuracy"],
        "accuracy_exact": exact["accuracy"],
        "exact_of_row": exact.get("row"),
        "teacher": None if run.after is None else taught_by,
        "accuracy_teacher": teacher["accuracy"],
        "teacher_settings": teacher_settings(seed, taught_by),
        "paired": paired(result, exact),
        "validation": best["val_accuracy"],
        "val_samples": best["val_samples"],
        "epochs": epochs(seed, run),
        "best_epoch": best_epoch(folder, best["step"]),
        "validation_by_epoch": by_epoch(folder),
        "train_s": trained["progress"]["seconds"],
        "total_levels": total_levels(folder, result["rows"], has_plan, (planned or {}).get("plan_sha256")),
        "rows": result["rows"],
        "approx": (planned or result)["approx"],
        "command": _command(seed, run, task, bool(tried)),
        **_made_by(trained, [r["run"] for r in (result, planned) if r is not None], _commit(seed, taught_by)),
        **_counted(run, seed.study.chooser(run), tried),
        "evaluation": _measured(result),
        **_planned(planned, exact),
        "made": {k: trained[k] for k in ("time_utc", "versions", "hardware", "config", "data", "source")},
    }


def _planned(planned: Json | None, exact: Json) -> Json:
    """What an evaluation with the plan's exponential says; None in each place where there is none."""
    return {
        "accuracy_planned": planned and planned["accuracy"],
        "paired_planned": planned and paired(planned, exact),
        "evaluation_planned": planned and _measured(planned),
    }


def _made_by(trained: Json, evaluated: list[Json], teacher: str | None) -> Json:
    """Commits and processors of a training and its evaluations, without and with a plan, from what their runs say.

    teacher: the commit that trained it.
    """
    git = [trained["git"], *(run["git"] for run in evaluated)]
    return {
        "commit": git[0]["commit"],
        "dirty": any(g["dirty"] is not False for g in git),
        "commit_evaluated": git[1]["commit"],
        "commit_planned": git[2]["commit"] if len(git) > 2 else None,
        "commit_teacher": teacher,
        "cpu": {"trained": _cpu(trained), "evaluated": _cpu(evaluated[-1])},
    }


def _training_of(config: Json) -> Json:
    """How a run was trained, off its configuration: what was tuned, whether its queries were scaled, whether at all."""
    return {
        "tuning": config["tune"]["mode"],
        "tempered": config["temper"]["samples"] > 0,
        "trained": config["train"]["epochs"] > 0,
    }


def _counted(run: Run, chooser: Run, tried: list[Json]) -> Json:
    """How many trainings led to a row, and those that its choice was made from, with their seconds.

    chooser: the run itself, or the one whose choice it takes over.
    """
    return {
        "tried": tried,
        "trials": sum(each.searched for each in {run, chooser}) + max(1, len(tried)),
        "all_trials": True,
        "trials_s": sum(t["train_s"] for t in tried) or None,
    }


def _cpu(run: Json) -> Json:
    """The processor of a training or an evaluation: name, model by numbers, flags; None where it does not say."""
    return {key: (run["hardware"] or {}).get(key) for key in ("cpu", "cpu_model", "cpu_flags")}


def _measured(result: Json) -> Json:
    """What is kept of an evaluation, and the reasons where it is red."""
    return {**{k: result[k] for k in MEASURED}, **({"red": result["red"]} if result.get("red") else {})}


def _command(seed: Seed, run: Run, task: str, chosen: bool) -> str:
    """The command that makes the row, with whatever changed the host's runs; a shell takes it as it is."""
    searches = seed.study.chooser(run).searches
    arguments = [
        *(seed.study.given or (f"host={seed.study.name}",)),
        f"study.task={task}",
        f"softmaxes=[{run.name}]",
        f"seeds=[{','.join(map(str, _seeds(seed, chosen)))}]",
        *([f"decides={deciding_seed(seed)}"] if chosen and deciding_seed(seed) != DECIDES else []),
        *([] if searches is None else [f"searches={searches}"]),
    ]
    plain = re.compile(r"[\w=.,/\[\]-]+")
    return " ".join(["python scripts/rows.py", *(a if plain.fullmatch(a) else shlex.quote(a) for a in arguments)])


def _seeds(seed: Seed, chosen: bool) -> list[int]:
    """The seeds that a command has to name for this one's row: with a choice to be made, the deciding one first."""
    if not chosen or seed.decides is None:
        return [seed.seed]
    return [deciding_seed(seed), seed.seed]


def deciding_seed(seed: Seed) -> int:
    """The seed on which choices are made."""
    return seed.seed if seed.decides is None else int(seed.decides.name.rpartition("-")[2])


def best_epoch(folder: Path, step: int) -> float:
    """Epochs after which the weights that are kept were saved."""
    return next(r["epoch"] for r in read_lines(folder / "metrics.jsonl") if r["step"] == step and "val_accuracy" in r)


def by_epoch(folder: Path) -> list[list[float]]:
    """[epoch, accuracy on validation] of every time that a training was validated, in order."""
    lines = read_lines(folder / "metrics.jsonl")
    return [[line["epoch"], line["val_accuracy"]] for line in lines if "val_accuracy" in line]


def trials(seed: Seed, run: Run, before: dict[str, list[Json]]) -> list[Json]:
    """What the choice of a run was made from, on the seed that decides; none where there was nothing to choose.

    As recorded before where the trainings of that seed are not at hand.
    """
    origin = seed.study.chooser(run)
    names, folder = origin.tries(), seed.decides or seed.folder
    if len(names) == 1:
        return []
    if origin.name in before and not ended(folder / names[0]):
        return before[origin.name]
    taken, tried = seed.choice(origin), []
    for i, (name, options) in enumerate(zip(names, origin.choices, strict=True)):
        progress = read_json(complete_checkpoints(folder / name)[-1] / "run.json")["progress"]
        tried.append(
            {
                "options": list(options),
                "chosen": i == taken,
                "train_s": progress["seconds"],
                "validation": read_json(folder / name / "best.json")["val_accuracy"],
            }
        )
    return tried


def total_levels(folder: Path, row_kind: str, planned: bool, plan_hash: str | None = None) -> int | None:
    """Levels of the whole circuit from encrypted scores to weights, by a dry run; None where there is no circuit, or
    none without a plan.

    row_kind 'full' or 'masked'; planned: with the exponential of the checkpoint's plan in place; plan_hash: of the plan
    that it was evaluated with. UserError where the checkpoint has another one now.
    """
    checkpoint = read(folder)
    softmax = checkpoint.softmax
    if planned:
        plan = read_plan(checkpoint.path, checkpoint.digest, row_kind)
        assert plan is not None
        if plan_hash not in (None, plan.sha256):
            raise UserError(
                f"the plan of {checkpoint.path} is another than it was evaluated with: plan it as the study does "
                f"(python scripts/plan.py ckpt={folder} pareto=false, with the run's options 'plan')"
            )
        softmax.exponential = plan.exponential
    if not softmax.encryptable or (softmax.uses_exponential and softmax.exponential is None):
        return None
    mask, count, columns = SHAPE[row_kind]
    return depth(softmax, mask_rows(mask, count, columns), columns).levels


def _commit(seed: Seed, name: str) -> str | None:
    return read_json(complete_checkpoints(seed.chosen(name))[-1] / "run.json")["git"]["commit"]
