"""The reading of a softmax formula on torch tensors: differentiable, batched over (..., Q, K)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

FAR = 256.0  # a mean beyond it, in float32, is rounded by so much that weights would be off by 5e-5 and more


@dataclass(frozen=True)
class TensorRows:
    """Scores (..., Q, K), the boolean places that count (broadcasts to them; None: all), and row counts.

    data    (..., Q, K) for entries, (..., Q, 1) for row values; float32 or float64
    valid   bool, broadcasts to (..., Q, K), or None
    counts  (..., Q, 1) or a number: n_i, at least 1 so that a row without any valid entry stays finite

    Implements ``cgf.softmax.value.ClearValue``, whose docstrings say what each operation means.
    """

    data: Tensor
    valid: Tensor | None
    counts: Tensor | float

    @classmethod
    def of(cls, scores: Tensor, valid: Tensor | None, dtype: torch.dtype | None = None) -> TensorRows:
        """Scores in dtype (None: float32 or better), zero where not valid."""
        data = scores.to(dtype or torch.promote_types(scores.dtype, torch.float32))
        if valid is None:
            return cls(data, None, float(scores.shape[-1]))
        valid = valid.to(data.device)
        counts = valid.expand(*valid.shape[:-1], scores.shape[-1]).sum(-1, keepdim=True)
        counts = counts.clamp(min=1).to(data.dtype)
        return cls(torch.where(valid, data, data.new_zeros(())), valid, counts)

    @property
    def count(self) -> int | None:
        """The n_i of all rows where there is no mask; with one, rows may differ, and it is None."""
        return int(self.counts) if isinstance(self.counts, float) else None

    @property
    def queries(self) -> int:
        """Q of the data (..., Q, K)."""
        return self.data.shape[-2]

    def _with(self, data: Tensor) -> TensorRows:
        return replace(self, data=data)

    def _as_data(self, array: float | np.ndarray | Tensor) -> Tensor:
        """Public numbers in the precision and on the device of the data; gradients go on to a Parameter."""
        return torch.as_tensor(array, dtype=self.data.dtype, device=self.data.device)

    def __add__(self, other: TensorRows | Tensor | float) -> TensorRows:
        return self._with(self.data + _raw(other))

    __radd__ = __add__

    def __sub__(self, other: TensorRows | Tensor | float) -> TensorRows:
        return self._with(self.data - _raw(other))

    def __mul__(self, other: TensorRows | Tensor | float) -> TensorRows:
        return self._with(self.data * _raw(other))

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> TensorRows:
        return self._with(self.data**exponent)

    def square(self) -> TensorRows:
        """Entrywise."""
        return self._with(self.data.square())

    def row_sum(self) -> TensorRows:
        """(..., Q, 1): entries that are not valid count as zero."""
        return self._with(self.at_invalid(0.0).data.sum(-1, keepdim=True))

    def row_mean(self) -> TensorRows:
        """(..., Q, 1): the sum of the valid entries by their count."""
        return self._with(self.row_sum().data / self.counts)

    def centred(self) -> TensorRows:
        """self - row_mean; rows whose mean float32 rounds too coarsely (``far_from_zero``) are centred once more."""
        mean = self.row_mean()
        once, far = self - mean, far_from_zero(mean.data)
        if far is None:
            return once
        return once._with(once.data - torch.where(far, once.row_mean().data, 0.0))  # elsewhere the same, bit for bit

    def minus_log_count(self, factor: float = 1.0) -> TensorRows:
        """ln n_i in the precision of the data."""
        return self._with(self.data - factor * self._as_data(self.counts).log())

    def plus_count(self, power: float) -> TensorRows:
        """n_i^power by row."""
        return self._with(self.data + self.counts**power)

    def times_count(self, power: float) -> TensorRows:
        """n_i^power by row."""
        return self._with(self.data * self.counts**power)

    def at_invalid(self, point: float) -> TensorRows:
        """``point`` where valid is False; itself where all count."""
        if self.valid is None:
            return self
        return self._with(torch.where(self.valid, self.data, self.data.new_full((), point)))

    def plus_public(self, array: float | np.ndarray | Tensor) -> TensorRows:
        """Numbers that broadcast to the data; a tensor's gradient is kept."""
        return self._with(self.data + self._as_data(array))

    def times_public(self, array: float | np.ndarray | Tensor) -> TensorRows:
        """Numbers that broadcast to the data; a tensor's gradient is kept."""
        return self._with(self.data * self._as_data(array))

    def row_fold(self, combine: Callable[[TensorRows, TensorRows], TensorRows]) -> TensorRows:
        """Halves of the row combined until one column (..., Q, 1) is left."""
        rows = replace(self, valid=None)  # whatever stands at invalid entries takes part
        while rows.data.shape[-1] > 1:
            half = (rows.data.shape[-1] + 1) // 2  # an odd row's middle entry meets itself
            rows = combine(rows._with(rows.data[..., :half]), rows._with(rows.data[..., -half:]))
        return self._with(rows.data)

    def refresh(self, levels: int, most: float = 1.0) -> TensorRows:
        """Itself: tensors have no levels."""
        return self

    def exp(self) -> TensorRows:
        """Entrywise."""
        return self._with(self.data.exp())

    def clamp(self, low: float, high: float) -> TensorRows:
        """Entrywise; no gradient beyond the ends."""
        return self._with(self.data.clamp(low, high))

    def reciprocal(self) -> TensorRows:
        """Entrywise; inf at zero."""
        return self._with(self.data.reciprocal())

    def relu(self) -> TensorRows:
        """Entrywise."""
        return self._with(self.data.relu())

    def sigmoid(self) -> TensorRows:
        """Entrywise."""
        return self._with(self.data.sigmoid())

    def row_abs_max(self) -> TensorRows:
        """(..., Q, 1)."""
        return self._with(self.data.abs().amax(-1, keepdim=True))

    def one_where_zero(self) -> TensorRows:
        """Entrywise, where an entry is smaller than the normal numbers of its precision; no gradient there."""
        tiny = torch.finfo(self.data.dtype).tiny
        return self._with(torch.where(self.data.abs() < tiny, self.data.new_ones(()), self.data))


def far_from_zero(mean: Tensor) -> Tensor | None:
    """Where a mean lies beyond FAR in float32, so that rows must be centred once more; None where none does."""
    if mean.dtype != torch.float32:
        return None
    far = mean.abs() > FAR
    return far if torch.compiler.is_compiling() or bool(far.any()) else None


def _raw(other: TensorRows | Tensor | float) -> Tensor | float:
    return other.data if isinstance(other, TensorRows) else other
