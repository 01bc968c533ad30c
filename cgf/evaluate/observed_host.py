"""A model made ready for observation: its own weights or a checkpoint, an exponent observed in every layer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cgf.checks import one_of
from cgf.data.task import Items, Task
from cgf.errors import UserError
from cgf.evaluate import calibrate as calibration
from cgf.evaluate.he_batches import chosen_samples
from cgf.evaluate.observe import Calibrator, Onlooker
from cgf.evaluate.open_checkpoint import open_checkpoint
from cgf.models.host import Host
from cgf.models.install import install
from cgf.models.samples import samples_of
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact
from cgf.softmax.slot import Slot
from cgf.types import Json

FORWARDS = ("trained", "softmax")


@dataclass
class ObservedHost:
    """A host under observation.

    name     of its weights, for legends;  softmax: whose exponent is observed;  forward: what makes the weights
    folder   of the checkpoint, None for a model's own weights
    """

    name: str
    host: Host
    task: Task
    dataset: Items
    softmax: ExponentialSoftmax
    forward: str
    calibrator: Calibrator
    source: Json
    folder: Path | None = None

    def run(self, samples: int | None, seed: int, batch_size: int, padding: str) -> int:
        """One pass over chosen samples; returns how many. Raises UserError for bad counts."""
        indices = chosen_samples(len(self.dataset), samples, seed)
        calibration.run(self.host, self.dataset, self.task.collate(self.host.inputs), indices, batch_size, padding)
        return len(indices)


def own_weights(
    make_host: Callable[[], Host], task: Task, split: str, softmax: Softmax | None, forward: str
) -> ObservedHost:
    """A model as it comes, before any training; softmax None: CGF-softmax."""
    subject = _with_exponent(softmax or CGF())
    one_of("forward", forward, FORWARDS)
    host = make_host()
    dataset = samples_of(task, split, host)
    calibrator = _observe(host, subject, lambda _: Exact(), forward)
    drives = "exact" if forward == "trained" else subject.name
    return ObservedHost(f"{host.name}, own weights", host, task, dataset, subject, drives, calibrator, host.source)


def of_checkpoint(
    path: str, split: str, make_task: Callable[[Json], Task], softmax: Softmax | None, forward: str
) -> ObservedHost:
    """A checkpoint; softmax None: its own where that has an exponent, CGF-softmax for the exact one."""
    one_of("forward", forward, FORWARDS)
    subject = None if softmax is None else _with_exponent(softmax)
    opened = open_checkpoint(path, split, make_task)
    trained = opened.checkpoint.softmax
    if subject is None:
        subject = CGF() if trained.name == Exact.name else _with_exponent(trained)
    name = f"{opened.checkpoint.path.parent.name}/{opened.checkpoint.path.name}, {trained.name}"
    if subject.to_json() == trained.to_json():
        calibrator = Calibrator()
        for own in opened.softmaxes:
            own.observers.append(calibrator)
        forward = "trained"
    else:
        calibrator = _observe(opened.host, subject, lambda layer: opened.softmaxes[layer], forward)
    drives = trained.name if forward == "trained" else subject.name
    return ObservedHost(
        name,
        opened.host,
        opened.task,
        opened.dataset,
        subject,
        drives,
        calibrator,
        opened.checkpoint.run["source"],
        opened.checkpoint.path,
    )


def _observe(host: Host, subject: Softmax, drives: Callable[[int], Softmax], forward: str) -> Calibrator:
    """Installs the softmax, or an onlooker beside the one that drives the model, and observes its exponent."""
    calibrator = Calibrator()

    def slot(layer: int) -> Slot:
        own = copy.deepcopy(subject)
        own.observers.append(calibrator)
        return own if forward == "softmax" else Onlooker(drives(layer), own)

    install(host.model, slot)
    return calibrator


def _with_exponent(softmax: Softmax) -> ExponentialSoftmax:
    if not isinstance(softmax, ExponentialSoftmax):
        raise UserError(
            f"softmax '{softmax.name}' has no exponent to look at: softmax=cgf shows what CGF-softmax would see"
        )
    return softmax
