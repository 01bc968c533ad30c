"""What a training run is made of, from its configuration: its aims, its samples with their teacher, and its trainer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cgf.data.task import Collate, Items, Task
from cgf.data.text_items import TextDataset
from cgf.data.told import told
from cgf.distill.losses import DistillationLoss
from cgf.distill.matching import Matching
from cgf.distill.processes import main_first
from cgf.distill.range_control import RangeControl
from cgf.distill.recompute import save_memory
from cgf.distill.run_folder import RunFolder
from cgf.distill.same_split import check_not_seen, check_same_split
from cgf.distill.settings import Settings
from cgf.distill.teacher import softmaxes_of, teacher_of
from cgf.distill.teacher_logits import WithTeacherLogits, identity, taught
from cgf.distill.trainer import Trainer
from cgf.distill.wandb_log import check_tracker
from cgf.errors import UserError
from cgf.memory import need_memory
from cgf.models.host import Host
from cgf.models.install import installed_softmaxes
from cgf.models.replace import parts_of
from cgf.models.samples import check_ends, check_texts, samples_of
from cgf.provenance import hardware
from cgf.softmax.base import Softmax
from cgf.types import Built, Config, Json

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Aims:
    """What a training minimises and how: checked before a model or a folder is made."""

    settings: Settings
    loss: DistillationLoss
    penalty: RangeControl
    matching: Matching

    @classmethod
    def of(cls, cfg: Config, config: Json) -> Aims:
        """Those of a configuration ``cfg``, ``config`` once resolved. UserError for a value that cannot be."""
        settings = Settings(**cfg.train)
        loss = DistillationLoss(cfg.distill.tau, cfg.distill.alpha, settings.label_smoothing)
        penalty = RangeControl(**config["penalty"])
        check_tracker(config["tracker"])
        return cls(settings, loss, penalty, Matching(cfg.distill.hidden, cfg.distill.attention))

    def check_filled(self, model: Json) -> None:
        """UserError where tokens are matched and ``model``, the student's configuration, fills texts up with others."""
        filled = model.get("pad_to_multiple_of") or 1
        if filled > 1 and self.matching.on:
            raise UserError(
                "distill.hidden and distill.attention compare the tokens of a text, and "
                f"model.pad_to_multiple_of={filled} fills texts up with others: give 1, or leave both at 0"
            )


@dataclass(frozen=True)
class TrainingSamples:
    """Samples to train on and to choose a checkpoint by, and who teaches them.

    teacher: None for fine-tuning, and where the samples have its logits beside them. about: lines for a person.
    """

    train: Items
    val: Items
    collate: Collate
    teacher: Host | None
    about: list[str]


def training_samples(cfg: Config, task: Task, host: Host, teacher: Host | None, matching: Matching) -> TrainingSamples:
    """The samples of ``task`` as the host takes them, with the teacher's logits where ``distill.cache`` keeps them.

    UserError for pairs of texts whose teacher reads token types where the student has none.
    """
    if teacher is not None and teacher.inputs.token_types and not host.inputs.token_types and task.has_pairs("train"):
        raise UserError(
            f"teacher {teacher.name} tells the texts of a pair by token types, and student {host.name}, whose batches "
            "it is given, has none: take a teacher or a student of the other kind"
        )
    train_set, val_set = samples_of(task, "train", host, training=True), samples_of(task, "val", host)
    collate = task.collate(host.inputs)
    if teacher is not None:
        check_texts(teacher, train_set, collate, "train")
    for split, texts in (("train", train_set), ("val", val_set)):
        for each in _with_own_head(cfg, host, teacher) if isinstance(texts, TextDataset) else []:
            check_ends(each, [texts[i]["input_ids"] for i in range(len(texts))], split)
    about = told(task, {"train": train_set, "val": val_set}, cfg.task.get("max_length"))
    if teacher is None or cfg.distill.cache is None:
        return TrainingSamples(train_set, val_set, collate, teacher, about)
    kept = kept_logits(cfg.distill.cache, train_set, teacher, collate, matching)
    return TrainingSamples(kept, val_set, kept.collate(collate), None, about)


def _with_own_head(cfg: Config, host: Host, teacher: Host | None) -> list[Host]:
    """The student and the teacher where they are no checkpoints, whose heads were trained as they are read here."""
    named = cfg.distill.teacher
    from_model = not isinstance(named, str) or (named == "self" and cfg.ckpt is None)
    return ([host] if cfg.ckpt is None else []) + ([teacher] if teacher is not None and from_model else [])


def kept_logits(cache: str, train_set: Items, teacher: Host, collate: Collate, matching: Matching) -> WithTeacherLogits:
    """The training samples with the teacher's logits, worked out once and kept in the folder ``cache``."""
    if matching.on:
        raise UserError(
            "distill.cache keeps the teacher's logits alone, and distill.hidden and distill.attention "
            "match what is inside it: distill.cache=null"
        )
    with main_first():
        softmaxes = [slot.softmax for slot in installed_softmaxes(teacher.model)]
        return taught(train_set, teacher, softmaxes, collate, cache)


def training_gib(model: nn.Module) -> float:
    """Memory that a training takes beside the weights and what a batch takes: AdamW's two averages and a gradient."""
    trained = sum(weight.numel() * weight.element_size() for weight in model.parameters() if weight.requires_grad)
    return 3 * trained / 2**30


@dataclass(frozen=True)
class Preparation:
    """A run that has begun: its configuration (``config`` once resolved), aims, task and folder.

    make_host: the student's model as its configuration makes it; build: builds the node of a model.
    """

    cfg: Config
    config: Json
    aims: Aims
    task: Task
    run: RunFolder
    make_host: Callable[[], Host]
    build: Callable[..., Built]

    def trainer(self, host: Host, softmaxes: list[Softmax]) -> Trainer:
        """The trainer of the student ``host`` and its softmaxes, told what its data are."""
        aims, cfg = self.aims, self.cfg
        if aims.settings.checkpointing:
            save_memory(host, [*softmaxes, *parts_of(host.model).all])
        teacher_node = self.config["distill"]["teacher"]
        check_same_split(cfg.ckpt, teacher_node, self.config["task"], self.task.has_images)
        unknown = check_not_seen(cfg.ckpt, teacher_node, self.config["task"], self.task)
        need_memory(training_gib(host.model), "the gradients and averages of a training of this model")
        teacher = teacher_of(teacher_node, cfg.ckpt, host, self.make_host, self.build)
        if teacher is not None:
            self.run.keep_teacher(
                lambda: identity(teacher, [slot.softmax for slot in installed_softmaxes(teacher.model)])
            )
        samples = training_samples(cfg, self.task, host, teacher, aims.matching)
        trainer = Trainer(
            host,
            softmaxes,
            samples.train,
            samples.val,
            samples.collate,
            aims.settings,
            aims.loss,
            aims.penalty,
            self.run.path,
            cfg.seed,
            save=self.run.saver(host, softmaxes, self.config, cfg.seed, self.task),
            teacher=samples.teacher,
            tracker=self.config["tracker"],
            config=self.config,
            matching=aims.matching,
            teachers=softmaxes_of(samples.teacher) if aims.matching.on else [],
        )
        for line in [*samples.about, *unknown, *aims.settings.notes(hardware()["cpu_flags"])]:
            trainer.say(line)
        return trainer
