"""Result rows of training: python scripts/rows.py host=digits softmaxes=[exact,cgf,bpmax] seeds=[42,43,44]

Trains what is missing, evaluates it, then writes results/train/<host>-<task>-<run>-<seed>.json; stopped at any
moment it goes on where it was, and collect=true only writes the rows of what is done. Each opening of a test figure is
a line of results/opened.jsonl; a second one of the same row is refused unless again="REASON" says why.
"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig

from cgf.config import built, chosen, compose, entry, given_below, resolved
from cgf.openings import Register
from cgf.study.search import other_schedules, with_searches_of_study
from cgf.study.seed import Seed, checked_seeds
from cgf.study.study import Study, with_every_softmax
from cgf.target import check_writable
from cgf.types import Json


@entry("rows")
def main(cfg: DictConfig) -> None:
    """Carries out the runs that are missing and writes their rows."""
    from cgf.study.compared import kept
    from cgf.study.opened import opening, register_of
    from cgf.study.training_rows import check_decided, known, path_of, recorded

    config, study, names = asked(cfg)
    seeds, task = checked_seeds(config["seeds"]), config["study"]["task"]
    out, folder = Path(cfg.out).expanduser(), Path(cfg.outputs).expanduser() / cfg.folder
    check_decided(study, names)
    register = register_of(out, cfg.opened, cfg.again)
    made = known(recorded(study, task, out, config["decides"]))

    def in_fold(part: Study, seed: int) -> Seed:
        place = folder if part.fold is None else folder / f"fold-{part.fold}"
        own, decides = place / f"seed-{seed}", place / f"seed-{config['decides']}"
        return Seed(
            part,
            seed,
            own,
            None if own == decides else decides,
            root=cfg.data.root,
            known=made,
            kept=kept(part, seed, missing[seed], task, out, made, lambda given: resolved(compose("train", given))),
            more=("predictions=true",),
            evaluations="eval-rows",
            opening=opening(register, part, task, seed),
        )

    for path in (path_of(out, study, task, name, seed) for seed in seeds for name in names):
        if path.exists():
            print(f"{path}: there already, and left as it is")
    missing = {s: [name for name in names if not path_of(out, study, task, name, s).exists()] for s in seeds}
    parts = {seed: [in_fold(part, seed) for part in study.in_folds()] for seed in seeds if missing[seed]}
    for path in (path_of(out, study, task, name, seed) for seed in parts for name in missing[seed]):
        check_writable(path)
    if not cfg.collect:
        train(study, task, parts, missing, config["decides"], register)
    write(task, parts, names, register, out)


def asked(cfg: DictConfig) -> tuple[Json, Study, list[str]]:
    """The configuration with what searches found, the study, and the runs whose rows are wanted; tells what is not."""
    from cgf.study.training_rows import unsearched, wanted

    config = with_every_softmax(resolved(cfg), built("softmax"))
    if cfg.searches is not None:
        config = with_searches_of_study(config, Path(cfg.searches).expanduser())
    given = [argument for argument in given_below("runs", "study") if not argument.startswith("study.task=")]
    study = replace(Study.of(config), given=(f"host={chosen('host')}", *given))
    names = wanted(study, config["softmaxes"])
    if cfg.searches is not None and (own := unsearched(study, names)):
        print(f"{cfg.searches} has no finished search of {', '.join(own)}, which keep the settings of their study")
    for line in [] if cfg.searches is None else other_schedules(study, config, names):
        print(line)
    return config, study, names


def train(
    study: Study,
    task: str,
    parts: Mapping[int, list[Seed]],
    missing: Mapping[int, list[str]],
    decides: int,
    register: Register,
) -> None:
    """Trains and evaluates what is missing, seed by seed. UserError, before anything is trained, where a test figure
    was opened before or the register cannot be written."""
    from cgf.study.opened import check_closed
    from cgf.study.training_rows import carry_out, needed

    for seed, of_seed in parts.items():
        for part in of_seed:
            check_closed(register, part, task, needed(study, missing[seed], seed == decides, part.kept))
    if parts:
        check_writable(register.path)
    for seed, of_seed in parts.items():
        for part in of_seed:
            carry_out(part, missing[seed], task, seed == decides, register)


def write(task: str, parts: Mapping[int, list[Seed]], names: list[str], register: Register, out: Path) -> None:
    """Writes the rows of what is done."""
    from cgf.study.training_rows import write_results

    for path in (path for of_seed in parts.values() for path in write_results(of_seed, names, task, out, register)):
        print(path)


if __name__ == "__main__":
    main()
