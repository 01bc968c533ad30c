"""The runs of a study for one seed, each evaluated once; stopped and gone on with at will."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.lock import locked
from cgf.results import append_line, read_json, read_lines
from cgf.run_checkpoints import ended
from cgf.study.study import Run, Study
from cgf.types import Json, JsonValue

ROOT = Path(__file__).resolve().parents[2]
PLAN = "scripts/plan.py"
LOG = "steps.jsonl"
RED = 1  # exit code of an evaluation that says why it is not to be believed


@dataclass
class Seed:
    """The runs of a study for one seed, in a folder of its own; done steps are lines of steps.jsonl there.

    decides      the folder of the seed on which choices are made; None: this one
    known        choices that were made where the folder of the seed that decides is not at hand, by name of the run
    kept         what rows of before say in place of an evaluation, by name of the run (``compared.kept``)
    more         further arguments of every evaluation
    evaluations  the folder's own folder of evaluations, so that two sets of arguments share the trainings
    opening      told before an evaluation is carried out: the run, its folder, and whether with the plan's exponential
    execute      runs a script with arguments, in the repository; the default is a process of its own
    """

    study: Study
    seed: int
    folder: Path
    decides: Path | None = None
    root: str | None = None
    known: Mapping[str, int] = field(default_factory=dict)
    kept: Json = field(default_factory=dict)
    more: tuple[str, ...] = ()
    evaluations: str = "eval"
    opening: Callable[[Run, Path, bool], None] | None = None
    execute: Callable[[str, list[str]], None] | None = None
    _held: IO[str] = field(init=False, repr=False, compare=False)  # of the lock, while it is held

    def carry_out(self, only: list[str] | None = None) -> None:
        """Trains and evaluates every run that is not done yet; a red evaluation is a result, and its step says so.

        UserError where a step fails, where another process is at work here, where the seed that decides has not been
        run, and where a run that has choices was trained here when it had none.
        """
        # processes that are started hold the lock too: a step outlives whoever started it
        refusal = f"another process is at work in {self.folder}: wait for it or stop it"
        with locked(self.folder / ".lock", refusal) as self._held:
            wanted = [run for run in self.study.runs if only is None or run.name in only]
            for run in wanted:
                self._check_link(run)
            for run in wanted:
                self._train(run)
                self._link(run)
                self._evaluate(run)

    def _train(self, run: Run) -> None:
        wanted = range(len(run.choices))
        if len(run.choices) > 1 and self.decides is not None:
            wanted = range(self.choice(run), self.choice(run) + 1)
        for i in wanted:
            taken = i if run.like is None else self.choice(self.study.run(run.like))
            start = []
            if run.after is not None:
                start = [f"ckpt={self.chosen(run.after)}", f"distill.teacher={self.chosen(run.teacher or 'teacher')}"]
            self._step(
                "train.py",
                [
                    *self.study.arguments(run, taken),
                    *start,
                    f"seed={self.seed}",
                    f"outputs={self.folder}",
                    f"run={run.tries()[i]}",
                ],
            )

    def _check_link(self, run: Run) -> None:
        link = self.folder / run.name
        if len(run.choices) > 1 and link.is_dir() and not link.is_symlink():
            raise UserError(
                f"{link} is a training of run {run.name} without choices, and the run has {len(run.choices)} now: "
                "move it away"
            )

    def _link(self, run: Run) -> None:
        """The name of a run with several tries leads to the best of them, for whoever goes on with it by hand."""
        if len(run.choices) > 1:
            link = self.folder / run.name
            link.unlink(missing_ok=True)
            link.symlink_to(self.chosen(run.name).name)

    def _evaluate(self, run: Run) -> None:
        folder = f"ckpt={self.chosen(run.name)}"
        watch = [] if run.watch is None else [f"domain=[{run.watch[0]},{run.watch[1]}]"]
        self._step("eval_plain.py", [folder, *watch, *self.more, f"out={self.result(run.name)}"], run)
        if run.chain is not None:
            self._step(PLAN, [folder, "approx=chain", f"approx.k={run.chain}", "samples=null"])
            out = self.result(run.name, run.chain)
        elif run.plan is not None:
            self._step(PLAN, [folder, "pareto=false", *run.plan])
            out = self.planned(run.name)
        else:
            return
        self._step("eval_plain.py", [folder, "approx=plan", *self.more, f"out={out}"], run)

    def chosen(self, name: str) -> Path:
        """Folder of a run, of its best try where there are several."""
        run = self.study.run(name)
        return self.folder / run.tries()[self.choice(run)]

    def choice(self, run: Run) -> int:
        """Which of a run's choices is taken: the best of the seed that decides, or what is known of it."""
        if self.decides is not None and run.name in self.known and not _tried(run, self.decides):
            return self.known[run.name]
        return choice(run, self.decides or self.folder)

    def result(self, name: str, chain: int | None = None) -> Path:
        """File of the evaluation of a run as trained, or with a chain of so many squarings."""
        return self.folder / self.evaluations / (f"{name}.json" if chain is None else f"{name}-chain{chain}.json")

    def as_studied(self, run: Run) -> bool:
        """Whether what its folder holds was trained by the study's arguments of now, and all that it started from."""
        log = [row["arguments"] for row in read_lines(self.folder / LOG) if row["script"] == "train.py"]
        made = {_options(arguments)["run"]: arguments for arguments in log}  # of each run the last
        for each in self.study.lineage(run):
            wanted = self.study.arguments(each, self.choice(self.study.chooser(each)))
            if made.get(self.chosen(each.name).name, [])[: len(wanted)] != wanted:
                return False
        return True

    def planned(self, name: str) -> Path:
        """File of the evaluation of a run with its plan's exponential."""
        return self.folder / self.evaluations / f"{name}-plan.json"

    def _step(self, script: str, arguments: list[str], opens: Run | None = None) -> None:
        if self.root is not None:
            arguments = [*arguments, f"data.root={self.root}"]
        log = self.folder / LOG
        before = read_lines(log)
        if _done(before, script, arguments):
            return
        print(f"{script} {' '.join(arguments)}", flush=True)
        if opens is not None and self.opening is not None:
            self.opening(opens, self.chosen(opens.name), "approx=plan" in arguments)
        if script == "eval_plain.py":  # the study's own result, of a run that may have been trained anew since
            Path(_options(arguments)["out"]).unlink(missing_ok=True)
        start = time.perf_counter()
        anew = ["overwrite=true"] if script == "train.py" and _outdated(before, arguments) else []
        (self.execute or self._process)(script, [*arguments, *anew])
        append_line(
            log,
            {"script": script, "arguments": arguments, "seconds": time.perf_counter() - start, **_judged(arguments)},
        )

    def _process(self, script: str, arguments: list[str]) -> None:
        execute(script, arguments, (self._held.fileno(),))


