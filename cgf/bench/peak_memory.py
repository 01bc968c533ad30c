"""The memory that a stretch of work adds at its peak."""

from __future__ import annotations

import ctypes
import gc
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def added_mib(device: torch.device) -> Callable[[], float]:
    """Starts to watch; what it returns tells how far the peak has risen since above what was held at the start, in MiB.

    On a CUDA device by what torch has allocated. On CPU by this process's resident memory, whose high-water mark is set
    back for it (Linux: 5 into clear_refs); where that is not permitted an earlier, higher peak hides a later one.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        held = torch.cuda.memory_allocated(device)
        return lambda: (torch.cuda.max_memory_allocated(device) - held) / 2**20
    before = _resident_peak() if _set_back() else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return lambda: _resident_peak() - before


def _set_back() -> bool:
    """Gives freed memory to the system, since taking it up again would not show, and the mark to what is held now."""
    with suppress(OSError, AttributeError):  # another C library: freed memory may stay counted
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    try:
        CLEAR.write_text("5")
    except OSError:
        return False
    return True


def _resident_peak() -> float:
    """MiB of VmHWM; on other systems than Linux of getrusage."""
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024
