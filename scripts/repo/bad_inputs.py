"""Bad input by the thousand, drawn with a seed: python scripts/repo/bad_inputs.py seed=1 cases=2000 out=FOLDER

Half of the cases are settings of the commands with values of every kind, half are files of checkpoints, data sets,
shards and bundles with one change. Each runs in a fork with limits of time and memory; what is a finding is said in
tests/cli/bad_cases.py. <out>/bad_inputs.jsonl has a line a case, and the command goes on with those
that have none; seconds=N ends it, with the counts of what is done.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ("", "tests/cli", "tests/models", "tests/cgf/bundle")
sys.path[:0] = [str(ROOT / part) for part in SUPPORT]  # what makes, spoils and reads stands beside the tests

from cgf.checks import whole  # noqa: E402
from cgf.ending import refusals  # noqa: E402
from cgf.errors import UserError  # noqa: E402
from cgf.results import append_line, read_json, read_lines, run_info, write_json  # noqa: E402
from cgf.types import Json, JsonValue  # noqa: E402

DEFAULTS = {"seed": "1", "cases": "2000", "out": "results/reliability", "seconds": "86400"}
FILES = {
    "bad_inputs.json": ("bad_inputs", "bad_inputs_refused", "tracebacks", "hangs"),
    "fuzz.json": ("fuzz_cases", "fuzz_findings_open"),
}
FINDINGS = ("accepted", "traceback", "hang", "memory", "litter", "unclear")


def main() -> int:
    """Draws, runs and counts; exit code 1 where there is a finding."""
    seed, count, out, seconds = asked(sys.argv[1:])
    lines = out / "bad_inputs.jsonl"
    lines.parent.mkdir(parents=True, exist_ok=True)
    git, until = run_info()["git"], time.monotonic() + seconds
    done = {row["number"] for row in read_lines(lines) if row["seed"] == seed}
    with tempfile.TemporaryDirectory(prefix="cgf-bad-inputs-") as place:
        for number, row in run(Path(place), seed, count, done, out / "bad_inputs_cases.json"):
            append_line(lines, {"number": number, "seed": seed, **row})
            if time.monotonic() > until:  # the counts are of the cases that are done
                break
    rows = [row for row in read_lines(lines) if row["seed"] == seed and row["number"] < count]
    counts = counted(rows)
    about = {"seed": seed, **git, "date": datetime.now(UTC).date().isoformat()}
    for name, keys in FILES.items():
        write_json(out / name, {**{key: counts[key] for key in keys}, **about})
    for row in rows:
        if row["verdict"] in FINDINGS:
            print(f"{row['verdict']}: {json.dumps(row['case'])}: {row['said'][:300]}")
    print(json.dumps({**counts, **Counter(row["verdict"] for row in rows)}))
    return 1 if counts["fuzz_findings_open"] else 0


def asked(arguments: list[str]) -> tuple[int, int, Path, int]:
    """Seed, number of cases, the folder of the results and the most seconds. UserError for whatever else is given."""
    given = dict(DEFAULTS)
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or key not in given:
            raise UserError(
                f"settings are {', '.join(f'{k}={v}' for k, v in DEFAULTS.items())}, and {text!r} was given"
            )
        given[key] = value
    numbers = [int(given[key]) if given[key].isdecimal() else given[key] for key in ("seed", "cases", "seconds")]
    return (
        whole("seed", numbers[0], 0),
        whole("cases", numbers[1], 1, 10**6),
        Path(given["out"]),
        whole("seconds", numbers[2], 1),
    )


def drawn(seed: int, count: int, network: bool, kept: Path) -> list[Json]:
    """The cases; those in the file ``kept``, where it has them: hypothesis draws by what is loaded, too."""
    import bad_cases

    if kept.is_file() and (there := read_json(kept))["seed"] == seed and there["count"] == count:
        cases: list[Json] = there["cases"]
        return cases
    values = bad_cases.drawn(bad_cases.value_cases(), count - count // 2, seed)
    files = bad_cases.drawn(bad_cases.file_cases(network), count // 2, seed)
    pairs = zip_longest(values, files)
    cases = [case for pair in pairs for case in pair if case is not None]
    kept.write_text(json.dumps({"seed": seed, "count": count, "cases": cases}))
    return cases


def run(place: Path, seed: int, count: int, done: set[int], kept: Path) -> Iterator[tuple[int, Json]]:
    """(number, row) of the cases that are not done; place: an empty folder."""
    import bad_bases
    import bad_cases
    import readers

    base = bad_bases.make(place / "base")
    if network := has_network():
        bad_bases.with_bundles(base)
    whole_facts: dict[tuple[str, str], JsonValue] = {}
    for number, case in enumerate(drawn(seed, count, network, kept)):
        if number in done:
            continue
        folder = bad_cases.copied(base, place / "case" / "here", case)
        if "command" in case:
            row = bad_cases.run_value(case, folder)
        else:
            key = case["reader"], case["name"]
            if key not in whole_facts:
                whole_facts[key] = bad_cases.whole_facts(readers.READERS[case["reader"]], case, base, place)
            row = bad_cases.run_file(case, base, folder, whole_facts)
        shutil.rmtree(place / "case")
        yield number, dataclasses.asdict(row)


def has_network() -> bool:
    """Whether the library of ciphertexts is there: without it, files of clients and servers are left out."""
    return importlib.util.find_spec("desilofhe") is not None


def counted(rows: list[Json]) -> dict[str, int]:
    """Bad inputs are the cases that were refused or should have been; cases without an effect are none."""
    verdicts = Counter(row["verdict"] for row in rows)
    findings = sum(verdicts[each] for each in FINDINGS)
    return {
        "bad_inputs": verdicts["refused"] + findings,
        "bad_inputs_refused": verdicts["refused"],
        "tracebacks": verdicts["traceback"],
        "hangs": verdicts["hang"],
        "fuzz_cases": len(rows),
        "fuzz_findings_open": findings,
    }


if __name__ == "__main__":
    with refusals():
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        sys.exit(main())
