"""Evaluates a checkpoint in the clear: python eval_plain.py ckpt=outputs/<run> approx=plan"""

from __future__ import annotations

import math
import time

from omegaconf import DictConfig

from cgf.config import build, changed, entry, resolved, task_maker


@entry("eval_plain")
def main(cfg: DictConfig) -> None:
    """The command; configs/eval_plain.yaml has its settings."""
    from cgf.checks import interval
    from cgf.errors import UserError
    from cgf.evaluate.by_class import by_class, worded
    from cgf.evaluate.loop import batches_of_rows, evaluate
    from cgf.evaluate.observe import ExponentMonitor
    from cgf.evaluate.open_checkpoint import open_checkpoint
    from cgf.evaluate.result_file import NAMED, is_result_of, result_path
    from cgf.progress import Bar
    from cgf.report.red import judged, tell_red
    from cgf.results import check_replaceable, run_info, write_json

    opened = open_checkpoint(cfg.ckpt, cfg.split, task_maker(cfg.data.root))
    if cfg.get("softmax"):
        opened.replace(build(cfg.softmax))
    plan = opened.put_in_place(resolved(cfg)["approx"])
    watch = ExponentMonitor(opened.domain if cfg.domain is None else interval("domain", cfg.domain))
    for softmax in opened.softmaxes:
        softmax.observers.append(watch)
    indices = opened.samples(cfg.samples, cfg.seed)
    settings = ("approx", "domain") if len(indices) == len(opened.dataset) else ("approx", "domain", "seed")
    path = result_path(
        opened,
        cfg.out,
        "plain",
        plan,
        split=cfg.split,
        samples=len(indices),
        changed=changed("eval_plain", cfg, settings, NAMED),
    )
    check_replaceable(path, lambda there: there["kind"] == "eval_plain" and is_result_of(opened, there, path))
    start = time.perf_counter()
    with Bar("in the clear", len(indices)) as bar:
        outcome = evaluate(
            opened.host.model,
            opened.host.logits,
            opened.dataset,
            opened.collate,
            batches_of_rows(opened.dataset, cfg.batch_size, indices, opened.rows() == "masked"),
            lambda chosen, *_: bar.advance(len(chosen)),
        )
    if not math.isfinite(outcome.loss):
        raise UserError(f"softmax '{opened.softmaxes[0].name}' gives no finite numbers here; {watch.told()}")
    result = {
        "kind": "eval_plain",
        **opened.names(plan),
        "split": cfg.split,
        "samples": len(indices),
        "accuracy": outcome.accuracy,
        "correct": outcome.correct,
        "loss": outcome.loss,
        "by_class": by_class(
            opened.task.class_names, zip(outcome.labels.tolist(), outcome.predictions.tolist(), strict=True)
        ),
        **watch.summary(),
        "watched": watch.domain,
        "rows": opened.rows(),
        "levels": opened.levels(plan),
        **opened.facts(plan),
        "seconds": time.perf_counter() - start,
        "run": run_info(resolved(cfg), cfg.seed, opened.task.revision(), opened.checkpoint.run["source"]),
    }
    if cfg.predictions:
        result |= {"predictions": outcome.predictions.tolist(), "labels": outcome.labels.tolist()}
    result = judged(result, "plan" if plan else "polynomial")
    write_json(path, result)
    outside = "" if not result["outside_domain"] else f", {result['outside_domain']:.2e} of entries outside the domain"
    print(
        f"accuracy {outcome.accuracy:.4f} on {len(indices)} {cfg.split} samples, softmax {result['softmax']}, "
        f"exponential {result['approx']}{outside}"
    )
    print(worded(result["by_class"]))
    print(path)
    tell_red(result)


if __name__ == "__main__":
    main()
