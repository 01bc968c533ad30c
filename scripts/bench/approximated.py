"""Exact softmax by published polynomials, in the clear: python scripts/bench/approximated.py ckpt=PATH host_name=NAME

Intervals, rounds and steps follow from the scores of training samples, levels from the circuit of those settings. The
whole test set is evaluated once with each, and with the exact softmax that the model was trained with.
"""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from cgf.checks import path_part
from cgf.config import entry, resolved, task_maker
from cgf.errors import UserError
from cgf.openings import TRAINED, Register
from cgf.results import plain_json, read_json, run_info, write_json
from cgf.types import Json, JsonValue


@entry("approximated")
def main(cfg: DictConfig) -> None:
    """Sees the scores, settles the settings, evaluates what has no file yet."""
    from cgf.evaluate.approximated import EvaluationBySoftmax
    from cgf.evaluate.open_checkpoint import open_checkpoint
    from cgf.evaluate.score_range import score_range
    from cgf.plan.published import settings

    path_part("host_name", cfg.host_name)
    out, make_task = Path(cfg.out).expanduser(), task_maker(cfg.data.root)
    register = Register(out.parent / "opened.jsonl", cfg.again)
    train = open_checkpoint(cfg.ckpt, "train", make_task)
    seen = score_range(train, train.samples(cfg.calibrate, cfg.seed), cfg.batch_size)
    print(seen)
    run = run_info(resolved(cfg), cfg.seed, train.task.revision(), train.checkpoint.run["source"])
    opened = open_checkpoint(cfg.ckpt, "test", make_task)
    test = EvaluationBySoftmax(opened, cfg.host_name, cfg.batch_size, lambda row, of: register.open(row, TRAINED, of))
    made = settings(cfg.softmaxes, seen, opened.host.row_kind)
    test.exact(out, run)
    for name, reason in made.left_out.items():
        print(f"{name} is left out: {reason}")
    for softmax in made.softmaxes:
        path = test.file(out, softmax.name)  # written anew where it is of other weights or settings
        if test.own(path) and settings_now(read_json(path)) == plain_json(softmax.params()):
            print(f"{path}: there already, and left as it is")
        else:
            result = test.evaluated(softmax, seen) | {"run": run}
            write_json(path, result)
            print(f"{path}: accuracy {result['accuracy']:.4f} at {result['levels']} levels")


def settings_now(result: Json) -> JsonValue:
    """The settings of a result with those that were added since; None where they build no softmax any more."""
    from cgf.softmax.load import softmax_from_json

    try:
        return plain_json(softmax_from_json({**result["settings"], "variant": result["softmax"]}).params())
    except UserError:
        return None


if __name__ == "__main__":
    main()
