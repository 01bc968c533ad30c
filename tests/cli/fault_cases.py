"""Faults: drawn with a seed, put into a command at work, and judged by what it said, left, and ended in when run again.

A case *survived* where the command ended as it should (a stop: within five seconds, one line, the exit code of a shell;
a full disk or no memory: exit code 2 and one line; a killed worker: not at all), left no process and no half-written
file, and the same command, started again, ended in the very facts and files of an undisturbed run. A case *missed*
where the command had ended before its fault came; it is no fault. All else is a finding, named by its first reason.
"""

import contextlib
import os
import random
import re
import resource
import signal
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import fault_disk
from fault_processes import address_space, catches, ended, orphans, start, workers
from fault_targets import DRAFTS, TARGETS, Facts, Target, same

STOPS = ("TERM", "INT", "HUP")
AT_ONCE = 5.0  # seconds that a stop may take
LINGER = 10.0  # seconds that a command's processes may outlive it
TRIES = 3  # of a case whose command had ended before its fault came
SHARES = {"training": 28, "simulated": 18, "encrypted": 14, "server": 16, "plan": 10, "simulated, workers": 6,
          "encrypted, workers": 6}  # fmt: skip
FAULTS = {"KILL": 16, "TERM": 14, "INT": 14, "HUP": 14, "full disk": 22, "memory": 8, "clock": 6, "second": 6}
NO_ROOM = re.compile(r"disk|No space|no space")
NO_MEMORY = re.compile(r"memory")


@dataclass(frozen=True)
class Case:
    """A fault.

    to     the parent, a worker, or the whole group as a terminal does it
    when   'time': at a share of the undisturbed run's seconds; 'write': while the n-th half-written file is there;
           'first second': of a process that loads its libraries itself
    share  of that time, or of the disk's room, or of the years that a clock is wrong by
    """

    target: str
    fault: str
    to: str = "parent"
    when: str = "time"
    share: float = 0.5
    count: int = 1


@dataclass
class Outcome:
    """A case that was run. verdict: survived, missed, or the first reason why not."""

    case: dict
    verdict: str
    said: str = ""
    code: int | None = None
    end_s: float | None = None
    spoke: bool | None = None
    more: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Reference:
    """An undisturbed run: its facts, the names of its files, the bytes they take, its seconds forked and fresh."""

    facts: Facts
    names: list[str]
    bytes: int
    seconds: float


def drawn(seed: int, number: int, targets=None) -> Case:
    """The case of a number, whatever others are drawn. targets: names to draw from; None: all."""
    random_of = random.Random(f"{seed} {number}")
    shares = {name: share for name, share in SHARES.items() if targets is None or name in targets}
    target = TARGETS[random_of.choices(list(shares), list(shares.values()))[0]]
    faults = {name: share for name, share in FAULTS.items() if name != "second" or target.locked}
    fault = random_of.choices(list(faults), list(faults.values()))[0]
    to, when, share, count = "parent", "time", random_of.random(), random_of.randint(1, 4)
    if fault in ("KILL", *STOPS):
        when = random_of.choices(("time", "write", "first second"), (50, 25, 25))[0]
        if target.workers and when == "time":
            to = random_of.choice(("parent", "worker", "worker", "group"))
    if fault == "memory" and target.workers:
        to = "worker"
    return Case(target.name, fault, to, when, share, count)


def undisturbed(target: Target, base: Path, folder: Path) -> Reference:
    """Runs the command once as it should run."""
    target.prepare(base, folder)
    before = time.monotonic()
    process = start(target.line, folder)
    code = ended(process)
    seconds = time.monotonic() - before
    assert code == 0 and not process.stderr, (target.name, code, process.stderr[-2000:])
    names = target.names(folder)
    size = sum((folder / name).stat().st_size for name in names if (folder / name).is_file())
    return Reference(target.facts(folder), names, size, seconds)


