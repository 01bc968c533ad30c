"""Which stand-in for exp an evaluation uses: none, the plan's, or one chosen by hand."""

from __future__ import annotations

from pathlib import Path

from cgf.checks import interval, is_whole
from cgf.errors import UserError
from cgf.former import current_plan
from cgf.plan.choose import choose
from cgf.plan.cost import MASK_OF, SECOND_ORDER
from cgf.plan.plan import Plan
from cgf.plan.request import Request
from cgf.results import read_json
from cgf.seal import check_seal
from cgf.softmax.base import ExponentialSoftmax
from cgf.types import Json

FILE = "plan.json"
MOST_K = 20  # squarings of any method
# without a range, a polynomial of k squarings is made for [-SPAN 2^k, 0]: the paper's interval of its Chebyshev
# polynomial, that on which the limit has an error of about 0.27 / 2^k, and one on which chains of 4 and more have 2e-3
SPANS = {"chebyshev": 8.0, "fitted": 8.0, "chain": 2.0, "limit": 1.0}


def read_plan(folder: Path, checkpoint: str | None = None, row_kind: str | None = None) -> Plan | None:
    """The plan beside a checkpoint, its numbers computed again from its coefficients, or None.

    checkpoint  digest of the checkpoint: a plan that names another is refused; one that names none is of before
    row_kind    of the host, where it is known. A plan for masked rows costs full ones a level and is right there;
                a plan for full rows is refused on masked ones, whose circuit takes more levels than it states
    """
    path = folder / FILE
    if not path.is_file():
        return None
    data = read_json(path)
    check_seal(data, path)
    plan = Plan.from_json(current_plan(data, path), path)
    anew = f"plan it anew: python scripts/plan.py ckpt={folder}"
    if checkpoint is not None and plan.checkpoint not in (None, checkpoint):
        raise UserError(
            f"{path} was made for the checkpoint {str(plan.checkpoint)[:12]}, and beside it lies "
            f"{checkpoint[:12]}: {anew}"
        )
    if row_kind == "masked" and plan.row_kind != row_kind:
        raise UserError(f"{path} is for {plan.row_kind} rows, and the model has {row_kind} ones: {anew}")
    return plan


def select(
    approx: Json,
    folder: Path,
    row_kind: str,
    checkpoint: str | None = None,
    *,
    softmax: ExponentialSoftmax = SECOND_ORDER,
) -> Plan | None:
    """The plan that the ``approx`` node of a configuration asks for; None: the true exponential.

    method 'exact': None. 'plan': plan.json of the checkpoint folder. Any other method is fitted here for
    approx.range, or the calibrated range of plan.json, or an interval that k serves (``SPANS``); such a fit
    is a function of the configuration alone, so the clear and the encrypted evaluation get the same one.
    row_kind and checkpoint as in ``read_plan``; the plan's levels are those of this softmax. Raises UserError for an
    unknown method, where a plan is needed and there is none, and for one that is not to be believed.
    """
    method, plan = str(approx["method"]), read_plan(folder, checkpoint, row_kind)
    if method == "exact":
        return None
    if method == "plan":
        if plan is None:
            raise UserError(
                f"approx=plan needs {folder / FILE}, and there is none: python scripts/plan.py ckpt={folder}"
            )
        return plan.on(softmax)
    k = approx.get("k")
    if k is not None and (not is_whole(k) or k > MOST_K):
        raise UserError(f"approx.k must be a whole number of at most {MOST_K}, and {k!r} was given")
    range_ = approx.get("range")
    if range_ is None and plan is not None:
        range_ = plan.range
    if range_ is None:
        if method == "auto" or k is None:
            raise UserError(f"approx={method} needs a range: approx.range=[LO,HI], or a plan ({folder / FILE})")
        range_ = (-SPANS.get(method, 8.0) * 2**k, 0.0)
    range_ = interval("approx.range", range_)
    request = Request(range_, range_, mask=MASK_OF[row_kind], softmax=softmax)
    return choose(request, method=method, degree=approx.get("degree"), k=k)
