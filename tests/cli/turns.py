"""Turns that the workers of the tests take where both at once would need too much memory.

A server of forked processes takes 0.6 GB, a test that starts processes of its own two or three times as much. Servers
of two workers may stand beside each other. A test that starts several processes is alone: it waits until no server
stands, and whoever holds one ends it after the test that it runs. The two files of a run of the tests lie in the
system's folder of temporary files.
"""

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path

RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"process-{os.getpid()}")
_standing: int | None = None  # the file of this worker's turn, while it has one
_alone = False


def _opened(what):
    return os.open(
        Path(tempfile.gettempdir()) / f"cgf-tests-{RUN}.{what}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )


def stand():
    """Before a server starts: waits while another worker is alone."""
    global _standing
    if _standing is None and not _alone:
        _standing = _opened("standing")
        fcntl.flock(_standing, fcntl.LOCK_SH)


def leave():
    """After a server has ended."""
    global _standing
    if _standing is not None:
        os.close(_standing)
        _standing = None


@contextlib.contextmanager
def alone():
    """Nothing that takes turns stands in another worker. The own server has been ended before, and is after."""
    global _alone
    assert _standing is None and not _alone, "a worker waits for itself"
    wanted, standing = _opened("wanted"), _opened("standing")
    try:
        fcntl.flock(wanted, fcntl.LOCK_EX)
        fcntl.flock(standing, fcntl.LOCK_EX)
        _alone = True
        yield
    finally:
        _alone = False
        os.close(standing)
        os.close(wanted)


def is_wanted():
    """Whether another worker waits to be alone."""
    wanted = _opened("wanted")
    try:
        fcntl.flock(wanted, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(wanted)
    return False
