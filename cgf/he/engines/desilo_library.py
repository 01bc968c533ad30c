"""The package desilofhe, which this file alone imports: its wheel, engines, and what numbers they hold."""

from __future__ import annotations

import importlib.metadata
import os

from cgf.checks import whole
from cgf.errors import UserError
from cgf.he.engines.engine import BOOTSTRAPPABLE, ring_for
from cgf.types import Options, VendorObject

# desilofhe's own objects, which state no types
Module = VendorObject  # the package
Vendor = VendorObject  # desilofhe.Engine: parameters, no keys

VERSION = "2.0.0"  # rotation signs and engine arguments changed between versions
# the largest size of a number that is encrypted, or added, at level 0 and above it: all slots alike, 2^18.75 and 2^59
# came back as they were, 2^19 and 2^60 as other numbers
HOLDS_AT_0, HOLDS_ABOVE = 2.0**18.5, 2.0**58
GPU_WHEELS = ("desilofhe-cu132", "desilofhe-cu134", "desilofhe-cu130")  # the last is not at 2.0.0 (yet)


def _installed() -> tuple[str, str]:
    """Name and version of the wheel that provides the module; ('', '') where none does."""
    for name in ("desilofhe", *GPU_WHEELS):
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "", ""


def build() -> str:
    """Name and version of the installed wheel: 'desilofhe 2.0.0'. UserError where it is none that this work knows."""
    vendor()
    return " ".join(_installed())


def vendor(version: str = VERSION) -> Module:
    """The package. UserError where it is missing, does not load, or is of another version."""
    try:
        import desilofhe
    except ModuleNotFoundError:
        raise UserError(f"he=desilo needs the package desilofhe=={version}, and it is not installed") from None
    except ImportError as error:
        raise UserError(f"he=desilo needs the package desilofhe=={version}, and its load failed ({error})") from None
    name, have = _installed()
    if have not in ("", version):
        raise UserError(f"he=desilo needs {name}=={version}, and {have} is installed")
    return desilofhe


# measured: memory of the process that makes and uses a bootstrap key of this size
BOOTSTRAP_GIB = {"small": 13.0, "medium": 21.5}
MOST_THREADS = 1024  # that the library is asked to start


def holds(level: int) -> float:
    """The largest size of a number at a level, if every slot holds it."""
    return HOLDS_ABOVE if level else HOLDS_AT_0


def build_engine(
    max_level: int, mode: str = "parallel", threads: int | None = None, device_id: int = 0, bootstrap: bool = False
) -> Vendor:
    """A desilofhe engine of so many levels; mode 'cpu', 'parallel' or 'gpu'; bootstrap: the one that can refresh."""
    if bootstrap and max_level != BOOTSTRAPPABLE.max_level:
        raise UserError(f"the engine that bootstraps has {BOOTSTRAPPABLE.max_level} levels, and max_level={max_level}")
    ring_for(max_level)
    if mode not in ("cpu", "parallel", "gpu"):
        raise UserError(f"he.mode must be cpu, parallel or gpu, and {mode!r} was given")
    if threads is not None:
        whole("he.owner.threads", threads, 1, MOST_THREADS)
        if mode != "parallel" and (mode, threads) != ("cpu", 1):
            raise UserError(f"threads are those of mode parallel, and {threads} were given with mode {mode}")
    if device_id and mode != "gpu":
        raise UserError(f"he.owner.device_id is that of mode gpu, and {device_id} was given with mode {mode}")
    options: Options = {"bootstrap": True} if bootstrap else {"max_level": max_level}
    options["mode"] = mode
    if mode == "parallel":
        options["thread_count"] = threads or len(os.sched_getaffinity(0))
    if mode == "gpu":
        options["device_id"] = device_id
    library = vendor()
    if mode == "gpu" and (wheel := _installed()[0]) not in GPU_WHEELS:
        raise UserError(
            f"he.owner.mode=gpu needs a GPU wheel, {' or '.join(GPU_WHEELS[:2])}=={VERSION}, in place of "
            f"{wheel or 'desilofhe'}"
        )
    try:
        return library.Engine(**options)
    except RuntimeError as error:
        raise UserError(f"desilofhe could not build an engine of {max_level} levels in mode {mode}: {error}") from None
