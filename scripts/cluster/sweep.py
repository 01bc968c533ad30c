"""Trainings and an evaluation in shards, one job killed, by a launcher: python scripts/cluster/sweep.py LAUNCHER

LAUNCHER is parallel (joblib), submitit_local (submitit without a cluster) or slurm (scripts/cluster/slurm.sh starts one
on this machine). It trains two small models on digits as a sweep and again one after the other, evaluates one of them
on the simulator in two shards, kills the job of the first shard, goes on, merges, and compares the merged result with
that of an evaluation in one process. Writes results/reliability/LAUNCHER.json; exit code 1 where anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from cgf.ending import refusals
from cgf.errors import UserError
from cgf.results import read_json, read_lines, run_info, write_json
from cgf.types import Json

ROOT = Path(__file__).resolve().parents[2]
JOB = ["hydra.launcher.cpus_per_task=1", "hydra.launcher.timeout_min=30"]
LAUNCHERS = {
    "parallel": ["hydra/launcher=parallel"],
    "submitit_local": ["hydra/launcher=submitit_local", *JOB],
    "slurm": [
        "hydra/launcher=slurm",
        "hydra.launcher.partition=here",
        "hydra.launcher.gpus_per_node=null",
        "hydra.launcher.mem_gb=2",
        *JOB,
    ],
}
TRAIN = ["train.epochs=1", "train.lr=3e-3", "train.batch_size=64", "task.augment=false", "train.precision=no"]
LIMIT = "task.limit={train: 640, val: 60, test: 60}"
SOFTMAXES = ("cgf", "cgf_chain")
PLAN = ["samples=200", "tolerance=1e-2", "outside=0.001", "pareto=false"]
EVALUATE = ["he=sim", "he.samples=60", "he.batch=1"]
# of a result: what no two runs share
OWN = ("seconds", "samples_per_s", "us_per_entry", "peak_mib", "worker_mib", "run", "shards", "workers", "lines_sha256")


class Sweep:
    """One launcher at work in a folder."""

    def __init__(self, launcher: str, folder: Path) -> None:
        self.options, self.launcher, self.folder, self.jobs = LAUNCHERS[launcher], launcher, folder, 0

    def command(self, script: str, *words: str) -> subprocess.Popen[str]:
        """A command of the repository, started in the folder, one thread a process."""
        say(f"{script} {' '.join(words)}")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        log = (self.folder / "commands.log").open("a")
        line = [sys.executable, str(ROOT / script), *words]
        return subprocess.Popen(line, cwd=self.folder, env=environment, stdout=log, stderr=log, text=True)

    def well(self, script: str, *words: str) -> None:
        """A command that must end well. UserError with the end of the log where it does not."""
        if code := self.command(script, *words).wait():
            raise UserError(f"{script} ended with exit code {code}: {self.log_end()}")

    def log_end(self) -> str:
        """The last lines of what the commands said."""
        return " | ".join((self.folder / "commands.log").read_text().strip().splitlines()[-3:])

    def trained(self) -> bool:
        """Whether the sweep's weights are, byte for byte, those of trainings one after the other."""
        hashes = []
        for name, options in (("sweep", self.options), ("alone", [])):
            swept = [LIMIT, *TRAIN, f"softmax={','.join(SOFTMAXES)}", f"outputs={self.folder / name}"]
            self.well("train.py", "--multirun", *swept, *options)
            self.jobs += len(SOFTMAXES) if options else 0
            runs = sorted((self.folder / name).glob("*/best.json"))
            weights = [best.parent / read_json(best)["checkpoint"] / "model.safetensors" for best in runs]
            hashes.append({path.parents[1].name: hashlib.sha256(path.read_bytes()).hexdigest() for path in weights})
        return hashes[0] == hashes[1] and len(hashes[0]) == len(SOFTMAXES)

    def evaluated(self) -> Json:
        """The sharded evaluation, its first job killed, merged, beside the evaluation in one process."""
        runs = sorted((self.folder / "alone").glob("*/best.json"))
        best = next(path for path in runs if "chain" not in path.parent.name)
        checkpoint = best.parent / read_json(best)["checkpoint"]
        self.well("scripts/plan.py", f'ckpt="{best.parent}"', *PLAN)
        common = [f'ckpt="{checkpoint}"', *EVALUATE]
        whole, part, merged = (self.folder / f"{name}.json" for name in ("whole", "part", "merged"))
        self.well("eval_he.py", *common, f"out={whole}")
        shards = ["--multirun", "he.shard=1/2,2/2", *common, f"out={part}", *self.options]
        kept, code = self.killed(self.command("eval_he.py", *shards), part.with_name("part-shard1of2.jsonl"))
        self.jobs += 2
        say(f"killed with {kept} samples done; the launcher ended with exit code {code}")
        if code:
            self.well("eval_he.py", *shards)  # the same command again
            self.jobs += 2
        names = ",".join(str(part.with_name(f"part-shard{i}of2.json")) for i in (1, 2))
        self.well("scripts/merge_shards.py", f"shards=[{names}]", f"out={merged}")
        logits_of = [logits(self.folder, pattern) for pattern in ("part-shard*.jsonl", "whole.jsonl")]
        return {
            "samples": read_json(merged)["samples"],
            "samples_done_when_killed": kept,
            "exit_code_of_the_killed_sweep": code,
            "samples_of_the_killed_shard": len(logits(self.folder, "part-shard1of2.jsonl")),
            "same_result_as_one_process": essence(merged) == essence(whole),
            "same_logits_as_one_process": logits_of[0] == logits_of[1] != {},
        }

    def killed(self, process: subprocess.Popen[str], lines: Path) -> tuple[int, int]:
        """(samples that were done, the launcher's exit code) of a sweep whose first shard's job is killed amid it."""
        until = time.monotonic() + 600
        while batches(lines) < 3:
            if process.poll() is not None or time.monotonic() > until:
                raise UserError(f"the first shard ended, or began not, before it could be killed: {self.log_end()}")
            time.sleep(0.01)
        holders = list(holders_of(lines))
        if not holders:
            raise UserError("no process holds the first shard's lines, so that none can be killed")
        for pid in holders:
            if self.launcher == "slurm":
                os.kill(pid, signal.SIGSTOP)  # nothing more is done until Slurm kills it
                requeue(pid)
            else:
                os.kill(pid, signal.SIGKILL)
        done = batches(lines)
        return done, process.wait(timeout=900)


