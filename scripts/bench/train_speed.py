"""Tokens a second and memory of a training step, exact softmax beside its replacements: scripts/bench/train_speed.py"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median

from omegaconf import DictConfig, OmegaConf

from cgf.config import CONFIGS, build, entry, resolved
from cgf.memory import keep_freed_memory
from cgf.results import run_info, write_json
from cgf.target import result_file
from cgf.types import Json


@entry("train_speed")
def main(cfg: DictConfig) -> None:
    """Times training steps in turns, measures the peak of each in a process of its own, writes the result file."""
    out = result_file(cfg.out)
    names = ["fused", *cfg.softmaxes]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    shape = {**resolved(cfg)["model"], "tokens": cfg.tokens}
    for _ in range(cfg.rounds):
        for name in names:
            seconds[name] += _steps(name, shape, cfg.batch, cfg.steps, cfg.precision)["seconds"]
    base, results = cfg.softmaxes[0], []
    for name in names:
        long = apart(name, cfg)
        results.append(
            {
                "softmax": name,
                "step_s": median(seconds[name]),
                "steps_s": seconds[name],
                "tokens_per_s": cfg.batch * cfg.tokens / median(seconds[name]),
                "peak_mib": long["peak_mib"],
                "device": long["device"],
            }
        )
    yard = next(each for each in results if each["softmax"] == base)
    for each in results:
        each["step_ratio"] = each["step_s"] / yard["step_s"]
        each["peak_ratio"] = each["peak_mib"] / max(yard["peak_mib"], 1e-3)  # tiny rows may not reach beyond the start
        print(
            f"{each['softmax']:>18}  {each['tokens_per_s']:>9,.0f} tokens/s  step {each['step_ratio']:.2f} x {base}  "
            f"peak at {cfg.memory_tokens} tokens {each['peak_mib']:,.0f} MiB, {each['peak_ratio']:.2f} x {base}"
        )
    write_json(out, {"rows": results, "run": run_info(resolved(cfg))})
    print(out)


def apart(name: str, cfg: DictConfig) -> Json:
    """One step of the long rows in a process of its own, whose peak of memory is this step's."""
    shape = {**resolved(cfg)["model"], "tokens": cfg.memory_tokens}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_steps, name, shape, cfg.memory_batch, 1, cfg.precision).result()


def _steps(name: str, shape: dict[str, int], batch: int, count: int, precision: str) -> Json:
    from cgf.bench.train_speed import steps

    keep_freed_memory(2**30)  # as train.py does
    # mypy: a file of configs is a mapping
    softmax = None if name == "fused" else build(OmegaConf.load(CONFIGS / "softmax" / f"{name}.yaml"))  # type: ignore
    return steps(softmax, shape, batch, count, precision)


if __name__ == "__main__":
    main()