def run(case: Case, base: Path, place: Path, reference: Reference) -> Outcome:
    """A case in a new folder below ``place``; again with an earlier moment where the command had ended before."""
    for attempt in range(TRIES):
        earlier = replace(case, share=case.share * 0.6**attempt, count=case.count if attempt == 0 else 1)
        outcome = _once(earlier, base, place / str(attempt), reference)
        if outcome.verdict != "missed":
            break
    outcome.case = asdict(case)
    return outcome


def _once(case: Case, base: Path, folder: Path, reference: Reference) -> Outcome:
    target = TARGETS[case.target]
    outcome = Outcome(asdict(case), "survived")
    with fault_disk.room(folder) if case.fault == "full disk" else contextlib.nullcontext() as room:
        target.prepare(base, folder / "here")
        here = folder / "here"
        before = set(target.names(here))
        process = start(target.line, here, fresh=case.when == "first second")
        try:
            verdict = _injected(case, target, process, here, reference, room, outcome)
            outcome.code, outcome.said = process.poll(), process.stderr[-2000:]
            verdict = verdict or _processes(process) or _litter(target, here, reference, before, outcome)
            verdict = verdict or _again(target, here, reference, room, outcome)
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                ended(process)
            orphans(process.pid, 0)
    outcome.verdict = verdict or "survived"
    return outcome


# -- what is done to it: each returns '' or the first reason why the case did not survive ----------------


def _injected(case, target, process, here, reference, room, outcome) -> str:
    if case.fault == "full disk":
        return _full_disk(case, process, reference, room, outcome)
    if not _moment(case, target, process, here, reference):
        return "missed"
    if case.fault == "memory":
        return _no_memory(case, process, outcome)
    if case.fault == "second":
        return _second(case, target, process, here, outcome)
    if case.fault == "clock":
        return _wrong_clock(case, process, here)
    number = getattr(signal, f"SIG{case.fault}")
    if case.to == "worker":
        return _worker(process, number, case, outcome)
    outcome.spoke = catches(process.pid, signal.SIGTERM)
    began = time.monotonic()
    try:
        (os.killpg if case.to == "group" else os.kill)(process.pid, number)
    except ProcessLookupError:  # it has no group of its own yet, or ended just now
        return "missed"
    code = ended(process)
    outcome.end_s = round(time.monotonic() - began, 3)
    return _stopped(case, code, number, process, outcome)


def _moment(case, target, process, here, reference) -> bool:
    """Waits for the moment of the fault; False where the command ended before."""
    began = time.monotonic()
    if case.when == "write":
        return _write(case.count, target, process, here)
    wait = 0.02 + case.share * (1.0 if case.when == "first second" else reference.seconds)
    while time.monotonic() - began < wait:
        if process.poll() is not None:
            return False
        time.sleep(0.001)
    return process.poll() is None


def _write(count, target, process, here) -> bool:
    """Waits until so many half-written files were seen, the last of them still there."""
    seen: set[str] = set()
    until = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        for name in target.names(here):
            if name.endswith(DRAFTS):
                seen.add(name)
                if len(seen) >= count:
                    return process.poll() is None
        time.sleep(0.002)
    return False


def _stopped(case, code, number, process, outcome) -> str:
    said = process.stderr
    if code is None:
        return "hang"
    if case.fault == "KILL":
        return "missed" if code == 0 else "" if code == -number and not said else "code"
    if not outcome.spoke:  # before its first line: what Python does by itself
        return "" if code in (-number, 128 + number, 1, 0) else "code"
    if outcome.end_s > AT_ONCE:
        return "hang"
    if "Traceback" in said:
        return "traceback"
    if code == 0 and not said:  # it was about to end
        return ""
    if code != 128 + number:
        return "code"
    return "" if said.startswith(f"stopped by SIG{case.fault}: ") and said.count("\n") == 1 else "unclear"


def _worker(process, number, case, outcome) -> str:
    """A worker gets it; the evaluation goes on, and does the samples again."""
    made = _made(process)
    if not made:
        return "missed"
    with contextlib.suppress(ProcessLookupError):
        os.kill(made[case.count % len(made)], number)
    code = ended(process)
    outcome.more["anew"] = "start anew" in process.stdout
    return "hang" if code is None else "traceback" if "Traceback" in process.stderr else "code" if code else ""


