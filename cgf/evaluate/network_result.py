"""eval_he.py he.scope=network: the whole network of an opened checkpoint under CKKS."""

from __future__ import annotations

from cgf.errors import UserError
from cgf.evaluate.he_batches import parse_shard
from cgf.evaluate.he_lines import FinishedSamples
from cgf.evaluate.he_result import EncryptedRun
from cgf.evaluate.network_eval import NetworkEvaluation
from cgf.evaluate.network_summary import network_summary
from cgf.evaluate.open_checkpoint import OpenCheckpoint
from cgf.he.session import Session
from cgf.types import Json


class NetworkRun(EncryptedRun):
    """A network that stays encrypted from features to logits: he.scope=network."""

    def run(self, opened: OpenCheckpoint) -> FinishedSamples:
        """What the lines hold once this evaluation, or this shard of it, has ended."""
        if self.he.circuit != "folded":
            raise UserError(f"he.scope=network has one circuit, folded, and he.circuit={self.he.circuit} was given")
        he = self.he
        settings = {"alone": he.alone, "processes": he.processes}
        session = Session(self.make_owner, he.max_level, "folded", he.workers, he.check, **settings)
        shard = parse_shard(self.he.shard)
        try:
            evaluation = NetworkEvaluation(opened, session, self.indices, self.lines, batch=self.he.batch, shard=shard)
            with self.lines.alone():
                return evaluation.run()
        finally:
            session.close()

    def summary(self, finished: FinishedSamples) -> Json:
        """Metrics of the finished samples."""
        return network_summary(finished, self.library.encrypts)
