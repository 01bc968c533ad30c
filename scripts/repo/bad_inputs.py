"""Bad input by the thousand, drawn with a seed: python scripts/repo/bad_inputs.py seed=1 cases=2000 out=FOLDER

Half of the cases are settings of the commands with values of every kind, half are files of checkpoints, data sets,
shards and bundles with one change. Each runs in a fork with limits of time and memory; what is a finding is said in
tests/cli/bad_cases.py. <out>/bad_inputs.jsonl has a line a case, and the command goes on with those that have none, or
a finding of another commit. seconds=N or Ctrl-C ends it, with the counts of what is done; seconds=0 counts alone.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ("", "tests/cli", "tests/models", "tests/cgf/bundle")
sys.path[:0] = [str(ROOT / part) for part in SUPPORT]  # what makes, spoils and reads stands beside the tests

from given import about, commits, done, ends, given, kept  # noqa: E402

from cgf.results import append_line, read_json, write_json  # noqa: E402
from cgf.types import Json, JsonValue  # noqa: E402

DEFAULTS: dict[str, int | str] = {"seed": 1, "cases": 2000, "out": "results/reliability", "seconds": 86400}
FILES = {
    "bad_inputs.json": ("bad_inputs", "bad_inputs_refused", "tracebacks", "hangs"),
    "fuzz.json": ("fuzz_cases", "fuzz_findings_open"),
}
FINDINGS = ("accepted", "traceback", "hang", "memory", "litter", "unclear")


def main() -> int:
    """Draws, runs and counts; exit code 1 where there is a finding."""
    asked = given(sys.argv[1:], DEFAULTS, {"seed": 0, "seconds": 0})
    seed, count, out = asked["seed"], asked["cases"], asked["out"]
    lines = out / "bad_inputs.jsonl"
    lines.parent.mkdir(parents=True, exist_ok=True)
    told = about(seed)  # of the code that ran, whatever is written meanwhile
    until, own = time.monotonic() + asked["seconds"], {"seed": seed, "cases": count}  # which are drawn together
    over = done(kept(lines, own), lambda record: record["verdict"] not in FINDINGS, told["commit"])
    # the counts are of the cases that are done
    with suppress(KeyboardInterrupt), tempfile.TemporaryDirectory(prefix="cgf-bad-inputs-") as place:
        cases = run(Path(place), seed, count, over, out / "bad_inputs_cases.json") if asked["seconds"] else ()
        for number, record in cases:
            append_line(lines, {"number": number, **own, **record, "commit": told["commit"]})
            if time.monotonic() > until:
                break
    records = list(kept(lines, own).values())
    counts = counted(records)
    for name, keys in FILES.items():
        write_json(out / name, {**{key: counts[key] for key in keys}, **told, "commits": commits(records)})
    for record in records:
        if record["verdict"] in FINDINGS:
            print(f"{record['verdict']}: {json.dumps(record['case'])}: {record['said'][:300]}")
    print(json.dumps({**counts, **Counter(record["verdict"] for record in records)}))
    return 1 if counts["fuzz_findings_open"] else 0


def drawn(seed: int, count: int, network: bool, before: Path) -> list[Json]:
    """The cases; those in the file ``before``, where it has them: hypothesis draws by what is loaded, too."""
    import bad_cases

    if before.is_file() and (there := read_json(before))["seed"] == seed and there["count"] == count:
        cases: list[Json] = there["cases"]
        return cases
    values = bad_cases.drawn(bad_cases.value_cases(), count - count // 2, seed)
    files = bad_cases.drawn(bad_cases.file_cases(network), count // 2, seed)
    pairs = zip_longest(values, files)
    cases = [case for pair in pairs for case in pair if case is not None]
    before.write_text(json.dumps({"seed": seed, "count": count, "cases": cases}))
    return cases


def run(place: Path, seed: int, count: int, over: set[int], drawn_before: Path) -> Iterator[tuple[int, Json]]:
    """(number, row) of the cases that are not ``over``; place: an empty folder."""
    import bad_bases
    import bad_cases
    import readers

    base = bad_bases.make(place / "base")
    if network := has_network():
        bad_bases.with_bundles(base)
    for command in bad_cases.COMMANDS:
        bad_cases.load_command(command, base, place)
    whole_facts: dict[tuple[str, str], JsonValue] = {}
    for number, case in enumerate(drawn(seed, count, network, drawn_before)):
        if number in over:
            continue
        folder = bad_cases.copied(base, place / "case" / "here", case)
        if "command" in case:
            outcome = bad_cases.run_value(case, folder)
        else:
            key = case["reader"], case["name"]
            if key not in whole_facts:
                whole_facts[key] = bad_cases.whole_facts(readers.READERS[case["reader"]], case, base, place)
            outcome = bad_cases.run_file(case, base, folder, whole_facts)
        shutil.rmtree(place / "case")
        yield number, dataclasses.asdict(outcome)


def has_network() -> bool:
    """Whether the library of ciphertexts is there: without it, files of clients and servers are left out."""
    return importlib.util.find_spec("desilofhe") is not None


def counted(records: list[Json]) -> dict[str, int]:
    """Bad inputs are the cases that were refused or should have been; cases without an effect are none."""
    verdicts = Counter(record["verdict"] for record in records)
    findings = sum(verdicts[each] for each in FINDINGS)
    return {
        "bad_inputs": verdicts["refused"] + findings,
        "bad_inputs_refused": verdicts["refused"],
        "tracebacks": verdicts["traceback"],
        "hangs": verdicts["hang"],
        "fuzz_cases": len(records),
        "fuzz_findings_open": findings,
    }


if __name__ == "__main__":
    ends(main)