def _made(process) -> list[int]:
    """The workers of a command, as soon as there are any; none where it ended before."""
    while not (made := workers(process.pid)) and process.poll() is None:
        time.sleep(0.002)
    return made


def _no_memory(case, process, outcome) -> str:
    """No more address space than it has, for the parent or for one worker."""
    made = _made(process) if case.to == "worker" else [process.pid]
    if not made:
        return "missed"
    try:
        pid = made[case.count % len(made)]
        limit = address_space(pid) + int(case.share * 2**20)
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    except (ProcessLookupError, FileNotFoundError, ValueError):
        return "missed"
    code = ended(process)
    said = process.stderr
    if code is None:
        return "hang"
    if code == 0:
        outcome.more["anew"] = "start anew" in process.stdout
        return "" if outcome.more["anew"] else "missed"
    return _told(code, said, NO_MEMORY)


def _full_disk(case, process, reference, room, outcome) -> str:
    room.leave(case.share, reference.bytes, process)
    code = ended(process)
    outcome.more["by"] = room.by
    if code is None:
        return "hang"
    return "missed" if code == 0 else _told(code, process.stderr, NO_ROOM)


def _told(code, said, about) -> str:
    """Of a command that must have ended with exit code 2 and one line on what it lacks."""
    if "Traceback" in said:
        return "traceback"
    if code != 2:
        return "code"
    return "" if said.startswith("error: ") and said.count("\n") == 1 and about.search(said) else "unclear"


def _wrong_clock(case, process, here) -> str:
    """Killed, and all its files are of another time: up to 50 years ahead, or of 1970."""
    os.kill(process.pid, signal.SIGKILL)
    code = ended(process)
    if code == 0:
        return "missed"
    when = 0.0 if case.count == 1 else time.time() + case.share * 50 * 365 * 86400
    for path in here.rglob("*"):
        os.utime(path, (when, when), follow_symlinks=False)
    return "" if code == -signal.SIGKILL else "code"


def _second(case, target, process, here, outcome) -> str:
    """The same command in the same folder: one of the two does the work, and the other says so or finds it done."""
    os.kill(process.pid, signal.SIGSTOP)
    other = start(target.line, here)
    code = ended(other)
    outcome.more["second"] = {"code": code, "said": other.stderr[-500:]}
    os.kill(process.pid, signal.SIGCONT)
    first = ended(process)
    if code is None or first is None:
        return "hang"
    if "Traceback" in other.stderr + process.stderr:
        return "traceback"
    fine = code in (0, 2) and first in (0, 2) and 0 in (code, first)
    said = "".join(p.stderr for p in (other, process))
    return "" if fine and said.count("\n") == (2 in (code, first)) and re.match(r"error: |$", said) else "code"


# -- what is left of it -----------------------------------------------------------------------------------


def _processes(process) -> str:
    return "orphan" if orphans(process.pid, LINGER) else ""


def _litter(target, here, reference, before, outcome) -> str:
    """Half-written files of a command that had the time to remove them: not of one that was ended at once."""
    if outcome.code is None or outcome.code < 0 or outcome.code > 128:
        return ""
    left = [name for name in target.names(here) if name not in before and name.endswith(DRAFTS)]
    outcome.more |= {"litter": left} if left else {}
    return "litter" if left else ""


def _again(target, here, reference, room, outcome) -> str:
    """The same command once more, and what it ends in."""
    if room is not None:
        room.give()
    process = start(target.line, here)
    code, said = ended(process), process.stderr
    if code != 0 or said:
        outcome.more["again"] = {"code": code, "said": said[-2000:]}
        return "restart"
    if (names := target.names(here)) != reference.names:
        outcome.more["names"] = sorted(set(names) ^ set(reference.names))
        return "litter"
    if where := same(target.facts(here), reference.facts, target.near):
        outcome.more["differs"] = where
        return "differs"
    return _processes(process)
