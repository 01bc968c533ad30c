"""What a study found, gathered from its folders: a row a run and seed, and the mean over the seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from cgf.checkpoint import read
from cgf.errors import UserError
from cgf.results import read_json
from cgf.run_checkpoints import complete_checkpoints, ended
from cgf.study.seed import Seed
from cgf.study.study import Run, Study
from cgf.types import Json, JsonValue

KEPT = (
    "model",
    "task",
    "softmax",
    "approx",
    "split",
    "samples",
    "correct",
    "accuracy",
    "loss",
    "entries",
    "watched",
    "outside_domain",
    "beyond_guard",
    "range",
    "row_sum",
    "levels",
    "domain",
    "guard",
    "max_error_exponential",
)
SETTINGS = ("train", "softmax", "penalty")


def results_of(seed: Seed) -> list[Json]:
    """A result for each evaluation of a seed that is there; runs that are not done as the study has them have none.

    seconds is the wall clock of this training alone (on loaded cores for orientation only), epochs counts what
    its weights saw since the teacher. Commits are those of the training and of the evaluation.
    """
    found = []
    for run in seed.study.runs:
        for chain in (None, run.chain) if run.chain is not None else (None,):
            path = seed.result(run.name, chain)
            if path.is_file() and seed.as_studied(run):
                found.append(_result(seed, run, read_json(path)))
    return found


def _result(seed: Seed, run: Run, result: Json) -> Json:
    folder = seed.chosen(run.name)
    check_of(result, folder)
    best, newest = read_json(folder / "best.json"), complete_checkpoints(folder)[-1]
    trained = read_json(newest / "run.json")
    return {
        "study": seed.study.name,
        "seed": seed.seed,
        "run": run.name,
        "against": run.against,
        "try": folder.name,
        "arguments": [seed.study.arguments(r, seed.choice(seed.study.chooser(r))) for r in seed.study.lineage(run)],
        "epochs": epochs(seed, run),
        "seconds": trained["progress"].get("seconds"),
        "val_accuracy": best["val_accuracy"],
        "val_samples": best.get("val_samples"),
        **{key: result[key] for key in KEPT},
        "red": result.get("red", []),
        "config": {key: trained["config"][key] for key in SETTINGS},
        "git": {"trained": trained["git"], "evaluated": result["run"]["git"]},
        "versions": trained["versions"],
        "hardware": trained["hardware"],
    }


def check_of(result: Json, folder: Path) -> None:
    """UserError where an evaluation is of other weights than its run has now, which was trained anew by hand."""
    told = result.get("checkpoint_sha256")
    if told is not None and told != read(folder).digest:
        raise UserError(
            f"the evaluation of {folder} is of other weights than are there now: remove {folder}, and carry the study "
            "out again"
        )


def epochs(seed: Seed, run: Run) -> int:
    """Epochs that a run's weights saw since the teacher's, its own included; of the teacher: its own."""
    newest = complete_checkpoints(seed.chosen(run.name))[-1]
    trained_for = int(read_json(newest / "run.json")["progress"]["epoch"])
    before = None if run.after in (None, "teacher") else seed.study.run(str(run.after))
    return trained_for + (0 if before is None else epochs(seed, before))


def trials(seed: Seed) -> list[Json]:
    """What was chosen from, on the seed that decides: options and validation accuracy of every try."""
    tried = []
    for run in seed.study.runs:
        names = run.tries()
        if len(names) > 1 and all(ended(seed.folder / name) for name in names):
            taken = seed.choice(run)
            tried += [
                {
                    "run": run.name,
                    "seed": seed.seed,
                    "options": list(options),
                    "chosen": i == taken,
                    "val_accuracy": read_json(seed.folder / name / "best.json")["val_accuracy"],
                }
                for i, (name, options) in enumerate(zip(names, run.choices, strict=True))
            ]
    return tried


def means(results: list[Json], seeds: Iterable[int]) -> list[Json]:
    """One row a run and exponential, over the seeds that are there; complete where all of ``seeds`` are.

    points is the mean of 100 (accuracy - that of the run compared with) over the seeds that have both;
    points_of_exponential the same against the run's own exponential, for one that was put in its place.
    """
    groups: dict[tuple[str, str], list[Json]] = {}
    for result in results:
        groups.setdefault((result["run"], result["approx"]), []).append(result)
    of_run = {
        (result["run"], result["seed"]): result for result in reversed(results)
    }  # the first of a run is as trained
    wanted = set(seeds)

    def points(group: list[Json], other: str | None) -> float | None:
        pairs = [(r, of_run[other, r["seed"]]) for r in group if (other, r["seed"]) in of_run]
        return 100 * sum(a["accuracy"] - b["accuracy"] for a, b in pairs) / len(pairs) if pairs else None

    made = []
    for (run, approx), group in groups.items():
        accuracies, first = [r["accuracy"] for r in group], of_run[run, group[0]["seed"]]
        outside = [r["outside_domain"] for r in group if r["outside_domain"] is not None]
        beyond = [r["beyond_guard"] for r in group if r["beyond_guard"] is not None]
        made.append(
            {
                "study": group[0]["study"],
                "run": run,
                "softmax": group[0]["softmax"],
                "approx": approx,
                "seeds": sorted(r["seed"] for r in group),
                "complete": {r["seed"] for r in group} >= wanted,
                "epochs": group[0]["epochs"],
                "levels": group[0]["levels"],
                "accuracy": sum(accuracies) / len(accuracies),
                "least": min(accuracies),
                "most": max(accuracies),
                "samples": group[0]["samples"],
                "against": group[0]["against"],
                "points": points(group, group[0]["against"]),
                "points_of_exponential": points(group, run) if first["approx"] != approx else None,
                "watched": group[0]["watched"],
                "outside_domain": max(outside) if outside else None,
                "beyond_guard": sum(beyond) if beyond else None,
                "seconds": _mean([r["seconds"] for r in group]),
            }
        )
    return made


def _mean(values: list[float | None]) -> float | None:
    stated = [v for v in values if v is not None]
    return sum(stated) / len(stated) if stated else None


def gathered(
    study: Study, seeds: list[int], folder: Path, decides: int, kept: Mapping[str, JsonValue] | None = None
) -> Json:
    """rows and means of ``seeds`` of a study in ``folder``, one folder a seed; trials of the seed ``decides``.

    kept is what the result file has of the study. Its rows stay where the folder has none of that run and seed and
    the study still trains the run so: seeds may be run on machines that share the result file alone.
    """
    first, known = folder / f"seed-{decides}", choices(study, kept, decides)
    every = [Seed(study, s, folder / f"seed-{s}", None if s == decides else first, known=known) for s in seeds]
    results = [result for seed in every for result in results_of(seed)]
    have = {(r["run"], r["seed"]) for r in results}
    results += [r for r in _entries(kept, "rows") if (r["run"], r["seed"]) not in have and _current(study, r)]
    place = {run.name: i for i, run in enumerate(study.runs)}
    results.sort(key=lambda r: (r["seed"], place[r["run"]]))  # stable: as trained comes before its polynomial
    tried = trials(Seed(study, decides, first))
    old = [t for t in _entries(kept, "trials") if t["run"] in known and t["run"] not in {t["run"] for t in tried}]
    return {"rows": results, "means": means(results, {*seeds, *(r["seed"] for r in results)}), "trials": tried + old}


def choices(study: Study, kept: Mapping[str, JsonValue] | None, decides: int) -> dict[str, int]:
    """By run, the choice that the result file's trials tell, where they are of what the study still chooses from."""
    taken = {}
    for run in study.runs:
        of_run = [t for t in _entries(kept, "trials") if t["run"] == run.name and t["seed"] == decides]
        if [t["options"] for t in of_run] == [list(c) for c in run.choices]:
            taken[run.name] = [t["chosen"] for t in of_run].index(True)
    return taken


def _entries(kept: Mapping[str, JsonValue] | None, name: str) -> list[Json]:
    return [] if kept is None else kept[name]


def _current(study: Study, result: Json) -> bool:
    """Whether the study still trains a result's run as it was trained, and all that it starts from."""
    run = next((run for run in study.runs if run.name == result["run"]), None)
    if run is None or len(result.get("arguments", [])) != len(study.lineage(run)):
        return False
    return all(
        told in [study.arguments(r, i) for i in range(len(study.chooser(r).choices))]
        for told, r in zip(result["arguments"], study.lineage(run), strict=True)
    )
