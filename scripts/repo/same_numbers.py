"""Shows that a refactoring changed no number: python scripts/repo/same_numbers.py COMMIT [COMMIT] [--data FOLDER]

Each commit is checked out beside this one and its own commands are run there: trainings of 40 steps, a plan, every
softmax on the simulator, one evaluation under CKKS. Their numbers go to .cache/same_numbers/<commit>.json; one that
is recorded already is not run again. Of two commits every number that differs is named, and the exit code is 1 then.
Needs requirements-models.txt (MiniLM) and the data folder (stories260k, CLINC150); 15 minutes a commit on 2 cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cgf.config import built
from cgf.types import Json, JsonValue

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".cache" / "same_numbers"
STEPS = 40
HOSTS = {
    "digits": ["model=vit_digits", "task=digits", "train.lr=5e-4", "task.limit={val: 64}"],
    "stories": ["model=stories260k", "task=clinc150", "train.lr=8e-4", "task.limit={train: 1280, val: 64}"],
    "minilm": ["model=minilm", "task=clinc150", "train.lr=1e-4", "task.limit={train: 1280, val: 64}"],
}
PENALTY = ["penalty.weight=0.1", "penalty.bound=32"]
TRAINED = {
    "exact": ["softmax=exact"],
    "cgf": ["softmax=cgf", *PENALTY],
    "bpmax": ["softmax=bpmax"],
    "chain": ["softmax=cgf_chain", *PENALTY],
    "tempered": ["softmax=cgf", "temper.samples=32"],
    "kd": ["softmax=cgf", "distill=kd", "distill.hidden=1.0"],
}
EVALUATED = (
    "accuracy",
    "accuracy_plain",
    "accuracy_exact",
    "agreement",
    "max_error",
    "mean_error",
    "levels",
    "levels_counted",
    "ops",
    "ring_slots",
    "circuits",
    "entries",
    "beyond_guard",
)


class Checkout:
    """A commit's tree, its commands run by this interpreter with one thread, its outputs in a folder of its own."""

    def __init__(self, tree: Path, outputs: Path, data: Path) -> None:
        self.tree, self.outputs = tree, outputs
        self.environment = {**os.environ, "CGF_DATA_ROOT": str(data), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tree)}

    def run(self, *command: str, codes: tuple[int, ...] = (0,)) -> None:
        """One command; RuntimeError, with its last words, for an exit code that is none of ``codes``."""
        print(" ".join(command), flush=True)
        done = subprocess.run(
            [sys.executable, *command], cwd=self.tree, env=self.environment, text=True, capture_output=True, check=False
        )
        if done.returncode not in codes:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")

    def train(self, host: str, name: str) -> Path:
        """Trains one of TRAINED on a host; returns its folder."""
        folder = self.outputs / f"{host}-{name}"
        start = [f"ckpt={self.outputs / f'{host}-exact'}"] if name == "kd" else []
        self.run(
            "train.py",
            *HOSTS[host],
            *TRAINED[name],
            *start,
            f"train.max_steps={STEPS}",
            "train.epochs=40",
            f"outputs={self.outputs}",
            f"run={folder.name}",
        )
        return folder

    def evaluate(self, folder: Path, out: str, *options: str) -> Json:
        """An evaluation under ``he``; red ones (exit code 1) are results too."""
        path = self.outputs / f"{out}.json"
        self.run("eval_he.py", f"ckpt={folder}", f"out={path}", *options, codes=(0, 1))
        return json.loads(path.read_text())


