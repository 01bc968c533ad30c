"""One search for every softmax: configurations drawn from a grid, halved on validation; no test sample is read."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from cgf.checks import path_part, whole
from cgf.errors import UserError
from cgf.lock import locked
from cgf.results import append_line, read_json, read_lines
from cgf.run_checkpoints import complete_checkpoints
from cgf.seal import json_hash
from cgf.search_file import RANKED, finished, rank
from cgf.study.grid import Budget, Grid
from cgf.study.seed import ROOT, last_of_each
from cgf.study.study import Described, Study, run_of
from cgf.target import check_writable
from cgf.types import Json, JsonValue

DIVERGED = "lower train.lr (now"  # of the sentence with which train.py refuses a loss that is no finite number
# runs a script that holds open files with its caller; returns why it refused, None where it did not
Execute = Callable[[str, list[str], tuple[int, ...]], str | None]


@dataclass
class Search:
    """The search of one grid on a host and task: lines of ``path``, trainings below ``folder``.

    study, schedule  what the trials have in common
    teacher          gives the run folder that they start and learn from, and makes it where it is not there
    facts            what the first line says beside the search itself, such as host, task and provenance
    workers          trials of a round that are trained at once; what is found does not depend on it

    UserError for a schedule that the study lacks, the teacher's included, for one that does not set what a factor
    multiplies or how long null is, and where a round has fewer epochs than the one before.
    """

    study: Study
    schedule: str
    grid: Grid
    budget: Budget
    teacher: Callable[[], Path]
    folder: Path
    path: Path
    facts: Json
    execute: Execute
    workers: int = 1
    _writing: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)
    _held: tuple[int, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1)
        for name in (self.schedule, "teacher"):
            if name not in self.study.schedules:
                there = ", ".join(sorted(self.study.schedules))
                raise UserError(f"schedule {name} is none of study {self.study.name}, which has {there}")
        self.grid.at(0, self._common())
        if (lengths := self._lengths()) != sorted(lengths):
            raise UserError(f"each round needs no fewer epochs than the one before, and rounds have {lengths}")

    def _lengths(self) -> list[int]:
        """Epochs of each round."""
        return [self._length() if epochs is None else epochs for _, epochs in self.budget.rounds]

    def _length(self) -> int:
        """Epochs of the schedule, which null stands for."""
        epochs = dict(argument.split("=", 1) for argument in self._common()).get("train.epochs", "")
        if not epochs.isdecimal():
            raise UserError(
                "null in rounds needs a schedule that sets train.epochs to a whole number, and "
                f"{self.schedule} does not"
            )
        return int(epochs)

    def carry_out(self) -> Json:
        """Trains every trial that has no line yet, and returns the line of the best of the last round.

        A round of as many epochs as the one before would train the same once more: its lines are taken over from there,
        with the round that trained them as ``taken_from``. A trial's weights are removed once its line is written, and
        a search that is finished needs no teacher. UserError where the file is of another search or cannot be written,
        and where a round of it is by another teacher.
        """
        check_writable(self.path)
        refusal = "another process is at work in {}: wait for it or stop it"
        with (
            locked(self.folder / ".lock", refusal.format(self.folder)) as trainings,
            locked(self.path.with_name(f".{self.path.name}.lock"), refusal.format(self.path)) as lines,
        ):
            # trainings hold both locks too: they outlive a search that is killed
            self._held = trainings.fileno(), lines.fileno()
            ranked = self._rounds(self._begun())
            found = finished(self.path)  # as rows take it, a tie in a search of before included
            return ranked if found is None else found[0]

    def _begun(self) -> list[int]:
        head = {
            "grid": self.grid.name,
            "size": self.grid.size,
            "axes": self.grid.axes,
            "factors": self.grid.factors,
            "rounds": self.budget.rounds,
            "seed": self.budget.seed,
            "drawn": self.budget.drawn(self.grid.size),
            "common": self._common(),
        }
        there = read_lines(self.path)
        if not there:
            append_line(self.path, {**head, "ties": RANKED, **self.facts})
            there = read_lines(self.path)
        changed = [key for key, value in head.items() if there[0].get(key) != _plain(value)]
        if changed:
            raise UserError(
                f"{self.path} is of a search with other {', '.join(changed)}: move it away, or take its own"
            )
        return list(there[0]["drawn"])

    def _common(self) -> list[str]:
        return [*self.study.common, *self.study.schedules[self.schedule]]

    def _rounds(self, left: list[int]) -> Json:
        best: Json = {}
        lengths, teacher = self._lengths(), None
        for number, (count, epochs) in enumerate(self.budget.rounds):
            if number and lengths[number] == lengths[number - 1]:
                self._take_over(number, left[:count])
            if teacher is None and not self._is_there(number, left[:count]):
                teacher = self.teacher()
            lines = self._round(number, left[:count], epochs, teacher)
            lines.sort(key=rank)  # of equals the one that was drawn, or ranked, first
            left, best = [line["configuration"] for line in lines], lines[0]
        return best

    def _is_there(self, number: int, configurations: list[int]) -> bool:
        """Whether each trial of a round has its line."""
        done = {line["configuration"] for line in read_lines(self.path)[1:] if line["round"] == number}
        return done >= set(configurations)

    def _round(self, number: int, configurations: list[int], epochs: int | None, teacher: Path | None) -> list[Json]:
        """The lines of a round by its configurations in order; one that ends badly ends it, behind those at work."""
        pool = ThreadPoolExecutor(self.workers)  # each waits for a process
        trials = [pool.submit(self._trial, number, index, epochs, teacher) for index in configurations]
        try:
            for trial in as_completed(trials):
                trial.result()
        finally:
            pool.shutdown(cancel_futures=True)
        lines = [trial.result() for trial in trials]
        if len({json_hash(line["origins"]) for line in lines if "origins" in line}) > 1:
            raise UserError(f"{self.path} has trials of a round by two teachers: move it away and search anew")
        return lines

    def _take_over(self, number: int, configurations: list[int]) -> None:
        """Writes the lines of a round that trains what the round before trained, but for those that are there."""
        there = {(line["round"], line["configuration"]): line for line in read_lines(self.path)[1:]}
        for index in configurations:
            if (number, index) not in there:
                before = there[number - 1, index]
                append_line(self.path, {"taken_from": number - 1, **before, "round": number})

    def _trial(self, number: int, index: int, epochs: int | None, teacher: Path | None) -> Json:
        with self._writing:
            there = read_lines(self.path)
        for line in there[1:]:
            if (line["round"], line["configuration"]) == (number, index):
                return line
        options = self.grid.at(index, self._common())
        name = f"{self.grid.name}-{number}-{index}"
        arguments = [
            *self._common(),
            *options,
            *([] if epochs is None else [f"train.epochs={epochs}"]),
            f"ckpt={teacher}",
            f"distill.teacher={teacher}",
            f"seed={self.budget.seed}",
            f"outputs={self.folder}",
            f"run={name}",
        ]
        refusal = self.execute("train.py", arguments, self._held)
        if refusal is not None and DIVERGED not in refusal:
            raise UserError(f"trial {name} ended, and not by numbers that ran off: {refusal}")
        told = _told(self.folder / name) if refusal is None else {"validation": None, "failed": refusal}
        with self._writing:
            append_line(self.path, {"round": number, "configuration": index, "options": options, **told})
            line = read_lines(self.path)[-1]
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return line


def _told(folder: Path) -> Json:
    """What a finished training says of itself: validation alone."""
    best, newest = read_json(folder / "best.json"), complete_checkpoints(folder)[-1]
    trained = read_json(newest / "run.json")
    return {
        "validation": best["val_accuracy"],
        "val_samples": best["val_samples"],
        "step": best["step"],
        "epochs": trained["progress"]["epoch"],
        "train_s": trained["progress"]["seconds"],
        "commit": trained["git"]["commit"],
        "dirty": trained["git"]["dirty"],
        "cpu": (trained["hardware"] or {}).get("cpu_model"),
        **({"origins": trained["origins"]} if "origins" in trained else {}),
    }


def process(script: str, arguments: list[str], pass_fds: tuple[int, ...] = ()) -> str | None:
    """Runs a script in a process of its own; returns the sentence with which it refused, None where it did not.

    pass_fds: open files that it shares. UserError where it ended otherwise, so that a search that is stopped writes no
    line.
    """
    command = [sys.executable, str(ROOT / script), *last_of_each(arguments)]
    silent, told = subprocess.DEVNULL, subprocess.PIPE
    done = subprocess.run(command, stdout=silent, stderr=told, text=True, pass_fds=pass_fds, check=False)
    last = (done.stderr.strip().splitlines() or [""])[-1]
    if done.returncode not in (0, 2):
        raise UserError(f"{script} ended with code {done.returncode}: {last}")
    return last if done.returncode else None


def rooted(
    execute: Execute, root: str | None, script: str, arguments: list[str], pass_fds: tuple[int, ...]
) -> str | None:
    """``execute`` with the folder of the data sets, where one is given."""
    return execute(script, [*arguments, *([] if root is None else [f"data.root={root}"])], pass_fds)


def teacher_of(study: Study, outputs: Path, seed: int, execute: Execute) -> Path:
    """The run folder of the exact teacher of a study and seed, where rows have theirs.

    train.py trains it, or trains it on where it was stopped. UserError where it refuses, as it does where the folder
    has a teacher of other settings.
    """
    folder = outputs / f"seed-{seed}" / "teacher"
    start = [f"seed={seed}", f"outputs={folder.parent}", "run=teacher"]
    refusal = execute("train.py", [*study.common, "softmax=exact", *study.schedules["teacher"], *start], ())
    if refusal is not None:
        raise UserError(f"the teacher was not trained: {refusal}")
    return folder


def _plain(value: JsonValue) -> JsonValue:
    """A value as a line of JSON gives it back."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def with_searches_of_study(config: Mapping[str, JsonValue], folder: Path) -> Json:
    """``with_searches`` of the host and task that the study says: those of its name, but for ``searched_as`` and
    ``searched_on``. Own settings stay a choice where the task is another, or ``searched_beside`` is true."""
    node = Described.of(config["study"])
    host = path_part("study.searched_as", node.searched_as or node.name)
    task = path_part("study.searched_on", node.searched_on or node.task)
    beside = task != node.task if node.searched_beside is None else node.searched_beside
    return with_searches(config, folder, host, task, beside)


