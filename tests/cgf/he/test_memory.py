"""What allocation costs: freed memory stays with the process, workers ask for huge pages."""

import ctypes
import functools
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from cgf import memory
from cgf.errors import UserError
from cgf.he.workers import Workers
from cgf.memory import huge_pages

GLIBC = platform.libc_ver()[0] == "glibc"
ROUND = """
import numpy as np
from cgf.memory import keep_freed_memory
if {keep}:
    keep_freed_memory()
blocks = [np.ones(20_000_000) for _ in range(2)] + [np.ones(160_000) for _ in range(100)]
del blocks
rss = [line for line in open("/proc/self/status") if line.startswith("VmRSS")][0]
print(int(rss.split()[1]) / 1024)
"""


class Told:
    """Stands in for a party: its answer is what its process was started with."""

    def run(self, softmax, scores, rows):
        return os.environ.get("GLIBC_TUNABLES"), os.getpid()


@pytest.mark.skipif(not GLIBC, reason="mallopt is glibc's")
def test_blocks_of_a_ciphertexts_size_stay_with_the_process_and_large_ones_go_back():
    kept, given_back = (
        float(
            subprocess.run(
                [sys.executable, "-c", ROUND.format(keep=keep)], check=True, text=True, capture_output=True
            ).stdout
        )
        for keep in (True, False)
    )
    assert 100 < kept - given_back < 200  # 122 MiB of ciphertexts' size, not the 305 MiB of the two large ones


@pytest.mark.parametrize("before", [None, "glibc.malloc.check=0"])
def test_workers_are_started_with_huge_pages_unless_told_otherwise(monkeypatch, before):
    if before is None:
        monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    else:
        monkeypatch.setenv("GLIBC_TUNABLES", before)
    workers = Workers(functools.partial(Told), 2)
    try:
        told = [answer for answer, _ in workers.evaluate("softmax", [(np.zeros(1), None)] * 4)]
    finally:
        workers.close()
    assert told == [before or "glibc.malloc.hugetlb=1"] * 4
    assert os.environ.get("GLIBC_TUNABLES") == before


def test_huge_pages_leave_the_environment_as_it_was_after_an_error(monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    with pytest.raises(ZeroDivisionError), huge_pages():
        assert "GLIBC_TUNABLES" in os.environ
        _ = 1 / 0
    assert "GLIBC_TUNABLES" not in os.environ


@pytest.mark.skipif(not GLIBC, reason="glibc alone fills what it hands out")
def test_memory_is_filled_where_it_is_asked_for_and_nowhere_else():
    malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
    malloc.restype, malloc.argtypes, free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

    def handed_out(size):
        place = malloc(size)
        content = ctypes.string_at(place, size)
        ctypes.memset(place, 0x77, size)
        free(place)
        return content

    for size in (5_000, 100_000):
        handed_out(size)
        for byte in (0x00, 0x5A, 0xFF):
            with memory.filled_memory(byte):
                content = handed_out(size)
            assert content == bytes([byte]) * size
        assert len(set(handed_out(size))) > 1  # malloc's own notes of the free block: nothing is filled any more


def test_where_memory_cannot_be_filled_it_is_said(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    with pytest.raises(UserError, match="needs glibc"), memory.filled_memory(0):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="limits of addresses are Linux's")
@pytest.mark.parametrize(("limit", "field"), [("RLIMIT_AS", 0), ("RLIMIT_DATA", 5)])
def test_a_limit_of_the_process_counts_as_memory(limit, field):
    """As ``ulimit -v`` or ``-d`` sets it, and a queue of jobs may."""
    code = (
        "import resource; from pathlib import Path; from cgf.memory import available_gib\n"
        f"has = int(Path('/proc/self/statm').read_text().split()[{field}]) * resource.getpagesize()\n"
        f"resource.setrlimit(resource.{limit}, (has + 2**27, has + 2**27)); print(available_gib())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < float(done.stdout) < 0.13