def losses(folder: Path) -> list[dict[str, float]]:
    """Every line of a run's log: loss, penalty, range and validation by step."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "lr"} for record in records]


def softmaxes(tree: Path) -> dict[str, bool]:
    """Those that run on ciphertexts without what training measures, in one ring: bootstraps have tests of their own.

    By name, whether exp needs a polynomial in its place.
    """
    left_out = {"exact", "bpmax", "bpmax_calibrated", "hetal", "cho", "thor"}
    there = {p.stem for p in (tree / "configs" / "softmax").glob("*.yaml")} - left_out
    return {
        name: softmax.uses_exponential and softmax.exponential is None
        for name, softmax in built("softmax").items()
        if name in there
    }


def numbers(checkout: Checkout) -> Iterator[tuple[str, JsonValue]]:
    """(name, numbers) of everything that is compared, as it comes."""
    for host in HOSTS:
        for name in TRAINED:
            yield f"losses/{host}/{name}", losses(checkout.train(host, name))
    for host in HOSTS:
        student = checkout.outputs / f"{host}-cgf"
        checkout.run("scripts/plan.py", f"ckpt={student}", "samples=64", "batch_size=32", "cache=null")
        plan = json.loads(next(student.glob("ckpt-*/plan.json")).read_text())
        yield f"plan/{host}", {k: plan[k] for k in ("exponential", "levels", "ct_mults", "range", "share_outside")}
        result = checkout.evaluate(student, f"{host}-plan", "he=sim", "he.samples=8")
        yield f"simulated/{host}/plan", {k: result[k] for k in EVALUATED}
        for name in ("bpmax", "chain"):
            result = checkout.evaluate(
                checkout.outputs / f"{host}-{name}", f"{host}-{name}", "he=sim", "he.samples=8", "approx=exact"
            )
            yield f"simulated/{host}/{name}", {k: result[k] for k in EVALUATED}
    exact = checkout.outputs / "digits-exact"
    for name, needs_polynomial in softmaxes(checkout.tree).items():
        approx = ["approx=chain", "approx.k=5", "approx.range=[-24,1]"] if needs_polynomial else ["approx=exact"]
        result = checkout.evaluate(exact, f"of-{name}", "he=sim", "he.samples=4", f"softmax={name}", *approx)
        yield f"softmax/{name}", {k: result[k] for k in EVALUATED}
    student = checkout.outputs / "digits-cgf"
    checkout.evaluate(student, "encrypted", "he=desilo", "he.samples=16")
    lines = [json.loads(line) for line in (checkout.outputs / "encrypted.jsonl").read_text().splitlines()]
    by_index = sorted((record["index"], record["prediction"]) for record in lines if "index" in record)
    yield "encrypted/digits", by_index


def record(commit: str, data: Path) -> Path:
    """The numbers of a commit, by its own commands in a checkout of its own."""
    path = KEPT / f"{commit}.json"
    if path.is_file():
        return path
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), commit], cwd=ROOT, check=True)
        try:
            by_name = dict(numbers(Checkout(tree, Path(folder) / "outputs", data.resolve())))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(by_name, indent=1))
    return path


def differences(a: JsonValue, b: JsonValue, where: str = "") -> Iterator[str]:
    """A line for each place where two recordings differ; numbers are equal bit for bit or they differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            if key not in a or key not in b:
                yield f"{where}/{key}: only in the {'first' if key in a else 'second'}"
            else:
                yield from differences(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from differences(x, y, f"{where}[{i}]")
    elif a != b:
        yield f"{where}: {a!r} and {b!r}"


def main() -> int:
    """Records the numbers of one or two commits, and names those that differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="+", help="one commit to record, or two to compare")
    parser.add_argument("--data", type=Path, default=os.environ.get("CGF_DATA_ROOT"), help="folder of the data")
    given = parser.parse_args()
    if given.data is None or len(given.commits) > 2:
        parser.error("needed are one or two commits, and --data or the variable CGF_DATA_ROOT")
    names = [
        subprocess.run(
            ["git", "rev-parse", "--verify", f"{c}^{{commit}}"], cwd=ROOT, check=True, text=True, capture_output=True
        ).stdout.strip()
        for c in given.commits
    ]
    recorded = [json.loads(record(name, Path(given.data)).read_text()) for name in names]
    if len(recorded) == 1:
        print(f"{len(recorded[0])} groups of numbers recorded in {KEPT / names[0]}.json")
        return 0
    differing = list(differences(*recorded))
    print("\n".join(differing) or f"every number of {len(recorded[0])} groups is equal bit for bit")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
