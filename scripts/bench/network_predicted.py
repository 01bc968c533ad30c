"""Predicted whole networks: python scripts/bench/network_predicted.py ckpts=[RUN] results=[FILE] times=FILE

Writes results/bench/network_predicted.json: levels, core-seconds in all and by stage, seconds of a set, and memory.
"""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from cgf.config import entry, resolved, task_maker
from cgf.errors import UserError
from cgf.results import read_json, run_info, write_json
from cgf.target import result_file


@entry("network_predicted")
def main(cfg: DictConfig) -> None:
    """Predicts each network, prints a line for it, and writes the result file.

    UserError unless there is one checkpoint for each result, whose weights it is of.
    """
    from cgf.evaluate.network_predicted import against_run
    from cgf.evaluate.plan_attention import one_thread

    out, times = result_file(cfg.out), one_thread(cfg.times)
    if not cfg.results or len(cfg.ckpts) != len(cfg.results):
        raise UserError(f"each result needs its ckpt: {len(cfg.results)} results and {len(cfg.ckpts)} ckpts were given")
    networks = []
    for ckpt, name in zip(cfg.ckpts, cfg.results, strict=True):
        path = Path(name).expanduser()
        row = against_run(ckpt, read_json(path), times, task_maker(cfg.data.root))
        networks.append({"network": path.stem, **row})
        pairs = (("core-s", "core_s"), ("s a set", "set_s"), ("MiB", "mib"))
        told = [f"{what} {row[key]['predicted']:.0f}, was {row[key]['measured']:.0f}" for what, key in pairs]
        print(f"{path.stem}: {'; '.join(told)}", flush=True)
    table = {"times": Path(cfg.times).name, "times_hardware": read_json(Path(cfg.times))["run"]["hardware"]}
    write_json(out, {"kind": "network_predicted", **table, "networks": networks, "run": run_info(resolved(cfg))})
    print(out)


if __name__ == "__main__":
    main()
