"""How a number came about: command, time, commit, versions, hardware and inputs of a process."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

from cgf.types import Json, JsonValue

PACKAGES = (
    "torch",
    "torchvision",
    "timm",
    "transformers",
    "peft",
    "datasets",
    "accelerate",
    "hydra-core",
    "desilofhe",
    "desilofhe-cu132",
    "desilofhe-cu134",
    "openfhe",
    "numpy",
    "scipy",
    "statsmodels",
)
FLAGS = (  # of a processor: what kernels of matrices and of numbers modulo a prime choose their paths by
    "fma",
    "avx2",
    "avx_vnni",
    "avx512f",
    "avx512dq",
    "avx512vl",
    "avx512ifma",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_bf16",
    "asimd",
    "asimddp",
    "bf16",
    "sve",
    "sve2",
)
# files that commands add lines to as they go on, which is no change of the code: openings of test figures, trials
KEPT_ALONG = (":/results/opened.jsonl", ":/results/search/")  # from the top, wherever git is asked


def run_info(
    config: dict | None = None, seed: int | None = None, data: dict | None = None, model: dict | None = None
) -> dict:
    """What is needed to say how a number came about: command, time, commit, versions, hardware, inputs.

    `config` is the resolved configuration; `data` and `model` name revisions or hashes of what was read.
    Home and working directory are cut from every path in them, so that a result can be published.
    """
    return {
        "command": without_home(list(sys.argv)),
        "time_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),  # noqa: UP017  # CPython 3.10 has no UTC
        "git": _git(Path(__file__).resolve().parent, Path(__file__).name),
        "versions": _versions(),
        "hardware": hardware(),
        "seed": seed,
        "config": without_home(config),
        "data": without_home(data),
        "model": without_home(model),
    }


def without_home(value: JsonValue) -> JsonValue:
    """`value` with the working directory cut from the paths in its strings, and the home written as ~."""
    if isinstance(value, dict):
        return {key: without_home(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_home(item) for item in value]
    if not isinstance(value, str | Path):
        return value
    text = str(value)
    # The working directory first: it usually lies below the home. A path may follow '=' or ':' in an
    # override, but '/other/home/me' is another folder, hence the look-behind.
    for prefix, inside, whole in ((os.getcwd(), "", "."), (os.path.expanduser("~"), "~/", "~")):
        if len(prefix) > 1:
            path = r"(?<![\w./-])" + re.escape(prefix)
            text = re.sub(path + "/", inside, text)
            text = re.sub(path + r"(?![\w.-])", whole, text)
    return text


def _git(folder: Path, *tracked: str) -> dict:
    """{"commit": 40 hex digits, "dirty": anything changed or untracked}; both None outside a checkout, and
    where one of ``tracked`` is a file of none.

    New files below results/ do not count, nor do lines that the register of openings and the records of searches grew
    by: one command makes several of them, and the first is no change of the code. A changed or missing line
    counts.
    """

    def git(*args: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(folder), *args]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()

    try:
        if tracked:
            git("ls-files", "--error-unmatch", *tracked)  # an installed copy may lie in somebody else's repository
        status = [line.split(maxsplit=1) for line in git("status", "--porcelain").splitlines()]
        lines = [line.split("\t") for line in git("diff", "--numstat", "HEAD", "--", *KEPT_ALONG).splitlines()]
        grown = {f for _, gone, f in lines if gone == "0"}
        ours = [(mark == "??" and f.startswith("results/")) or f in grown for mark, f in status]
        return {"commit": git("rev-parse", "--verify", "HEAD"), "dirty": not all(ours)}
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def hardware() -> dict:
    """Processor, cores and memory that this process may use (a container's share, if less), GPU or None."""
    quota, _, period = _first_line("/sys/fs/cgroup/cpu.max").partition(" ")
    cores: float = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if quota.isdigit() and period.isdigit():
        cores = min(cores, round(int(quota) / int(period), 2))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _first_line("/sys/fs/cgroup/memory.max")
    if limit.isdigit():
        memory = min(memory, int(limit))
    torch = sys.modules.get("torch")  # asked only where it is loaded already: this file must not load it
    gpu = torch.cuda.get_device_name(0) if torch is not None and torch.cuda.is_available() else None
    return {**processor(_text("/proc/cpuinfo")), "cores": cores, "memory_gib": round(memory / 2**30, 1), "gpu": gpu}


def processor(cpuinfo: str) -> Json:
    """The processor in the text of /proc/cpuinfo, whose fields lscpu shows: cpu (its name), cpu_model and cpu_flags.

    A virtual machine often names a processor by its maker alone, so cpu_model is 'vendor family model stepping' by the
    numbers of the first core; on ARM 'implementer architecture variant part revision'. None where the text has none of
    them. cpu_flags are those of FLAGS that it has.
    """
    first = dict(line.split(":", 1) for line in cpuinfo.partition("\n\n")[0].splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in first.items()}
    x86 = ("vendor_id", "cpu family", "model", "stepping")
    arm = ("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision")
    numbers = [f"{key} {fields[key]}" for key in (*x86, *arm) if key in fields]
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    return {
        "cpu": fields.get("model name") or platform.processor() or platform.machine(),
        "cpu_model": ", ".join(numbers) or None,
        "cpu_flags": [flag for flag in FLAGS if flag in flags],
    }


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _first_line(path: str) -> str:
    return _text(path).partition("\n")[0].strip()