def other_schedules(study: Study, config: Mapping[str, JsonValue], runs: Collection[str]) -> list[str]:
    """A sentence for each of these runs of ``with_searches_of_study`` whose search trained by another schedule than its
    own: what was found is taken all the same. study: that of the configuration.

    Data and model are left out, which ``searched_as`` and ``searched_on`` may change.
    """
    node, told = Described.of(config["study"]), list[str]()
    for name in runs:
        facts = config["runs"][name]
        if "searches" in facts:
            path = (
                Path(facts["searches"])
                / f"{node.searched_as or node.name}-{node.searched_on or node.task}-{name}.jsonl"
            )
            there = _by_key(read_lines(path)[0].get("common", []))
            own = _by_key([*study.common, *study.schedules[facts["schedule"]]])
            apart = [key for key in sorted({*there, *own}) if there.get(key) != own.get(key)]
            if apart and there:
                values = (f"{key}={there.get(key, 'none')} in place of {own.get(key, 'none')}" for key in apart)
                told.append(f"{path}: its trainings had {', '.join(values)}, and what they found is taken all the same")
    return told


def _by_key(overrides: list[str]) -> dict[str, str]:
    """Overrides by key, but for those of data and model."""
    pairs = (override.partition("=") for override in overrides)
    return {key: value for key, _, value in pairs if key.split(".")[0] not in ("task", "model", "data")}


