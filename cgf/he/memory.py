"""Memory of this machine and of this process."""

from __future__ import annotations

import resource
from pathlib import Path

from cgf.errors import UserError

MEMINFO = Path("/proc/meminfo")


def available_gib() -> float | None:
    """Memory that new data may take, in GiB; None where the system does not tell."""
    try:
        lines = MEMINFO.read_text().splitlines()
    except OSError:
        return None
    kib = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kib[0] / 2**20 if kib else None


def need_memory(gib: float, what: str) -> None:
    """UserError with need and have where the machine has less than ``gib`` to give."""
    have = available_gib()
    if have is not None and have < gib:
        raise UserError(f"{what} needs {gib:.1f} GiB of memory, and {have:.1f} GiB are free")


def peak_mib() -> float:
    """The most memory that this process has held so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
