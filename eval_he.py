"""Evaluates a checkpoint with every softmax under CKKS: python eval_he.py ckpt=outputs/<run> he=desilo he.samples=20"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from cgf.config import build, changed, chosen, entry, resolved, task_maker
from cgf.evaluate.by_class import worded
from cgf.evaluate.he_lines import SampleLog, made_by
from cgf.he.engines.library import named
from cgf.he.workers import owner_settings, whole_workers
from cgf.report.network import tell_network
from cgf.results import check_replaceable, run_info, write_json
from cgf.types import Json

if TYPE_CHECKING:  # a typo on the command line is told before anything is loaded
    from cgf.evaluate.open_checkpoint import OpenCheckpoint
    from cgf.plan.plan import Plan


@entry("eval_he")
def main(cfg: DictConfig) -> None:
    """The command; configs/eval_he.yaml has its settings."""
    from cgf.evaluate.he_batches import checked_share, parse_shard
    from cgf.evaluate.he_result import LayerRun, about, parts, settings_of_lines, split_by
    from cgf.evaluate.he_scope import checked_scope
    from cgf.evaluate.network_result import NetworkRun
    from cgf.evaluate.open_checkpoint import open_checkpoint
    from cgf.evaluate.result_file import digest_of
    from cgf.evaluate.token_counts import chosen as chosen_samples
    from cgf.models.network import check_known

    workers, shard, share = whole_workers(cfg.he.workers), parse_shard(cfg.he.shard), checked_share(cfg.he.agreement)
    scope = checked_scope(cfg.he)
    library = named(cfg.he.engine, make_owner := build(owner_settings(cfg.he)))
    if cfg.he.check and chosen("he") == "sim":
        print("he.check compares the simulator with itself here: he=desilo compares an engine with it")
    opened = open_checkpoint(cfg.ckpt, cfg.split, task_maker(cfg.data.root))
    if cfg.get("softmax"):
        opened.replace(build(cfg.softmax))
    if scope == "network":
        check_known(opened.softmaxes[0])  # before a softmax without an exponential is told to leave its plan
    plan = opened.put_in_place(resolved(cfg)["approx"])
    indices, choice = chosen_samples(opened, cfg.he, cfg.seed)
    part = "" if cfg.he.shard is None else f"-shard{shard[0]}of{shard[1]}"
    path = path_of(cfg, opened, plan, len(indices), part)
    first = about(cfg.he, library, opened, plan)
    digest = digest_of(opened, plan, settings_of_lines(resolved(cfg)), indices)
    check_replaceable(path, lambda there: there["kind"] == first["kind"] and there.get("digest") == digest)
    ran = {"workers": workers, **({"processes": cfg.he.processes} if scope == "network" else {})}
    lines = SampleLog(path.with_suffix(".jsonl"), digest, made_by(opened.softmaxes[0]), ran, split_by(cfg.he))
    run = (NetworkRun if scope == "network" else LayerRun)(cfg.he, make_owner, library, indices, lines)
    metrics = run.metrics(opened, path)
    result = {
        **first,
        "agreement_asked": share,
        "split": cfg.split,
        **choice,
        **metrics,
        **lines.read().ran(**ran),
        "polynomial": opened.facts(plan)["polynomial"],
        "digest": digest,
        "lines_sha256": lines.sha256(),
        "split_by": lines.read().split_by(split_by(cfg.he)),
        "run": run_info(resolved(cfg), cfg.seed, opened.task.revision(), opened.checkpoint.run["source"]),
        **parts(run),
    }
    tell_and_write(result, path, "plan" if plan else "polynomial", scope)


def path_of(cfg: DictConfig, opened: OpenCheckpoint, plan: Plan | None, samples: int, part: str) -> Path:
    """The file of the result of an evaluation of so many samples. part: of a shard, at the end of its name."""
    from cgf.evaluate.result_file import NAMED, result_path

    scope = cfg.he.scope
    settings = ("approx", "he") if samples == len(opened.dataset) else ("approx", "he", "seed")
    return result_path(
        opened,
        cfg.out,
        f"he-{chosen('he')}-{cfg.he.circuit}" + ("" if scope == "softmax" else f"-{scope}"),
        plan,
        split=cfg.split,
        samples=samples,
        part=part,
        changed=changed("eval_he", cfg, settings, NAMED),
        by_hand=cfg.approx.method != "plan",
    )


def tell_and_write(result: Json, path: Path, whose: str, scope: str) -> None:
    """Prints a result and writes it to its file; ends the command where it is red. whose: plan or polynomial."""
    from cgf.report.encrypted import judged, tell

    print(worded(result["by_class"]))
    write_json(path, result := judged(result, whose))
    (tell_network if scope == "network" else tell)(result, path, whose)


if __name__ == "__main__":
    main()
