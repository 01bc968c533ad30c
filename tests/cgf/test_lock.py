"""The lock of one process at a time: who holds it, who is kept out, and for how long."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cgf.errors import UserError
from cgf.lock import locked


def test_one_holds_it_and_leaves_nothing(tmp_path):
    path = tmp_path / "new" / "folder" / ".lock"
    for _ in range(2):
        with locked(path, "taken"):
            assert path.exists()
            with pytest.raises(UserError, match=r"^taken$"), locked(path, "taken"):
                raise AssertionError
        assert not list(tmp_path.iterdir())
    with pytest.raises(ZeroDivisionError), locked(path, "taken"):
        (path.parent / "result").write_text("kept")
        1 / 0  # noqa: B018
    assert [p.name for p in path.parent.iterdir()] == ["result"]


def test_what_a_kill_leaves_keeps_nobody_out(tmp_path):
    """A process that holds it is killed; its fork lives on, and so does what it started."""
    path = tmp_path / ".lock"
    code = (
        "import os, subprocess, sys, time; from pathlib import Path; from cgf.lock import locked\n"
        "forked, ready = os.pipe()\n"  # the fork lets go of the lock before it says that it lives
        f"with locked(Path({str(path)!r}), 'taken'):\n"
        "    fork = os.fork()\n"
        "    if fork == 0: os.write(ready, b'1'); time.sleep(60); os._exit(0)\n"
        "    os.read(forked, 1); sleep = subprocess.Popen(['sleep', '60'])\n"
        "    print(fork, sleep.pid, flush=True); time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    others = [int(pid) for pid in holder.stdout.readline().split()]
    try:
        with pytest.raises(UserError, match="taken"), locked(path, "taken"):
            raise AssertionError
        holder.kill()
        holder.wait()
        assert path.exists()
        with locked(path, "taken"):
            assert path.exists()
        assert not path.exists()
    finally:
        for pid in others:
            os.kill(pid, signal.SIGKILL)


def test_a_process_that_is_given_the_file_holds_it_on(tmp_path):
    path = tmp_path / ".lock"
    code = (
        "import subprocess, sys, os; from pathlib import Path; from cgf.lock import locked\n"
        f"with locked(Path({str(path)!r}), 'taken') as held:\n"
        "    sleep = subprocess.Popen(['sleep', '60'], pass_fds=(held.fileno(),), stdout=subprocess.DEVNULL)\n"
        "    print(sleep.pid, flush=True); os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60)
    with pytest.raises(UserError, match="taken"), locked(path, "taken"):
        raise AssertionError
    os.kill(int(done.stdout), signal.SIGKILL)


def test_a_place_that_cannot_be_locked_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UserError, match=r"file/.lock cannot be made, and with it nothing beside it"),
        locked(tmp_path / "file" / ".lock", "taken"),
    ):
        raise AssertionError


def test_a_place_where_no_folder_can_be_made_is_refused(tmp_path):
    """/proc and dangling links say that nothing is there, and a folder cannot be made: it was tried without end."""
    (tmp_path / "link").symlink_to(tmp_path / "gone" / "file")
    for path in (Path("/proc/none/.lock"), tmp_path / "link"):
        with pytest.raises(UserError, match="cannot be made, and with it nothing beside it"), locked(path, "held"):
            pass
