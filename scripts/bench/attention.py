"""Measures whole attentions under CKKS by shape: python scripts/bench/attention.py   (one thread: he.owner.mode=cpu)

Writes results/bench/attention.json: predicted seconds and memory of each shape, what it took in one process (the run of
median seconds, and the range), what a set
in each of several processes at once took, and what one sample's layer took when its heads were shared out over them.
"""

from __future__ import annotations

from omegaconf import DictConfig

from cgf.bench.attention import Costing, Shape, measured, middle, odd, shareable, shared_out, side_by_side
from cgf.config import build, entry, resolved
from cgf.plan.op_times import OpTimes
from cgf.results import read_json, run_info, write_json
from cgf.softmax.cgf import CGF
from cgf.target import result_file
from cgf.types import Json


@entry("attention_cost")
def main(cfg: DictConfig) -> None:
    """Measures each shape of the configuration in turn, prints a line for it, and writes the result file."""
    from cgf.approx import fit

    out, runs = result_file(cfg.out), odd(cfg.runs)
    times = None if cfg.times is None else OpTimes.from_json(read_json(cfg.times))
    softmax, measured_shapes = CGF(), []
    softmax.exponential = fit.chain(float(cfg.domain[0]), float(cfg.domain[1]), cfg.k)
    costing = Costing(softmax, build(cfg.he.owner), cfg.memory_mib, times, cfg.seed)
    shapes = [Shape(*values) for values in cfg.shapes]
    measurements: list[list[Json]] = [[] for _ in shapes]
    for number in range(runs):  # a shape's runs are minutes apart, since a machine's speed drifts
        for shape, of_shape in zip(shapes, measurements, strict=True):
            of_shape.append(measured(shape, costing))
            seconds = of_shape[-1]["client_s"] + of_shape[-1]["server_s"]
            print(f"run {number + 1} of {runs}, {shape}: {seconds:.1f} s", flush=True)
    for shape, of_shape in zip(shapes, measurements, strict=True):
        row = middle(of_shape)
        if cfg.workers > 1:
            row["side_by_side"] = side_by_side(shape, costing, cfg.workers)
        if shareable(shape, cfg.workers):
            row["shared_out"] = shared_out(shape, costing, cfg.workers)
        measured_shapes.append(row)
        print(
            f"{shape.samples} x {shape.heads} heads, {shape.tokens} tokens, {shape.features} features, {shape.rows}: "
            f"{row['layout']}, levels {row['levels']}, {row['client_s']:.1f} + {row['server_s']:.1f} s, "
            f"{row['us_per_entry']:.1f} us an entry, {row['peak_mib']:.0f} MiB, error {row['max_error']:.1e}",
            flush=True,
        )
    result = {"kind": "attention_cost", "engine": cfg.he.engine, "k": cfg.k, "shapes": measured_shapes}
    write_json(out, {**result, "run": run_info(resolved(cfg), cfg.seed)})
    print(out)


if __name__ == "__main__":
    main()
