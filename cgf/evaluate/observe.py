"""Observers of a softmax: they see the exponent and the weights of every row, and change nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from cgf.errors import UserError
from cgf.plan.calibration import Calibration, merged
from cgf.softmax.base import Softmax
from cgf.softmax.slot import Around, Slot
from cgf.softmax.tensor import TensorRows
from cgf.types import Json


def entries_that_count(y: Tensor, valid: Tensor | None) -> Tensor:
    """The valid entries of y (..., Q, K), flat."""
    return y.flatten() if valid is None else y[valid.expand(y.shape)]


def rows_of_real_tokens(valid: Tensor | None, shape: torch.Size) -> Tensor | None:
    """(B, H, Q) bool: False for the rows of padding tokens; None: all are real.

    In self-attention a token may attend itself unless it is padding. With other keys than queries nothing
    tells padding rows apart, and all count as real.
    """
    if valid is None or shape[-1] != shape[-2]:
        return None
    return valid.expand(shape).diagonal(dim1=-2, dim2=-1)


@dataclass
class Calibrator:
    """Feeds a Calibration a layer and head; attach to softmaxes that have an exponent.

    Needs y (..., H, Q, K). Raises UserError, with the layer, where y is not finite.
    """

    heads: dict[tuple[int, int], Calibration] = field(default_factory=dict)

    def __call__(self, softmax: Softmax, y: Tensor, weights: Tensor, valid: Tensor | None) -> None:
        if not bool(y.isfinite().all()):
            raise UserError(
                f"layer {softmax.layer} gives an exponent that is not finite: the scores of the layers "
                "before it have run off"
            )
        sums, real = weights.double().sum(-1), rows_of_real_tokens(valid, y.shape)
        whole = None if valid is None else valid.expand(y.shape)
        for head in range(y.shape[-3]):
            self.heads.setdefault((softmax.layer, head), Calibration()).add(
                _numbers(y, -3, head),
                _numbers(sums, -2, head),
                None if whole is None else _numbers(whole, -3, head),
                None if real is None else _numbers(real, -2, head),
            )

    @property
    def layers(self) -> dict[int, Calibration]:
        """All heads of a layer together, by layer."""
        return {layer: merged(self.of_layer(layer)) for layer in sorted({layer for layer, _ in self.heads})}

    def of_layer(self, layer: int) -> list[Calibration]:
        """The heads of a layer, in order."""
        return [self.heads[key] for key in sorted(self.heads) if key[0] == layer]


def _numbers(tensor: Tensor, axis: int, head: int) -> np.ndarray:
    """One head of (..., H, Q, K) as (rows, K), or of (..., H, Q) as (rows,)."""
    return tensor.select(axis, head).flatten(0, axis + 1).detach().cpu().numpy()


class Onlooker(Around):
    """Shows another softmax, the ``subject``, the queries and keys that the inner slot makes the weights of.

    So a model runs as it was trained while the exponent of another softmax is observed.
    """

    def __init__(self, inner: Slot, subject: Softmax) -> None:
        super().__init__(inner)
        self.subject = subject
        self._own: list[Tensor] = []  # the subject's scores of this pass

    def sized(self, heads: int) -> None:
        """Tells both softmaxes the heads of their layer."""
        super().sized(heads)
        self.subject.sized(heads)

    def scores(self, query: Tensor, key: Tensor, scaling: float) -> Tensor:
        """The inner slot's scores (B, H, Q, K); the subject has its own, as a Gaussian kernel has distances."""
        self._own[:] = [self.subject.scores(query, key, scaling)]
        return super().scores(query, key, scaling)

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """The inner slot's weights (B, H, Q, K); the subject's, of its own scores, are seen by its observers alone."""
        self.subject.layer = self.layer
        self.subject.weights(self._own.pop() if self._own else scores, valid)
        return super().weights(scores, valid)


