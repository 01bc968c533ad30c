"""Evaluates a checkpoint with every softmax under CKKS: python eval_he.py ckpt=outputs/<run> he=desilo he.samples=20"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from cgf.config import build, changed, chosen, entry, resolved, task_maker

if TYPE_CHECKING:  # a typo on the command line is told before anything is loaded
    from cgf.evaluate.he_lines import FinishedSamples, SampleLog
    from cgf.evaluate.open_checkpoint import OpenCheckpoint
    from cgf.he.engines.engine import Owner


@entry("eval_he")
def main(cfg: DictConfig) -> None:
    """The command; configs/eval_he.yaml has its settings."""
    from cgf.evaluate.by_class import by_class, worded
    from cgf.evaluate.he_batches import checked_share, parse_shard
    from cgf.evaluate.he_lines import SampleLog, made_by
    from cgf.evaluate.he_scope import checked_scope
    from cgf.evaluate.he_summary import summary
    from cgf.evaluate.network_result import NetworkRun
    from cgf.evaluate.open_checkpoint import open_checkpoint
    from cgf.evaluate.result_file import NAMED, SPLIT_BY, digest_of, result_path
    from cgf.he.engines.engine import named
    from cgf.he.workers import owner_settings, whole_workers
    from cgf.report.encrypted import judged, tell
    from cgf.report.network import tell_network
    from cgf.results import check_replaceable, run_info, write_json

    workers, shard, share = whole_workers(cfg.he.workers), parse_shard(cfg.he.shard), checked_share(cfg.he.agreement)
    scope = checked_scope(cfg.he)
    library = named(cfg.he.engine, make_owner := build(owner_settings(cfg.he)))
    opened = open_checkpoint(cfg.ckpt, cfg.split, task_maker(cfg.data.root))
    if cfg.get("softmax"):
        opened.replace(build(cfg.softmax))
    plan = opened.put_in_place(resolved(cfg)["approx"])
    indices = opened.samples(cfg.he.samples, cfg.seed)
    part = "" if cfg.he.shard is None else f"-shard{shard[0]}of{shard[1]}"
    settings = ("approx", "he") if len(indices) == len(opened.dataset) else ("approx", "he", "seed")
    path = result_path(
        opened,
        cfg.out,
        f"he-{chosen('he')}-{cfg.he.circuit}" + ("" if scope == "softmax" else f"-{scope}"),
        plan,
        split=cfg.split,
        samples=len(indices),
        part=part,
        changed=changed("eval_he", cfg, settings, NAMED),
    )
    asked = resolved(cfg)
    if not cfg.he.check:  # lines that were checked and lines that were not are no one's evaluation together
        del asked["he"]["check"]
    if scope == "softmax":
        del asked["he"]["scope"]
    if scope != "attention":
        del asked["he"]["memory_mib"]
    digest = digest_of(opened, plan, asked, indices)
    kind = "eval_network" if scope == "network" else "eval_he"
    check_replaceable(path, lambda there: there["kind"] == kind and there.get("digest") == digest)
    lines = SampleLog(path.with_suffix(".jsonl"), digest, made_by())
    if scope == "network":
        metrics = NetworkRun(cfg.he, make_owner, library, indices, lines).result(opened)
    else:
        metrics = summary(finished := evaluated(cfg, opened, lines, indices, make_owner), library.encrypts, scope)
        metrics["by_class"] = by_class(opened.task.class_names, finished.predictions())
    result = {
        "kind": kind,
        **opened.names(plan),
        "engine": library.name,
        "circuit_asked": cfg.he.circuit,
        "noise_stated": library.noise,
        "agreement_asked": share,
        "split": cfg.split,
        "workers": workers,
        **metrics,
        "polynomial": opened.facts(plan)["polynomial"],
        "digest": digest,
        "lines_sha256": lines.sha256(),
        "split_by": {key: cfg.he[key] for key in SPLIT_BY},
        "run": run_info(resolved(cfg), cfg.seed, opened.task.revision(), opened.checkpoint.run["source"]),
    }
    if cfg.he.check:
        result["checked"] = "every operation, against the simulator"
    if cfg.he.shard is not None:
        result |= {"shard": str(cfg.he.shard), "samples_of_all_shards": len(indices)}
    print(worded(result["by_class"]))
    whose = "plan" if plan else "polynomial"
    write_json(path, result := judged(result, whose))
    (tell_network if scope == "network" else tell)(result, path, whose)


def evaluated(
    cfg: DictConfig, opened: OpenCheckpoint, lines: SampleLog, indices: list[int], make_owner: Callable[[int], Owner]
) -> FinishedSamples:
    """What the lines hold once this evaluation, or this shard of it, has ended."""
    from cgf.evaluate.he_batches import parse_shard
    from cgf.evaluate.he_run import EncryptedEvaluation
    from cgf.he.session import Session
    from cgf.models.install import installed
    from cgf.plan.op_times import table_of

    session = Session(make_owner, cfg.he.max_level, cfg.he.circuit, cfg.he.workers, cfg.he.check, cfg.he.memory_mib)
    evaluation = EncryptedEvaluation(
        host=opened.host,
        softmaxes=opened.softmaxes,
        installed=installed,
        session=session,
        dataset=opened.dataset,
        collate=opened.collate,
        indices=indices,
        lines=lines,
        as_trained=opened.as_trained,
        batch=cfg.he.batch,
        masked=opened.rows() == "masked",
        rows_at_once=cfg.he.rows_at_once,
        shard=parse_shard(cfg.he.shard),
        scope=cfg.he.scope,
        times=table_of(None, cfg.he.engine),
    )
    try:
        with lines.alone():
            return evaluation.run()
    finally:
        session.close()


if __name__ == "__main__":
    main()
