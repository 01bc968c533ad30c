"""What control of the range costs, over hosts and seeds: python scripts/range.py study=minilm seeds=[42,43,44]

Trains, evaluates and gathers; stopped at any moment it goes on where it was, and collect=true only gathers. Seeds may
be run on several machines: rows and choices of the result file stay as long as the study trains that run so.
"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

from pathlib import Path

from omegaconf import DictConfig

from cgf.config import entry, resolved
from cgf.errors import UserError
from cgf.report.range_table import of_means
from cgf.results import read_json, run_info, write_json
from cgf.study.seed import Seed, checked_seeds
from cgf.study.study import Study
from cgf.target import result_file
from cgf.types import Json


@entry("range")
def main(cfg: DictConfig) -> None:
    """Carries out the runs that are missing, and gathers what there is."""
    from cgf.study.range_rows import choices

    config = resolved(cfg)
    study, seeds, only = Study.of(config), checked_seeds(config["seeds"]), config["only"]
    names = [run.name for run in study.runs]
    if only is not None and not (isinstance(only, list) and all(name in names for name in only)):
        raise UserError(f"only must be a list of runs ({', '.join(names)}), and {only} was given")
    folder = Path(cfg.outputs).expanduser() / study.name
    decides = folder / f"seed-{config['decides']}"
    made = choices(study, before(config)[1].get(study.name), config["decides"])
    for seed in [] if cfg.collect else seeds:
        own = folder / f"seed-{seed}"
        Seed(study, seed, own, None if own == decides else decides, root=cfg.data.root, known=made).carry_out(only)
        gather(config, study, folder)
    if cfg.collect:
        gather(config, study, folder)


def gather(config: Json, study: Study, folder: Path) -> None:
    """Puts what this study has into the result file, beside the other studies there, and prints its table."""
    from cgf.study.range_rows import gathered

    out, kept = before(config)
    gathered_now = gathered(study, config["seeds"], folder, config["decides"], kept.get(study.name))
    if gathered_now["rows"]:
        kept[study.name] = {**gathered_now, "run": run_info(config)}
        write_json(out, {"studies": dict(sorted(kept.items()))})
        print(of_means(gathered_now["means"]))
        print(out)
    else:
        print(f"{folder} holds no evaluation yet")


def before(config: Json) -> tuple[Path, Json]:
    """The result file and the studies that it has. UserError for a file that is none of this script's."""
    out = result_file(config["out"])
    found = read_json(out) if out.is_file() else {"studies": {}}
    studies = found.get("studies") if isinstance(found, dict) else None
    if not isinstance(studies, dict) or not all(isinstance(study, dict) for study in studies.values()):
        raise UserError(f"{out} needs to hold studies of scripts/range.py, by name, and holds none: give another out=")
    return out, studies


if __name__ == "__main__":
    main()
