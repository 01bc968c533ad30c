"""A checkpoint opened for evaluation: its host, its task's samples, and the polynomial put in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cgf.approx.exponential import Exponential
from cgf.checkpoint import Checkpoint, read
from cgf.data.task import Collate, Items, Task
from cgf.errors import UserError
from cgf.evaluate.he_batches import chosen_samples
from cgf.evaluate.observe import PolynomialReading
from cgf.models.host import Host, check_classes
from cgf.models.install import install, install_copies, installed
from cgf.models.load import from_checkpoint
from cgf.models.samples import samples_of
from cgf.plan.cost import levels_of
from cgf.plan.load import read_plan, select
from cgf.plan.plan import Plan
from cgf.plan.scopes import checked_approx
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.softmax.bpmax import BPMax
from cgf.softmax.published.base import Published
from cgf.types import Json


@dataclass
class OpenCheckpoint:
    """What an evaluation works on; ``softmaxes`` are those installed in the host, by layer.

    own_polynomials: each stands there with the polynomials that it comes with (``PolynomialReading``).
    """

    checkpoint: Checkpoint
    host: Host
    softmaxes: list[Softmax]
    task: Task
    dataset: Items
    collate: Collate
    trained: list[Exponential | None] = field(init=False)  # exponential of each layer as trained; None: the true one
    replaced: list[Softmax] | None = field(default=None, init=False)  # those trained, where others are in their place
    own_polynomials: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.trained = [softmax.exponential for softmax in self.softmaxes]

    def replace(self, softmax: Softmax) -> None:
        """Another softmax than the trained one in every layer, read with its own polynomials where it has them.

        UserError for one that would need what only training measures.
        """
        if isinstance(softmax, BPMax):
            raise UserError(
                f"softmax '{softmax.name}' needs a denominator that training measured, and the checkpoint "
                f"was trained with '{self.checkpoint.softmax.name}': without softmax= it is taken as trained"
            )
        self.replaced = self.replaced or self.softmaxes
        self.softmaxes = install_copies(self.host.model, softmax)
        self.trained = [own.exponential for own in self.softmaxes]
        self.own_polynomials = isinstance(softmax, Published)
        if self.own_polynomials:
            install(self.host.model, lambda layer: PolynomialReading(self.softmaxes[layer]))

    @property
    def domain(self) -> tuple[float, float] | None:
        """Where the scores must lie, for a softmax whose maximum is a public constant; None for others."""
        first = self.softmaxes[0]
        return first.domain if isinstance(first, Published) and first.maximum == "fixed" else None

    def put_in_place(self, approx: Json) -> Plan | None:
        """Replaces the exponential in every layer as ``approx`` says; returns the plan that it came from.

        'exact' leaves each softmax as it was trained, and so does 'plan' where no plan was made and the softmax
        was trained with a polynomial of its own. Raises UserError for a softmax without an exponential, and for
        what is no such node.
        """
        approx = checked_approx(approx)
        unplanned = approx["method"] == "plan" and self.trained[0] is not None
        if approx["method"] == "exact" or (unplanned and self._plan() is None):
            for softmax, trained in zip(self.softmaxes, self.trained, strict=True):
                softmax.exponential = trained
            return None
        first = self.softmaxes[0]
        if not isinstance(first, ExponentialSoftmax):
            raise UserError(f"softmax '{first.name}' has no exponential to replace: use approx=exact")
        plan = select(approx, self.checkpoint.path, self.host.row_kind, self.checkpoint.digest, softmax=first)
        if plan is not None and len(plan.layers) not in (0, len(self.softmaxes)):
            raise UserError(
                f"the plan has {len(plan.layers)} layers, and the model has {len(self.softmaxes)}: plan it anew"
            )
        for layer, softmax in enumerate(self.softmaxes):
            softmax.exponential = None if plan is None else plan.of(layer).exponential
        return plan

    def _plan(self) -> Plan | None:
        return read_plan(self.checkpoint.path, self.checkpoint.digest, self.host.row_kind)

    @contextmanager
    def as_trained(self) -> Iterator[None]:
        """Every layer's softmax and exponential as the checkpoint has it, for the length of a with block."""
        if self.replaced is not None:
            with installed(self.host.model, self.replaced.__getitem__):
                yield
            return
        in_place = [softmax.exponential for softmax in self.softmaxes]
        try:
            self.put_in_place({"method": "exact"})
            yield
        finally:
            for softmax, exponential in zip(self.softmaxes, in_place, strict=True):
                softmax.exponential = exponential

    def facts(self, plan: Plan | None) -> Json:
        """domain, guard, max_error_exponential and polynomial of what is in place, for a result file.

        Layers with polynomials of their own: the intervals that hold for all, the largest error, and a list
        of polynomials.
        """
        own = self.trained if plan is None else [p.exponential for p in plan.layers or (plan,)]
        fits = [e.fit for e in own if e is not None and e.fit is not None]
        told = [e.to_json() for e in own if e is not None]
        one = all(t == told[0] for t in told)
        return {
            "domain": (max(f.domain[0] for f in fits), min(f.domain[1] for f in fits)) if fits else None,
            "guard": (max(f.guard[0] for f in fits), min(f.guard[1] for f in fits)) if fits else None,
            "max_error_exponential": max(f.max_error for f in fits) if fits else None,
            "polynomial": (told[0] if one else told) if told else None,
        }

    def levels(self, plan: Plan | None) -> int | None:
        """Of the plan, else of the polynomial that was trained in the loop, statistics folded; None: neither."""
        if plan is not None:
            return plan.levels
        first, own = self.softmaxes[0], [e for e in self.trained if e is not None]
        if not isinstance(first, ExponentialSoftmax):
            return None
        return max((levels_of(e, self.host.row_kind, first) for e in own), default=None)

    def samples(self, count: int | None, seed: int) -> list[int]:
        """Indices of so many samples of the split, chosen by ``seed``; None: all. UserError for another count."""
        return chosen_samples(len(self.dataset), count, seed)

    def names(self, plan: Plan | None) -> Json:
        """model, task, softmax and exponential, and what they were held against, for a result file.

        trained_with: the softmax of the checkpoint; replaced: another stands in its place, untrained.
        """
        softmax = self.softmaxes[0]
        fixed = self.trained[0].method if self.trained[0] is not None else "exact"
        if self.own_polynomials:
            fixed = "own"
        return {
            "model": self.host.name,
            "task": self.checkpoint.run["task"],
            "softmax": softmax.name,
            "trained_with": self.checkpoint.softmax.name,
            "replaced": self.replaced is not None,
            "approx": fixed if plan is None else plan.exponential.method,
            "checkpoint": self.checkpoint.path.name,
            "checkpoint_sha256": self.checkpoint.digest,
            "plan_checked": None if plan is None else plan.checked,
            "plan_sha256": None if plan is None else plan.sha256,
        }


def open_checkpoint(path: str, split: str, make_task: Callable[[Json], Task], whole: bool = False) -> OpenCheckpoint:
    """Reads a checkpoint and the split that it is evaluated on.

    make_task builds the task from the ``task`` node of the configuration that the checkpoint was trained with; whole:
    without its ``limit``, which may have kept some samples of the split only. UserError where the task's classes, or
    their order, or its data are not those that the checkpoint was trained with.
    """
    checkpoint = read(path)
    config = checkpoint.run.get("config")
    if not isinstance(config, dict) or "task" not in config:
        raise UserError(
            f"{checkpoint.path / 'run.json'} lacks 'config' with its task: it is not a checkpoint of this project"
        )
    node = config["task"]
    task = make_task({**node, "limit": None} if whole and isinstance(node, dict) else node)
    checkpoint.check_task(task)
    check_classes(
        f"checkpoint {checkpoint.path}", checkpoint.run.get("class_names"), task.class_names, f"task={task.name}"
    )
    checkpoint.check_data(task.revision())
    host, softmaxes = from_checkpoint(checkpoint)
    dataset = samples_of(task, split, host)
    return OpenCheckpoint(checkpoint, host, softmaxes, task, dataset, task.collate(host.inputs))
