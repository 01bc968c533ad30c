"""A command that SIGINT, SIGTERM or SIGHUP stops: one line, its exit code, within seconds, and no lock file left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

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
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and one under nohup this
with ends_at_once():
    with locked(Path(sys.argv[1]), "held"):
        if sys.argv[2] == "fork":
            work("fork")
        print("ready")
        Path(sys.argv[1] + ".ready").touch()
        work(sys.argv[2] if sys.argv[2] != "fork" else "python")
"""


@pytest.mark.parametrize(
    "kind, number",
    [
        ("python", signal.SIGINT),
        ("python", signal.SIGHUP),
        ("library", signal.SIGTERM),
        ("library", signal.SIGHUP),
        ("fork", signal.SIGTERM),
    ],
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


COMMANDS = {
    "train": ["train.py"],
    "plan": ["scripts/plan.py", "ckpt=nowhere"],
    "report": ["scripts/report.py", "."],
    "server": ["-m", "cgf.server", "run", "uploads", "--bundle", "b", "--keys", "k", "--out", "o"],
}


def catches(pid, number):
    """Whether a process has a handler of its own for a signal (Linux)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="handlers of a process are read from /proc")
@pytest.mark.parametrize(
    "name, number",
    [("train", signal.SIGHUP), ("plan", signal.SIGINT), ("report", signal.SIGTERM), ("server", signal.SIGHUP)],
)
def test_a_command_whose_libraries_still_load_ends_in_one_line(name, number, tmp_path):
    """As soon as it has handlers, which is before it loads any library."""
    reset = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    reset += "signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    line = [str(ROOT / part) if part.endswith(".py") else part for part in COMMANDS[name]]
    process = subprocess.Popen(
        [sys.executable, "-c", reset, *line],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    limit = time.monotonic() + 60
    while not all(catches(process.pid, n) for n in (signal.SIGTERM, signal.SIGHUP)) and time.monotonic() < limit:
        time.sleep(0.001)
    loaded = Path(f"/proc/{process.pid}/maps").read_text()
    start = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number and time.monotonic() - start < 5, err
    assert not out and err.startswith(f"stopped by {number.name}: ") and err.count("\n") == 1
    assert "torch" not in loaded and "numpy" not in loaded and not list(tmp_path.iterdir())


def test_a_program_that_imports_the_commands_keeps_its_handlers():
    code = (
        "import signal; before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]\n"
        "import sys; import cgf.cli; sys.argv = ['cgf', 'report', '/nowhere']\n"
        "try:\n    cgf.cli.main()\nexcept SystemExit as end:\n    assert end.code == 2\n"
        "assert before == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_client_and_a_server_load_libraries_only_where_they_can_tell_what_goes_wrong():
    code = "import sys, cgf.client.__main__, cgf.server.__main__; print({'numpy', 'safetensors'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout == "set()\n", done.stderr
