"""Fine-tunes or distils a model with a softmax of your choice: python train.py model=llama task=clinc150"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

import os
from functools import partial
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from cgf.config import build, changed, entry, given, resolved, run_name
from cgf.distill.idle import idle
from cgf.distill.progress import mend_best
from cgf.errors import UserError
from cgf.memory import keep_freed_memory

if TYPE_CHECKING:  # a typo on the command line is told before anything is loaded
    from cgf.checkpoint import TrainingState
    from cgf.distill.run_folder import RunFolder
    from cgf.distill.trainer import Trainer
    from cgf.types import Json


@entry("train")
def main(cfg: DictConfig) -> None:
    """The command; configs/train.yaml has its settings."""
    from cgf.checkpoint import read
    from cgf.distill.processes import alone_at
    from cgf.distill.run_folder import held, run_path

    name = run_name(cfg, None if cfg.ckpt is None or cfg.run is not None else read(cfg.ckpt).run["model"])
    with alone_at(held(run_path(cfg.outputs, name))):
        train(cfg, name)


def train(cfg: DictConfig, name: str) -> None:
    """A run of this name, or what is left of it."""
    from cgf.checkpoint import read
    from cgf.distill.parts import PartsRequest
    from cgf.distill.prepare import Aims, Preparation
    from cgf.distill.run_folder import RunFolder, origins_of, stopped_origins
    from cgf.distill.same_model import model_of
    from cgf.distill.start import check_will_measure, seed_everything, start
    from cgf.distill.temper import tempered
    from cgf.plan.check_formula import check_formula
    from cgf.softmax.load import check_listed, trains_constants

    keep_freed_memory(2**30)  # an embedding's gradient is tens of MiB
    aims = Aims.of(cfg, config := resolved(cfg))
    if cfg.ckpt is None:
        aims.check_filled(config["model"])
    task, softmax = build(cfg.task), build(cfg.softmax)
    replacing = PartsRequest(build(cfg.norm), build(cfg.activation), cfg.calibrate.samples, cfg.seed)
    check_listed(softmax)
    check_formula(softmax)
    config["task"] |= task.kept()
    changes: Json = {}
    if cfg.ckpt is not None:
        config["model"], changes = model_of(
            read(cfg.ckpt), config["model"], [*given(), *changed("train", cfg, ("model",))]
        )
    teacher = config["distill"]["teacher"]
    origins = origins_of(cfg.ckpt, teacher)
    run = RunFolder.claim(cfg.outputs, name, config, resume=cfg.resume, overwrite=cfg.overwrite, origins=origins)
    run.check_starts([cfg.ckpt, teacher])
    if run.newest is not None:
        mend_best(run.path, run.newest)
    if run.finished:
        print(f"{run.path} is finished already: overwrite=true trains it anew, run=NAME makes another")
        return
    aims.check_filled(config["model"])  # that of the checkpoint, where it starts from one
    check_will_measure(softmax, cfg.ckpt, aims.settings.epochs)
    if os.environ.get("RANK", "0") == "0":  # of several processes one says it
        data = {"local": task.data_root() is not None, "texts": not task.has_images, "data": task.without_effect()}
        for line in idle(config, given(), **data, constants=trains_constants(softmax, config["softmax"])):
            print(line)
    for folder in stopped_origins(cfg.ckpt, teacher):
        print(f"the training of {folder} was stopped before its end: its best checkpoint so far is taken")
    seed_everything(cfg.seed)
    make_host = partial(build, cfg.model, num_classes=task.num_classes, class_names=task.class_names)
    prepare = partial(tempered, task, cfg.temper.samples, cfg.seed) if cfg.temper.samples else None
    host, softmaxes, state = start(
        make_host,
        cfg.ckpt,
        task,
        softmax,
        tuning=config["tune"],
        run=run,
        prepare=prepare,
        replacing=replacing,
        changes=changes,
    )
    fit(Preparation(cfg, config, aims, task, run, make_host, build).trainer(host, softmaxes), run, state)


def fit(trainer: Trainer, run: RunFolder, state: TrainingState | None) -> None:
    """Trains from the start or from ``state``; a run that ends in a UserError leaves no folder without checkpoint."""
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
    kept = "best validation accuracy" if trainer.settings.keep == "accuracy" else "least validation loss, accuracy"
    trainer.say(f"{kept} {progress.best:.4f}: {run.path / f'ckpt-{progress.best_step}'}")


if __name__ == "__main__":
    main()
