"""What known models would take as whole networks under CKKS: python scripts/bench/what_it_takes.py

Writes results/bench/what_it_takes.json from sizes alone: no weights are read, and nothing is encrypted.
"""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from cgf.config import entry, resolved
from cgf.errors import UserError
from cgf.plan.op_times import OpTimes
from cgf.results import read_json, run_info, write_json
from cgf.target import result_file


@entry("what_it_takes")
def main(cfg: DictConfig) -> None:
    """Predicts each model from its sizes, prints a line for it, and writes the result file.

    UserError for operation times of more than one thread.
    """
    from cgf.plan.what_it_takes import MODELS, row

    out, path = result_file(cfg.out), Path(cfg.times).expanduser()
    data = read_json(path)
    times = OpTimes.from_json(data)
    if data.get("threads") != 1:
        raise UserError(
            f"times={path} must be of one thread, and is of {data.get('threads')}: core-seconds are counted"
        )
    models = []
    for sizes in MODELS:
        models.append(row(sizes, times))
        print(
            f"{sizes.name}: {models[-1]['levels']} levels, {models[-1]['samples']:,} samples a set, "
            f"{models[-1]['core_s']:,.0f} core-s, {models[-1]['bootstraps']:,} bootstraps",
            flush=True,
        )
    told = {"times": path.name, "clock": data.get("clock", "wall"), "engines": sorted(times.sizes)}
    write_json(out, {"kind": "what_it_takes", **told, "models": models, "run": run_info(resolved(cfg))})
    print(out)


if __name__ == "__main__":
    main()
