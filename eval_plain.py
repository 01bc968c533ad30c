"""Evaluates a checkpoint in the clear: python eval_plain.py ckpt=outputs/<run> approx=plan"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

import time
from pathlib import Path

from omegaconf import DictConfig

from cgf.config import build, changed, entry, resolved, task_maker
from cgf.evaluate.by_class import worded
from cgf.report.red import judged, polynomial_told, tell_red
from cgf.results import run_info, write_json
from cgf.types import Json


@entry("eval_plain")
def main(cfg: DictConfig) -> None:
    """The command; configs/eval_plain.yaml has its settings."""
    from cgf.evaluate.open_checkpoint import open_checkpoint
    from cgf.evaluate.plain_result import check_own, classes, figures, measure, monitor
    from cgf.evaluate.result_file import NAMED, result_path

    opened = open_checkpoint(cfg.ckpt, cfg.split, task_maker(cfg.data.root))
    if cfg.get("softmax"):
        opened.replace(build(cfg.softmax))
    plan = opened.put_in_place(resolved(cfg)["approx"])
    watch = monitor(opened, cfg.domain)
    indices = opened.samples(cfg.samples, cfg.seed)
    settings = ("approx", "domain") if len(indices) == len(opened.dataset) else ("approx", "domain", "seed")
    other = changed("eval_plain", cfg, settings, NAMED)
    own = {"split": cfg.split, "samples": len(indices), "changed": other, "by_hand": cfg.approx.method != "plan"}
    path = result_path(opened, cfg.out, "plain", plan, **own)
    check_own(opened, path, resolved(cfg), len(indices), plan)
    start = time.perf_counter()
    outcome = measure(opened, watch, indices, cfg.batch_size, cfg.not_finite)
    result = {
        "kind": "eval_plain",
        **opened.names(plan),
        "split": cfg.split,
        **figures(opened, plan, watch, outcome),
        "seconds": time.perf_counter() - start,
        "run": run_info(resolved(cfg), cfg.seed, opened.task.revision(), opened.checkpoint.run["source"]),
    }
    if cfg.predictions:
        result |= {"predictions": classes(outcome), "labels": outcome.labels.tolist()}
    write_json(path, result := judged(result, "plan" if plan else "polynomial"))
    tell(result, path)
    tell_red(result)


def tell(result: Json, path: Path) -> None:
    """Prints what a result says, and its file."""
    outside = "" if not result["outside_domain"] else f", {result['outside_domain']:.2e} of entries outside the domain"
    print(
        f"accuracy {result['accuracy']:.4f} on {result['samples']} {result['split']} samples, "
        f"softmax {result['softmax']}, exponential {result['approx']}{polynomial_told(result)}{outside}"
    )
    if result["not_finite"]:
        print(f"{result['not_finite']} of the samples have logits that are no finite numbers; they count as wrong")
    if result["replaced"]:
        print(f"softmax {result['softmax']} stands, untrained, where the checkpoint has {result['trained_with']}")
    print(worded(result["by_class"]))
    print(path)


if __name__ == "__main__":
    main()
