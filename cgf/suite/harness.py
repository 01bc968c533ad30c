"""Runs the stages of a workload one after another, each a process of its own, and judges what comes back.

The order is the suite's, but that the server's preprocessing comes before the keys: it says which keys the circuit
takes. Seconds are those of the processes, their start and their files included; core seconds and memory are what the
system says of each.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cgf.errors import UserError
from cgf.results import read_json
from cgf.suite.network import NetworkSize, logits_in_the_clear, network_verdict
from cgf.suite.stages import INPUT, RESULTS, STAGES
from cgf.suite.workloads import Verdict, workload_of
from cgf.types import Json

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ("softmax", "attention", "network")
Told = Callable[[str], None]


@dataclass
class Run:
    """One run of a workload: its folder, the stages so far and bytes by name."""

    workload: str
    size: str
    engine: str
    folder: Path
    told: Told
    stages: list[Json] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    def process(self, stage: str, *command: str | Path) -> Json:
        """A stage as a process of this interpreter. UserError where it does not end well."""
        start = time.perf_counter()
        words = [sys.executable, "-m", *map(str, command)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        log = self.folder / f"{stage}.log"
        with log.open("wb") as file:
            actions = [(os.POSIX_SPAWN_DUP2, file.fileno(), 1), (os.POSIX_SPAWN_DUP2, file.fileno(), 2)]
            pid = os.posix_spawn(sys.executable, words, environment, file_actions=actions)
            _, status, usage = os.wait4(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            last = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
            raise UserError(f"stage {stage} of {self.workload} {self.size} ended with exit code {code}: {last[-1]}")
        row = {
            "stage": stage,
            "seconds": round(time.perf_counter() - start, 3),
            "core_s": round(usage.ru_utime + usage.ru_stime, 3),
            "peak_mib": round(usage.ru_maxrss / 1024, 1),
        }
        self.stages.append(row)
        self._say(f"{len(self.stages)}: {stage} completed (elapsed: {row['seconds']:.3f} s)")
        return row

    def size_of(self, what: str, *paths: Path) -> None:
        """Notes and says the bytes of files."""
        self.sizes[what] = sum(path.stat().st_size for path in paths)
        self.told(f"         [harness] {what}: {_readable(self.sizes[what])}")

    def _say(self, line: str) -> None:
        self.told(f"{time.strftime('%H:%M:%S')} [harness] {line}")


def check(workload: str, size: str, engine: str, folder: Path, bundles: Path | None) -> None:
    """UserError for what ``carried_out`` cannot run: a workload, or a size of it, that there is not, a network on
    another engine than desilo, bundles of another workload, and a folder that is there already."""
    if workload not in WORKLOADS:
        raise UserError(f"a workload is {', '.join(WORKLOADS)}, and '{workload}' was given")
    if bundles is not None and workload != "network":
        raise UserError(f"bundles are of a network, and workload {workload} was given beside them")
    if workload == "network" and engine != "desilo":
        raise UserError(f"a whole network between two parties runs on desilo alone, and '{engine}' was given")
    if workload != "network":
        workload_of(workload, size)
    elif bundles is None:
        NetworkSize.of(size)
    if folder.exists():
        raise UserError(f"{folder} is there already and is not overwritten: give another name, or remove it")


def carried_out(
    workload: str, size: str, engine: str, seed: int, folder: Path, told: Told, *, bundles: Path | None = None
) -> Json:
    """A row of the result: stages with seconds, bytes by name, the verdict. UserError where a stage does not end well,
    and see ``check``.

    folder: made anew; bundles: of a trained network, with its images in images.npy, instead of one of random weights.
    The row of such a network has its name for a size, and no seed.
    """
    check(workload, size, engine, folder, bundles)
    (folder / "shared").mkdir(parents=True)
    run = Run(workload, size, engine, folder, told)
    told(f"\n[harness] Running {workload}, {size}, on {engine}")
    if workload == "network":
        verdict, facts = _network(run, seed, bundles)
    else:
        verdict, facts = _arrays(run, seed)
    word = "PASS" if verdict.passed else "FAIL"
    latency = sum(row["seconds"] for row in run.stages if row["stage"] not in ONCE)
    told(f"         [harness] {word}  ({verdict.what}: {verdict.error:.2g}, allowed {verdict.bound:.2g})")
    told(f"[total latency] {latency:.3f} s without keys and the server's preprocessing")
    return {
        "workload": workload,
        "size": size,
        "engine": engine,
        "encrypted": engine != "sim",
        "seed": seed if bundles is None else None,
        **facts,
        "stages": run.stages,
        "latency_s": round(latency, 3),
        "bytes": run.sizes,
        "verdict": word,
        "judged_by": verdict.what,
        "error": verdict.error if np.isfinite(verdict.error) else None,
        "bound": verdict.bound,
    }


ONCE = ("server_preprocess_model", "client_key_generation")  # not again for the next input


def _arrays(run: Run, seed: int) -> tuple[Verdict, Json]:
    """A softmax or a whole attention: cgf.suite, stage by stage."""
    workload = workload_of(run.workload, run.size)
    client, server, shared = (run.folder / name for name in ("client", "server", "shared"))
    client.mkdir(mode=0o700)
    data = workload.data(seed)
    np.savez(client / INPUT, **data)  # type: ignore[arg-type]
    for stage in STAGES:
        own = server if stage.startswith("server") else client
        words = (run.workload, run.size, "--engine", run.engine, "--own", own, "--shared", shared)
        run.process(stage, "cgf.suite", stage, *words)
        if stage == "client_key_generation":
            run.size_of("public and evaluation keys", client / "public.key", shared / "evaluation.keys")
        elif stage == "client_encode_encrypt_input":
            run.size_of("encrypted input", shared / "ciphertexts.upload")
        elif stage == "server_encrypted_compute":
            run.size_of("encrypted results", shared / "ciphertexts.result")
    computed = read_json(server / "computed.json")
    got = np.load(client / RESULTS, allow_pickle=False)
    facts = {key: computed[key] for key in ("levels", "slots", "ciphertexts_in", "ciphertexts_out")}
    return workload.verdict(got, workload.in_the_clear(data)), {"shape": _shape(workload.blank()), **facts}


def _shape(blank: dict[str, np.ndarray]) -> dict[str, list[int]]:
    return {name: list(array.shape) for name, array in blank.items()}


def _network(run: Run, seed: int, bundles: Path | None) -> tuple[Verdict, Json]:
    """A whole network: the commands of cgf.client and cgf.server.

    Preparing and encrypting are one process, as are decrypting and judging: their reports part the seconds.
    """
    folder, shared = run.folder, run.folder / "shared"
    client, server, keys, images = (
        folder / "bundles/client",
        folder / "bundles/server",
        folder / "keys",
        folder / "images.npy",
    )
    if bundles is None:
        size = NetworkSize.of(run.size)
        np.save(images, size.pixels(seed + 2, size.images), allow_pickle=False)
        run.process("server_preprocess_model", "cgf.suite.bundles", run.size, str(seed), folder / "bundles")
    else:
        client, server, images = bundles / "client", bundles / "server", bundles / "images.npy"
    own = ("--bundle", client, "--keys", keys)
    run.process("client_key_generation", "cgf.client", "keys", *own)
    run.size_of("public and evaluation keys", keys / "public.key", keys / "evaluation.keys")
    shutil.move(keys / "evaluation.keys", shared)
    uploads, results = shared / "uploads", shared / "results"
    row = run.process("client_encode_encrypt_input", "cgf.client", "encrypt", images, *own, "--out", uploads)
    row |= _parted(uploads / "encrypt.json", "client_preprocess_input", "input preprocessing")
    run.size_of("encrypted input", *uploads.glob("*.upload"))
    granted = ("--bundle", server, "--keys", shared / "evaluation.keys", "--state", folder / "state")
    run.process("server_encrypted_compute", "cgf.server", "run", uploads, *granted, "--out", results)
    run.size_of("encrypted results", *results.glob("*.result"))
    logits = folder / "logits.json"
    row = run.process("client_decrypt_decode", "cgf.client", "decrypt", results, *own, "--out", logits)
    row |= _parted(folder / "logits.report.json", "client_postprocess", "result postprocessing")
    computed = [stage for stage in read_json(results / "run.json")["stages"] if "level" in stage]
    report = read_json(results / "run.json")
    facts = {"levels": report["max_level"] - computed[-1]["level"], "slots": report["slots"]}
    wanted = logits_in_the_clear(client, server, images)
    return network_verdict(logits, wanted), {"images": len(wanted), "trained": bundles is not None, **facts}


def _parted(report: Path, stage: str, name: str) -> Json:
    """The seconds of another stage within the process, from its own report."""
    seconds = sum(part["wall_s"] for part in read_json(report)["stages"] if part["stage"] == name)
    return {"holds_too": {"stage": stage, "seconds": round(seconds, 3)}}


def _readable(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
