"""Evaluates a checkpoint with every softmax under CKKS: python eval_he.py ckpt=outputs/<run> he=desilo he.samples=20"""

from __future__ import annotations

import sys

from omegaconf import DictConfig

from cgf.config import build, entry, resolved, task_maker


@entry("eval_he")
def main(cfg: DictConfig) -> None:
    from cgf.evaluate_he import EncryptedEvaluation
    from cgf.he.encrypted import Session
    from cgf.he.workers import owner_settings, whole_workers
    from cgf.results import run_info, write_json
    from models.evaluation import open_checkpoint
    from models.install import installed

    opened = open_checkpoint(cfg.ckpt, cfg.split, task_maker(cfg.data.root))
    plan = opened.put_in_place(resolved(cfg)["approx"])
    indices = opened.samples(cfg.he.samples, cfg.seed)
    names = opened.names(plan)
    path = opened.result_path(cfg.out, f"he-{cfg.he.engine}-{cfg.he.circuit}", plan, cfg.split, len(indices))
    workers = whole_workers(cfg.he.workers)
    session = Session(build(owner_settings(cfg.he)), cfg.he.max_level, cfg.he.circuit, workers)
    evaluation = EncryptedEvaluation(
        opened.host, opened.softmaxes, installed, session, opened.dataset, opened.collate, indices,
        *opened.lines(path, plan, resolved(cfg), indices), cfg.he.batch, opened.rows() == "masked",
        cfg.he.rows_at_once,
    )  # fmt: skip
    plain = evaluation.clear()
    outcome = evaluation.run()
    session.close()
    opened.put_in_place({"method": "exact"})
    exact = evaluation.clear()
    metrics = evaluation.metrics()
    result = {
        "kind": "eval_he", **names, "engine": cfg.he.engine, "circuit": cfg.he.circuit, "split": cfg.split,
        "samples": len(indices), "workers": workers, "accuracy": outcome.accuracy, "accuracy_plain": plain.accuracy,
        "accuracy_exact": exact.accuracy, "agreement": outcome.agreement(plain), **metrics,
        "polynomial": opened.facts(plan)["polynomial"],
        "run": run_info(resolved(cfg), cfg.seed, opened.task.revision(), opened.checkpoint.run["source"]),
    }  # fmt: skip
    write_json(path, result)
    rate = metrics["entries"] / metrics["seconds"]["total"]
    print(f"accuracy {outcome.accuracy:.4f} under CKKS ({cfg.he.engine}), {plain.accuracy:.4f} in the clear with "
          f"the same polynomial, {exact.accuracy:.4f} as trained; agreement "
          f"{result['agreement']:.4f}")
    print(f"largest error {metrics['max_error']:.2e}, levels {metrics['levels']} ({metrics['levels_counted']} "
          f"counted), {rate:.0f} entries/s; softmax under CKKS, all else in the clear")
    print(path)
    if metrics["beyond_guard"]:
        whose = "plan" if plan else "polynomial"
        sys.exit(f"error: {metrics['beyond_guard']} entries lay beyond the {whose}'s guard, so their ciphertexts may "
                 "be ruined: calibrate on more samples or train with a range penalty")


if __name__ == "__main__":
    main()
