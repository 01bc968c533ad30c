"""Processes that are forked instead of started leave nothing with whoever forked them."""

import time
from pathlib import Path

import pytest
from fault_processes import ENVIRONMENT
from forked import Forked

LEAVING = """
import multiprocessing, os
lock = multiprocessing.get_context("spawn").Lock()  # a semaphore with a name, as those of a pool of workers
print(lock._semlock.name, flush=True)
os._exit(3)  # as a signal ends it: its semaphores stay
"""


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="semaphores cannot be seen here")
def test_semaphores_of_a_fork_that_was_stopped_go_with_it(tmp_path):
    (tmp_path / "leaving.py").write_text(LEAVING)
    process = Forked([tmp_path / "leaving.py"], tmp_path, {**ENVIRONMENT, "PYTHONWARNINGS": "ignore"}, ENVIRONMENT)
    assert process.wait(60) == 3, process.stderr
    semaphore = Path("/dev/shm", f"sem.{process.stdout.strip().lstrip('/')}")
    until = time.monotonic() + 20
    while semaphore.exists() and time.monotonic() < until:  # its own tracker removes it, not that of the tests
        time.sleep(0.05)
    assert process.stdout.startswith("/") and not semaphore.exists() and not process.stderr
