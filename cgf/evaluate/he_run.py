"""Evaluation under CKKS: every softmax of chosen samples through ciphertexts, stopped and resumed at will."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from cgf.data.task import Collate, Items
from cgf.evaluate.he_batches import Batches, shard_of
from cgf.evaluate.he_forecast import batch_rows, forecast
from cgf.evaluate.he_lengths import joint_lengths
from cgf.evaluate.he_lines import FinishedSamples, SampleLog, check_finite_in_the_clear
from cgf.evaluate.he_probe import ShapeProbe, probed
from cgf.evaluate.he_progress import EvaluationProgress, sample_lines
from cgf.evaluate.he_scope import SLOTS
from cgf.evaluate.loop import Outcome, batches_of_rows, evaluate
from cgf.he.encrypted import Encrypted, flatten
from cgf.he.layer_record import LayerRecord
from cgf.he.score_rows import Rows
from cgf.he.session import Session
from cgf.models.host import Host
from cgf.models.self_check import evaluating
from cgf.plan.op_times import OpTimes
from cgf.progress import Bar
from cgf.softmax.base import Softmax
from cgf.softmax.slot import Slot
from cgf.types import Item

BatchOutcome = tuple[Outcome, list[LayerRecord], float]  # logits, what each layer saw, seconds of the model


@dataclass(kw_only=True)
class EncryptedEvaluation:
    """One evaluation under CKKS, or a shard of it.

    softmaxes  the host's own, with the polynomial in place
    installed  context manager (model, layer -> slot) that swaps the attention's softmax
    dataset, collate, indices: the samples;  lines: what is finished, to go on from
    scope      what is encrypted, see cgf.evaluate.he_scope
    as_trained context manager that puts the exponentials of the checkpoint back, for the clear run beside
    times      of the engine's operations, to tell before what it will take; None: nothing is told
    terminal   whether bars may be drawn, see cgf.progress
    """

    host: Host
    softmaxes: list[Softmax]
    installed: Callable[..., AbstractContextManager[list[Slot]]]
    session: Session
    dataset: Items
    collate: Collate
    indices: list[int]
    lines: SampleLog
    as_trained: Callable[[], AbstractContextManager[None]]
    batch: int | None = None
    masked: bool = False
    rows_at_once: int | None = None
    shard: tuple[int, int] = (1, 1)
    scope: str = "softmax"
    times: OpTimes | None = None
    say: Callable[[str], None] = print
    terminal: bool | None = None
    # of each sample probed, (heads, queries) of every kind of layer
    _probed: dict[int, list[tuple[int, int]]] = field(default_factory=dict, init=False, repr=False)

    @property
    def plan(self) -> Batches:
        """How the samples are batched."""
        if self.scope != "attention":
            return Batches(self.dataset, self._probe, self.masked, self.batch, self.rows_at_once)
        samples = self.dataset, self.collate, self.indices
        party, sized = self.session.party, self.batch is not None
        joint = None if sized else joint_lengths(self.host, self.softmaxes, samples, party, self.as_trained)
        return Batches(self.dataset, self._probe_attention, self.masked, self.batch, pieces=False, joint=joint)

    def run(self) -> FinishedSamples:
        """Evaluates what the lines do not hold yet; returns all that they hold then.

        UserError where they are of another evaluation, or of a shard that was batched otherwise.

        With workers, one batch more than there are workers is under way, so that one's model runs while the others'
        ciphertexts do.
        """
        self.lines.check_own()
        finished = self.lines.read()
        plan = self.plan
        batches = shard_of(plan.of(self.indices), self.shard)
        finished.check_among(batches, self.lines.path)
        left = finished.left(batches)
        if finished.samples:
            self.say(f"{len(finished.samples)} samples are done already ({self.lines.path})")
        if left:
            for line in [] if self.times is None else self._told_before(left, plan, self.times):
                self.say(line)
            ready = self.session.make(self._sizes(left))
            clear = self._clear(sorted(i for b in left for i in b))
            ready()
            # by all batches, those of an earlier run too, so that a stopped run ends as one that was not stopped
            self.session.parts = self.session.workers if len(batches) < self.session.workers else 1
            self._run(
                left,
                plan,
                EvaluationProgress(
                    finished, sum(map(len, left)), sum(map(plan.work, left)), self.say, terminal=self.terminal
                ),
                clear,
            )
        return self.lines.read()

    def _told_before(self, batches: list[list[int]], plan: Batches, times: OpTimes) -> list[str]:
        """What the evaluation will take; nothing where no table tells."""
        if self.scope != "softmax":
            return [
                "minutes and memory of whole attentions: python scripts/plan.py ckpt=RUN scope=attention times=FILE"
            ]

        def rows_of(batch: list[int]) -> list[Rows]:
            kinds = next(self._probed[i] for i in batch if i in self._probed)
            lengths = getattr(self.dataset, "lengths", None)
            own = None if lengths is None else [lengths[i] for i in batch]
            return [batch_rows(own, len(batch), heads, queries, self.host.mask) for heads, queries in kinds]

        known = [batch for batch in batches if any(i in self._probed for i in batch)]  # a size by hand probes none
        if not known:
            return []
        foreseen = forecast(self.session, self.softmaxes, known, rows_of, plan.work, times)
        if foreseen is None:
            return ["no prediction: the table of operation times has no bootstraps"]
        return foreseen.sentences()

    def _sizes(self, batches: list[list[int]]) -> dict[int, frozenset[int]]:
        """max_level -> rotation steps of the circuits of full rows; those of masked ones show with their masks."""
        sizes: dict[int, frozenset[int]] = {}
        for batch in [] if self.masked or self.scope != "softmax" else batches:
            for heads, queries in next((self._probed[i] for i in batch if i in self._probed), []):
                rows = len(batch) * heads * queries
                shape = Rows((len(batch), heads, queries, queries), 0, None, np.full(rows, float(queries)))
                if rows <= self.session.rings[-1].slots:
                    needs = self.session.needs(self.softmaxes[0], shape, queries)
                    if not needs.bootstrap:
                        sizes[needs.max_level] = sizes.get(needs.max_level, frozenset()) | needs.rotations
        return sizes

    def _run(
        self, left: list[list[int]], plan: Batches, progress: EvaluationProgress, clear: dict[str, dict[int, int]]
    ) -> None:
        workers = self.session.workers
        with progress, self._in_place() as slots, ThreadPoolExecutor(workers + 1 if workers > 1 else 1) as pool:
            running: dict[Future[BatchOutcome], list[int]] = {pool.submit(self._evaluate, b, slots): b for b in left}
            try:
                for future in as_completed(running):
                    outcome, layers, model_s = future.result()
                    batch = running[future]
                    samples = sample_lines(
                        outcome, clear, {batch[place] for record in layers for place in record.ruined}
                    )
                    self.lines.add(
                        samples,
                        {
                            "batch": outcome.index.tolist(),
                            "seconds": progress.lap(),
                            "model_s": model_s,
                            "peak_mib": self.session.peak_mib(),
                            "worker_mib": self.session.worker_mib(),
                            "layers": [r.to_json() for r in layers],
                        },
                    )
                    progress.add(samples, plan.work(batch))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    @contextmanager
    def _in_place(self) -> Iterator[list[Encrypted]]:
        slots: list[Encrypted] = []

        def make(layer: int) -> Encrypted:
            slots.append(SLOTS[self.scope](self.softmaxes[layer], self.session))
            return slots[-1]

        # before the threads, each of which puts back what it found
        with evaluating(self.host.model), self.installed(self.host.model, make):
            yield slots

    def _evaluate(self, batch: list[int], slots: list[Encrypted]) -> BatchOutcome:
        def collated(items: Sequence[Item]) -> dict[str, Tensor]:
            made = self.collate(items)
            for slot in slots:
                slot.given_tokens(made.get("attention_mask"))
            return made

        start = time.perf_counter()
        outcome = evaluate(self.host.model, self.host.logits, self.dataset, collated, [batch])
        seconds = time.perf_counter() - start
        layers = [slot.take_record() for slot in slots]
        return outcome, layers, seconds - sum(r.seconds.pop("softmax") for r in layers)

    def _clear(self, indices: list[int]) -> dict[str, dict[int, int]]:
        """Predictions in the clear: plain by the polynomials in place, exact as trained."""

        def predicted(what: str) -> dict[int, int]:
            with Bar(f"in the clear, {what}", len(indices), say=self.say, terminal=self.terminal) as bar:
                o = evaluate(
                    self.host.model,
                    self.host.logits,
                    self.dataset,
                    self.collate,
                    batches_of_rows(self.dataset, 64, indices, self.masked),
                    lambda chosen, *_: bar.advance(len(chosen)),
                )
            check_finite_in_the_clear(o.finite.numpy(), o.index.tolist(), what)
            return dict(zip(o.index.tolist(), o.predictions.tolist(), strict=True))

        plain = predicted("by the polynomials")
        with self.as_trained():
            return {"plain": plain, "exact": predicted("as trained")}

    def _probe_attention(self, index: int) -> tuple[int, int, int]:
        """(heads, 1, instances of one set of ciphertexts) for samples like this one, of the layer that takes fewest."""
        layers = probed(self.host, self.softmaxes, self.dataset, self.collate, index)
        capacities = [layer.capacity(self.session.party) for layer in layers]
        return min(capacities, key=lambda capacity: capacity[2] // capacity[0])

    def _probe(self, index: int) -> tuple[int, int, int]:
        """(heads, queries, slots of the ring) for samples like this one, by one pass in the clear.

        Of the layer with the most rows, where layers differ: it decides how many samples fit. Rows of a host with
        masked ones count as masked, as padding makes them, where this sample alone leaves them full.
        """
        probes: list[ShapeProbe] = []

        def make(layer: int) -> ShapeProbe:
            probes.append(ShapeProbe(self.softmaxes[layer]))
            return probes[-1]

        with self.installed(self.host.model, make):
            evaluate(self.host.model, self.host.logits, self.dataset, self.collate, [[index]])
        shapes = [probe.given[0].shape for probe in probes]
        largest = max(range(len(probes)), key=lambda layer: shapes[layer][1] * shapes[layer][2])
        matrix, mask, counts, shape = flatten(*probes[largest].given)
        mask = np.ones(matrix.shape, dtype=bool) if mask is None and self.masked else mask
        needs = self.session.needs(self.softmaxes[largest], Rows(shape, 0, mask, counts), matrix.shape[1])
        self._probed[index] = list(dict.fromkeys((heads, queries) for _, heads, queries, _ in shapes))
        return shape[1], shape[2], needs.layout.slots
