"""Plans the exponential of a checkpoint from the range it shows on training data: python scripts/plan.py ckpt=PATH"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from omegaconf import DictConfig

from cgf.config import entry, resolved, task_maker


@entry("plan")
def main(cfg: DictConfig) -> None:
    from cgf.approx.calibrate import union
    from cgf.approx.plan import choose
    from cgf.approx.select import FILE
    from cgf.errors import UserError
    from cgf.evaluate import batches_of_one_length, evaluate
    from cgf.observe import Calibrator
    from cgf.results import run_info, write_json
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
    opened.host.model.eval()
    evaluate(opened.host.model, opened.host.logits, opened.dataset, opened.collate,
             batches_of_one_length(opened.dataset, cfg.batch_size, indices))
    layers = [calibrator.layers[layer] for layer in sorted(calibrator.layers)]
    calibrated, domain = union(layers, cfg.outside)
    approx = resolved(cfg)["approx"]
    guarded = tuple(end * cfg.margin for end in calibrated)
    if approx.get("range") is not None:
        domain = tuple(approx["range"])
    rows = "masked" if any(c.masked for c in layers) else "full"
    options = {k: approx[k] for k in ("degree", "k") if approx.get(k) is not None}
    plan = choose(guarded, domain, cfg.tolerance, rows, method=approx["method"], folded=True, **options)
    fit = plan.exponential.fit
    assert fit is not None
    path = opened.checkpoint.path / FILE
    write_json(path, {
        **plan.to_json(), "method": plan.exponential.method, "domain": fit.domain, "guard": fit.guard,
        "max_error": fit.max_error, "calibrated": calibrated, "split": cfg.split, "samples": len(indices),
        "layers": [c.to_json() for c in layers],
        "run": run_info(resolved(cfg), cfg.seed, opened.task.revision(), opened.checkpoint.run["source"]),
    })  # fmt: skip
    print(f"exponent in [{calibrated[0]:.2f}, {calibrated[1]:.2f}] on {len(indices)} {cfg.split} samples, "
          f"{rows} rows: {plan.exponential.method}, {plan.levels} levels, {plan.ct_mults} multiplications, error "
          f"{fit.max_error:.1e} on [{fit.domain[0]:.2f}, {fit.domain[1]:.2f}], guard [{fit.guard[0]:.1f}, "
          f"{fit.guard[1]:.1f}]")
    print(path)


if __name__ == "__main__":
    main()
