"""Faults by the hundred, drawn with a seed, in real processes: python scripts/repo/faults.py seed=1 faults=200

Signals, full disks, no memory, wrong clocks and second processes meet trainings, encrypted evaluations on the simulator
and on ciphertexts, with workers and without, the server of an encrypted network, and the planning. The command is then
started again, and must end in what an undisturbed run leaves. What is a finding is said in tests/cli/fault_cases.py.
<out>/faults.jsonl has a line a case, and a second call goes on behind the last: a finding of another commit is run
again. seconds=N or Ctrl-C ends it, with the counts of what is done, which are in <out>/faults.json; seconds=0 counts
alone. first=N begins at the N-th case: commands on other cores or machines share a seed so, and their lines are put
together in one file.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/cli")]  # what starts, disturbs and judges stands beside the tests

import forked  # noqa: E402
from given import about, commits, done, ends, given, kept  # noqa: E402

from cgf.results import append_line, write_json  # noqa: E402
from cgf.types import Json  # noqa: E402

DEFAULTS: dict[str, int | str] = {"seed": 1, "faults": 200, "first": 0, "out": "results/reliability", "seconds": 86400}
MISSED = "missed"  # its command had ended before
FINE = ("survived", MISSED)


def main() -> int:
    """Draws, injects and counts; exit code 1 where a fault was not survived."""
    asked = given(sys.argv[1:], DEFAULTS, {"seed": 0, "first": 0, "seconds": 0})
    lines, seed = asked["out"] / "faults.jsonl", asked["seed"]
    lines.parent.mkdir(parents=True, exist_ok=True)
    told = about(seed)  # of the code that ran, whatever is written meanwhile
    signals_as_from_a_shell()
    # the counts are of the cases that are done
    with suppress(KeyboardInterrupt), tempfile.TemporaryDirectory(prefix="cgf-faults-") as place:
        _inject(Path(place), lines, told, asked, time.monotonic() + asked["seconds"])
    records = list(kept(lines, {"seed": seed}).values())
    counts = counted(records, asked["faults"])
    write_json(asked["out"] / "faults.json", {**counts, **told, "commits": commits(records)})
    for each in records:
        if each["verdict"] not in FINE:
            print(
                f"{each['verdict']}: {json.dumps(each['case'])}: {each['said'][:300]} {json.dumps(each['more'])[:300]}"
            )
    print(json.dumps(counts))
    return 0 if counts["faults_survived"] == counts["faults_injected"] else 1


def signals_as_from_a_shell() -> None:
    """What this process ignores, its processes would ignore too: a handler of its own is none of theirs."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup
        signal.signal(signal.SIGHUP, lambda *_: None)


def _inject(place: Path, lines: Path, told: Json, asked: Json, until: float) -> None:
    """Cases one after another, until so many were faults; what ``given.done`` says is left out."""
    seed, count = told["seed"], asked["faults"]
    import fault_cases
    from fault_processes import ended, start
    from fault_targets import TARGETS

    there = kept(lines, {"seed": seed})
    over = done(there, lambda outcome: outcome["verdict"] in FINE, told["commit"])
    injected = sum(there[number]["verdict"] != MISSED for number in over)
    if injected >= count or time.monotonic() >= until:
        return
    base = place / "base"
    making = start(["tests/cli/fault_bases.py", base], place)
    if ended(making) != 0:
        raise SystemExit(f"what the commands read could not be made: {making.stderr[-2000:]}")
    targets = [name for name in TARGETS if (base / "server").is_dir() or not name.startswith(("server", "encrypted"))]
    references: dict[str, fault_cases.Reference] = {}
    number = asked["first"] - 1
    while injected < count and time.monotonic() < until:
        if (number := number + 1) in over:
            continue
        case = fault_cases.drawn(seed, number, targets)
        if case.target not in references:
            own = place / f"whole-{len(references)}"
            references[case.target] = fault_cases.undisturbed(TARGETS[case.target], base, own)
        began = time.monotonic()
        outcome = fault_cases.run(case, base, place / f"case-{number}", references[case.target])
        took = {"case_s": round(time.monotonic() - began, 2), "commit": told["commit"]}
        append_line(lines, {"number": number, "seed": seed, **dataclasses.asdict(outcome), **took})
        shutil.rmtree(place / f"case-{number}", ignore_errors=True)
        injected += outcome.verdict != MISSED


def counted(records: list[Json], most: int) -> Json:
    """Of the first ``most`` faults: how many there were, how many were survived, and both by fault and by command."""
    faults = [each for each in sorted(records, key=lambda each: each["number"]) if each["verdict"] != MISSED][:most]
    verdicts = Counter(each["verdict"] for each in faults)
    disks = Counter(each["more"]["by"] for each in faults if "by" in each["more"])

    def by(key: str) -> dict[str, int]:
        return dict(sorted(Counter(each["case"][key] for each in faults).items()))

    return {
        "faults_injected": len(faults),
        "faults_survived": verdicts["survived"],
        "verdicts": dict(sorted(verdicts.items())),
        "by_fault": by("fault"),
        "by_target": by("target"),
        "by_moment": by("when"),
        "to": by("to"),
        "full_disks_by": dict(sorted(disks.items())),
        "slowest_stop_s": max((each["end_s"] for each in faults if each["end_s"] is not None), default=None),
    }


if __name__ == "__main__":
    try:
        ends(main)
    finally:
        forked.stop()
