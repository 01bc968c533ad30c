"""Whether a softmax keeps to its mask, and a circuit can follow its formula: asked before anything is trained."""

from __future__ import annotations

from cgf.approx.fit import limit
from cgf.errors import UserError
from cgf.he.dryrun import depth
from cgf.he.not_on_ciphertexts import MissingOperation
from cgf.plan.cost import mask_rows, with_exponential
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.softmax.masked import check_mask
from cgf.softmax.published.base import Published, Replacement

FEW = 8  # entries of the rows on which it is tried


def check_formula(softmax: Softmax) -> None:
    """Runs the softmax's circuit once on the simulator, with a polynomial in the place of exp.

    UserError where weights that it gives by a method of its own are not zero at masked places, and where its formula
    uses what ciphertexts do not have. What depends on a run, such as levels and denominators that are measured in
    training, is left to that run. The circuit of a class that says encryptable = False is not tried, and neither is one
    that approximates exact softmax and trains as that: its polynomials may take a minute to fit.
    """
    check_mask(softmax)
    if not softmax.encryptable or (isinstance(softmax, Published) and not isinstance(softmax, Replacement)):
        return
    if isinstance(softmax, ExponentialSoftmax) and softmax.exponential is None:
        softmax = with_exponential(softmax, limit(-8.0, 0.0, 2))
    try:
        depth(softmax, mask_rows("full", FEW, FEW), FEW)
    except MissingOperation as error:
        raise UserError(_told(softmax, str(error))) from None
    except UserError:
        return
    except (TypeError, AttributeError, ValueError, ArithmeticError, NotImplementedError) as error:
        raise UserError(_told(softmax, f"{type(error).__name__}: {error}")) from error


def _told(softmax: Softmax, reason: str) -> str:
    return (
        f"softmax '{softmax.name}' cannot be encrypted as it is written ({reason}): its formula may use the operations "
        "of Value in cgf/softmax/value.py alone, or its class says encryptable = False and why_not_encryptable"
    )
