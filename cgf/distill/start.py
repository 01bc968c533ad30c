"""How a training run begins: the student, and the state to go on from."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from cgf.checkpoint import Checkpoint, TrainingState, read
from cgf.data.task import Task
from cgf.distill.parts import PartsRequest
from cgf.distill.run_folder import RunFolder
from cgf.distill.tune import tune
from cgf.errors import UserError
from cgf.models.host import Host, check_classes, listed
from cgf.models.install import install_copies
from cgf.models.load import from_checkpoint
from cgf.softmax.base import Softmax
from cgf.softmax.required import check_measured
from cgf.types import Json


def seed_everything(seed: int) -> None:
    """Seeds the global generators of Python, numpy and torch."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  (libraries draw from the global state)
    torch.manual_seed(seed)


def start(
    make_host: Callable[[], Host],
    ckpt: str | None,
    task: Task,
    softmax: Softmax,
    *,
    tuning: Json,
    run: RunFolder,
    prepare: Callable[[Host], object] | None = None,
    replacing: PartsRequest | None = None,
    changes: Json | None = None,
) -> tuple[Host, list[Softmax], TrainingState | None]:
    """(student with its softmax installed and frozen as ``tuning`` says, softmaxes, state to resume from).

    The student starts from ``ckpt`` where one is given, else from make_host(), the model's own weights; a
    run that goes on takes the weights of its newest checkpoint. prepare: changes a student's first weights, once
    its softmaxes are in place; replacing: the norms and activations that are put in then; changes: settings in which
    the student's model differs from the checkpoint's (cgf.distill.same_model). Raises UserError where ckpt does not fit
    the task, and where a run that goes on was trained on other data.
    """
    if run.newest is not None:
        _check_goes_on(read(run.newest), task)
    if run.newest is not None and tuning.get("mode") != "lora":
        host, softmaxes = from_checkpoint(read(run.newest), to_train=True)
    else:  # adapters sit on the weights that the run began with
        host = student(make_host, ckpt, task, changes)
        softmaxes = install_copies(host.model, softmax)
        if ckpt is not None:
            take_over_constants(softmaxes, read(ckpt))
        if prepare is not None:
            prepare(host)
        (replacing or PartsRequest()).put(host, task)
    tune(host, **tuning)
    if run.newest is None:
        return host, softmaxes, None
    state = TrainingState.read(run.newest / "state")
    if trainable := state.trainable():
        host.model.load_state_dict(trainable, strict=False)
    for own, kept in zip(softmaxes, read(run.newest).weights()[1], strict=True):
        own.load_tensors(kept)
    return host, softmaxes, state


def _check_goes_on(newest: Checkpoint, task: Task) -> None:
    """UserError where the data that a run was trained on, or its classes, are others now."""
    check_classes(f"checkpoint {newest.path}", newest.run.get("class_names"), task.class_names, f"task={task.name}")
    newest.check_data(task.revision())


def take_over_constants(softmaxes: list[Softmax], checkpoint: Checkpoint) -> None:
    """What was trained or measured goes on from the checkpoint that the host starts from, if its softmax is the same.

    Constants of a chain, denominators of BPMax: a checkpoint whose training measured none has none to give.
    """
    if softmaxes[0].to_json() == checkpoint.softmax.to_json():
        for softmax, kept in zip(softmaxes, checkpoint.weights()[1], strict=True):
            if kept:
                softmax.load_tensors(kept)


def check_will_measure(softmax: Softmax, ckpt: str | None, epochs: int) -> None:
    """UserError where nothing is trained (train.epochs=0), and the softmax needs what training measures.

    A checkpoint of the same softmax, from which it is taken over, has it measured.
    """
    if epochs:
        return
    layers: list[dict[str, Tensor]] = [{}]
    if ckpt is not None and (checkpoint := read(ckpt)).softmax.to_json() == softmax.to_json():
        layers = checkpoint.weights()[1]
    for kept in layers:
        lacks = "train.epochs=0 trains nothing: it needs train.epochs=1 or more, or ckpt=RUN of the same softmax"
        check_measured(softmax, {*softmax.tensors(), *kept}, lacks)


def student(make_host: Callable[[], Host], ckpt: str | None, task: Task, changes: Json | None = None) -> Host:
    """The host to train, by its own weights or a checkpoint's, in which ``changes`` of the model are made."""
    if ckpt is None:
        return make_host()
    checkpoint = read(ckpt)
    if checkpoint.run["task"] != task.name or checkpoint.run["num_classes"] != task.num_classes:
        raise UserError(
            f"checkpoint {checkpoint.path} was trained on {checkpoint.run['task']} with "
            f"{checkpoint.run['num_classes']} classes, and task={task.name} has {task.num_classes}"
        )
    check_classes(
        f"checkpoint {checkpoint.path}", checkpoint.run.get("class_names"), task.class_names, f"task={task.name}"
    )
    host = from_checkpoint(checkpoint, to_train=True, changes=changes)[0]
    host.class_names = listed(task.class_names)  # a checkpoint of before has none
    return host
