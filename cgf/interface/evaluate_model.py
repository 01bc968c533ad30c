"""A model at hand with every softmax under CKKS: what eval_he.py computes for a checkpoint."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from cgf.errors import UserError
from cgf.evaluate.he_lines import FinishedSamples, SampleLog
from cgf.evaluate.he_run import EncryptedEvaluation
from cgf.evaluate.he_summary import summary
from cgf.he.engines.library import Library, named
from cgf.he.session import Session
from cgf.interface.engines import owner
from cgf.interface.installing import own_softmaxes
from cgf.interface.make_plan import ModelPlan
from cgf.interface.own_model import measured
from cgf.interface.samples import read
from cgf.models.install import installed
from cgf.named import short
from cgf.plan.plan import Plan
from cgf.report.red import judged
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.softmax.required import check_measured
from cgf.types import Json

if TYPE_CHECKING:
    from cgf.approx.exponential import Exponential


@dataclass(frozen=True)
class ModelEvaluation:
    """What an evaluation showed.

    agreement  share of samples predicted as by the same polynomial in the clear;  accuracy: share predicted right
    max_error  largest error of a weight against the polynomial in the clear;  levels: read off the ciphertexts
    seconds    wall time of the encrypted part;  encrypted: False for engine='sim'
    red        why the result is not to be believed, empty where nothing is wrong;  data: all that a result file says
    """

    agreement: float
    max_error: float
    levels: int
    accuracy: float
    seconds: float
    samples: int
    encrypted: bool
    red: list[str]
    data: Json

    def __str__(self) -> str:
        told = (
            f"accuracy {self.accuracy:.4f} on {self.samples} samples, agreement {self.agreement:.4f}, largest error "
            f"{self.max_error:.1e}, {self.levels} levels, {self.seconds:.1f} s; {self.data['scope']}"
        )
        return "\n".join([told, *(f"not to be believed: {reason}" for reason in self.red)])


def evaluate_model(
    model: nn.Module,
    loader: Iterable[object],
    plan: ModelPlan | Plan | None = None,
    *,
    engine: str = "sim",
    samples: int | None = 20,
) -> ModelEvaluation:
    """Evaluates the first ``samples`` of a loader (None: all) with every softmax through ciphertexts.

    loader  labelled batches, as cgf.interface.samples.read takes them
    plan    of ``make_plan``; None: the softmaxes' own polynomials
    engine  'desilo' encrypts; 'sim' computes the same circuits on numbers in the clear

    The model is as it was afterwards. Raises UserError where nothing is installed, a plan is missing or of another
    number of layers or another softmax, a softmax lacks what training measures, a label is no class of the model, or
    the model, the loader or the engine is refused.
    """
    softmaxes, make_owner = own_softmaxes(model), owner(engine)
    for layer, softmax in enumerate(softmaxes):
        check_measured(
            softmax, softmax.tensors(), f"layer {layer} of the model has none: train it for an epoch at least"
        )
    chosen = plan.plan if isinstance(plan, ModelPlan) else plan
    host = measured(model)
    _check(softmaxes, chosen, host.row_kind)
    if isinstance(plan, ModelPlan):
        _check_softmax(softmaxes[0], plan)
    data = read(loader, samples, host, labelled=True)
    if odd := sorted({item["labels"] for item in data.items} - set(range(host.num_classes))):
        raise UserError(f"labels must be classes, 0 to {host.num_classes - 1}, and one of the loader's is {odd[0]}")
    library = named(engine, make_owner)
    trained = [softmax.exponential for softmax in softmaxes]
    planned = trained if chosen is None else [chosen.of(layer).exponential for layer in range(len(softmaxes))]
    session = Session(make_owner)
    try:
        with tempfile.TemporaryDirectory() as folder, _with(softmaxes, planned, trained):
            finished = EncryptedEvaluation(
                host=host,
                softmaxes=softmaxes,
                installed=installed,
                session=session,
                dataset=data,
                collate=data.collate,
                indices=list(range(len(data))),
                lines=SampleLog(Path(folder, "samples.jsonl")),
                as_trained=lambda: _with(softmaxes, trained, planned),
                masked=host.row_kind == "masked",
                say=lambda _: None,
                terminal=False,
            ).run()
    finally:
        session.close()
    names = {"softmax": softmaxes[0].name, "approx": "exact" if planned[0] is None else planned[0].method}
    return _judged(finished, library, "polynomial" if chosen is None else "plan", names)


@contextmanager
def _with(
    softmaxes: list[Softmax], exponentials: Sequence[Exponential | None], afterwards: Sequence[Exponential | None]
) -> Iterator[None]:
    """The softmaxes with these exponentials for the length of a with block, and with the others after it."""
    for softmax, exponential in zip(softmaxes, exponentials, strict=True):
        softmax.exponential = exponential
    try:
        yield
    finally:
        for softmax, exponential in zip(softmaxes, afterwards, strict=True):
            softmax.exponential = exponential


def _judged(finished: FinishedSamples, library: Library, method: str, names: Json) -> ModelEvaluation:
    """What was seen, with the reasons not to believe it.

    method: where the polynomials come from. names: softmax and approx, as result files have them.
    """
    result = {
        "kind": "eval_he",
        **names,
        "engine": library.name,
        "circuit_asked": "folded",
        "noise_stated": library.noise,
        "agreement_asked": 0.99,
        **summary(finished, library.encrypts),
    }
    result = judged(result, method)
    figures = {key: result[key] for key in ("agreement", "max_error", "levels", "accuracy", "samples", "encrypted")}
    return ModelEvaluation(
        **figures, seconds=result["seconds"]["total"], red=list(result.get("red") or []), data=result
    )


def _check_softmax(own: Softmax, plan: ModelPlan) -> None:
    """UserError for a plan that was made for another softmax, or for the same one with other parameters."""
    if own.to_json() != plan.softmax:
        raise UserError(
            f"the plan is for {_told(plan.softmax)}, and the model has {_told(own.to_json())}: plan it anew by "
            "cgf.make_plan"
        )


def _told(described: Json) -> str:
    """A softmax as ``to_json`` describes it, in words: cgf (order=2, ceiling=None)."""
    more = ", ".join(f"{key}={value}" for key, value in described.items() if key != "variant")
    return f"{described['variant']} ({more})" if more else str(described["variant"])


def _check(softmaxes: list[Softmax], plan: Plan | None, row_kind: str) -> None:
    first = softmaxes[0]
    if not isinstance(plan, Plan | None):
        raise UserError(f"plan must be what cgf.make_plan returned, or None, and is {short(plan)}")
    if isinstance(first, ExponentialSoftmax) and plan is None and first.exponential is None:
        raise UserError("evaluate_model needs a plan for this softmax: cgf.make_plan(model, loader)")
    if plan is None:
        return
    if not isinstance(first, ExponentialSoftmax):
        raise UserError(f"softmax '{first.name}' has no exponential to put a plan's in the place of")
    if len(plan.layers) not in (0, len(softmaxes)):
        raise UserError(f"the plan has {len(plan.layers)} layers, and the model has {len(softmaxes)}: plan it anew")
    if row_kind == "masked" and plan.row_kind != row_kind:
        raise UserError(f"the plan is for {plan.row_kind} rows, and the model has {row_kind} ones: plan it anew")
