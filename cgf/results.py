"""Result files: where they come from (`run_info`), how they are written, read and found.

A result file is one flat JSON object whose key `run` holds `run_info`. A log of a run in progress is a
JSON-lines file. Both survive a kill at any moment: an object is renamed into place whole, and a torn last
line is dropped. Numbers are finite; a NaN is refused by name where it is written, not met later in a table. Only
regular files are written to: a symbolic link is followed, stays a link, and is judged by what it leads to.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cgf.errors import UserError
from cgf.target import regular

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
)


# ---------------------------------------------------------------- provenance


def run_info(
    config: dict | None = None, seed: int | None = None, data: dict | None = None, model: dict | None = None
) -> dict:
    """What is needed to say how a number came about: command, time, commit, versions, hardware, inputs.

    `config` is the resolved configuration; `data` and `model` name revisions or hashes of what was read.
    Home and working directory are cut from every path in them, so that a result can be published.
    """
    return {
        "command": _without_home(list(sys.argv)),
        "time_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "git": _git(Path(__file__).resolve().parent),
        "versions": _versions(),
        "hardware": _hardware(),
        "seed": seed,
        "config": _without_home(config),
        "data": _without_home(data),
        "model": _without_home(model),
    }


def _without_home(value: Any) -> Any:
    """`value` with the working directory cut from the paths in its strings, and the home written as ~."""
    if isinstance(value, dict):
        return {key: _without_home(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_home(item) for item in value]
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


def _git(folder: Path) -> dict:
    """{"commit": 40 hex digits, "dirty": anything changed or untracked}; both None outside a checkout.

    New files below results/ do not count: one command makes several of them, and the first is no change of the code.
    """

    def git(*args: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(folder), *args]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()

    try:
        changed = [line for line in git("status", "--porcelain").splitlines() if not line.startswith("?? results/")]
        return {"commit": git("rev-parse", "--verify", "HEAD"), "dirty": bool(changed)}
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _hardware() -> dict:
    """CPU model, cores and memory that this process may use (a container's share, if less), GPU or None."""
    quota, _, period = _first_line("/sys/fs/cgroup/cpu.max").partition(" ")
    cores: float = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if quota.isdigit() and period.isdigit():
        cores = min(cores, round(int(quota) / int(period), 2))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _first_line("/sys/fs/cgroup/memory.max")
    if limit.isdigit():
        memory = min(memory, int(limit))
    names = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    torch = sys.modules.get("torch")  # asked only where it is loaded already: this file must not load it
    gpu = torch.cuda.get_device_name(0) if torch is not None and torch.cuda.is_available() else None
    return {
        "cpu": names[1].strip() if names else platform.processor() or platform.machine(),
        "cores": cores,
        "memory_gib": round(memory / 2**30, 1),
        "gpu": gpu,
    }


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _first_line(path: str) -> str:
    return _text(path).partition("\n")[0].strip()


# ---------------------------------------------------------------- writing


def write_json(path: str | os.PathLike, data: Any) -> None:
    """Write `data` as one JSON file that is either there whole or not at all; missing folders are made.

    Numpy scalars and arrays become numbers and lists. Raises ValueError for NaN or an infinity and
    TypeError for what JSON cannot hold, each naming the key, before anything on disk is touched.
    """
    write_text(path, json.dumps(_plain(data, ""), indent=2, ensure_ascii=False) + "\n")


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a UTF-8 file as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Write a file under a temporary name beside it, then rename: a crash leaves the old one.

    UserError where `path` is something else than a regular file (see `cgf.target.regular`).
    """
    path = regular(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def append_line(path: str | os.PathLike, row: dict) -> None:
    """Append one JSON line (same rules as `write_json`), after cutting off a line that a kill left torn."""
    append_lines(path, [row])


def append_lines(path: str | os.PathLike, rows: list[dict]) -> None:
    """Append JSON lines in one write, as `append_line` does."""
    lines = b"".join(json.dumps(_plain(row, ""), ensure_ascii=False).encode() + b"\n" for row in rows)
    with open(regular(path), "a+b") as file:
        file.seek(0, os.SEEK_END)
        if end := file.tell():
            file.seek(end - 1)
            if file.read(1) != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        file.write(lines)


def plain_json(data: Any) -> Any:
    """`data` as `write_json` writes it and `read_json` reads it. Raises what `write_json` raises."""
    return _plain(data, "")


def _plain(value: Any, key: str) -> Any:
    """`value` in JSON's own types; `key` is its dotted place in the whole, for the message."""
    if isinstance(value, dict):
        return {str(name): _plain(item, f"{key}.{name}".lstrip(".")) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{key}[{index}]") for index, item in enumerate(value)]
    if hasattr(value, "tolist"):  # numpy scalars and arrays, and tensors, without importing either
        return _plain(value.tolist(), key)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a result must be a finite number, but {key or 'the value'} is {value}")
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{key or 'the value'} is a {type(value).__name__}, which a JSON file cannot hold")


# ---------------------------------------------------------------- reading


def read_json(path: str | os.PathLike) -> Any:
    """The content of a JSON file; UserError if it is missing, half-written or holds NaN."""
    try:
        return _parse(Path(path).read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path} is needed, and there is no such file") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{path} should be a JSON file, but is damaged or half-written ({error})") from None


def read_lines(path: str | os.PathLike) -> list[dict]:
    """The rows of a JSON-lines file, [] if there is none; without a torn last line.

    A line counts once its line feed is written. UserError, with the line's number, for any other damage.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(_parse(line))
        except ValueError as error:
            raise UserError(f"{path} should hold one JSON object a line; line {number}: {error}") from None
    return rows


def _parse(text: bytes) -> Any:
    def refuse(name: str) -> None:
        raise ValueError(f"it holds {name}, not a number")

    return json.loads(text.decode("utf-8"), parse_constant=refuse)


def check_replaceable(path: str | os.PathLike, same: Callable[[dict], bool]) -> None:
    """UserError where there is a file already that is no result for which ``same`` holds: it is not overwritten."""
    path = Path(path)
    if not path.exists():
        return
    try:
        there = _parse(path.read_bytes())
    except (OSError, ValueError):
        there = None
    if isinstance(there, dict) and "kind" in there:
        if same(there):
            return
        told = [f"{key} {there[key]}" for key in ("checkpoint", "softmax", "split", "samples") if key in there]
        what = f"another result ({', '.join([str(there['kind']), *told])})"
    else:
        what = "something else than a result"
    raise UserError(f"{path} holds {what} and is not overwritten: give another out=, or remove the file")


def find_results(root: str | os.PathLike) -> list[dict]:
    """Every eval/*.json at any depth under `root`, by path; each row gets its file as `_path`.

    UserError if `root` is no folder, or, naming the file, if one cannot be read. [] if there are none.
    """
    root = Path(root)
    if not root.is_dir():
        raise UserError(f"a folder with results is needed, and {root} is none")
    rows = []
    for path in sorted(root.rglob("eval/*.json")):
        row = read_json(path)
        if not isinstance(row, dict):
            raise UserError(f"{path} should hold one JSON object, but holds a {type(row).__name__}")
        rows.append({**row, "_path": str(path)})
    return rows