def with_searches(config: Mapping[str, JsonValue], folder: Path, host: str, task: str, beside: bool = False) -> Json:
    """A configuration of rows whose runs have the settings that a finished search found, and count its trials.

    Choices of a run that was searched are dropped, since the search made them; the others stay as they are.
    beside: the search was of another task, or of shorter trainings, so that the settings found are one more choice of
    the run, and each choice is whole: its own settings, or those found.
    UserError where a run and its search differ in softmax, where a file is of another host, task or grid than its name
    says, and where the folder has no finished search of any run.
    """
    runs, found = dict(config["runs"]), False
    for name, facts in runs.items():
        run_of(name, facts)  # which refuses what no run is
        path = folder / f"{host}-{task}-{name}.jsonl"
        search = finished(path) if path.is_file() else None
        if search is not None:
            found = True
            best, trials = search
            _check_name(path, {"host": host, "task": task, "grid": name})
            kept = {key: value for key, value in facts.items() if key not in ("choices", "like")}
            # what a study's schedule says stands before its choices, so that the settings found hold against it
            which, settings = _parted(best["options"])
            own, always = _parted(facts["options"])
            choices, taken_over = [settings], beside and facts.get("like") is not None
            if own != which or taken_over:
                raise UserError(
                    f"run {name} needs {'choices of its own and ' if beside else ''}{', '.join(which)}, as the search "
                    f"in {path} has it, and it has {', '.join(own)}{' and takes a choice over' if taken_over else ''}"
                )
            if beside:
                choices = [*([*always, *choice] for choice in facts.get("choices") or [[]]), settings]
            searched = facts.get("searched", 0) + trials  # the row's own training is one more, which its run counts
            where = {"searched": searched, "searches": str(folder)}
            runs[name] = {**kept, "options": which, "choices": choices, **where}
    if not found:
        raise UserError(
            f"searches={folder} needs a finished search of {host} on {task} ({host}-{task}-RUN.jsonl, by "
            "scripts/search.py) of one of the runs, and has none"
        )
    return {**config, "runs": runs}


def _check_name(path: Path, named: Mapping[str, str]) -> None:
    """UserError where a search's first line is of another host, task or grid than the file is named after."""
    head = read_lines(path)[0]
    if other := [key for key, value in named.items() if head.get(key) != value]:
        raise UserError(
            f"{path} is named after {other[0]} {named[other[0]]}, and its search is of {head.get(other[0])}: a file of "
            "results/search has its search's own name"
        )


def _parted(options: list[str]) -> tuple[list[str], list[str]]:
    """Overrides of train.py that choose the softmax, and the others."""
    which = [option for option in options if option.startswith("softmax=")]
    return which, [option for option in options if option not in which]
