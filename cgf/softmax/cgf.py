"""CGF-softmax: the denominator as a cumulant generating function, so that no division is left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from cgf.errors import UserError
from cgf.softmax.base import ExponentialSoftmax
from cgf.softmax.inheritance import as_defined
from cgf.softmax.value import V

if TYPE_CHECKING:
    from torch import Tensor


MOST = 88  # float32 has no exp above it, so that a higher ceiling would be none


def cumulants_at_one(x: V, order: int) -> tuple[V, V]:
    """(x - mean, K - mean) of each row, with K = sum over j <= order of kappa_j / j!.

    K is the cumulant generating function K_X(1) truncated after ``order`` cumulants of the row's own
    entries (population moments): kappa_1 mean, kappa_2 variance, kappa_3 = m_3, kappa_4 = m_4 - 3 m_2^2.
    Source: CGF-softmax paper, Eq. (4) and section 'Second-Order Cumulant Approximation'.
    """
    centred = x.centred()
    squared = centred.square()
    m2 = squared.row_mean()
    shift = m2 * (1 / 2)
    if order >= 3:
        shift = shift + (squared * centred).row_mean() * (1 / 6)
    if order >= 4:
        shift = shift + (squared.square().row_mean() - m2.square() * 3) * (1 / 24)
    return centred, shift


@dataclass(eq=False)
class CGF(ExponentialSoftmax):
    """softmax_CGF(x)_i = exp(x_i - K - ln n), K = mean + variance / 2 (+ kappa_3 / 6 + kappa_4 / 24).

    scores (..., Q, K) -> weights (..., Q, K), positive, not normalised: a row sums to 1 only where K is
    the true log mean exponential. n, mean and variance are those of the row's own valid entries.
    Keeps the order and the pairwise ratios of the exact softmax, and does not change under a shift.
    ``ceiling``: in training exp stops growing there (None: nowhere), so that a row whose weights run off does not
    hide, in the gradient, what set it off; a range penalty sees y as it is, and an evaluation never cuts. Not in
    the paper. Source: CGF-softmax paper, Eq. (3) and (4). Raises UserError for an order other than 2, 3, 4, or a
    ceiling outside [0, 88].
    """

    name: ClassVar[str] = "cgf"
    adaptive: ClassVar[bool] = True
    source: ClassVar[str] = "CGF-softmax paper, Eq. (3) and (4)"
    weights_follow: ClassVar[tuple[str, ...]] = ("exponent", "apply_exponential", "from_exponentials")
    order: int = 2
    ceiling: float | None = None

    def __post_init__(self) -> None:
        if self.order not in (2, 3, 4):
            raise UserError(f"CGF-softmax takes cumulants up to order 2, 3 or 4, and order={self.order} was given")
        number = isinstance(self.ceiling, int | float) and not isinstance(self.ceiling, bool)
        if self.ceiling is not None and not (number and 0 <= self.ceiling <= MOST):
            raise UserError(
                f"softmax.ceiling must be a number from 0 to {MOST}, or null, and {self.ceiling!r} was given"
            )

    def exponent(self, x: V) -> V:
        """y = x - K - ln n."""
        centred, shift = cumulants_at_one(x, self.order)
        return (centred - shift).minus_log_count()

    def apply_exponential(self, y: V) -> V:
        """exp(y), or what stands in for it; in training y is cut off at the ceiling first."""
        if self.ceiling is not None and self.training:
            y = y.clamp(-math.inf, self.ceiling)
        return super().apply_exponential(y)

    def fuses(self) -> bool:
        """Whether p is as defined, with exp itself, whose values and gradient ``cgf.softmax.fused`` has as one
        operation."""
        unchanged = as_defined(self, CGF.exponent, CGF.apply_exponential)
        return unchanged and self.order == 2 and self.exponential is None

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """As ``ExponentialSoftmax.weights``; exp(y) in one operation where ``fuses`` and nothing is being compiled."""
        import torch

        if torch.compiler.is_compiling() or not self.fuses() or not scores.numel():
            return super().weights(scores, valid)
        from cgf.softmax.fused import cgf_weights
        from cgf.softmax.tensor import TensorRows

        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        valid = None if valid is None else valid.to(scores.device)
        y, exponentials = cgf_weights(scores, valid, bool(self.observers), self.ceiling if self.training else None)
        for observer in self.observers:
            assert y is not None
            observer(self, y, exponentials, valid)
        p = TensorRows.of(exponentials, valid)
        weights = self.from_exponentials(p)
        return exponentials if weights is p else weights.at_invalid(0.0).data
