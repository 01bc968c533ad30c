"""The register of openings beside the rows that are there and the history of their files."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from cgf.errors import UserError
from cgf.openings import CKKS, FIRST, PLANNED, TRAINED, Line, Register, of_fold
from cgf.report.columns import grid
from cgf.results import read_json, read_lines
from cgf.types import Json, JsonValue

FILE, WITHDRAWN, CORRECTED = "opened.jsonl", "withdrawn.jsonl", "corrected.jsonl"
# of a row: labels hang on them; each with the test figure that it stands beside
FIELDS = {"validation": TRAINED, "trials": TRAINED, "predictions": TRAINED, "total_levels": PLANNED}
FIELDS |= dict.fromkeys(("yardstick", "within", "tuning", "tempered", "trained"), TRAINED)  # which rows are compared
FIELDS |= dict.fromkeys((TEACHER := "teacher", "accuracy_teacher", "teacher_settings"), TRAINED)
UNSHOWN = f"-{TEACHER}"  # in the names of rows that no table shows
FOLDERS = ("train", "he", "he/exact", "he/attention", "he/network", "approximated", "network")  # with test figures
PLACES = tuple(f"{folder}/" for folder in FOLDERS)
ENCRYPTED = ("eval_he", "eval_network")  # kinds of results whose figures are of ciphertexts
EVALUATION = {TRAINED: "evaluation", PLANNED: "evaluation_planned"}  # field of a row of training, by figure
ADD = "python scripts/repo/openings.py"


def figures(row: str, content: JsonValue) -> Json:
    """The test figures that a result file holds, by name: what differs between two of them was evaluated twice.

    Samples, right answers and loss stand for a figure: an evaluation of other weights changes at least the loss.
    """
    if row.startswith("network/"):  # a table: a figure for each replacement and seed
        named = [(" and ".join(line["replaced"]) or "own parts", line) for line in content["rows"]]
        seeds = [
            (f"{name} {seed}", line, accuracy) for name, line in named for seed, accuracy in line["accuracy"].items()
        ]
        return {figure: [line["samples"], accuracy] for figure, line, accuracy in seeds}
    if not row.startswith("train/"):
        return {CKKS if content.get("kind") in ENCRYPTED else TRAINED: _short(content)}
    parts = enumerate(content["folds"]) if "folds" in content else [(None, content)]
    told = {of_fold(figure, fold): part.get(key) for fold, part in parts for figure, key in EVALUATION.items()}
    return {figure: _short(evaluation) for figure, evaluation in told.items() if evaluation is not None}


def _short(evaluation: Json) -> list[JsonValue]:
    return [evaluation.get(key) for key in ("samples", "correct", "accuracy", "loss")]


def history(root: Path) -> list[tuple[Line, JsonValue]] | None:
    """Openings that the commits of result files tell, oldest first, each with what was seen; None outside a checkout.

    A commit that adds a file, or changes a figure in it, tells one opening a figure: on the day of the commit at the
    latest. Its subject stands for the reason of a second one. What was evaluated and never committed is not told.
    """
    versions = _versions(root)
    if versions is None:
        return None
    seen: dict[tuple[str, str], list[JsonValue]] = {}
    told = []
    for commit, day, subject, row, content in versions:
        for figure, value in figures(row, content).items():
            before = seen.setdefault((row, figure), [])
            if value not in before:
                reason = f"{subject} (read off the history)" if before else FIRST
                line = {"row": row, "figure": figure, "date": day, "commit": commit, "reason": reason}
                before.append(value)
                told.append((line, value))
    return told


def missing(results: Path) -> list[Line]:
    """Openings that the history of a results folder tells and its register has not, of each row and figure by count."""
    counted: dict[tuple[str, str], int] = {}
    for line in Register(results / FILE).lines():
        key = (line["row"], line["figure"])
        counted[key] = counted.get(key, 0) + 1
    absent, of = [], dict[tuple[str, str], int]()
    for line, _ in history(results.parent) or []:
        key = (line["row"], line["figure"])
        of[key] = of.get(key, 0) + 1
        if of[key] > counted.get(key, 0):
            absent.append(line)
    return absent


def check(results: Path) -> None:
    """UserError where the register was not only added to, or lacks an opening of a file that is there or was.

    Each figure of a file that is there needs a line, each figure of another value that the history has one more, and
    what a row says of its openings must be in the register. A row that was opened and is not there needs a line in
    ``WITHDRAWN``, and one whose fields of weight changed without another opening one in ``CORRECTED``. Outside a
    checkout the files alone are looked at.
    """
    register = Register(results / FILE)
    lines = register.lines()
    known = {(line["row"], line["figure"]) for line in lines}
    for row, path in _files(results):
        content = read_json(path)
        if closed := [figure for figure in figures(row, content) if (row, figure) not in known]:
            raise UserError(f"{FILE} lacks the opening of {row} ({', '.join(closed)}): {ADD}")
        told = content.get("opened") or []
        if told != [line for line in lines if line["row"] == row][: len(told)]:
            raise UserError(f"{path} tells of other openings than {FILE}: neither is to be changed by hand")
    check_withdrawn(results, lines)
    check_fields(results)
    if absent := missing(results):
        raise UserError(f"{FILE} lacks {len(absent)} openings of the history, of {absent[0]['row']} first: {ADD}")
    _check_appended(results)


def withdrawn(results: Path) -> list[Json]:
    """Rows that were opened and are shown no more, with day and reason, as ``WITHDRAWN`` lists them."""
    return _listed(results / WITHDRAWN, ("row", "date", "reason"))


def withdrawn_table(results: Path) -> str:
    """Rows that were opened and are shown no more, a line a reason."""
    by: dict[tuple[str, str], list[str]] = {}
    for line in withdrawn(results):
        by.setdefault((line["date"], line["reason"]), []).append(f"`{line['row']}`")
    return grid(("rows", "since", "why"), [[", ".join(names), *told] for told, names in by.items()])


def check_withdrawn(results: Path, lines: list[Line]) -> None:
    """UserError where a row was opened whose file is gone, and no line says since when and why.

    A line of a row whose file is there is refused too.
    """
    there, told = {row for row, _ in _files(results)}, {line["row"] for line in withdrawn(results)}
    opened = {line["row"] for line in lines if line["row"].startswith(PLACES) and UNSHOWN not in line["row"]}
    if gone := sorted(opened - there - told):
        raise UserError(
            f"{gone[0]} was opened and has no file: put it back, or say in {results / WITHDRAWN} since when and why it "
            "is shown no more"
        )
    if back := sorted(told & there):
        raise UserError(f"{results / WITHDRAWN} says that {back[0]} is shown no more, and its file is there")


def check_fields(results: Path) -> None:
    """UserError where two versions of a row of training have the same test figure, and another field of ``FIELDS``.

    A label hangs on these fields, and no opening tells of them: levels beside the figure with a plan (or, without one,
    as trained), and beside the figure as trained the accuracy on validation, fewer trials, which answers are right,
    what the row is compared with, and the teacher.
    Each version is compared with the one before it that had that figure. A line of ``CORRECTED`` names the row and the
    field, with day and reason, and allows one change.
    """
    versions = [(row, content) for *_, row, content in _versions(results.parent) or [] if row.startswith("train/")]
    if not versions:
        return
    versions += [(row, read_json(path)) for row, path in _files(results) if row.startswith("train/")]
    lines = _listed(results / CORRECTED, ("row", "field", "date", "reason"))
    allowed = Counter((line["row"], line["field"]) for line in lines)
    before: dict[tuple[str, str, str], Json] = {}
    for row, content in versions:
        for field, figure in FIELDS.items():
            key = (row, field, str(_figure(row, content, figure)))
            if _changed(field, before.get(key) or content, content):
                allowed[row, field] -= 1
                if allowed[row, field] < 0:
                    raise UserError(
                        f"{row} has the test figure of a version before and another '{field}': train it anew, or say "
                        f"in {results / CORRECTED} why it was changed"
                    )
            before[key] = content


def _figure(row: str, content: Json, figure: str) -> Json:
    """The figures of this name, of each fold; those as trained where there is no plan."""
    told = figures(row, content)
    return {k: v for k, v in told.items() if k.startswith(figure)} or {
        k: v for k, v in told.items() if k.startswith(TRAINED)
    }


def _changed(field: str, before: Json, now: Json) -> bool:
    """Whether a field is another: fewer of trials, and nothing of what was not kept before, the teacher apart."""
    old, new = before.get(field), now.get(field)
    if field == TEACHER:  # none named is the study's own
        return (old or TEACHER) != (new or TEACHER)
    if field == "trials":
        return isinstance(old, int) and (not isinstance(new, int) or new < old)
    if field == "predictions":
        return old is not None and (new is None or old["sha256"] != new["sha256"])
    return old is not None and old != new


def _listed(path: Path, keys: tuple[str, ...]) -> list[Json]:
    lines = read_lines(path)
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, dict) or not all(isinstance(line.get(key), str) for key in keys):
            raise UserError(f"{path} needs {', '.join(keys)} in each line, and line {number} has not")
    return lines


def _check_appended(results: Path) -> None:
    """UserError where a version of one of the three registers does not begin with the one before it."""
    for file in (FILE, WITHDRAWN, CORRECTED):
        name = f"{results.name}/{file}"
        try:
            commits = _git(results.parent, "log", "--reverse", "--format=%H", "--", name).split()
            versions = [_git(results.parent, "show", f"{commit}:./{name}") for commit in commits]
        except (OSError, subprocess.SubprocessError):
            return
        versions.append((results / file).read_text(encoding="utf-8") if (results / file).is_file() else "")
        for before, after in pairwise(versions):
            if not after.startswith(before):
                raise UserError(f"{file} is only added to, and lines of it were changed or taken out: put them back")


def _files(results: Path) -> Iterator[tuple[str, Path]]:
    for folder in FOLDERS:
        for path in sorted((results / folder).glob("*.json")):
            yield f"{folder}/{path.stem}", path


def _versions(root: Path) -> list[tuple[str, str, str, str, JsonValue]] | None:
    """(commit, day, subject, row, content) of each version of a result file, oldest first; None outside a checkout."""
    try:
        log = _git(root, "log", "--reverse", "--raw", "--no-abbrev", "--no-renames", "--format=@%H %cs %s", *_paths())
    except (OSError, subprocess.SubprocessError):
        return None
    changes = list(_changes(log))
    contents = _contents(root, [blob for *_, blob in changes])
    return [
        (commit, day, subject, row, content)
        for (commit, day, subject, row, _), content in zip(changes, contents, strict=True)
    ]


def _paths() -> list[str]:
    return ["--", *(f":(glob)results/{folder}/*.json" for folder in FOLDERS)]


def _changes(log: str) -> Iterator[tuple[str, str, str, str, str]]:
    """(commit, day, subject, row, blob) of each file that a commit added or changed."""
    commit, day, subject = "", "", ""
    for line in log.splitlines():
        if line.startswith("@"):
            commit, day, subject = (*line[1:].split(" ", 2), "")[:3]
        elif line.startswith(":"):
            facts, path = line.split("\t")
            *_, blob, status = facts.split(" ")
            if status in ("A", "M"):
                yield commit, day, subject, path.removeprefix("results/").removesuffix(".json"), blob


def _contents(root: Path, blobs: list[str]) -> list[JsonValue]:
    """What the blobs hold, as JSON."""
    command = ["git", "--no-optional-locks", "-C", str(root), "cat-file", "--batch"]
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    out = subprocess.run(command, input=asked, capture_output=True, check=True, timeout=120).stdout
    contents = []
    for _ in blobs:
        head, _, rest = out.partition(b"\n")
        size = int(head.split()[-1])
        contents.append(json.loads(rest[:size]))
        out = rest[size + 1 :]
    return contents


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
