"""Measures whole attentions under CKKS by shape: python scripts/bench/attention.py   (one thread: he.owner.mode=cpu)

Writes results/bench/attention.json: predicted seconds and memory of each shape, then what it took.
"""

from __future__ import annotations

from omegaconf import DictConfig

from cgf.config import build, entry, resolved


@entry("attention_cost")
def main(cfg: DictConfig) -> None:
    from cgf.approx import fit
    from cgf.bench.attention import Shape, measured
    from cgf.plan.op_times import OpTimes
    from cgf.results import read_json, run_info, write_json
    from cgf.softmax.cgf import CGF
    from cgf.target import result_file

    out = result_file(cfg.out)
    times = None if cfg.times is None else OpTimes.from_json(read_json(cfg.times))
    softmax, make_owner, measured_shapes = CGF(), build(cfg.he.owner), []
    softmax.exponential = fit.chain(float(cfg.domain[0]), float(cfg.domain[1]), cfg.k)
    for values in cfg.shapes:
        shape = Shape(*values)
        row = measured(shape, softmax, make_owner, cfg.memory_mib, times, cfg.seed)
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
