"""Evaluation of a network that stays encrypted: sets of samples from features to logits, stopped and resumed at will.

A set is one batch: as many samples of one count of tokens as its ciphertexts take. What is finished is kept by batch.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cgf.data.tokens import TYPES
from cgf.errors import UserError
from cgf.evaluate.he_batches import Batches, shard_of
from cgf.evaluate.he_lines import FinishedSamples, SampleLog, check_finite_in_the_clear
from cgf.evaluate.he_run import EvaluationProgress
from cgf.evaluate.open_checkpoint import OpenCheckpoint
from cgf.evaluate.token_counts import ByTokens
from cgf.he.network_run import NetworkRecord
from cgf.he.party import TENFOLD
from cgf.he.session import Session
from cgf.models.network import network_of
from cgf.network.inputs import Inputs, Patches
from cgf.network.program import program_of
from cgf.network.twin import Ranges, twin
from cgf.progress import Bar
from cgf.types import Json

LEAST_LOGIT = 1e-6  # noise is measured against a batch's largest logit, and against this where all of them are zero


@dataclass(frozen=True)
class BatchInTheClear:
    """A batch before it is encrypted: labels, and its logits in the clear, all in float64.

    plain     by the network's program;  exact: by the model as it was trained
    unfolded  largest difference of the program from the model's own forward with the same polynomials in place
    beyond    entries of each (attention, head) beyond the guard of its exponential
    """

    labels: np.ndarray
    plain: np.ndarray
    exact: np.ndarray
    unfolded: float
    beyond: dict[tuple[int, int], int]


class NetworkEvaluation:
    """One evaluation of a whole network under CKKS, or a shard of it.

    opened  its softmaxes with the polynomials in place;  batch: samples of a set at most, None: what the slots take
    Raises UserError for a host that does not stay encrypted whole (cgf.models.network.network_of).
    """

    def __init__(
        self,
        opened: OpenCheckpoint,
        session: Session,
        indices: list[int],
        lines: SampleLog,
        *,
        batch: int | None = None,
        shard: tuple[int, int] = (1, 1),
        say: Callable[[str], None] = print,
    ) -> None:
        self.opened, self.session, self.indices, self.lines = opened, session, indices, lines
        self.shard, self.say = shard, say
        self.network, self.inputs = network_of(opened.host)
        samples = ByTokens(opened.dataset, self.inputs)
        self.plan = Batches(samples, self._probe, False, batch, pieces=False, whole_sets=True)
        self._in_place = copy.deepcopy(opened.host.model).double().eval()
        self._trained = self._in_place
        if opened.replaced is not None or [softmax.exponential for softmax in opened.softmaxes] != opened.trained:
            with opened.as_trained():
                self._trained = copy.deepcopy(opened.host.model).double().eval()

    def run(self) -> FinishedSamples:
        """Evaluates what the lines do not hold yet; returns all that they hold then.

        UserError where they are of another evaluation, or of a shard that was batched otherwise.
        """
        self.lines.check_own()
        finished = self.lines.read()
        batches = shard_of(self.plan.of(self.indices), self.shard)
        finished.check_among(batches, self.lines.path)
        left = finished.left(batches)
        if finished.samples:
            self.say(f"{len(finished.samples)} samples are done already ({self.lines.path})")
        if left:
            clear = self._all_clear(left)
            progress = EvaluationProgress(finished, sum(map(len, left)), sum(map(self.plan.work, left)), self.say)
            self._run(left, clear, progress)
        return self.lines.read()

    def _all_clear(self, left: list[list[int]]) -> list[BatchInTheClear]:
        """The batches in the clear, before the first is encrypted: hours could pass until a later one is refused.

        UserError where a sample's logits there are no finite numbers.
        """
        clear: list[BatchInTheClear] = []
        with Bar("in the clear", sum(map(len, left)), say=self.say) as bar:
            for batch in left:
                clear.append(self.clear(batch))
                bar.advance(len(batch))
        indices = [index for batch in left for index in batch]
        for how, logits in (
            ("by the polynomials", [batch.plain for batch in clear]),
            ("as trained", [batch.exact for batch in clear]),
        ):
            check_finite_in_the_clear(np.isfinite(np.concatenate(logits)).all(1), indices, how)
        # the model's own forward with the polynomials in place: its logits are not kept, and one lost is its batch's
        known = [np.isfinite(own.unfolded) for own, batch in zip(clear, left, strict=True) for _ in batch]
        check_finite_in_the_clear(np.array(known), indices, "by the model with the polynomials in place")
        return clear

    def _run(self, left: list[list[int]], clear: list[BatchInTheClear], progress: EvaluationProgress) -> None:
        workers = self.session.workers
        with ThreadPoolExecutor(workers) as pool:
            running: dict[Future[tuple[np.ndarray, NetworkRecord, float]], tuple[list[int], BatchInTheClear]] = {
                pool.submit(self._evaluate, batch): (batch, own) for batch, own in zip(left, clear, strict=True)
            }
            try:
                for future in as_completed(running):
                    logits, record, wall_s = future.result()
                    batch, own = running[future]
                    samples = lines_of(batch, own, logits)
                    facts = {
                        "batch": batch,
                        "seconds": progress.lap(),
                        "set_s": wall_s,
                        "peak_mib": self.session.peak_mib(),
                        "layers": [],
                        "network": record.to_json(),
                        "errors": self._errors(own, logits),
                    }
                    self.lines.add(samples, facts)
                    progress.add(samples, self.plan.work(batch))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _evaluate(self, batch: list[int]) -> tuple[np.ndarray, NetworkRecord, float]:
        features = features_of(self.inputs, self._collated(batch))  # anew: those of all batches are not kept
        start = time.perf_counter()
        logits, record = self.session.network(self.network, features)
        return logits, record, time.perf_counter() - start

    def _collated(self, batch: list[int]) -> dict[str, Tensor]:
        return self.opened.collate([self.opened.dataset[i] for i in batch])

    def clear(self, batch: list[int]) -> BatchInTheClear:
        """A batch's labels and its logits in the clear."""
        collated = self._collated(batch)
        labels = collated.pop("labels").numpy()
        features = features_of(self.inputs, collated)
        ranges = Ranges()
        plain = twin(program_of(self.network, features.shape[1]), features, ranges)
        with torch.inference_mode():
            wide = {name: t.double() if t.is_floating_point() else t for name, t in collated.items()}
            exact = self.opened.host.forward(self._trained, wide).numpy()
            one = self._in_place is self._trained
            same = exact if one else self.opened.host.forward(self._in_place, wide).numpy()
        return BatchInTheClear(labels, plain, exact, float(np.abs(plain - same).max()), ranges.beyond)

    def _errors(self, clear: BatchInTheClear, logits: np.ndarray) -> Json:
        """Of logits that are numbers: the largest error against each reading, and how many are no noise any more."""
        whole = np.isfinite(logits).all(1)
        error = np.abs(logits - clear.plain)[whole]
        largest = float(np.abs(clear.plain).max())
        return {
            "max_error": float(error.max(initial=0.0)),
            "sum_error": float(error.sum()),
            "logits": int(error.size),
            "largest": largest,
            "unfolded": clear.unfolded,
            "wrong": int((error > TENFOLD * self.session.noise * max(LEAST_LOGIT, largest)).sum()),
            "beyond": [[*place, count] for place, count in clear.beyond.items() if count],
        }

    def _probe(self, index: int) -> tuple[int, int, int]:
        """(1, 1, samples of a set) for samples like this one."""
        tokens = features_of(self.inputs, self._collated([index])).shape[1]
        return 1, 1, self.session.party.network_needs(self.network, tokens).samples


