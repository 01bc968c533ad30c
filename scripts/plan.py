"""Plans the exponential of a checkpoint from the range it shows on training data: python scripts/plan.py ckpt=PATH

Without a checkpoint, what there is for a range: python scripts/plan.py range=[-128,0] rows=256 columns=256 mask=full
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from cgf.config import entry, resolved, task_maker

ROOT = Path(__file__).resolve().parent.parent


@entry("plan")
def main(cfg: DictConfig) -> None:
    from cgf.errors import UserError

    if cfg.objective == "seconds" and not cfg.pareto:
        raise UserError("objective=seconds chooses from the Pareto set: it needs pareto=true")
    if cfg.ckpt is not None:
        for key in ("range", "out"):
            if cfg[key] is not None:
                raise UserError(
                    f"{key} is for planning without a checkpoint, and ckpt={cfg.ckpt} was given (the "
                    "domain of a checkpoint's plan may be set by approx.range)"
                )
        return from_checkpoint(cfg)
    if cfg.range is None:
        raise UserError("a plan needs ckpt=PATH, or range=[LO,HI] for a table alone, and neither was given")
    if cfg.per_layer:
        raise UserError("per_layer=true needs the layers of a checkpoint: ckpt=PATH")
    return from_range(cfg)


def from_range(cfg: DictConfig) -> None:
    """Table, pareto.json and pareto.png for a range given by hand."""
    from cgf.results import run_info

    config = resolved(cfg)
    folder = Path(cfg.out or "outputs/plan").expanduser()
    interval = config["range"]
    options = {"rows": cfg.rows or 256, "columns": cfg.columns or 256, "mask": cfg.mask}
    found = pareto(cfg, interval, interval, options)
    show(cfg, found, folder, {"range": interval, "tolerance": cfg.tolerance, **options, "run": run_info(config)})


def pareto(cfg: DictConfig, range_: Any, domain: Any, options: dict[str, Any]) -> list[Any]:
    """Every feasible row (cgf.plan.pareto) of what ``approx`` allows."""
    from cgf.plan.pareto import rows

    request, candidates, cache = _request(cfg, range_, domain, options)
    return rows(request, candidates, _times(cfg), cache)


def _request(cfg: DictConfig, range_: Any, domain: Any, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    from cgf.plan.candidates import METHODS, specs
    from cgf.plan.fit_cache import FitCache
    from cgf.plan.pareto import Request
    from cgf.plan.plan import checked

    approx = resolved(cfg)["approx"]
    request = Request(checked(range_, "range"), checked(domain, "domain"), cfg.tolerance, **options)
    methods = METHODS if approx["method"] == "auto" else (approx["method"],)
    cache = FitCache(None if cfg.cache is None else ROOT / Path(cfg.cache).expanduser())
    return request, specs(request.domain, methods, approx.get("degree"), approx.get("k"), cfg.tolerance), cache


def _times(cfg: DictConfig) -> Any:
    """The table of operation times, or None where there is none for the engine."""
    from cgf.plan.op_times import OpTimes
    from cgf.results import read_json

    path = ROOT / Path(cfg.times).expanduser()
    if not path.is_file():
        return None
    data = read_json(path)
    return OpTimes.from_json(data) if data.get("engine") == cfg.engine else None


def show(cfg: DictConfig, found: list[Any], folder: Path, facts: dict[str, Any]) -> Any:
    """Prints the Pareto set, writes pareto.json and pareto.png, and returns the picked row."""
    from rich.console import Console

    from cgf.plan.pareto import front, pick
    from cgf.report.front import front_plot, front_table
    from cgf.results import write_json

    picked = pick(found, cfg.objective)
    best, told = [row.to_json() for row in front(found)], picked.to_json()
    title = f"{facts['rows']} x {facts['columns']} {facts['mask']} rows, error at most {cfg.tolerance:g}"
    Console(width=None if sys.stdout.isatty() else 140).print(front_table(best, told, title))
    write_json(
        folder / "pareto.json",
        {
            "objective": cfg.objective,
            "picked": told,
            "front": best,
            "feasible": [row.to_json() for row in found],
            **facts,
        },
    )
    (folder / "pareto.png").write_bytes(front_plot([row.to_json() for row in found], best, told))
    print(folder / "pareto.png")
    return picked


def from_checkpoint(cfg: DictConfig) -> None:
    """plan.json of a checkpoint, beside it pareto.json and pareto.png."""
    from cgf.errors import UserError
    from cgf.evaluate.open_checkpoint import open_checkpoint
    from cgf.plan.calibration import merged, union
    from cgf.plan.load import FILE
    from cgf.results import run_info, write_json

    if cfg.split == "test":
        raise UserError("a plan is a choice, and choices never see test data: split=train or split=val")
    if not 0 <= cfg.outside < 1:
        raise UserError(f"outside is a share of the entries, from 0 to below 1, and {cfg.outside} was given")
    opened = open_checkpoint(cfg.ckpt, cfg.split, task_maker(cfg.data.root), cfg.whole)
    if not opened.softmaxes[0].uses_exponential:
        raise UserError(
            f"softmax '{opened.checkpoint.softmax.name}' has no exponential to plan: eval_he.py runs it "
            "with approx=exact"
        )
    indices = opened.samples(cfg.samples, cfg.seed)
    calibrator, layers, shape = calibrated_layers(cfg, opened, indices)
    calibrated, _ = union(layers, cfg.outside)
    rows = rows_of(cfg, opened, shape)
    plan = plan_of(cfg, opened.checkpoint.path, layers, rows)
    fit = plan.exponential.fit
    assert fit is not None
    fits = [plan.of(i).exponential.fit for i in range(len(layers))]
    shares = [layer.y.outside(own.domain) for layer, own in zip(layers, fits, strict=True)]
    share = sum(s * layer.entries for s, layer in zip(shares, layers, strict=True)) / merged(layers).entries
    plan = replace(plan, share_outside=share, checkpoint=opened.checkpoint.digest)
    for layer, own in zip(layers, fits, strict=True):
        low, high = union([layer])[0]
        if not own.guard[0] <= low <= high <= own.guard[1]:  # possible by hand alone
            raise UserError(
                f"the guard of a plan must hold every calibrated entry, [{low:.2f}, {high:.2f}], and that "
                f"of {plan.exponential.method} with this k is [{own.guard[0]:.2f}, {own.guard[1]:.2f}]: "
                "another approx.k, or approx=auto"
            )
    path = opened.checkpoint.path / FILE
    write_json(
        path,
        {
            **plan.to_json(),
            **packing(plan, rows),
            "method": plan.exponential.method,
            "domain": fit.domain,
            "guard": fit.guard,
            "max_error": fit.max_error,
            "calibrated": calibrated,
            "split": cfg.split,
            "samples": len(indices),
            "whole": cfg.whole,
            "padding": cfg.padding,
            "layers": [
                {
                    **c.to_json(),
                    "outside_domain": c.y.outside(own.domain),
                    "heads": [{**h.to_json(), "outside_domain": h.y.outside(own.domain)} for h in heads],
                }
                for c, own, heads in zip(layers, fits, map(calibrator.of_layer, calibrator.layers), strict=True)
            ],
            "run": run_info(resolved(cfg), cfg.seed, opened.task.revision(), opened.checkpoint.run["source"]),
        },
    )
    print(
        f"exponent in [{calibrated[0]:.2f}, {calibrated[1]:.2f}] on {len(indices)} {cfg.split} samples, "
        f"{plan.rows} rows, {share:.1e} of the entries outside the domain [{fit.domain[0]:.2f}, "
        f"{fit.domain[1]:.2f}]: {plan.exponential.method}, {plan.levels} levels, {plan.ct_mults} multiplications, "
        f"error {fit.max_error:.1e}, guard [{fit.guard[0]:.1f}, {fit.guard[1]:.1f}]"
        f"{' in the deepest layer' if plan.layers else ''}"
    )
    print(path)


def calibrated_layers(cfg: DictConfig, opened: Any, indices: list[int]) -> tuple[Any, list[Any], tuple[int, int]]:
    """Calibrator by head, its layers, and (rows of a sample, columns) of the longest rows seen."""
    from cgf.evaluate.calibrate import run
    from cgf.evaluate.observe import Calibrator

    calibrator, shape = Calibrator(), [0, 0]

    def measure(softmax: Any, y: Any, weights: Any, valid: Any) -> None:
        if y.shape[-1] > shape[1]:
            shape[:] = int(y[0, ..., 0].numel()), int(y.shape[-1])

    for softmax in opened.softmaxes:
        softmax.observers += [calibrator, measure]
    run(opened.host, opened.dataset, opened.collate, indices, cfg.batch_size, cfg.padding)
    return calibrator, list(calibrator.layers.values()), (shape[0], shape[1])


def rows_of(cfg: DictConfig, opened: Any, shape: tuple[int, int]) -> dict[str, Any]:
    """The rows that a plan is made for: as many whole samples as fill 8,192 slots unless told, columns, mask."""
    mask = "causal" if opened.rows() == "masked" else "padding" if cfg.padding == "longest" else "full"
    return {"rows": cfg.rows or shape[0] * max(1, 8192 // shape[0]), "columns": cfg.columns or shape[1], "mask": mask}


def packing(plan: Any, rows: dict[str, Any]) -> dict[str, Any]:
    """Slots of the smallest ring that holds the plan on these rows, and how many ciphertexts they take there."""
    from cgf.plan.cost import needs_of

    needs = needs_of(plan.exponential, rows["mask"], rows["rows"], rows["columns"])
    return {
        "ring_slots": max(n.layout.slots for n in needs),
        "packing": {
            **rows,
            "columns_a_ciphertext": max(n.layout.columns_per_ct for n in needs),
            "ciphertexts": sum(n.layout.ciphertexts for n in needs),
        },
    }


def plan_of(cfg: DictConfig, folder: Path, layers: list[Any], options: dict[str, Any]) -> Any:
    """One plan for all layers, or one each (per_layer); by hand or without pareto as cgf.plan.choose chooses.

    options  rows, columns and mask;  folder: where the Pareto set goes
    """
    from cgf.plan.calibration import union
    from cgf.plan.choose import choose
    from cgf.plan.pareto import least_levels, pick
    from cgf.plan.plan import by_layer, stretched

    approx = resolved(cfg)["approx"]

    def intervals(group: list[Any]) -> tuple[Any, Any]:
        calibrated, domain = union(group, cfg.outside)
        return stretched(calibrated, resolved(cfg)["margin"]), tuple(approx.get("range") or domain)

    def by_hand(group: list[Any]) -> Any:
        numbers = {k: approx[k] for k in ("degree", "k") if approx.get(k) is not None}
        kind = "full" if options["mask"] == "full" else "masked"
        return choose(*intervals(group), cfg.tolerance, kind, method=approx["method"], folded=True, **numbers)

    def one(group: list[Any]) -> Any:
        if cfg.objective == "seconds":
            return pick(pareto(cfg, *intervals(group), options), "seconds").plan
        return least_levels(*_request(cfg, *intervals(group), options))

    fixed = not cfg.pareto or (approx["method"] != "auto" and approx.get("k") is not None)
    if not fixed:
        found = pareto(cfg, *intervals(layers), options)
        facts = {**options, "range": intervals(layers)[0], "tolerance": cfg.tolerance}
        plan = show(cfg, found, folder, facts).plan
    elif not cfg.per_layer:
        plan = by_hand(layers)
    if not cfg.per_layer:
        return plan
    plans = [(by_hand if fixed else one)([layer]) for layer in layers]
    _print_layers(plans)
    return by_layer(plans)


def _print_layers(plans: list[Any]) -> None:
    from rich.console import Console

    from cgf.report.front import layer_table

    Console(width=None if sys.stdout.isatty() else 140).print(layer_table([p.to_json() for p in plans]))


if __name__ == "__main__":
    main()