def requeue(pid: int) -> None:
    """Has Slurm kill the job of a process, and start it anew."""
    words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    own = dict(word.decode().split("=", 1) for word in words if word.startswith(b"SLURM_"))
    names = ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID")
    job = "_".join(own[name] for name in names) if names[0] in own else own["SLURM_JOB_ID"]
    subprocess.run(["scontrol", "requeue", job], check=True)


def holders_of(lines: Path) -> Iterator[int]:
    """Processes that hold the lock beside a file of lines: the job that adds to them."""
    lock = str(lines.with_name(f".{lines.name}.lock"))
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            targets = [os.readlink(link) for link in (folder / "fd").iterdir()]
        except OSError:
            continue
        if lock in targets:
            yield int(folder.name)


def batches(lines: Path) -> int:
    """Batches that a file of lines says are done."""
    return lines.read_bytes().count(b'"batch"') if lines.exists() else 0


def logits(folder: Path, pattern: str) -> Json:
    """Of each sample by its index, over files of lines."""
    records = [record for path in folder.glob(pattern) for record in read_lines(path) if "index" in record]
    return {str(record["index"]): record["logits"] for record in records}


def essence(path: Path) -> Json:
    """A result without what no two runs share, to nine digits: sums in another order differ in the last ones."""
    shared = {key: value for key, value in read_json(path).items() if key not in OWN}
    rounded: Json = json.loads(json.dumps(shared), parse_float=lambda text: float(f"{float(text):.9g}"))
    return rounded


def say(line: str) -> None:
    """A line, at once where it goes to a file too."""
    print(line, flush=True)


def slurm_version() -> str | None:
    """What sbatch says of itself. UserError where there is none."""
    if shutil.which("sbatch") is None:
        raise UserError("slurm needs sbatch, and it is not installed: bash scripts/cluster/slurm.sh install")
    return subprocess.run(["sbatch", "--version"], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Runs it; exit code 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("launcher", choices=list(LAUNCHERS))
    parser.add_argument("--out", type=Path, help="default: results/reliability/LAUNCHER.json")
    given = parser.parse_args()
    out = given.out or ROOT / "results" / "reliability" / f"{given.launcher}.json"
    versions = {name: importlib.metadata.version(name) for name in ("hydra-core", "joblib", "submitit")}
    if given.launcher == "slurm":
        versions["slurm"] = str(slurm_version())
    start, info = time.perf_counter(), run_info()
    with tempfile.TemporaryDirectory(prefix="cgf_sweep_", dir=os.environ.get("SWEEP_FOLDER")) as folder:
        sweep = Sweep(given.launcher, Path(folder))
        alike = sweep.trained()
        checks = sweep.evaluated()
    jobs = {f"{given.launcher}_jobs": sweep.jobs, "jobs_killed": 1, "same_weights_as_one_process": alike}
    about = {"seconds": round(time.perf_counter() - start), "versions": versions, "date": info["time_utc"][:10]}
    result = {"launcher": given.launcher, **jobs, **checks, **about, **info["git"]}
    write_json(out, result)
    say(f"{out}: {json.dumps(result)}")
    return 0 if alike and checks["same_result_as_one_process"] and checks["same_logits_as_one_process"] else 1


if __name__ == "__main__":
    with refusals():
        sys.exit(main())
