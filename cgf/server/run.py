"""Uploads in, results out: every stage of a network on ciphertexts, with the keys that the client sent and no other."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cgf.bundle.agreement import circuit_of
from cgf.bundle.report import Report
from cgf.bundle.sides import ServerBundle
from cgf.bundle.traffic import SampleSet, check_evaluation_keys, read_upload
from cgf.checks import whole
from cgf.errors import UserError
from cgf.he.engines.desilo_files import Evaluator
from cgf.he.network_circuit import LOGITS
from cgf.he.network_maps import State
from cgf.he.stages import rounds, run_round
from cgf.header import EVALUATION, RESULT, UPLOAD
from cgf.lock import locked
from cgf.memory import need_memory
from cgf.parcel import Parcel, ParcelWriter
from cgf.server.state import KeptState
from cgf.types import Json

Told = Callable[[str], None]
Waiting = tuple[Path, Path, SampleSet]  # upload, result, what the upload holds


def say(line: str) -> None:
    """A line for whoever waits, at once where it goes to a file too."""
    print(line, flush=True)


@dataclass(frozen=True)
class Server:
    """A server with a bundle and one client's evaluation keys.

    save_after  seconds of computation after which a finished stage is kept in ``state``
    told        is given a line a stage
    processes   above 1: so many share the heads and features of an upload out; mode must be cpu
    """

    bundle: ServerBundle
    keys: Path
    state: Path
    mode: str = "cpu"
    threads: int | None = None
    save_after: float = 30.0
    told: Told = say
    processes: int = 1

    def __post_init__(self) -> None:
        if not self.save_after >= 0:  # also where it is NaN
            raise UserError(f"--save-after must be seconds of at least 0, and is {self.save_after}")
        if self.threads is not None:
            whole("--threads", self.threads, 1)
        whole("--processes", self.processes, 1, os.cpu_count() or 1)
        if self.processes > 1 and self.mode != "cpu":
            raise UserError(f"--processes shares work out to forks, which need --mode cpu, and {self.mode} was given")

    def run(self, uploads: Sequence[Path], out: Path) -> Report:
        """Writes a result an upload into ``out``; those that are there already are left as they are.

        All files' headers are checked before the first is computed on. UserError where one does not fit, where two
        uploads have one name, where ``out`` is no folder that can be written to, and where another server works in
        the same state folder.
        """
        agreement = self.bundle.agreement
        agreement.check_library()
        if self.processes > 1 and any(length.alone is not None for length in agreement.lengths):
            raise UserError("--processes shares sets of samples out, and this bundle has samples alone: leave it out")
        with Parcel(self.keys, EVALUATION) as keys:
            check_evaluation_keys(keys, agreement)
            report = Report("server run", agreement.terms, keys.header.key)
            report.size("evaluation keys", self.keys)
            waiting = self._waiting(uploads, out, keys.header.key, report)
            if not waiting:
                return report
            _check_folder(out)
            self._need_memory([sent for _, _, sent in waiting])
            with locked(self.state / "lock", f"{self.state} is in use by another server: give another --state"):
                with report.stage("setup: library and evaluation keys"):
                    made = ((item.name, data) for item, data in keys.items())
                    evaluator = Evaluator.of(agreement.terms.max_level, made, self.mode, self.threads)
                for path, target, _ in waiting:
                    self._compute(evaluator, path, target, keys.header.digest(), report)
                    report.size("encrypted results", target)
        return report

    def _waiting(self, uploads: Sequence[Path], out: Path, key: str, report: Report) -> list[Waiting]:
        """Uploads that have no result yet. UserError where the result there is that of another upload."""
        waiting: list[Waiting] = []
        for path in uploads:
            target = out / f"{path.stem}.result"
            with Parcel(path, UPLOAD) as upload:
                sent = read_upload(upload, self.bundle.agreement, key)
                own = upload.header.digest()
            if target in [other for _, other, _ in waiting]:
                raise UserError(f"{path} has the name of another upload, and their results would be one file")
            if not target.exists():
                report.size("encrypted input", path)
                waiting.append((path, target, sent))
                continue
            with Parcel(target, RESULT) as result:
                if result.header.facts.get("upload") != own:
                    raise UserError(f"{target} is the result of another upload: give another --out, or remove it")
            self.told(f"{target}: there already")
        return waiting

    def _need_memory(self, waiting: Sequence[SampleSet]) -> None:
        """UserError where the machine has less to give than the keys and the plan's largest stage take, that once a
        process."""
        most = max(self.bundle.plan(sent.tokens).most_mib for sent in waiting)
        need_memory(
            self.processes * most / 1024 + self.keys.stat().st_size / 2**30,
            f"network '{self.bundle.agreement.name}' with its keys",
        )

    def _compute(self, evaluator: Evaluator, path: Path, target: Path, keys: str, report: Report) -> None:
        agreement = self.bundle.agreement
        with Parcel(path, UPLOAD) as upload:
            sent, header = read_upload(upload, agreement, report.key or ""), upload.header
            digest = hashlib.sha256(f"{self.bundle.seal} {keys} {header.digest()}".encode()).hexdigest()
            kept = KeptState(self.state / digest[:32], digest, agreement.terms, header.key)
            state = kept.resume(evaluator)
            if state is None:
                with report.stage("load of the encrypted input"):
                    state = _sources(upload, evaluator)
            else:
                self.told(f"{path}: goes on behind stage {kept.done}")
                for stage in kept.stages:
                    report.stages.append({**stage, "resumed": True})
        state = self._stages(evaluator, sent, kept, state, report)
        facts = {"agreement": agreement.digest, "tokens": sent.tokens, "rows": list(sent.indices)}
        with ParcelWriter(target, RESULT, agreement.terms, header.key, {**facts, "upload": header.digest()}) as result:
            for i, ct in enumerate(state[LOGITS]):
                result.add(f"{LOGITS}.{i}", evaluator.export(ct), evaluator.level(ct))
        kept.forget()

    def _stages(self, evaluator: Evaluator, sent: SampleSet, kept: KeptState, state: State, report: Report) -> State:
        """Runs the stages that are left."""
        agreement, plan = self.bundle.agreement, self.bundle.plan(sent.tokens)
        stages = circuit_of(self.bundle.network, agreement.of_tokens(sent.tokens), agreement.terms).stages()
        planned_names, names = [stage.name for stage in plan.stages], [stage.name for stage in stages]
        if planned_names != names:  # whatever state was kept is of the plan's stages
            raise UserError(
                "the bundle's plan needs the stages of this version's circuit, and "
                f"{_apart(planned_names, names)}: make the bundles anew (python -m cgf.server bundle)"
            )
        if not 0 <= kept.done < len(stages):
            raise UserError(f"{kept.folder} must be of {len(stages)} stages, as the plan, and has finished {kept.done}")
        since = time.monotonic()
        for together in rounds(stages[kept.done :], self.processes):
            name = ", ".join(stage.name for stage in together)
            with report.stage(f"encrypted computation: {name}", samples=len(sent.indices)):
                state = run_round(together, evaluator, evaluator, state, self.processes)
            planned = plan.stages[kept.done : kept.done + len(together)]
            ops = sum((Counter(each.ops) for each in planned), Counter[str]())
            facts = _seen(evaluator, state)
            report.stages[-1] |= {**facts, "level_planned": planned[-1].left, "ops": dict(ops)}
            kept.done += len(together)
            kept.stages = [*kept.stages, report.stages[-1]]
            self.told(f"{name}: {report.stages[-1]['wall_s']:.1f} s, level {facts['level']}")
            if kept.done < len(stages) and time.monotonic() - since >= self.save_after:
                with report.stage("state kept"):
                    kept.keep(state, evaluator)
                since = time.monotonic()
        return state


def _check_folder(out: Path) -> None:
    """Before hours of work: UserError where there can be no folder of results, or nothing can be written in it."""
    there = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"--out needs a folder that can be written to, and {there} is none")


def _apart(planned: Sequence[str], names: Sequence[str]) -> str:
    """How the plan's stages differ from the circuit's, in words."""
    if len(planned) != len(names):
        return f"has {len(planned)} in place of {len(names)}"
    number = next(i for i, name in enumerate(names) if planned[i] != name)
    return f"its stage {number + 1} is '{planned[number]}' in place of '{names[number]}'"


def _sources(upload: Parcel, evaluator: Evaluator) -> State:
    """The ciphertexts of an upload, by the name in front of their number."""
    state: State = {}
    for item, data in upload.items():
        assert item.level is not None
        state.setdefault(item.name.rpartition(".")[0], []).append(evaluator.read(data, item.level))
    return state


def _seen(evaluator: Evaluator, state: State) -> Json:
    """How many ciphertexts are held behind a stage, and the lowest level among them."""
    levels = [evaluator.level(ct) for cts in state.values() for ct in cts]
    return {"ciphertexts": len(levels), "level": min(levels)}
