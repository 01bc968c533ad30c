"""What replaced norms, activations and softmaxes cost in accuracy: python scripts/network_cost.py case=digits"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

from pathlib import Path

from omegaconf import DictConfig

from cgf.config import entry, resolved
from cgf.results import run_info, write_json
from cgf.study.network_cost import Case, carry_out, checked_variants, lines, table
from cgf.study.seed import checked_seeds, execute


@entry("network_cost")
def main(cfg: DictConfig) -> None:
    """Trains and evaluates what is missing, then writes the table; configs/network_cost.yaml has its settings."""
    config = resolved(cfg)
    case, variants, seeds = Case.of(config), checked_variants(config["rows"]), checked_seeds(config["seeds"])
    outputs = Path(cfg.outputs).expanduser() / case.name
    more = [] if cfg.data.root is None else [f"data.root={cfg.data.root}"]

    def told(script: str, arguments: list[str]) -> None:
        print(f"{script} {' '.join(arguments)}", flush=True)
        execute(script, [*arguments, *more])

    if not cfg.collect:
        carry_out(case, variants, seeds, outputs, told)
    made = table(case, variants, seeds, outputs)
    path = Path(cfg.out).expanduser() / f"cost-{case.name}.json"
    write_json(path, {**made, "run": run_info(config, seeds[0], {}, {})})
    for line in lines(made):
        print(line)
    print(path)


if __name__ == "__main__":
    main()
