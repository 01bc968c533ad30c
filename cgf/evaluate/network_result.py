"""eval_he.py he.scope=network: from an opened checkpoint to the result file of its whole network under CKKS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cgf.errors import UserError
from cgf.evaluate.by_class import by_class
from cgf.evaluate.he_batches import parse_shard
from cgf.evaluate.he_lines import FinishedSamples, SampleLog
from cgf.evaluate.network_eval import NetworkEvaluation
from cgf.evaluate.network_summary import network_summary
from cgf.evaluate.open_checkpoint import OpenCheckpoint
from cgf.he.engines.engine import Library, Owner
from cgf.he.session import Session


@dataclass(frozen=True)
class NetworkRun:
    """The settings of one evaluation: he of the configuration, its owner, its samples and the file of its lines."""

    he: Any
    make_owner: Callable[..., Owner]
    library: Library
    indices: list[int]
    lines: SampleLog

    def evaluated(self, opened: OpenCheckpoint) -> FinishedSamples:
        """What the lines hold once this evaluation, or this shard of it, has ended."""
        if self.he.circuit != "folded":
            raise UserError(f"he.scope=network has one circuit, folded, and he.circuit={self.he.circuit} was given")
        session = Session(self.make_owner, self.he.max_level, "folded", self.he.workers, self.he.check)
        shard = parse_shard(self.he.shard)
        try:
            evaluation = NetworkEvaluation(opened, session, self.indices, self.lines, batch=self.he.batch, shard=shard)
            with self.lines.alone():
                return evaluation.run()
        finally:
            session.close()

    def result(self, opened: OpenCheckpoint) -> dict[str, Any]:
        """Metrics of the finished samples, by class too."""
        finished = self.evaluated(opened)
        return {
            **network_summary(finished, self.library.encrypts),
            "by_class": by_class(opened.task.class_names, finished.predictions()),
        }
