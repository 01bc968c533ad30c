"""A command that SIGINT or SIGTERM stops: one line, its exit code, within seconds, and no lock file left."""

import os
import signal
import subprocess
import sys
import time

import pytest

WITHIN = """
import hashlib, os, signal, sys, time
from pathlib import Path
from cgf.lock import locked
from cgf.stopping import ends_at_once

def work(kind):
    if kind == "python":
        while True:
            pass
    if kind == "library":  # minutes in one call, which lets other threads run
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
    if kind == "fork":  # a fork that is ended is no end of its parent
        for _ in range(300):  # at once: many forks get it before they run a line
            child = os.fork()
            if not child:
                time.sleep(5)
                os._exit(3)
            os.kill(child, signal.SIGTERM)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has it ignored
with ends_at_once():
    with locked(Path(sys.argv[1]), "held"):
        if sys.argv[2] == "fork":
            work("fork")
        print("ready")
        Path(sys.argv[1] + ".ready").touch()
        work(sys.argv[2] if sys.argv[2] != "fork" else "python")
"""


@pytest.mark.parametrize(
    "kind, number", [("python", signal.SIGINT), ("library", signal.SIGTERM), ("fork", signal.SIGTERM)]
)
def test_a_signal_ends_it_in_one_line_wherever_it_is(kind, number, tmp_path):
    path = tmp_path / "lock"
    line = [sys.executable, "-c", WITHIN, str(path), kind]
    # a session of its own: nothing that goes wrong in it can reach the processes of the tests
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    limit = time.monotonic() + 60
    while not (tmp_path / "lock.ready").exists() and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)
    time.sleep(0.3)
    assert process.poll() is None, process.stderr.read()
    start = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number and time.monotonic() - start < 5
    assert out == "ready\n" and err.startswith(f"stopped by {number.name}: ") and err.count("\n") == 1
    assert not path.exists()


def test_what_was_ignored_stays_ignored_and_handlers_come_back(tmp_path):
    code = (
        "import os, signal; from cgf.stopping import ends_at_once\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "with ends_at_once():\n    with ends_at_once():\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL and signal.set_wakeup_fd(-1) == -1\n"
        "print('went on')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, timeout=60)
    assert done.stdout == "went on\n" and done.returncode == 0, done.stderr
