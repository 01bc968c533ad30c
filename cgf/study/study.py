"""A study: runs of train.py that build on each other, with what they have in common and their choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cgf.checks import interval, path_part, whole
from cgf.errors import UserError
from cgf.named import arguments, short
from cgf.types import Json, JsonValue

if TYPE_CHECKING:
    from cgf.softmax.base import Softmax

TEACHER, EXACT = "teacher", "exact"  # the runs from which students start and with which they are compared by default


@dataclass(frozen=True)
class Run:
    """One training of a study.

    schedule   which of the study's schedules it follows
    after      the run whose weights it starts from; None: the model's own
    teacher    the run that it learns from, where it starts from another; None: the run 'teacher'
    against    the run that it is compared with
    options    overrides of train.py
    choices    further overrides, of which the best on validation are kept; one empty choice: nothing to choose
    like       the run whose choice it takes over
    watch      [lo, hi] of y, outside of which the evaluation counts
    chain      squarings of a chain with which it is evaluated too, planned on training data
    plan       options of plan.py, where it is evaluated too with the exponential of least levels; None: it is not
    yardstick  whether the report sets others that are trained alike against it
    within     points below the run compared with that it is to stay within; None: nothing is said of it
    searched   trainings outside of the study by which the run's settings were chosen, which count as its trials
    searches   folder of the search among them (scripts/search.py) that found the run's settings; None: none did
    """

    name: str
    schedule: str
    options: tuple[str, ...]
    after: str | None = None
    teacher: str | None = None
    against: str | None = None
    choices: tuple[tuple[str, ...], ...] = ((),)
    like: str | None = None
    watch: tuple[float, float] | None = None
    chain: int | None = None
    plan: tuple[str, ...] | None = None
    yardstick: bool = False
    within: float | None = None
    searched: int = 0
    searches: str | None = None

    def tries(self) -> list[str]:
        """Names of the trainings among which is chosen; the run's own name where there is one alone."""
        count = len(self.choices)
        return [self.name] if count == 1 else [f"{self.name}-{i}" for i in range(count)]


@dataclass(frozen=True)
class Described:
    """What a configuration says of a study beside its runs, as it is written there (configs/rows.yaml)."""

    name: str
    common: tuple[str, ...]
    schedules: Mapping[str, tuple[str, ...]]
    task: str | None = None
    of_task: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    folds: int | None = None
    searched_as: str | None = None
    searched_on: str | None = None
    searched_beside: bool | None = None

    @classmethod
    def of(cls, node: JsonValue) -> Described:
        """The node ``study`` of a configuration. UserError for a key that is none of a study's, one that is missing,
        a value of another type, and a name of the study or its task that is no part of a path."""
        described = cls(**arguments(cls, node, "study"))
        path_part("study.name", described.name)
        if described.task is not None:
            path_part("study.task", described.task)
        if described.folds is not None:
            whole("study.folds", described.folds, 2)
        return described