def features_of(inputs: Inputs, batch: dict[str, Tensor]) -> np.ndarray:
    """Prepared features (B, tokens, width) of a collated batch.

    UserError for texts of more than one count of tokens, and for pairs that token types tell apart: the table has one
    segment.
    """
    if isinstance(inputs, Patches):
        return inputs.prepared(batch["pixel_values"].numpy())
    real = batch["attention_mask"].numpy().astype(bool)
    if len({inputs.tokens_of(int(count)) for count in real.sum(1)}) > 1:
        raise UserError("he.scope=network needs texts of one length in a set of ciphertexts, and these are padded")
    check_one_segment(batch.get(TYPES))
    return inputs.prepared(np.where(real, batch["input_ids"].numpy(), inputs.padding))


def check_one_segment(types: object) -> None:
    """UserError for token types that tell a second text: the table of embeddings has those of a first one alone."""
    if types is not None and np.any(np.asarray(types)):
        raise UserError("he.scope=network reads texts alone, and these are pairs, the second told by its token types")


def lines_of(batch: list[int], clear: BatchInTheClear, logits: np.ndarray) -> list[Json]:
    """The lines of a batch's samples; prediction and logits None where they came back as no numbers."""
    lines = []
    for i, label, own, plain, exact in zip(batch, clear.labels, logits, clear.plain, clear.exact, strict=True):
        whole = bool(np.isfinite(own).all())
        lines.append(
            {
                "index": i,
                "label": int(label),
                "prediction": int(own.argmax()) if whole else None,
                "plain": int(plain.argmax()),
                "exact": int(exact.argmax()),
                "logits": [float(f"{x:.9g}") for x in own] if whole else None,
            }
        )
    return lines
