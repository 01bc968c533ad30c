"""Is a model CGF-friendly, before any training: python scripts/friendly.py model=minilm task=clinc150"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from cgf.checks import path_part
from cgf.config import build, entry, given, resolved, task_maker
from cgf.errors import UserError
from cgf.results import run_info, write_json
from cgf.target import check_writable
from cgf.types import Json

if TYPE_CHECKING:
    from cgf.evaluate.observed_host import ObservedHost


@entry("friendly")
def main(cfg: DictConfig) -> None:
    """Observes a host, and another beside it where one is named; writes friendly.json and its figures."""
    from cgf.distill.start import seed_everything
    from cgf.plan.friendly import Budget, judge, kappas
    from cgf.report.friendly import show

    start = time.perf_counter()
    of_host = [key for key in given() if key.partition(".")[0] in ("model", "task")]
    if cfg.ckpt is not None and of_host:
        raise UserError(f"a checkpoint has a model and a task of its own, and {of_host[0]} was given beside ckpt")
    if cfg.split == "test":
        raise UserError("the report is there to choose by, and choices never see test data: split=train or split=val")
    config = resolved(cfg)
    judged = {key: config[key] for key in ("tolerance", "levels", "outside", "margin", "domain")}
    Budget("full", **judged)  # before the model is loaded
    seed_everything(cfg.seed)
    observed, other = hosts(cfg)
    folder = folder_of(cfg, observed)
    check_writable(folder / "friendly.json")
    if cfg.ckpt is not None:  # a checkpoint has its own
        config = {key: value for key, value in config.items() if key not in ("model", "task")}
    options = (cfg.samples, cfg.seed, cfg.batch_size, cfg.padding)
    samples, heads = observed.run(*options), observed.calibrator.heads
    report = judge(heads, Budget(observed.host.row_kind, **judged, softmax=observed.softmax), cfg.heads)
    seen = {observed.name: heads.values()}
    if other is not None:
        other.run(*options)
        seen[other.name] = other.calibrator.heads.values()
    result = {
        **described(observed, cfg.split),
        "samples": samples,
        "padding": cfg.padding,
        "rows": observed.host.row_kind,
        **judged,
        **report,
        "kappa": kappas(seen),
        "seconds": time.perf_counter() - start,
        "run": run_info(config, cfg.seed, observed.task.revision(), observed.source),
    }
    write_json(folder / "friendly.json", result)
    show(result, folder, cfg.heads)


def hosts(cfg: DictConfig) -> tuple[ObservedHost, ObservedHost | None]:
    """The host that is asked about, and the one it is compared with; UserError where they see different samples."""
    from cgf.evaluate.observed_host import of_checkpoint, own_weights

    softmax = build(cfg.softmax) if cfg.get("softmax") else None
    make_task = task_maker(cfg.data.root)
    if cfg.ckpt is None:
        task = build(cfg.task)
        make_host = partial(build, cfg.model, num_classes=task.num_classes, class_names=task.class_names)
        observed = own_weights(make_host, task, cfg.split, softmax, cfg.forward)
    else:
        observed = of_checkpoint(cfg.ckpt, cfg.split, make_task, softmax, cfg.forward)
    other = None if cfg.compare is None else of_checkpoint(cfg.compare, cfg.split, make_task, softmax, cfg.forward)
    if other is not None and other.task.name != observed.task.name:
        raise UserError(
            f"two models are compared on the same samples, and {observed.name} is of {observed.task.name}, "
            f"{other.name} of {other.task.name}"
        )
    return observed, other


def folder_of(cfg: DictConfig, observed: ObservedHost) -> Path:
    """Where the report goes: ``out``, beside a checkpoint, or a folder named after host and task."""
    if cfg.out:
        return Path(cfg.out).expanduser()
    if observed.folder:
        return observed.folder / "friendly"
    host, task = path_part("model.name", observed.host.name), observed.task.name
    if ".." not in task.split("/"):  # OWNER/NAME of the hub, or a folder
        task = task.strip("/").replace("/", "-")
    task = path_part("task.name", task)
    return Path("outputs", "friendly", f"{host}-{task}")


def described(observed: ObservedHost, split: str) -> Json:
    """What was observed: names of host, task and softmax, and what made the weights that were used."""
    return {
        "kind": "friendly",
        "name": observed.name,
        "model": observed.host.name,
        "task": observed.task.name,
        "softmax": observed.softmax.name,
        "forward": observed.forward,
        "split": split,
    }


if __name__ == "__main__":
    main()
