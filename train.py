"""Fine-tunes or distils a model with a softmax of your choice: python train.py model=llama task=clinc150"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from cgf.config import build, entry, resolved, run_name

if TYPE_CHECKING:  # a typo on the command line is told before anything is loaded
    from cgf.data.task import Collate, Items
    from cgf.distill.matching import Matching
    from cgf.distill.teacher_logits import WithTeacherLogits
    from cgf.models.host import Host


@entry("train")
def main(cfg: DictConfig) -> None:
    """The command; configs/train.yaml has its settings."""
    from cgf.distill.processes import alone_at
    from cgf.distill.run_folder import held, run_path

    name = run_name(cfg)
    with alone_at(held(run_path(cfg.outputs, name))):
        train(cfg, name)


def train(cfg: DictConfig, name: str) -> None:
    """A run of this name, or what is left of it."""
    from cgf.data.told import told
    from cgf.distill.losses import DistillationLoss
    from cgf.distill.matching import Matching
    from cgf.distill.parts import Replacing
    from cgf.distill.range_control import RangeControl
    from cgf.distill.recompute import save_memory
    from cgf.distill.run_folder import RunFolder
    from cgf.distill.settings import Settings
    from cgf.distill.start import seed_everything, start
    from cgf.distill.teacher import softmaxes_of, teacher_of
    from cgf.distill.temper import tempered
    from cgf.distill.trainer import Trainer
    from cgf.errors import UserError
    from cgf.memory import keep_freed_memory
    from cgf.models.replace import parts_of
    from cgf.softmax.load import check_listed

    keep_freed_memory(2**30)  # an embedding's gradient is tens of MiB
    settings, config = Settings(**cfg.train), resolved(cfg)
    loss = DistillationLoss(cfg.distill.tau, cfg.distill.alpha, settings.label_smoothing)
    penalty, matching = RangeControl(**config["penalty"]), Matching(cfg.distill.hidden, cfg.distill.attention)
    task, softmax = build(cfg.task), build(cfg.softmax)
    replacing = Replacing(build(cfg.norm), build(cfg.activation), cfg.calibrate.samples, cfg.seed)
    check_listed(softmax)
    config["task"] |= task.kept()
    run = RunFolder.claim(cfg.outputs, name, config, resume=cfg.resume, overwrite=cfg.overwrite)
    if run.finished:
        print(f"{run.path} is finished already: overwrite=true trains it anew, run=NAME makes another")
        return
    seed_everything(cfg.seed)
    make_host = partial(build, cfg.model, num_classes=task.num_classes, class_names=task.class_names)
    prepare = partial(tempered, task, cfg.temper.samples, cfg.seed) if cfg.temper.samples else None
    host, softmaxes, state = start(
        make_host, cfg.ckpt, task, softmax, tuning=config["tune"], run=run, prepare=prepare, replacing=replacing
    )
    if settings.checkpointing:
        save_memory(host, [*softmaxes, *parts_of(host.model).all])
    teacher = teacher_of(config["distill"]["teacher"], cfg.ckpt, host, make_host, build)
    train_set, val_set = task.dataset("train", host.inputs), task.dataset("val", host.inputs)
    collate = task.collate(host.inputs)
    about = told(task, {"train": train_set, "val": val_set}, cfg.task.get("max_length"))
    if teacher is not None and cfg.distill.cache is not None:
        train_set = kept_logits(cfg, train_set, teacher, collate, matching)
        collate, teacher = train_set.collate(collate), None
    trainer = Trainer(
        host,
        softmaxes,
        train_set,
        val_set,
        collate,
        settings,
        loss,
        penalty,
        run.path,
        cfg.seed,
        save=run.saver(host, softmaxes, config, cfg.seed, task),
        teacher=teacher,
        tracker=config["tracker"],
        config=config,
        matching=matching,
        teachers=softmaxes_of(teacher) if matching.on else [],
    )
    for line in about:
        trainer.say(line)
    trainer.processes.alone(run.begin)
    if state is not None:
        trainer.resume(state)
        trainer.say(f"resumed {run.path} at step {trainer.progress.step}")
    try:
        progress = trainer.fit()
    except UserError:
        if trainer.processes.main:
            run.abandon()
        raise
    trainer.say(f"best validation accuracy {progress.best:.4f}: {run.path / f'ckpt-{progress.best_step}'}")


def kept_logits(
    cfg: DictConfig, train_set: Items, teacher: Host, collate: Collate, matching: Matching
) -> WithTeacherLogits:
    """The training samples with the teacher's logits, worked out once and kept in ``distill.cache``."""
    from cgf.distill.processes import main_first
    from cgf.distill.teacher_logits import taught
    from cgf.errors import UserError
    from cgf.models.install import installed_softmaxes

    if matching.on:
        raise UserError(
            "distill.cache keeps the teacher's logits alone, and distill.hidden and distill.attention "
            "match what is inside it: distill.cache=null"
        )
    with main_first():
        softmaxes = [slot.softmax for slot in installed_softmaxes(teacher.model)]
        return taught(train_set, teacher, softmaxes, collate, cfg.distill.cache)


if __name__ == "__main__":
    main()
