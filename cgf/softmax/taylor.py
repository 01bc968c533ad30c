"""CGF-softmax with a low-degree Taylor polynomial in place of exp, in training already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cgf.approx.fit import taylor
from cgf.softmax.cgf import CGF


@dataclass(eq=False)
class TaylorCGF(CGF):
    """exp(y) ~ sum over i <= degree of exp(x0) / i! (y - x0)^i, with y the exponent of CGF-softmax.

    No domain scaling, so ceil(log2(degree + 1)) levels for the exponential. The paper takes degree 1 about
    -3 for LLaMA, degrees 3 and 5 about -10 for ViT/DeiT. Weights can be negative far from x0 for odd
    degrees. Raises UserError for a degree outside 1 to 63. Source: CGF-softmax paper, appendix 'Low-degree Variant'.
    """

    name: ClassVar[str] = "taylor"
    label: ClassVar[str] = "Taylor, degree {degree}"
    source: ClassVar[str] = "CGF-softmax paper, appendix Low-degree Variant"
    stand_in: ClassVar[str] = "the domain, 2 to each side of x0, is ours: the paper states none"
    degree: int = 3
    x0: float = -10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.exponential = taylor(self.degree, self.x0)
