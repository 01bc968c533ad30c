"""The teacher of a distillation: a checkpoint, the student's own beginning, or a model of the hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from cgf.checkpoint import read
from cgf.data.task import ImageInput
from cgf.errors import UserError
from cgf.former import current_name
from cgf.models.host import Host, check_classes
from cgf.models.install import install_copies, installed_softmaxes
from cgf.models.load import from_checkpoint
from cgf.named import plain
from cgf.softmax.exact import Exact
from cgf.softmax.slot import Slot
from cgf.types import JsonValue

LOADERS = (
    "cgf.models.bert.load",
    "cgf.models.bert_tiny.load",
    "cgf.models.dino.load",
    "cgf.models.hf.load",
    "cgf.models.llama.load",
    "cgf.models.vit.load",
)


def teacher_of(
    teacher: str | Mapping[str, JsonValue] | None,
    ckpt: str | None,
    host: Host,
    make_host: Callable[[], Host],
    build: Callable[..., Host],
) -> Host | None:
    """The teacher of a distillation, with the softmax that it was trained with; None for fine-tuning.

    teacher    'self' (what the student starts from: its checkpoint, or without one the model's own weights where
               their head is trained), a checkpoint or run folder, the node of a model, or None
    make_host  the student's model as its configuration makes it; build: builds the node of a model

    Raises UserError for a teacher whose head was never trained for these classes, or that takes other images.
    """
    if teacher is None:
        return None
    if isinstance(teacher, Mapping):
        return _fitting(_configured(teacher, host, build), host)
    if teacher == "self" and ckpt is None:
        own = make_host() if host.head_trained else host
        if not own.head_trained:
            raise UserError(
                "distill.teacher=self is the checkpoint that the student starts from, and ckpt is not set: the head "
                f"of model={host.name} was never trained on this task; train a teacher first (softmax=exact) and "
                "give its folder as ckpt, or name one by distill.teacher"
            )
        return own
    checkpoint = read(str(ckpt) if teacher == "self" else teacher)
    if checkpoint.run["num_classes"] != host.num_classes:
        raise UserError(
            f"teacher {checkpoint.path} has {checkpoint.run['num_classes']} classes, and the student {host.num_classes}"
        )
    check_classes(f"teacher {checkpoint.path}", checkpoint.run.get("class_names"), host.class_names, "the student")
    return _fitting(from_checkpoint(checkpoint)[0], host)


def softmaxes_of(teacher: Host | None) -> Sequence[Slot]:
    """The teacher's softmaxes, by layer; a model without any gets exact ones, which compute the same."""
    if teacher is None:
        return []
    return installed_softmaxes(teacher.model) or install_copies(teacher.model, Exact())


def _configured(node: Mapping[str, JsonValue], host: Host, build: Callable[..., Host]) -> Host:
    target = current_name(node.get("_target_"))
    if not isinstance(target, str) or target not in LOADERS:
        raise UserError(
            f"distill.teacher must be self, a checkpoint or the node of a model ({', '.join(LOADERS)}), "
            f"and is {dict(node)}"
        )
    plain({key: value for key, value in node.items() if key != "_target_"}, "distill.teacher")  # names no other code
    names = {} if host.class_names is None else {"class_names": host.class_names}
    made = build({**node, "_target_": target}, num_classes=host.num_classes, **names)
    if not made.head_trained:
        raise UserError(f"teacher {made.name} has no head that was trained for {host.num_classes} classes")
    return made


def _fitting(teacher: Host, host: Host) -> Host:
    """The teacher for the student's batches: images normalised for the student are normalised anew for it."""
    own, theirs = teacher.inputs.image, host.inputs.image
    if own is None or theirs is None:
        if teacher.family != host.family and (own is None) != (theirs is None):
            raise UserError(f"teacher {teacher.name} and student {host.name} need the same kind of input")
        _check_words(teacher, host)
        return teacher
    if own.size != theirs.size:
        raise UserError(f"teacher {teacher.name} takes images of {own.size}, and the student {theirs.size}")
    if (own.mean, own.std) == (theirs.mean, theirs.std):
        return teacher
    factor, offset = renormalisation(theirs, own)

    def forward(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        pixels = batch["pixel_values"]
        again = pixels * factor.to(pixels) + offset.to(pixels)
        return teacher.forward(model, {**batch, "pixel_values": again})

    return replace(teacher, forward=forward)


def _check_words(teacher: Host, host: Host) -> None:
    """UserError where a teacher of texts knows other words, or the same by other numbers: it is given the student's."""
    words, own = teacher.inputs.tokenizer, host.inputs.tokenizer
    if words is not None and own is not None and words.get_vocab() != own.get_vocab():
        raise UserError(
            f"teacher {teacher.name} needs the tokenizer of student {host.name}, whose tokens it is given, and has "
            "another"
        )


def renormalisation(before: ImageInput, after: ImageInput) -> tuple[Tensor, Tensor]:
    """(factor, offset), each (C, 1, 1): pixels normalised for ``before`` * factor + offset suit ``after``."""
    mean, std, to_mean, to_std = (
        torch.tensor(v, dtype=torch.float64)[:, None, None] for v in (before.mean, before.std, after.mean, after.std)
    )
    return (std / to_std).float(), ((mean - to_mean) / to_std).float()
