"""Is a model CGF-friendly, before any training: python scripts/friendly.py model=minilm task=clinc150"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from cgf.config import build, entry, resolved, task_maker


@entry("friendly")
def main(cfg: DictConfig) -> None:
    from cgf.distill.start import seed_everything
    from cgf.errors import UserError
    from cgf.evaluate.observed_host import of_checkpoint, own_weights
    from cgf.plan.friendly import Budget, judge, kappas
    from cgf.report.friendly import show
    from cgf.results import run_info, write_json

    start = time.perf_counter()
    if cfg.split == "test":
        raise UserError("the report is there to choose by, and choices never see test data: split=train or split=val")
    config, make_task = resolved(cfg), task_maker(cfg.data.root)
    softmax = build(cfg.softmax) if cfg.get("softmax") else None
    judged = {key: config[key] for key in ("tolerance", "levels", "outside", "margin", "domain")}
    Budget("full", **judged)  # before the model is loaded
    seed_everything(cfg.seed)
    if cfg.ckpt is None:
        task = build(cfg.task)
        make_host = partial(build, cfg.model, num_classes=task.num_classes, class_names=task.class_names)
        looked = own_weights(make_host, task, cfg.split, softmax, cfg.forward)
    else:
        looked = of_checkpoint(cfg.ckpt, cfg.split, make_task, softmax, cfg.forward)
    other = None if cfg.compare is None else of_checkpoint(cfg.compare, cfg.split, make_task, softmax, cfg.forward)
    if other is not None and other.task.name != looked.task.name:
        raise UserError(
            f"two models are compared on the same samples, and {looked.name} is of {looked.task.name}, "
            f"{other.name} of {other.task.name}"
        )
    if cfg.ckpt is not None:  # a checkpoint has its own
        config = {key: value for key, value in config.items() if key not in ("model", "task")}
    options = (cfg.samples, cfg.seed, cfg.batch_size, cfg.padding)
    samples, heads = looked.run(*options), looked.calibrator.heads
    report, seen = (
        judge(heads, Budget(looked.host.rows, **judged, softmax=looked.softmax), cfg.heads),
        {looked.name: heads.values()},
    )
    if other is not None:
        other.run(*options)
        seen[other.name] = other.calibrator.heads.values()
    result = {
        "kind": "friendly",
        "name": looked.name,
        "model": looked.host.name,
        "task": looked.task.name,
        "softmax": looked.softmax.name,
        "forward": looked.forward,
        "split": cfg.split,
        "samples": samples,
        "padding": cfg.padding,
        "rows": looked.host.rows,
        **judged,
        **report,
        "kappa": kappas(seen),
        "seconds": time.perf_counter() - start,
        "run": run_info(config, cfg.seed, looked.task.revision(), looked.source),
    }
    own = looked.folder or Path("outputs", "friendly", f"{looked.host.name}-{looked.task.name}")
    folder = Path(cfg.out).expanduser() if cfg.out else own / "friendly" if looked.folder else own
    write_json(folder / "friendly.json", result)
    show(result, folder, cfg.heads)


if __name__ == "__main__":
    main()
