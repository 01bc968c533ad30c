"""A disk that fills up: a small file system in memory where root may mount one, else a limit of a file's size."""

import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
WHOLE = 2**28  # bytes of the file system while it has room


class Mounted:
    """A tmpfs at a folder, which a command works in."""

    by = "tmpfs"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def leave(self, share, needed, process) -> None:
        """Room for a share of what a whole run takes, in pages, and for no more."""
        used = os.statvfs(self.folder)
        pages = used.f_blocks - used.f_bfree + int(share * needed) // PAGE
        self._remount(max(1, pages) * PAGE)

    def give(self) -> None:
        self._remount(WHOLE)

    def _remount(self, size) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.folder)], check=True)


class Limited:
    """A limit on the size of each file that the command writes, as a quota has it."""

    by = "file size"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def leave(self, share, needed, process) -> None:
        limit = max(1, int(share * needed / 4))
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    def give(self) -> None:
        """The next process has no limit."""


@contextlib.contextmanager
def room(folder: Path) -> Iterator[Mounted | Limited]:
    """``folder`` as a disk whose room can be taken away and given back."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={WHOLE}", "cgf-faults", str(folder)]
    if os.geteuid() or shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        yield Limited(folder)
        return
    try:
        yield Mounted(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
