"""What CGF-softmax costs a trained model, by layer and head: python scripts/gap.py ckpt=outputs/RUN"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

from pathlib import Path

from omegaconf import DictConfig

from cgf.config import build, entry, resolved, task_maker
from cgf.errors import UserError
from cgf.results import check_replaceable, run_info, write_json
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact
from cgf.target import result_file


@entry("gap")
def main(cfg: DictConfig) -> None:
    """Measures one checkpoint; prints what each head costs and what puts the rows right, and writes the result file."""
    from cgf.evaluate.gap import Gap
    from cgf.evaluate.loop import batches_of_one_length, evaluate
    from cgf.evaluate.open_checkpoint import open_checkpoint
    from cgf.report.gap import told

    if cfg.split == "test":
        raise UserError("what puts rows right is a choice, and choices never see test data: split=val or split=train")
    opened = open_checkpoint(cfg.ckpt, cfg.split, task_maker(cfg.data.root))
    own = opened.checkpoint.softmax
    subject = build(cfg.softmax) if cfg.get("softmax") else CGF() if isinstance(own, Exact) else own
    if type(subject) is not CGF:  # what derives from it may have other weights than exp(y)
        raise UserError(f"the gap is that of CGF-softmax (softmax=cgf, cgf3 or cgf4), and this is {subject.name}")
    path = result_file(cfg.out) if cfg.out else opened.checkpoint.path / "gap.json"
    name = f"{opened.checkpoint.path.parent.name}/{opened.checkpoint.path.name}"
    check_replaceable(path, lambda there: there["kind"] == "gap" and there.get("name") == name)
    indices = opened.samples(cfg.samples, cfg.seed)
    batches = batches_of_one_length(opened.dataset, cfg.batch_size, indices)
    host = opened.host
    gap = Gap(
        host,
        opened.softmaxes,
        subject,
        lambda: evaluate(host.model, host.logits, opened.dataset, opened.collate, batches),
    )
    result = {
        "kind": "gap",
        "name": name,
        "model": host.name,
        "task": opened.checkpoint.run["task"],
        "trained_with": own.name,
        "softmax": subject.name,
        "order": subject.order,
        "split": cfg.split,
        "samples": len(indices),
        **gap.measured(),
    }
    print(told(result))
    info = run_info(resolved(cfg), cfg.seed, opened.task.revision(), opened.checkpoint.run["source"])
    write_json(Path(path), {**result, "run": info})
    print(path)


if __name__ == "__main__":
    main()
