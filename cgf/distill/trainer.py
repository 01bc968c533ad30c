"""The training loop: fine-tuning or distillation, stopped and resumed at will."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from cgf.checkpoint import TrainingState
from cgf.data.task import Collate, Items
from cgf.distill.curriculum import Curriculum
from cgf.distill.journal import Journal
from cgf.distill.losses import DistillationLoss
from cgf.distill.matching import Matching
from cgf.distill.parts import after_step, kept_tensors, pool
from cgf.distill.processes import Processes
from cgf.distill.progress import Progress, prune, write_best
from cgf.distill.range_control import RangeControl, together
from cgf.distill.settings import Settings, epoch_batches
from cgf.distill.step import Classifier, adamw, check_finite, clip, pieces, set_rate
from cgf.evaluate.loop import Outcome, batches_of_rows, evaluate, joined
from cgf.memory import cycle_collector
from cgf.models.gradient_reach import without_gradient
from cgf.models.host import Host
from cgf.models.install import install
from cgf.models.replace import parts_of
from cgf.named import arguments
from cgf.progress import Bar, clock
from cgf.softmax.base import Softmax
from cgf.softmax.slot import Slot
from cgf.types import Json


@dataclass
class Trainer:
    """Trains a host model.

    teacher         None for fine-tuning, and where batches of train_set bring its logits (cgf.distill.teacher_logits)
    softmaxes       what is installed in the host, by layer; teachers: in the teacher, where matching needs it
    save            (folder, progress of the run, TrainingState) -> writes a complete checkpoint
    folder          of the run: metrics.jsonl, ckpt-<step>/, best.json; the main process alone writes there

    On several processes (cgf.distill.processes) a step's batch is divided among them and gradients are averaged by
    their shares, and so is the validation set: progress is the same on all. What takes a maximum or a mean over a
    batch within the model (worst rows, BPMax) sees a process's share of it, as it does of ``train.accumulate``.
    """

    host: Host
    softmaxes: list[Softmax]
    train_set: Items
    val_set: Items
    collate: Collate
    settings: Settings
    loss: DistillationLoss
    penalty: RangeControl
    folder: Path
    seed: int
    save: Callable[[Path, Json, TrainingState], object]
    teacher: Host | None = None
    teachers: Sequence[Slot] = field(default_factory=list)
    matching: Matching = field(default_factory=Matching)
    tracker: Json = field(default_factory=dict)
    config: Json = field(default_factory=dict)
    say: Callable[[str], None] = print

    def __post_init__(self) -> None:
        constants = [p for softmax in self.softmaxes for p in softmax.parameters()]
        self.parts = parts_of(self.host.model)
        self.processes = Processes(
            self.settings.batch_size,
            self.seed,
            self.settings.mixed_precision(),
            sometimes=lambda: bool(
                ((constants or self.parts.activations) and self.settings.staged) or without_gradient(self.host)
            ),
            wandb=self.tracker.get("name") == "wandb",
        )
        self.accelerator = self.processes.accelerator
        self.say = self.say if self.processes.main else lambda text: None
        self.journal = Journal(self.accelerator, self.folder, self.tracker)
        self.progress = Progress()
        self.penalty.watch(self.softmaxes)
        self.penalty.watch_parts(self.parts.all)
        self.curriculum = Curriculum(self.settings.staged, self.settings.order)
        slots = self.curriculum.watch(self.softmaxes, [*self.parts.norms.values()], [*self.parts.activations.values()])
        if self.settings.staged:
            install(self.host.model, slots.__getitem__)
        optimizer = adamw(self.host.model, constants, self.settings, self.accelerator.device)
        forward = torch.compile(self.host.forward, dynamic=True) if self.settings.compile else self.host.forward
        classifier = Classifier(self.host.model, forward, constants)
        self.classifier, self.optimizer = self.accelerator.prepare(classifier, optimizer)
        if self.teacher is not None:
            self.teacher.model.to(self.accelerator.device).eval().requires_grad_(False)
        # taps go around stages: what is matched are the weights that the model goes on with
        self.matching.watch(self.host.model, slots, None if self.teacher is None else self.teacher.model, self.teachers)
        self.batches_per_epoch = math.ceil(len(self.train_set) / self.settings.batch_size)
        total = self.batches_per_epoch * self.settings.epochs
        self.total_steps = min(total, self.settings.max_steps or total)
        terminal = None if self.processes.main else False
        self._bar = Bar("training", self.total_steps, "steps", say=self.say, terminal=terminal)

    # -- the loop ----------------------------------------------------------------------------------

    def fit(self) -> Progress:
        """Trains until the last epoch, step, or early stop; returns the progress, with the epoch that is kept."""
        self.journal.start(self.config)
        self._clock, self._since = time.perf_counter(), self.progress.step
        with self._bar, cycle_collector() as collect_cycles:
            return self._fit(collect_cycles)

    def _fit(self, collect_cycles: Callable[[], object]) -> Progress:
        p = self.progress
        if not self.total_steps and not p.finished:
            self._end_epoch()
        while not p.finished:
            lap = time.perf_counter()
            for batch, share in self._batches():
                loss, penalty = self._step(batch, share)
                p.step, p.position = p.step + 1, p.position + 1
                lap, p.seconds = time.perf_counter(), p.seconds + time.perf_counter() - lap
                self._log(loss, penalty)
                over = p.step >= self.total_steps
                over_epoch = p.position >= self.batches_per_epoch  # its end saves: no step is saved twice
                if self.settings.save_every and p.step % self.settings.save_every == 0 and not (over or over_epoch):
                    self._save()
                if over:
                    break
            self._end_epoch()
            collect_cycles()  # each file of JSON leaves thirty objects in a circle
        self.journal.finish(self.folder / f"ckpt-{p.best_step}", self.penalty.by_layer(), p.step)
        self.processes.end()
        return p

    def _batches(self) -> Iterator[tuple[dict[str, Tensor], float]]:
        """What is left of the epoch: this process's part of each batch, and what share of it that is."""
        p, s = self.progress, self.settings
        whole = epoch_batches(self.train_set, s.batch_size, self.seed, p.epoch, s.length_pool)[p.position :]
        return self.processes.batches(self.train_set, whole, self.collate, workers=s.workers, epoch=p.epoch)

    def _step(self, batch: dict[str, Tensor], share: float) -> tuple[float, float | None]:
        """A step on this process's ``share`` of a batch; returns loss and penalty of the whole batch."""
        p = self.progress
        self.classifier.train()
        self.processes.reseed(p.step)
        set_rate(self.optimizer, self.settings.lr_at(p.step, self.total_steps))
        self.curriculum.at(p.step / self.total_steps)
        last = p.step + 1 == self.total_steps and self.journal.wandb  # whose table of the layers is of the end
        self.penalty.measuring = (p.step + 1) % self.settings.log_every == 0 or last
        loss, extra, reports = 0.0, None, []
        parts = list(pieces(batch, self.settings.accumulate))
        for i, (piece, part) in enumerate(parts):
            last = i + 1 == len(parts)  # with it the gradients of all pieces pass between processes
            with nullcontext() if last else self.accelerator.no_sync(self.classifier):
                one, more = self._backward(piece, part * share * self.processes.count)
            loss += part * one
            reports.append(self.penalty.report())
            extra = extra if more is None else (extra or 0.0) + part * more
        report = together(reports, [part for _, part in parts])
        loss, extra = self._together(share, loss, extra, report)
        whole = loss + (extra or 0.0)
        check_finite(f"the loss is {whole:g} at step {p.step + 1}", whole, self.settings.lr)
        if self.settings.grad_norm:
            constants = self.accelerator.unwrap_model(self.classifier).constants
            clip(self.accelerator, self.host.model, constants, self.settings.grad_norm)
        self.optimizer.step()
        after_step(self.parts.all)
        self.optimizer.zero_grad()
        return loss, extra

    def _backward(self, batch: dict[str, Tensor], weight: float) -> tuple[float, float | None]:
        """Adds weight * the gradients of a piece of a batch; returns its loss and penalty."""
        labels, teacher = batch.pop("labels"), batch.pop("teacher", None)
        self.matching.start()
        with self.accelerator.autocast():
            if self.teacher is not None and teacher is None:
                with torch.no_grad():
                    teacher = self.teacher.forward(self.teacher.model, batch)
            student = self.classifier(**batch)
        loss = self.loss(student, labels, teacher)
        if (matched := self.matching.take(batch.get("attention_mask"))) is not None:
            loss = loss + matched.to(loss.dtype)
        extra = self.penalty.take((self.progress.step + 1) / self.total_steps)
        whole = loss if extra is None else loss + extra.to(loss.dtype)
        self.accelerator.backward(whole * weight)
        return float(loss.detach()), None if extra is None else float(extra.detach())

    def _together(
        self, share: float, loss: float, extra: float | None, report: dict[str, float]
    ) -> tuple[float, float | None]:
        """Loss and penalty of all processes' shares; what the pass showed and measured is put together likewise."""
        own = (share, loss, extra, report, [softmax.measured() for softmax in self.softmaxes])
        parts = self.processes.gather(own)
        shares, losses, extras, reports, measured = (list(column) for column in zip(*parts, strict=True))
        self._report = together(reports, shares)
        if len(parts) > 1:
            pool(self.parts.all, self.processes.gather, share)
            for softmax, values in zip(self.softmaxes, zip(*measured, strict=True), strict=True):
                softmax.pool(list(values), shares)
        whole = sum(s * one for s, one in zip(shares, losses, strict=True))
        return whole, None if extra is None else sum(s * more for s, more in zip(shares, extras, strict=True))

    def _end_epoch(self) -> None:
        p = self.progress
        outcome = self.validate()
        better, p.val_samples = p.judge(outcome.accuracy, outcome.loss, self.settings.keep), len(self.val_set)
        done = p.position >= self.batches_per_epoch
        if done:
            p.epoch, p.position = p.epoch + 1, 0
        stop = self.settings.patience is not None and p.since_best >= self.settings.patience
        p.finished = p.step >= self.total_steps or p.epoch >= self.settings.epochs or stop
        # a polynomial explodes where a sample leaves its range, and may not any more an epoch later
        finite = math.isfinite(outcome.loss)
        if p.finished and not p.best_step:
            check_finite(f"the validation loss is {outcome.loss:g} after step {p.step}", outcome.loss, self.settings.lr)
        epochs = p.epochs(self.batches_per_epoch)
        validation = {"val_accuracy": outcome.accuracy, "val_loss": outcome.loss if finite else None}
        self.journal.write({"step": p.step, "epoch": epochs, **validation})
        self._save()
        if better and self.processes.main:
            write_best(self.folder, p)
        self.processes.alone(lambda: prune(self.folder, p.best_step))
        told = "" if finite else f", not counted: the validation loss is {outcome.loss:g}"
        by = ", of the least loss" if self.settings.keep == "loss" else ""
        best = f"best {p.best:.4f} at step {p.best_step}{by}" if p.best_step else "no best yet"
        self.say(
            f"epoch {epochs:.2f}: validation accuracy {outcome.accuracy:.4f}{told} ({best})"
            + (", early stop" if stop else "")
        )

    def validate(self) -> Outcome:
        """Validation outcome with the model as it is, batched as evaluations are; a part of it a process."""
        model = self.accelerator.unwrap_model(self.classifier).model
        batches = batches_of_rows(
            self.val_set, self.settings.eval_batch_size, range(len(self.val_set)), self.host.row_kind == "masked"
        )
        own = batches[self.processes.rank :: self.processes.count]
        outcome = evaluate(model, self.host.logits, self.val_set, self.collate, own) if own or not batches else None
        return joined([part for part in self.processes.gather(outcome) if part is not None])

    # -- what is written ---------------------------------------------------------------------------

    def _log(self, loss: float, penalty: float | None) -> None:
        p = self.progress
        row = {
            "step": p.step,
            "epoch": p.epochs(self.batches_per_epoch),
            "loss": loss,
            "lr": self.optimizer.param_groups[0]["lr"],
        }
        if penalty is not None:
            row["penalty"] = penalty
        self.journal.write({**row, **self._report})
        if p.step % self.settings.log_every == 0:
            rate = (p.step - self._since) / max(1e-9, time.perf_counter() - self._clock)
            left = (self.total_steps - p.step) / max(1e-9, rate)
            self._bar.show(
                p.step,
                f"step {p.step}/{self.total_steps}  loss {loss:.4f}"
                + (f"  penalty {penalty:.4f}" if penalty is not None else "")
                + f"  {rate * self.settings.batch_size:.0f} samples/s  {clock(left)} left",
            )

    def _save(self) -> None:
        self.processes.alone(self._write)

    def _write(self) -> None:
        trainable: dict[str, Tensor] = {
            n: v for n, v in self.host.model.named_parameters() if v.requires_grad and v.numel()
        }
        partial = {**trainable, **kept_tensors(self.parts)} if any("lora_" in n for n in trainable) else None
        state = TrainingState.of(dict(vars(self.progress)), self.optimizer.optimizer, partial, self.accelerator.scaler)
        self.save(self.folder / f"ckpt-{self.progress.step}", dict(vars(self.progress)), state)

    # -- resuming ----------------------------------------------------------------------------------

    def resume(self, state: TrainingState) -> None:
        """Goes on from a checkpoint's state; the weights are loaded already."""
        kept = state.restore(self.optimizer.optimizer, self.accelerator.scaler)
        self.progress = Progress(**arguments(Progress, kept, "the training state's progress"))
        self.processes.alone(lambda: self.journal.cut(self.progress.step))
