"""Real processes for faults: started, looked at from outside (Linux), and seen to have ended with all that they began.

A process is a fork of one that has loaded the libraries (tests/cli/forked.py), or one of its own where its first second
is what is looked at, or where it loads little. Either has a session of its own, by which its workers are found.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from forked import Forked

ROOT = Path(__file__).resolve().parents[2]
# as in digits_checkpoint.py, which loads torch
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
CALLED_OFF = 120.0  # seconds after which a process hangs


class Fresh:
    """A process that loads its libraries itself, with the methods of ``Forked``."""

    def __init__(self, line, cwd, environment):
        self._streams = tempfile.TemporaryDirectory(prefix="cgf-faults-")
        self.out, self.err = (Path(self._streams.name) / name for name in ("out", "err"))
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, *map(str, line)],
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def poll(self):
        return self._process.poll()

    def send_signal(self, number):
        os.kill(self.pid, number)

    @property
    def stdout(self):
        return self.out.read_text(errors="replace")

    @property
    def stderr(self):
        return self.err.read_text(errors="replace")


def start(line, cwd, fresh=False):
    """A process: a script below the root with its arguments, or '-m', a module and its arguments (always fresh)."""
    environment = {**os.environ, **ENVIRONMENT}
    if line[0] == "-m":
        return Fresh(line, cwd, environment)
    whole = [ROOT / line[0], *line[1:]]
    return Fresh(whole, cwd, environment) if fresh else Forked(whole, cwd, environment, ENVIRONMENT)


def ended(process, seconds=CALLED_OFF):
    """Its exit code; None where it still runs after so long."""
    until = time.monotonic() + seconds
    while process.poll() is None:
        if time.monotonic() > until:
            return None
        time.sleep(0.002)
    return process.poll()


@dataclass(frozen=True)
class Member:
    """A process of a session: its id, its parent, the clock ticks at which it began, and its command line."""

    pid: int
    parent: int
    began: int
    command: str


def session(leader):
    """The processes of the session of ``leader`` that have not ended, itself among them."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError, ValueError):
            fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] not in "ZX":
                command = Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(Member(int(entry.name), int(fields[1]), int(fields[19]), command))
    return found


def workers(leader):
    """Ids of the worker processes of an evaluation, the oldest first: without what tracks their resources."""
    made = [member for member in session(leader) if member.parent == leader and "spawn_main" in member.command]
    return [member.pid for member in sorted(made, key=lambda member: member.began)]


def orphans(leader, seconds):
    """What is left of a session some seconds after its leader has ended; it is killed, so that it harms no other."""
    until = time.monotonic() + seconds
    while left := [member for member in session(leader) if member.pid != leader]:
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    for member in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member.pid, signal.SIGKILL)
    return left


def catches(pid, number):
    """Whether a process has a handler of its own for a signal; False where it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def address_space(pid):
    """Bytes of a process's address space."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
