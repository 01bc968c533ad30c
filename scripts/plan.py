"""Plans the exponential of a checkpoint from the range it shows on training data: python scripts/plan.py ckpt=PATH

Without a checkpoint, what there is for a range: python scripts/plan.py range=[-128,0] rows=256 columns=256 mask=full
"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

from pathlib import Path

from omegaconf import DictConfig

from cgf.checks import interval
from cgf.config import entry, given, resolved, task_maker
from cgf.plan.calibration import with_zero
from cgf.plan.scopes import check_scope
from cgf.results import plain_json, run_info, write_json
from cgf.seal import with_seal
from cgf.target import check_writable


@entry("plan")
def main(cfg: DictConfig) -> None:
    """Plans for a checkpoint or an interval, writes the plan and shows what it was chosen from."""
    from cgf.evaluate.plan_attention import plan_whole
    from cgf.evaluate.plan_network import plan_network

    scope = check_scope(resolved(cfg), given())
    if scope == "attention":
        print(plan_whole(resolved(cfg), task_maker(cfg.data.root)))
    elif scope == "network":
        print(plan_network(resolved(cfg), task_maker(cfg.data.root)))
    else:
        (from_range if cfg.ckpt is None else from_checkpoint)(cfg)


def from_range(cfg: DictConfig) -> None:
    """Table, pareto.json and pareto.png for a range given by hand."""
    from cgf.plan.planner import Planner
    from cgf.plan.request import Request
    from cgf.report.front import show

    planner = Planner.of(config := resolved(cfg))
    folder = Path(cfg.out or "outputs/plan").expanduser()
    check_writable(folder / "pareto.json")
    sizes = {key: cfg[key] for key in ("rows", "columns") if cfg[key] is not None}
    asked = interval("range", config["range"])
    request = Request(with_zero(asked), asked, cfg.tolerance, mask=cfg.mask, **sizes)
    data = {**planner.pareto_set(request).to_json(), "run": run_info(config)}
    show(data, folder)


def from_checkpoint(cfg: DictConfig) -> None:
    """plan.json of a checkpoint, beside it pareto.json and pareto.png."""
    from cgf.evaluate.plan_checkpoint import plan_asked
    from cgf.report.front import show, show_layers

    config = resolved(cfg)
    planned, opened = plan_asked(config, task_maker(cfg.data.root))
    if planned.pareto is not None:
        show(planned.pareto.to_json(), planned.path.parent)
    if planned.plan.layers:
        show_layers(planned.data["plans"])
    run = run_info(config, cfg.seed, opened.task.revision(), opened.checkpoint.run["source"])
    write_json(planned.path, with_seal(plain_json({**planned.data, "run": run})))
    print(f"{planned.told()}\n{planned.path}")


if __name__ == "__main__":
    main()