@dataclass(frozen=True)
class Study:
    """Runs in order, what they have in common (overrides of train.py) and their schedules (the same, by name).

    What they have in common is the host's and, where the configuration has options of its task, those.

    folds   parts of the data set, each of which is the test set once; None: the set has its own split
    fold    which of them a study made by ``in_folds`` tests on; None: it is not one of those
    given   arguments of the command that chose the host and changed its runs; none: the host of the study's name
    """

    name: str
    common: tuple[str, ...]
    schedules: Mapping[str, tuple[str, ...]]
    runs: tuple[Run, ...]
    folds: int | None = None
    fold: int | None = None
    given: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Mapping[str, JsonValue]) -> Study:
        """The study of a configuration (range, rows), runs after those that they start from or take a choice from.

        UserError where the study or a run has a key that is unknown, missing or of another type, where a run refers to
        one that is not there, or to itself by way of others, where one has a teacher and starts from no run, and for a
        name of the study, its task or a run that is no part of a path.
        """
        node, runs = Described.of(config["study"]), list[Run]()
        if not isinstance(config["runs"], Mapping):
            raise UserError(f"runs must be an object of runs by name, and is {short(config['runs'])}")
        for name, facts in config["runs"].items():
            run = run_of(name, facts)
            if run.schedule not in node.schedules:
                raise UserError(
                    f"run {name} needs a schedule '{run.schedule}', and study {node.name} has "
                    f"{', '.join(node.schedules)}"
                )
            runs.append(run)
        names = {run.name for run in runs}
        for run in runs:
            if run.against is not None and run.against not in names:
                raise UserError(f"run {run.name} is compared with run {run.against}, which is none of {_names(names)}")
        schedules = {k: tuple(v) for k, v in node.schedules.items()}
        common = [*node.common, *(() if node.task is None else node.of_task.get(node.task, ()))]
        return cls(node.name, tuple(common), schedules, tuple(_ordered(runs)), node.folds)

    def in_folds(self) -> list[Study]:
        """The study once for each fold, each testing on its own part of the data; itself where there are no folds."""
        if self.folds is None:
            return [self]
        options = [(f"task.fold={fold}", f"task.folds={self.folds}") for fold in range(self.folds)]
        return [replace(self, common=(*self.common, *each), fold=fold) for fold, each in enumerate(options)]

    def run(self, name: str) -> Run:
        """The run of that name; UserError where it is none of the study."""
        found = next((run for run in self.runs if run.name == name), None)
        if found is None:
            raise UserError(f"run {name} is none of study {self.name}, which has {_names(r.name for r in self.runs)}")
        return found

    def chooser(self, run: Run) -> Run:
        """The run whose choices a run has: its own, or of the one whose choice it takes over."""
        return run if run.like is None else self.run(run.like)

    def lineage(self, run: Run) -> list[Run]:
        """A run, the one whose weights it starts from, a teacher of its own, and so on for both."""
        before = [self.run(name) for name in (run.after, run.teacher) if name is not None]
        return [run, *(ancestor for other in before for ancestor in self.lineage(other))]

    def arguments(self, run: Run, taken: int) -> list[str]:
        """Overrides of train.py for a run with a choice, whatever seed, folder and weights to start from."""
        return [*self.common, *run.options, *self.schedules[run.schedule], *self.chooser(run).choices[taken]]


def run_of(name: str, facts: JsonValue) -> Run:
    """A run as a configuration has it; UserError as of ``Study.of``."""
    path_part("the name of a run", name)
    if not isinstance(facts, Mapping):
        raise UserError(f"run {name} must be an object with schedule and options, and is {short(facts)}")
    given = dict(facts)
    if given.get("choices", ()) is None:
        del given["choices"]
    given = arguments(Run, {"name": name, **given}, f"run {name}")
    given["options"] = tuple(given["options"])
    given["choices"] = tuple(tuple(choice) for choice in given.get("choices") or [()])
    if given.get("watch") is not None:
        given["watch"] = interval(f"runs.{name}.watch", given["watch"])
    if given.get("plan") is not None:
        given["plan"] = tuple(given["plan"])
    run = Run(**given)
    whole(f"runs.{name}.searched", run.searched, 0)
    if run.teacher is not None and run.after is None:
        raise UserError(
            f"run {name} learns from run {run.teacher} and needs after=RUN, the run whose weights it starts "
            "from: a run that starts from the model's own weights has no teacher"
        )
    return run


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def with_every_softmax(config: Mapping[str, JsonValue], softmaxes: Mapping[str, Softmax]) -> Json:
    """The configuration with a run of its name for every softmax that has none: ``each``, and softmax=NAME.

    Where the softmax has exp itself, an evaluation with a planned polynomial belongs to it.
    """
    runs = dict(config["runs"])
    for name, softmax in softmaxes.items():
        if name not in runs:
            runs[name] = {**config["each"], "options": [f"softmax={name}"]}
            if softmax.uses_exponential and softmax.exponential is None:
                runs[name]["plan"] = []
    return {**config, "runs": runs}


def _ordered(runs: list[Run]) -> list[Run]:
    """As given, except that each stands after the runs it refers to."""
    left, ordered = list(runs), list[Run]()
    while left:
        done = {run.name for run in ordered}
        ready = next((r for r in left if {r.after, r.teacher, r.like} <= done | {None}), None)
        if ready is None:
            missing = sorted(
                {str(o) for r in left for o in (r.after, r.teacher, r.like) if o is not None and o not in done}
            )
            raise UserError(
                f"run {left[0].name} needs {', '.join(missing)} to be done before it, and of the runs "
                f"{_names(done)} can be"
            )
        left.remove(ready)
        ordered.append(ready)
    return ordered
