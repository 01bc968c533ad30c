"""One function in a fork of this process: how it ended, what it said, and how much time and memory it took.

A fork costs hundredths of a second where the libraries are loaded already. Limits hold what a bad input may do: seconds
of a core (RLIMIT_CPU), seconds of the clock, and memory (RLIMIT_DATA, beyond what the process had before).
"""

import contextlib
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True)
class Ended:
    """How a fork ended.

    code: its exit code, or -signal;  crashed: with an exception that no command prints as a sentence;  hung: it was
    ended by a limit of time;  cpu_s: seconds of a core;  mib: memory at its peak, beyond what the process had
    """

    code: int
    out: str
    err: str
    crashed: bool
    hung: bool
    cpu_s: float
    mib: float


def isolated(function: Callable[[], int | None], cpu_s: int = 60, wall_s: float = 300.0, mib: int = 3072) -> Ended:
    """Runs a function, which returns an exit code (None: 0), in a fork."""
    with tempfile.TemporaryDirectory(prefix="cgf-isolated-") as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        before = _resident_mib()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _run(function, (out, err), (cpu_s, mib))
        status, usage, late = _awaited(child, wall_s)
        said = err.read_text(errors="replace") if err.exists() else ""
        code = os.waitstatus_to_exitcode(status)
        hung = late or code in (-signal.SIGXCPU, -signal.SIGKILL)
        crashed = not hung and (code < 0 or code == CRASHED)
        return Ended(
            code,
            out.read_text(errors="replace") if out.exists() else "",
            said,
            crashed,
            hung,
            usage.ru_utime + usage.ru_stime,
            max(0.0, usage.ru_maxrss / 1024 - before),
        )


CRASHED = 70  # exit code of an exception that went up to here


def _run(function, streams, limits) -> None:
    code = CRASHED
    try:
        os.setsid()
        for number, path in zip((1, 2), streams, strict=True):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, number)
            os.close(file)
        with open(1, "w", closefd=False) as sys.stdout, open(2, "w", buffering=1, closefd=False) as sys.stderr:
            cpu_s, mib = limits
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            limit = int((_data_mib() + mib) * MIB)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            try:
                code = function() or 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
            except BaseException:
                traceback.print_exc()
                code = CRASHED
    finally:
        os._exit(code)


def _awaited(child: int, wall_s: float):
    """(status, usage, whether it was killed for the clock); whatever the fork left running is killed too."""
    until, late = time.monotonic() + wall_s, False
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
            return status, usage, late
        if time.monotonic() > until:
            late = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
        time.sleep(0.005)


def _resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / MIB


def _data_mib() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData:"))
    return int(line.split()[1]) / 1024
