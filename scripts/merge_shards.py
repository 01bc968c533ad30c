"""One result of an evaluation's shards: python scripts/merge_shards.py shards='[a.json,b.json]' out=c.json

Refuses a set that is incomplete, or of different checkpoints, polynomials, engines, samples or batchings.
"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

from pathlib import Path

from omegaconf import DictConfig, ListConfig

from cgf.config import entry, resolved
from cgf.errors import UserError
from cgf.evaluate.he_lines import SampleLog, together
from cgf.report.network import tell_network
from cgf.results import check_replaceable, run_info, write_json
from cgf.target import result_file


@entry("merge_shards")
def main(cfg: DictConfig) -> None:
    """Merges the results of shards into one, and writes it."""
    from cgf.evaluate.he_summary import merged, shard_of
    from cgf.report.encrypted import judged, tell

    if not isinstance(cfg.shards, ListConfig) or not all(isinstance(path, str) for path in cfg.shards):
        raise UserError(f"shards must be a list of result files, and {cfg.shards!r} was given")
    out = result_file(cfg.out)
    paths = [Path(p).expanduser() for p in cfg.shards]
    results = [shard_of(p) for p in paths]
    lines = [
        SampleLog(p.with_suffix(".jsonl"), str(r.get("digest"))).of(r).read()
        for p, r in zip(paths, results, strict=True)
    ]
    result = judged(merged(results, lines), "polynomial")
    parts = [r["run"] for r in results]
    result["run"] = {**run_info(resolved(cfg), parts[0]["seed"], parts[0]["data"], parts[0]["model"]), "shards": parts}
    # the result of one piece has seconds of its own, and is not merged shards'
    check_replaceable(out, lambda there: there.get("digest") == result["digest"] and "shards" in there)
    result["predictions"] = together(lines).keep(out)
    write_json(out, result)
    if len(result["made_by"]) > 1:
        print(f"the batches were made by {len(result['made_by'])} states of code and libraries (made_by in {out})")
    (tell_network if result["kind"] == "eval_network" else tell)(result, out, "polynomial")


if __name__ == "__main__":
    main()
