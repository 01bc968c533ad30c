"""A small ViT trained by train.py for a few steps, once per test run, and entry points called in-process."""

import contextlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from filelock import FileLock
from forked import Forked
from hydra.core.global_hydra import GlobalHydra

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = {
    "train": "train.py",
    "eval_plain": "eval_plain.py",
    "eval_he": "eval_he.py",
    "plan": "scripts/plan.py",
    "friendly": "scripts/friendly.py",
    "gap": "scripts/gap.py",
    "complexity": "scripts/bench/complexity.py",
    "noise": "scripts/bench/noise.py",
    "softmax_cost": "scripts/bench/softmax_cost.py",
    "range": "scripts/range.py",
    "merge_shards": "scripts/merge_shards.py",
    "rows": "scripts/rows.py",
    "search": "scripts/search.py",
    "network_predicted": "scripts/bench/network_predicted.py",
}
# two libraries of threads on few cores slow each other down a hundredfold
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONPATH": "", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def command(script, *arguments):
    return [sys.executable, str(ROOT / SCRIPTS[script]), *map(str, arguments)]


def started(script, *arguments, cwd, **environment):
    """A real process of an entry point, which goes on by itself: a fork of one that has loaded the libraries."""
    environment = {**os.environ, **ENVIRONMENT, **environment}
    return Forked([ROOT / SCRIPTS[script], *arguments], cwd, environment, ENVIRONMENT)


def spawn(script, *arguments, cwd, fresh=False, **environment):
    """A real process of an entry point, run to its end; fresh: one that loads the libraries itself."""
    if not fresh:
        process = started(script, *arguments, cwd=cwd, **environment)
        code = process.wait(timeout=300)
        return SimpleNamespace(returncode=code, stdout=process.stdout, stderr=process.stderr)
    env = {**os.environ, **ENVIRONMENT, **environment}
    return subprocess.run(command(script, *arguments), cwd=cwd, env=env, capture_output=True, text=True, timeout=300)


def call(script, *arguments):
    """The same entry point in this process: returncode, stdout, stderr."""
    GlobalHydra.instance().clear()
    torch.set_num_threads(1)
    path = ROOT / SCRIPTS[script]
    spec = importlib.util.spec_from_file_location(f"entry_{script}", path)
    module = importlib.util.module_from_spec(spec)
    out, err, code, before = io.StringIO(), io.StringIO(), 0, (sys.argv, list(sys.path))
    try:
        spec.loader.exec_module(module)
        sys.argv = [str(path), *map(str, arguments)]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                module.main()
            except SystemExit as end:  # a sentence instead of a number goes to stderr, and is code 1
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
                if isinstance(end.code, str):
                    print(end.code, file=sys.stderr)
    finally:
        if "hydra/launcher=parallel" in arguments:  # its processes would wait five minutes for more work, a GB each
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor().shutdown(wait=True, kill_workers=True)
        sys.argv, sys.path[:] = before
        GlobalHydra.instance().clear()
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


@pytest.fixture(name="trained_run", scope="session")
def trained_run_fixture(tmp_path_factory):
    """Run folder with a complete checkpoint and its plan.json; shared by all workers, so copy before changing it."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "digits"
    shared.mkdir(exist_ok=True)
    run = shared / "outputs" / "small"
    with FileLock(str(shared / "lock")):
        if not (shared / "done").exists():
            trained = call(
                "train",
                f"outputs={shared}/outputs",
                "run=small",
                "train.epochs=8",
                "train.lr=3e-3",
                "train.batch_size=64",
                "task.limit={train: 640, val: 60, test: 60}",
                "task.augment=false",
            )
            assert trained.returncode == 0, trained.stderr
            planned = call("plan", f"ckpt={run}", "samples=200", "tolerance=1e-2", "outside=0.001", "pareto=false")
            assert planned.returncode == 0, planned.stderr
            (shared / "done").touch()
    return run


@pytest.fixture(name="checkpoint")
def checkpoint_fixture(trained_run, tmp_path):
    """A copy of the checkpoint folder, to change at will."""
    best = trained_run / json.loads((trained_run / "best.json").read_text())["checkpoint"]
    return Path(shutil.copytree(best, tmp_path / "checkpoint", ignore=shutil.ignore_patterns("eval")))