def execute(script: str, arguments: list[str], pass_fds: tuple[int, ...] = ()) -> None:
    """Runs a script of the repository in a process of its own; pass_fds: open files that it shares.

    UserError where it fails. A red evaluation does not: it is a result, and ends with code 1. So does a crash, which
    writes none.
    """
    before = _written(arguments)
    command = [sys.executable, str(ROOT / script), *last_of_each(arguments)]
    code = subprocess.run(command, pass_fds=pass_fds, check=False).returncode
    if code and not (code == RED and _written(arguments) != before and _judged(arguments).get("red")):
        raise UserError(f"{script} ended with code {code}, its arguments: {' '.join(arguments)}")


def last_of_each(arguments: list[str]) -> list[str]:
    """Arguments without those that a later one of the same key replaces, as a choice of a run does what its schedule
    says."""
    return list({argument.partition("=")[0]: argument for argument in arguments}.values())


def _written(arguments: list[str]) -> int | None:
    """When the result file that the arguments name was written, in nanoseconds; None: there is none, or it is not."""
    out = _options(arguments).get("out")
    return None if out is None or not Path(out).is_file() else Path(out).stat().st_mtime_ns


def _judged(arguments: list[str]) -> Json:
    """The reasons of a red result that the arguments name, for the log; nothing of a green one, or where is none."""
    red = read_json(_options(arguments)["out"]).get("red") if _written(arguments) is not None else None
    return {"red": red} if red else {}


def _outdated(log: list[Json], arguments: list[str]) -> bool:
    """Whether a training is in the log, and what it started from or learned from was trained anew since."""
    given = _options(arguments)
    read = {given.get("ckpt"), given.get("distill.teacher")} - {None}
    trained = [row["arguments"] for row in log if row["script"] == "train.py"]
    if arguments not in trained:
        return False
    since = trained[len(trained) - trained[::-1].index(arguments) :]
    return any(_trains(other) in read for other in since)


def _done(log: list[Json], script: str, arguments: list[str]) -> bool:
    """Whether a step is in the log, what it trained or wrote is still there and what it read was not trained or, where
    it reads a plan or makes one, planned anew since."""
    done, given = False, _options(arguments)
    read = {given.get("ckpt"), given.get("distill.teacher")} - {None}
    for row in log:
        if row["script"] == script and row["arguments"] == arguments:
            done = True
        elif row["script"] == "train.py" and _trains(row["arguments"]) in read:
            done = False
        elif row["script"] == PLAN and (script == PLAN or given.get("approx") == "plan"):
            done = done and _options(row["arguments"])["ckpt"] != given["ckpt"]
    if script == "train.py":
        return done and ended(Path(_trains(arguments)))
    return done and ("out" not in given or Path(given["out"]).is_file())


def _trains(arguments: list[str]) -> str:
    """The run folder of a training."""
    given = _options(arguments)
    return str(Path(given["outputs"]) / given["run"])


def _options(arguments: list[str]) -> dict[str, str]:
    return dict(argument.split("=", 1) for argument in arguments)


def checked_seeds(seeds: JsonValue) -> list[int]:
    """The seeds of a study; UserError unless they are whole numbers that differ."""
    if not isinstance(seeds, list) or not seeds or not all(is_whole(s) for s in seeds) or len(set(seeds)) != len(seeds):
        raise UserError(f"seeds must be whole numbers that differ, and {seeds} was given")
    return list(seeds)


def choice(run: Run, folder: Path) -> int:
    """Which of a run's choices is the best on validation in this folder; the first of equals.

    UserError where a try is missing.
    """
    if len(run.choices) == 1:
        return 0
    if not _tried(run, folder):
        missing = next(name for name in run.tries() if not ended(folder / name))
        raise UserError(
            f"the choice of {run.name} needs {folder / missing}, and it is not trained to its end: the first of the "
            "seeds has to be run before the others"
        )
    scores = [read_json(folder / name / "best.json")["val_accuracy"] for name in run.tries()]
    return scores.index(max(scores))


def _tried(run: Run, folder: Path) -> bool:
    return all(ended(folder / name) for name in run.tries())
