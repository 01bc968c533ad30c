"""Result rows of training: python scripts/rows.py host=digits softmaxes=[exact,cgf,bpmax] seeds=[42,43,44]

Trains what is missing, evaluates it, then writes results/train/<host>-<task>-<run>-<seed>.json; stopped at any
moment it goes on where it was, and collect=true only writes the rows of what is done. Each opening of a test figure is
a line of results/opened.jsonl; a second one of the same row is refused unless again="REASON" says why.
"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

from pathlib import Path

from omegaconf import DictConfig

from cgf.config import built, entry, resolved
from cgf.study.seed import Seed, checked_seeds
from cgf.study.study import Study, with_every_softmax


@entry("rows")
def main(cfg: DictConfig) -> None:
    """Carries out the runs that are missing and writes their rows."""
    from cgf.study.opened import check_closed, opening, register_of
    from cgf.study.search import with_searches
    from cgf.study.training_rows import known, needed, path_of, recorded, wanted, write_rows

    config = with_every_softmax(resolved(cfg), built("softmax"))
    if cfg.searches is not None:
        node = config["study"]
        config = with_searches(config, Path(cfg.searches).expanduser(), node["name"], node["task"])
    study, seeds = Study.of(config), checked_seeds(config["seeds"])
    names, task = wanted(study, config["softmaxes"]), config["study"]["task"]
    out, folder = Path(cfg.out).expanduser(), Path(cfg.outputs).expanduser() / cfg.folder
    decides = folder / f"seed-{config['decides']}"
    register = register_of(out, cfg.opened, cfg.again)
    made = known(recorded(study, task, out, config["decides"]))

    def of(seed: int) -> Seed:
        own = folder / f"seed-{seed}"
        return Seed(
            study,
            seed,
            own,
            None if own == decides else decides,
            root=cfg.data.root,
            known=made,
            more=("predictions=true",),
            evaluations="eval-rows",
            opening=opening(register, study, task, seed),
        )

    runs = {}
    for seed in [] if cfg.collect else seeds:
        missing = [name for name in names if not path_of(out, study, task, name, seed).exists()]
        runs[seed] = needed(study, missing, seed == config["decides"])
        check_closed(register, of(seed), task, runs[seed])
    for seed, wanted_runs in runs.items():
        if wanted_runs:
            of(seed).carry_out(wanted_runs)
    for seed in seeds:
        for path in write_rows(of(seed), names, task, out, register):
            print(path)


if __name__ == "__main__":
    main()