@dataclass
class ExponentMonitor:
    """Counts entries outside an accuracy domain and beyond a guard, and keeps the range seen.

    domain and guard None: those that each softmax states, where it does. Range, row sums and what
    lies outside the domain are of the rows of real tokens; beyond the guard are counted the rows of padding
    tokens too, since a circuit computes on them.
    """

    domain: tuple[float, float] | None = None
    guard: tuple[float, float] | None = None
    entries: int = 0
    outside: int = 0
    beyond: int = 0
    has_domain: bool = False
    has_guard: bool = False
    low: float = float("inf")
    high: float = float("-inf")
    row_sums: list[Tensor] = field(default_factory=list)
    places: dict[tuple[int, int], int] = field(default_factory=dict)  # (layer, head) -> entries beyond the guard

    def __call__(self, softmax: Softmax, y: Tensor, weights: Tensor, valid: Tensor | None) -> None:
        entries, real = entries_that_count(y, valid), rows_of_real_tokens(valid, y.shape)
        own = softmax.intervals() or (None, None)
        domain, guard = self.domain or own[0], self.guard or own[1]
        self.has_domain, self.has_guard = self.has_domain or domain is not None, self.has_guard or guard is not None
        self._count(softmax, y, valid, guard)
        sums = weights.sum(-1).flatten()
        if real is not None:  # what comes of a padding token goes nowhere
            # mypy: a mask comes with its queries
            entries, sums = y[valid.expand(y.shape) & real[..., None]], sums[real.flatten()]  # type: ignore[union-attr]
        self.entries += entries.numel()
        self.low, self.high = min(self.low, float(entries.min())), max(self.high, float(entries.max()))
        self.outside += beyond(entries, domain)
        self.row_sums.append(torch.stack([sums.min(), sums.median(), sums.max()]).detach().cpu())

    def _count(self, softmax: Softmax, y: Tensor, valid: Tensor | None, guard: tuple[float, float] | None) -> None:
        """Entries beyond the guard, by layer and head."""
        if guard is None or not (count := beyond(entries_that_count(y, valid), guard)):
            return
        self.beyond += count
        whole = None if valid is None else valid.expand(y.shape)
        for head in range(y.shape[-3] if y.dim() > 2 else 0):
            own = entries_that_count(y.select(-3, head), None if whole is None else whole.select(-3, head))
            key = softmax.layer, head
            self.places[key] = self.places.get(key, 0) + beyond(own, guard)

    def summary(self) -> Json:
        """Metrics of a result file; nothing was seen where a softmax has no exponent.

        The median of the row sums is that of the medians of layers and batches, not of all rows at once.
        """
        if not self.entries:
            return dict.fromkeys(("entries", "outside_domain", "beyond_guard", "beyond_at", "range", "row_sum"))
        sums = torch.stack(self.row_sums)
        return {
            "entries": self.entries,
            "outside_domain": self.outside / self.entries if self.has_domain else None,
            "beyond_guard": self.beyond if self.has_guard else None,
            "beyond_at": [
                {"layer": layer, "head": head, "entries": count}
                for (layer, head), count in sorted(self.places.items())
                if count
            ],
            "range": [self.low, self.high],
            "row_sum": {
                "min": float(sums[:, 0].min()),
                "median": float(sums[:, 1].median()),
                "max": float(sums[:, 2].max()),
            },
        }

    def told(self) -> str:
        """Where the entries lay, in words, for whoever has to choose another interval."""
        if not self.entries:
            return "what it was given was not watched"
        share = self.outside / self.entries
        return f"its entries reach from {self.low:.4g} to {self.high:.4g}, {share:.1%} of them outside its domain"


def beyond(y: Tensor, interval: tuple[float, float] | None) -> int:
    """How many values lie outside an interval; none if there is no interval."""
    return 0 if interval is None else int(((y < interval[0]) | (y > interval[1])).sum())


class PolynomialReading(Around):
    """Gives a softmax's reading for its weights; observers see what its intervals are about."""

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """The softmax's reading (B, H, Q, K) of its scores."""
        weights = self.softmax.reading(scores, valid)
        if self.softmax.observers:
            # mypy: observers belong to softmaxes with an argument
            y = self.softmax.argument(TensorRows.of(scores, valid)).data  # type: ignore[attr-defined]
            for observer in self.softmax.observers:
                observer(self.softmax, y, weights, valid)
        return weights
