"""Whether anything grows in a process that runs for long: python scripts/repo/long_runs.py evaluations=2000 steps=20000

Two processes: one evaluates a small softmax under encryption so many times with the same keys, one trains a small ViT
on scikit-learn's digits for so many steps. Memory, open files and threads are read from /proc (Linux), about a thousand
times in the first and 4 times a second in the other. <out>/long_runs.json has the growth of each with its 95 %
interval; a part whose count stands there already is not run again. part=evaluations or part=training runs one of them.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from cgf.approx.fit import chain
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.engine import Owner
from cgf.he.engines.sim import SimOwner
from cgf.he.layer_record import LayerRecord
from cgf.he.session import Session
from cgf.softmax.cgf import CGF

ROOT = Path(__file__).resolve().parents[2]

from given import about, ends, given  # noqa: E402

from cgf.errors import UserError  # noqa: E402
from cgf.results import read_json, write_json  # noqa: E402
from cgf.stats.growth import growth  # noqa: E402
from cgf.types import Json  # noqa: E402

DEFAULTS: dict[str, int | str] = {
    "evaluations": 2000,
    "steps": 20_000,
    "engine": "desilo",
    "part": "both",
    "alone": "",  # of its own processes
    "out": "results/reliability",
}
PARTS = {"evaluations": "evaluations", "training": "steps"}  # part -> what is counted
ROWS, COLUMNS, K = 16, 8, 2  # of the matrix; squarings of its chain
READINGS = 1000  # of the evaluations
NEAR = 1e-3  # of weights that came through ciphertexts


class Readings:
    """Hours since the start; MiB, open files and threads of this process at each reading.

    They stand in one array that is there from the start: what measures growth must not grow itself. Where it is full,
    every second reading goes.
    """

    def __init__(self, most: int = 20_000) -> None:
        self.start, self.count = time.monotonic(), 0
        self.table = np.ones((most, 4))  # written to, so that its memory is taken now

    def read(self) -> None:
        """One reading."""
        if self.count == len(self.table):
            self.count //= 2
            self.table[: self.count] = self.table[1::2].copy()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.table[self.count] = (
            (time.monotonic() - self.start) / 3600,
            pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
            len(os.listdir("/proc/self/fd")),
            len(os.listdir("/proc/self/task")),
        )
        self.count += 1

    def told(self, count: int) -> Json:
        """Growth of all three an hour and of the memory by 1,000 of what was counted; the first quarter is left out."""
        hours, mib, files, threads = self.table[: self.count].T
        memory = growth(hours, mib)
        by_thousand = float(hours[-1]) / count * 1000
        return {
            "seconds": round(float(hours[-1]) * 3600, 1),
            "readings": memory.samples,
            "mib_per_hour": round(memory.slope, 3),
            "mib_per_hour_95": [round(memory.low, 3), round(memory.high, 3)],
            "mib_per_1000": round(memory.slope * by_thousand, 4),
            "mib_per_1000_95": [round(memory.low * by_thousand, 4), round(memory.high * by_thousand, 4)],
            "mib_at_the_end": round(float(mib[-1]), 1),
            "files_per_hour": round(growth(hours, files).slope, 3),
            "files_at_the_end": int(files[-1]),
            "threads_per_hour": round(growth(hours, threads).slope, 3),
            "threads_at_the_end": int(threads[-1]),
        }


@contextlib.contextmanager
def watched(every_s: float) -> Iterator[Readings]:
    """Readings of this process for the length of a with block, by a thread of their own."""
    readings, done = Readings(), threading.Event()

    def read() -> None:
        while not done.wait(every_s):
            readings.read()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield readings
    finally:
        done.set()
        thread.join()


def evaluations(count: int, engine: str) -> Json:
    """So many softmaxes of one matrix, each encrypted, computed on, decrypted and compared with its definition."""

    softmax = CGF()
    softmax.exponential = chain(-8.0, 1.0, K)
    rng = np.random.default_rng(0)
    session, wrong = Session(owner(engine)), 0
    scores = rng.uniform(-1, 1, (ROWS, COLUMNS))
    counts = np.full(ROWS, COLUMNS)
    y = scores - scores.mean(1, keepdims=True) - scores.var(1, keepdims=True) / 2 - np.log(COLUMNS)
    truth = softmax.exponential(y)
    session.evaluate(softmax, scores, None, counts, (1, 1, ROWS, COLUMNS), LayerRecord())  # keys are made
    readings, every = Readings(), max(1, count // READINGS)
    for number in range(count):
        weights = session.evaluate(softmax, scores, None, counts, (1, 1, ROWS, COLUMNS), LayerRecord())
        wrong += bool(not np.abs(weights - truth).max() < NEAR)
        if number % every == 0:
            readings.read()
    session.close()
    return {"evaluations": count, "wrong": wrong, "engine": engine, **readings.told(count)}


def owner(engine: str) -> Callable[..., Owner]:
    """What makes the owner of keys; UserError for an engine that there is not."""
    if engine == "sim":
        return SimOwner
    if engine == "desilo":
        return partial(DesiloOwner, mode="cpu")
    raise UserError(f"engine must be desilo or sim, and {engine!r} was given")


def training(count: int, engine: str) -> Json:
    """So many steps of ``train.py`` in this process, validations and checkpoints among them."""
    main = runpy.run_path(str(ROOT / "train.py"), run_name="train")["main"]
    before = sys.argv
    with TemporaryDirectory(prefix="cgf-long-") as folder:
        sys.argv = [
            "train.py",
            f"outputs={folder}",
            "run=long",
            f"train.max_steps={count}",
            f"train.epochs={count}",
            "train.batch_size=4",
            "train.log_every=5000",
            "task.augment=false",
            "model.options.embed_dim=8",
            "model.options.depth=1",
            "model.options.num_heads=2",
        ]
        try:
            with watched(min(0.25, count / 80_000)) as readings:
                main()
        finally:
            sys.argv = before
        steps = read_json(max(Path(folder, "long").glob("ckpt-*"), key=_step) / "run.json")["progress"]["step"]
    return {"steps": steps, **readings.told(steps)}


def _step(path: Path) -> int:
    return int(path.name.partition("-")[2])


def process(part: str, arguments: list[str]) -> int:
    """A part in a process of its own: its exit code."""
    line = [sys.executable, __file__, *arguments, f"alone={part}"]
    return subprocess.run(line).returncode


def main(run: Callable[[str, list[str]], int] = process) -> int:
    """Runs what has no result of these counts yet; exit code 1 where memory grows or a softmax was wrong."""
    asked = given(sys.argv[1:], DEFAULTS)
    path, names = asked["out"] / "long_runs.json", ("both", *PARTS)
    if asked["part"] not in names:
        raise UserError(f"part must be one of {', '.join(names)}, and {asked['part']!r} was given")
    if asked["alone"]:
        return alone(asked["alone"], asked, path)
    for part in PARTS if asked["part"] == "both" else [asked["part"]]:
        there = (read_json(path) if path.exists() else {}).get(part, {})
        if there.get(PARTS[part]) != asked[PARTS[part]] and (code := run(part, sys.argv[1:])):
            return code
    return told_by(read_json(path))


def alone(part: str, asked: Json, path: Path) -> int:
    """Runs a part in this process and adds its growth to the file."""
    told = about()  # of the code that ran, whatever is written meanwhile
    measured = {"evaluations": evaluations, "training": training}[part](asked[PARTS[part]], asked["engine"])
    write_json(path, {**(read_json(path) if path.exists() else {}), part: {**measured, **told}})
    return 0


def told_by(results: Json) -> int:
    """Prints a line a part; 1 where the interval of a part's memory lies above 0, or a softmax was wrong."""
    code = 0
    for part, result in results.items():
        low, high = result["mib_per_hour_95"]
        print(
            f"{part}: {result[PARTS[part]]} in {result['seconds']} s, memory {result['mib_per_hour']} MiB an hour "
            f"[{low}, {high}], files {result['files_per_hour']}, threads {result['threads_per_hour']} an hour"
        )
        code |= low > 0 or bool(result.get("wrong"))
    return int(code)


if __name__ == "__main__":
    ends(main)
