"""CGF-softmax with a fixed polynomial of any method in training already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cgf.approx.exponential import Exponential
from cgf.approx.fit import chebyshev, fitted, limit
from cgf.checks import one_of, whole
from cgf.softmax.loop import LoopCGF

METHODS = ("chebyshev", "fitted", "limit")


@dataclass(eq=False)
class PolynomialCGF(LoopCGF):
    """e(y) = p(a y + b)^(2^k), fitted once on ``domain`` and the same in training and evaluation.

    chebyshev and fitted: p of the given degree, ceil(log2(degree + 1)) + k levels; limit: (1 + y / 2^k)^(2^k),
    k levels, degree is not read. Computed in float64. Source: CGF-softmax paper, appendix 'Approximation of the
    Exponential Function', here in the loop as its 'Low-degree Variant' is. Raises UserError for an
    unknown method, a degree outside 1 to 31 or k outside 0 to 12.
    """

    name: ClassVar[str] = "cgf_poly"
    label: ClassVar[str] = "{method} {degree} in the loop"
    method: str = "chebyshev"
    degree: int = 7
    k: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("softmax.method", self.method, METHODS)
        whole("softmax.degree", self.degree, 1, 31)
        whole("softmax.k", self.k, 1 if self.method == "limit" else 0, 12)

    def fitted(self) -> Exponential:
        """The polynomial of the method on the domain; kept by the fit's own cache."""
        lo, hi = self.domain
        if self.method == "limit":
            return limit(lo, hi, self.k)
        return (chebyshev if self.method == "chebyshev" else fitted)(lo, hi, self.degree, self.k)
