"""Plans the exponential of a checkpoint from the range it shows on training data: python scripts/plan.py ckpt=PATH"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from omegaconf import DictConfig

from cgf.config import entry, resolved, task_maker


@entry("plan")
def main(cfg: DictConfig) -> None:
    from cgf.approx.calibrate import merged, union
    from cgf.approx.plan import choose
    from cgf.approx.select import FILE
    from cgf.errors import UserError
    from cgf.observe import Calibrator
    from cgf.results import run_info, write_json
    from models.calibration import run
    from models.evaluation import open_checkpoint

    if cfg.split == "test":
        raise UserError("a plan is a choice, and choices never see test data: split=train or split=val")
    if not 0 <= cfg.outside < 1:
        raise UserError(f"outside is a share of the entries, from 0 to below 1, and {cfg.outside} was given")
    opened = open_checkpoint(cfg.ckpt, cfg.split, task_maker(cfg.data.root))
    if not opened.softmaxes[0].uses_exponential:
        raise UserError(f"softmax '{opened.checkpoint.softmax.name}' has no exponential to plan: eval_he.py runs it "
                        "with approx=exact")
    calibrator = Calibrator()
    for softmax in opened.softmaxes:
        softmax.observers.append(calibrator)
    indices = opened.samples(cfg.samples, cfg.seed)
    run(opened.host, opened.dataset, opened.collate, indices, cfg.batch_size, cfg.padding)
    layers = list(calibrator.layers.values())
    calibrated, domain = union(layers, cfg.outside)
    approx = resolved(cfg)["approx"]
    guarded = tuple(end * cfg.margin for end in calibrated)
    if approx.get("range") is not None:
        domain = tuple(approx["range"])
    rows = opened.rows()
    options = {k: approx[k] for k in ("degree", "k") if approx.get(k) is not None}
    plan = choose(guarded, domain, cfg.tolerance, rows, method=approx["method"], folded=True, **options)
    fit = plan.exponential.fit
    assert fit is not None
    share = merged(layers).y.outside(fit.domain)
    plan = replace(plan, share_outside=share)
    if not fit.guard[0] <= calibrated[0] <= calibrated[1] <= fit.guard[1]:  # possible by hand alone
        raise UserError(f"the guard of a plan must hold every calibrated entry, [{calibrated[0]:.2f}, "
                        f"{calibrated[1]:.2f}], and that of {plan.exponential.method} with this k is "
                        f"[{fit.guard[0]:.2f}, {fit.guard[1]:.2f}]: another approx.k, or approx=auto")
    path = opened.checkpoint.path / FILE
    write_json(path, {
        **plan.to_json(), "method": plan.exponential.method, "domain": fit.domain, "guard": fit.guard,
        "max_error": fit.max_error, "calibrated": calibrated, "split": cfg.split, "samples": len(indices),
        "padding": cfg.padding,
        "layers": [{**c.to_json(), "outside_domain": c.y.outside(fit.domain),
                    "heads": [{**h.to_json(), "outside_domain": h.y.outside(fit.domain)} for h in heads]}
                   for c, heads in zip(layers, map(calibrator.of_layer, calibrator.layers), strict=True)],
        "run": run_info(resolved(cfg), cfg.seed, opened.task.revision(), opened.checkpoint.run["source"]),
    })  # fmt: skip
    print(f"exponent in [{calibrated[0]:.2f}, {calibrated[1]:.2f}] on {len(indices)} {cfg.split} samples, {rows} rows, "
          f"{share:.1e} of the entries outside the domain [{fit.domain[0]:.2f}, {fit.domain[1]:.2f}]: "
          f"{plan.exponential.method}, {plan.levels} levels, {plan.ct_mults} multiplications, error "
          f"{fit.max_error:.1e}, guard [{fit.guard[0]:.1f}, {fit.guard[1]:.1f}]")
    print(path)


if __name__ == "__main__":
    main()
