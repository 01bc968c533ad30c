"""The contract of an activation that stands where a host's GELU, SiLU, ReLU or tanh stood: a polynomial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from cgf.errors import UserError
from cgf.replacement import Replacement, Variant, wide

ROWS = 1024  # tokens that a first fit is made on


class Activation(Replacement):
    """A polynomial of each feature: values u (..., features) to the same shape and dtype, in float32 at least.

    bound  buffer (): the |u| that its first fit was made for, and which a penalty keeps u inside
    """

    variant: ClassVar[str] = "activation"
    bound: Tensor
    function: Callable[[Tensor], Tensor]

    def __init__(self, features: int, bound: float = 1.0) -> None:
        super().__init__()
        self.features = features
        self.fixed = False  # whether the bound is a setting, and not what a first pass shows
        self.register_buffer("bound", torch.tensor(float(bound)))

    def stands_for(self, function: Callable[[Tensor], Tensor]) -> None:
        """The host's own activation, a module or a function; it has no weights and is no submodule."""
        object.__setattr__(self, "function", function)

    def forward(self, u: Tensor) -> Tensor:
        """u (..., features) to the same shape and dtype."""
        if self.starting:
            with torch.no_grad():
                self._start(self.tokens.rows(wide(u), self.place))
        if self.training and self.observers:
            bound = float(self.bound)
            self.observe(self.tokens.rows(wide(u), self.place), (-bound, bound))
        return self.function(u) if self.own else self.polynomial(wide(u)).to(u.dtype)

    def polynomial(self, u: Tensor) -> Tensor:
        """What stands for the host's activation of u (..., features)."""
        raise NotImplementedError

    def coefficients(self) -> np.ndarray:
        """(degree + 1, features) in float64, lowest order first: y = sum of coefficients[i] u^i."""
        raise NotImplementedError

    def start_at(self, u: Tensor, y: Tensor) -> None:
        """Takes first coefficients from values u (N, features) and the host's activation of them, both in float64."""
        raise NotImplementedError

    def _start(self, rows: Tensor) -> None:
        if not self.fixed:
            self.bound.copy_(rows.abs().amax().clamp_min(1e-3))
        chosen = rows[:: max(1, len(rows) // ROWS)].double().clamp(-float(self.bound), float(self.bound))
        self.start_at(chosen, self.function(chosen))


@dataclass(frozen=True, kw_only=True)
class ActivationVariant(Variant):
    """What stands at the activations of a host.

    bound: |u| of the first fit, and of the penalty; None: the largest seen on the training data at the start.
    """

    bound: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        number = isinstance(self.bound, int | float) and not isinstance(self.bound, bool)
        if self.bound is not None and not (number and 0 < self.bound <= 1e6):
            raise UserError(
                f"activation.bound must be a number above 0 and at most 1e6, or null, and is {self.bound!r}"
            )

    def of(self, features: int) -> Activation:
        """An activation for so many features, before its first fit."""
        raise NotImplementedError

    def make(self, features: int) -> Activation:
        """The same, with the bound that is set."""
        made = self.of(features)
        if self.bound is not None:
            made.fixed = True
            made.bound.fill_(float(self.bound))
        return made


@dataclass(frozen=True, kw_only=True)
class ExactActivations(ActivationVariant):
    """The host's own activations, untouched."""

    name: ClassVar[str] = "exact"


def least_squares(columns: Tensor, y: Tensor, ridge: float = 1e-6, prior: Tensor | None = None) -> Tensor:
    """Coefficients (F, K) for each feature: sum over i of w_i columns_i nearest to y in the mean square.

    columns (N, F, K), y (N, F), both in float64. ridge: weight of the squared distance to ``prior`` (F, K; none: 0),
    beside the mean over rows; with it a feature that does not vary has one solution.
    """
    gram = torch.einsum("nfi,nfj->fij", columns, columns) / len(columns)
    right = torch.einsum("nfi,nf->fi", columns, y) / len(columns)
    gram = gram + ridge * torch.eye(columns.shape[-1], dtype=gram.dtype, device=gram.device)
    right = right if prior is None else right + ridge * prior
    return torch.linalg.solve(gram, right[..., None])[..., 0]


def standard(u: Tensor) -> tuple[Tensor, Tensor]:
    """(mean, spread), each (F,), of every feature of u (N, F); no spread is below a tenth of the layer's."""
    spread = u.std(0, unbiased=False)
    return u.mean(0), torch.maximum(spread, 0.1 * u.std(unbiased=False)).clamp_min(1e-6)
