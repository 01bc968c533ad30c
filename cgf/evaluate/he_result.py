"""eval_he.py: from an opened checkpoint to the result file of its encrypted evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cgf.evaluate.by_class import by_class
from cgf.evaluate.he_batches import parse_shard
from cgf.evaluate.he_lines import FinishedSamples, SampleLog
from cgf.evaluate.he_run import EncryptedEvaluation
from cgf.evaluate.he_summary import summary
from cgf.evaluate.open_checkpoint import OpenCheckpoint
from cgf.evaluate.result_file import SPLIT_BY
from cgf.he.engines.engine import Owner
from cgf.he.engines.library import Library
from cgf.he.session import Session
from cgf.models.install import installed
from cgf.plan.op_times import table_of
from cgf.plan.plan import Plan
from cgf.types import Config, Json


@dataclass(frozen=True)
class EncryptedRun(ABC):
    """The settings of one evaluation: he of the configuration, its owner, its samples and the file of its lines."""

    he: Config
    make_owner: Callable[..., Owner]
    library: Library
    indices: list[int]
    lines: SampleLog

    @abstractmethod
    def run(self, opened: OpenCheckpoint) -> FinishedSamples:
        """What the lines hold once this evaluation, or this shard of it, has ended."""

    @abstractmethod
    def summary(self, finished: FinishedSamples) -> Json:
        """Metrics of the finished samples."""

    def metrics(self, opened: OpenCheckpoint, path: Path) -> Json:
        """Metrics of the samples once they are finished, by class too; predictions go beside the result ``path``."""
        finished = self.run(opened)
        return {
            **self.summary(finished),
            "by_class": by_class(opened.task.class_names, finished.predictions()),
            "predictions": finished.keep(path),
        }


class LayerRun(EncryptedRun):
    """Every softmax or every whole attention of a model, layer by layer: he.scope=softmax and he.scope=attention."""

    def run(self, opened: OpenCheckpoint) -> FinishedSamples:
        """What the lines hold once this evaluation, or this shard of it, has ended."""
        he = self.he
        session = Session(self.make_owner, he.max_level, he.circuit, he.workers, he.check, he.memory_mib)
        evaluation = EncryptedEvaluation(
            host=opened.host,
            softmaxes=opened.softmaxes,
            installed=installed,
            session=session,
            dataset=opened.dataset,
            collate=opened.collate,
            indices=self.indices,
            lines=self.lines,
            as_trained=opened.as_trained,
            batch=he.batch,
            masked=opened.host.row_kind == "masked",
            rows_at_once=he.rows_at_once,
            shard=parse_shard(he.shard),
            scope=he.scope,
            times=table_of(None, he.engine),
        )
        try:
            with self.lines.alone():
                return evaluation.run()
        finally:
            session.close()

    def summary(self, finished: FinishedSamples) -> Json:
        """Metrics of the finished samples."""
        return summary(finished, self.library.encrypts, self.he.scope)


def settings_of_lines(config: Json) -> Json:
    """The resolved configuration without the settings of ``he`` that its lines do not depend on.

    Lines that were checked and lines that were not are no one's evaluation together.
    """
    he = dict(config["he"])
    if not he["check"]:
        del he["check"]
    if he["scope"] != "attention":
        del he["memory_mib"]
    if he["scope"] == "softmax":
        del he["scope"]
    if he["tokens"] is None:
        del he["tokens"]
    if not he["alone"]:
        del he["alone"]
    return {**config, "he": he}


def about(he: Config, library: Library, opened: OpenCheckpoint, plan: Plan | None) -> Json:
    """What a result file says of its evaluation before any of its figures."""
    return {
        "kind": "eval_network" if he.scope == "network" else "eval_he",
        **opened.names(plan),
        "engine": library.name,
        "circuit_asked": he.circuit,
        "noise_stated": library.noise,
    }


def parts(run: EncryptedRun) -> Json:
    """What a result file says of how its evaluation was checked and shared out; last in it."""
    checked = {"checked": "every operation, against the simulator"} if run.he.check else {}
    if run.he.shard is None:
        return checked
    return {**checked, "shard": str(run.he.shard), "samples_of_all_shards": len(run.indices)}


def split_by(he: Config) -> Json:
    """The settings that decide which samples share ciphertexts, as a result file keeps them."""
    return {key: he[key] for key in SPLIT_BY}
