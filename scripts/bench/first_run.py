"""What a command takes from an empty checkout: python scripts/bench/first_run.py OUT.json bash scripts/demo.sh

Seconds by the clock and of processors, the most memory that its processes held together, and what lies on the disk
after it, by folder. Needs Linux and nothing that has to be installed, since a demo makes the environment itself.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # nothing is installed yet

from cgf.provenance import hardware  # noqa: E402
from cgf.types import Json  # noqa: E402

EVERY_S, FOLDERS, MIB = 0.5, (".venv", "outputs"), 2**20


def memory_mib(session: int) -> float:
    """Memory that the processes of a session hold now, in MiB; shared pages are counted once (PSS)."""
    kib = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[3]) != session:
                continue
            lines = (folder / "smaps_rollup").read_text().splitlines()
        except (OSError, IndexError, ValueError):  # it has ended meanwhile
            continue
        kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kib / 1024


def disk_mib(folder: Path) -> float:
    """What the files below a folder take on the disk, in MiB; links are not followed."""
    paths = [Path(top) / name for top, _, names in os.walk(folder) for name in names]
    return sum(path.lstat().st_blocks * 512 for path in paths) / MIB


def measured(command: list[str], cwd: Path = ROOT) -> Json:
    """Runs a command to its end and tells what it took, its exit code among it."""
    there = {name: disk_mib(cwd / name) for name in FOLDERS}
    before, start, peak = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0.0
    process = subprocess.Popen(command, cwd=cwd, start_new_session=True)
    while process.poll() is None:
        peak = max(peak, memory_mib(process.pid))
        time.sleep(EVERY_S)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "command": " ".join(command),
        "exit_code": process.returncode,
        "seconds": time.monotonic() - start,
        "processor_seconds": used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime,
        "peak_mib": peak,
        "disk_mib": {name: disk_mib(cwd / name) for name in FOLDERS},
        "disk_mib_before": there,
        "load_of_a_minute": os.getloadavg()[0],
        "hardware": hardware(),
        "python": platform.python_version(),
        "commit": _commit(cwd),
    }


def _commit(cwd: Path) -> str | None:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=cwd, capture_output=True, text=True)
    return done.stdout.strip() or None


def main(arguments: list[str] | None = None) -> int:
    """Runs the command, writes the file and prints it; exit code 2 for a result file that is not .json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="result file (.json)")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what is run, in the checkout")
    args = parser.parse_args(arguments)
    if args.out.suffix != ".json" or not args.command:
        print("error: a result file that ends in .json and a command are needed", file=sys.stderr)
        return 2
    result = measured(args.command)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"kind": "first_run", **result}, indent=2) + "\n", encoding="utf-8")
    print(args.out)
    return 0 if result["exit_code"] in (0, 1) else 1


if __name__ == "__main__":
    sys.exit(main())
