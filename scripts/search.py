"""Settings of a softmax by one budget for all, on validation: python scripts/search.py host=digits grid=cgf

Every trial is a line of results/search/<host>-<task>-<grid>.jsonl, and what is there is not trained again.
scripts/rows.py takes the settings that were found with searches=results/search, and counts the trials.
"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from cgf.checks import whole
from cgf.config import entry, resolved
from cgf.results import run_info
from cgf.study.grid import Budget, Grid
from cgf.study.search import Search, process, rooted, teacher_of
from cgf.study.study import Study


@entry("search")
def main(cfg: DictConfig) -> None:
    """Carries out the trials that are missing and prints the best of the last round."""
    config, workers = resolved(cfg), whole("workers", cfg.workers, 1)  # refused before a teacher is trained
    study = Study.of({**config, "runs": {}})
    task, grid = config["study"]["task"], Grid.of(config["grid"], study.name)
    budget = Budget.of(config["rounds"], cfg.seed)
    outputs, execute = Path(cfg.outputs).expanduser() / cfg.folder, partial(rooted, process, cfg.data.root)
    name = f"{study.name}-{task}-{grid.name}"
    search = Search(
        study,
        cfg.schedule,
        grid,
        budget,
        partial(teacher_of, study, outputs, cfg.seed, execute),
        outputs / f"search-{grid.name}",
        Path(cfg.out).expanduser() / f"{name}.jsonl",
        {"host": study.name, "task": task, "git": run_info()["git"]},
        execute,
        workers,
    )
    best = search.carry_out()
    print(f"{name}: validation {best['validation']}, {' '.join(best['options'])}")
    print(search.path)


if __name__ == "__main__":
    main()
