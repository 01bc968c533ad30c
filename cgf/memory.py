"""Memory of this machine and of this process."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cgf.errors import UserError

MEMINFO = Path("/proc/meminfo")
# mallopt of glibc: a ciphertext is a megabyte, which malloc by default takes from the system for each and gives back
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD, PERTURB = (-1, 2**31 - 1), (-2, 2**26), -3, -6
HUGE_PAGES = "glibc.malloc.hugetlb=1"


def available_gib() -> float | None:
    """Memory that new data may take, in GiB: what the machine has left, or less where this process has a limit of its
    own (``ulimit -v`` or ``-d``). None where the system does not tell."""
    try:
        lines = MEMINFO.read_text().splitlines()
        pages = [int(count) for count in Path("/proc/self/statm").read_text().split()]
    except OSError:
        return None
    kib = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    for limited, has in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        limit = resource.getrlimit(limited)[0]
        if limit != resource.RLIM_INFINITY:
            kib.append((limit - has * os.sysconf("SC_PAGE_SIZE")) // 1024)
    return max(0, min(kib)) / 2**20 if kib else None


def need_memory(gib: float, what: str) -> None:
    """UserError with need and have where the machine has less than ``gib`` to give."""
    have = available_gib()
    if have is not None and have < gib:
        raise UserError(f"{what} needs {gib:.1f} GiB of memory, and {have:.1f} GiB are free")


def peak_mib() -> float:
    """The most memory that this process has held so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_mib() -> float:
    """Memory that this process holds now, in MiB; its peak where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return peak_mib()
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def private_mib() -> float:
    """Memory that this process shares with no other, in MiB: what a fork adds to its parent's. Its peak where the
    system does not tell."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    except OSError:
        return peak_mib()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def keep_freed_memory(block: int = 2**25) -> None:
    """This process keeps freed memory, in blocks of up to ``block`` bytes (below 2^31), for what comes next.

    Pages that come from the system anew are cleared first, which takes a sixth of the time of a circuit, and of a
    training step whose gradients are made anew. Without effect where the C library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for option, value in (TRIM_THRESHOLD, TOP_PAD, (MMAP_THRESHOLD, block)):
            mallopt(option, value)


def give_freed_memory_back() -> None:
    """The system gets what this process has freed and kept. Without effect where the C library is not glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


@contextmanager
def cycle_collector() -> Iterator[Callable[[], object]]:
    """Yields what frees objects that only refer to each other, of those made in a with block alone: in milliseconds.

    CPython looks for them by itself when they have become a quarter of all objects, which libraries make a million of.
    Where the caller has frozen objects (``gc.freeze``), these and what was made since stay frozen: Python can only thaw
    all of them.
    """
    callers = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    try:
        yield gc.collect
    finally:
        if not callers:
            gc.unfreeze()


@contextmanager
def filled_memory(byte: int) -> Iterator[None]:
    """Memory of more than a kilobyte that malloc hands out in a with block holds ``byte`` everywhere, in all threads.

    What is freed there is overwritten too. UserError where the C library is not glibc, which alone can do it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None or mallopt(PERTURB, byte ^ 0xFF or 0x100) != 1:
        raise UserError("memory that is cleared before use needs glibc as the C library, and this system has another")
    try:
        yield
    finally:
        mallopt(PERTURB, 0)


@contextmanager
def huge_pages() -> Iterator[None]:
    """Processes started here ask the system for huge pages (glibc 2.35 on), unless GLIBC_TUNABLES says otherwise."""
    if "GLIBC_TUNABLES" in os.environ:
        yield
        return
    os.environ["GLIBC_TUNABLES"] = HUGE_PAGES
    try:
        yield
    finally:
        del os.environ["GLIBC_TUNABLES"]
