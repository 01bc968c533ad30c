"""Range and row-sum control: what is added to the loss so that the student suits a ciphertext, and what is seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial

import torch
from torch import Tensor

from cgf.distill.inputs import InputPenalty
from cgf.distill.penalty import RangePenalty, finite
from cgf.distill.row_sum import RowSumPenalty, row_sums
from cgf.errors import UserError
from cgf.replacement import Replacement
from cgf.softmax.base import Softmax
from cgf.types import JsonValue


@dataclass
class RangeControl:
    """The `penalty` node of the configuration: weight * sum of RangePenalty + row_sum.weight * mean of RowSumPenalty.

    weight, bound, high, worst   see RangePenalty
    row_sum                      weight, low, high of RowSumPenalty
    inputs                       weight, worst of InputPenalty, on what goes into replaced norms and activations
    ramp                         share of the steps in which both weights rise linearly to their value; 0: constant
    measuring                    set before a forward pass: ``report`` then tells its range and row sums

    Raises UserError for values that make no penalty.
    """

    weight: float = 0.0
    bound: float | Sequence[float] = 32.0
    high: float = 1.0
    worst: float = 0.02
    row_sum: Mapping[str, JsonValue] = field(default_factory=dict)
    inputs: Mapping[str, JsonValue] = field(default_factory=dict)
    ramp: float = 0.0
    measuring: bool = field(default=False, init=False)
    _terms: dict[str, list[Tensor]] = field(default_factory=dict, init=False, repr=False)
    _seen: list[list[float]] = field(default_factory=list, init=False, repr=False)
    _last: dict[str, float] = field(default_factory=dict, init=False, repr=False)
    _places: list[int] = field(default_factory=list, init=False, repr=False)
    _by_layer: list[dict[str, float]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self.range = RangePenalty(self.weight, self.bound, self.high, self.worst)
        known = [f.name for f in fields(RowSumPenalty)]
        if not isinstance(self.row_sum, Mapping) or set(self.row_sum) - set(known):
            raise UserError(f"penalty.row_sum takes {', '.join(known)}, and has {self.row_sum}")
        self.sums = RowSumPenalty(**self.row_sum)
        known = [f.name for f in fields(InputPenalty)]
        if not isinstance(self.inputs, Mapping) or set(self.inputs) - set(known):
            raise UserError(f"penalty.inputs takes {', '.join(known)}, and has {self.inputs}")
        self.into_parts = InputPenalty(**self.inputs)
        if not finite(self.ramp) or not 0 <= self.ramp <= 1:
            raise UserError(f"penalty.ramp must be a share of the steps from 0 to 1, and {self.ramp!r} was given")

    def watch(self, softmaxes: Sequence[Softmax]) -> None:
        """Listens to these softmaxes, in layer order.

        UserError where a penalty with a weight meets a softmax without an exponent: such a softmax shows its
        rows to nobody. Without a weight it is left alone.
        """
        for layer, (softmax, bound) in enumerate(zip(softmaxes, self.range.bounds(len(softmaxes)), strict=True)):
            if softmax.uses_exponential:
                softmax.observers.append(partial(self._observe, layer, bound))
            elif self.range.weight:
                raise UserError(f"penalty.weight needs a softmax with an exponent, and '{softmax.name}' has none")
            elif self.sums.weight:
                raise UserError(
                    "penalty.row_sum.weight needs a softmax whose rows can be observed (one with an "
                    f"exponent), and '{softmax.name}' is none"
                )

    def watch_parts(self, parts: Sequence[Replacement]) -> None:
        """Listens to replaced norms and activations, where penalty.inputs has a weight."""
        if self.into_parts.weight:
            for part in parts:
                part.observers.append(self._observe_input)

    def _observe_input(self, part: Replacement, values: Tensor, interval: tuple[float, float]) -> None:
        term = self.into_parts.term(values, interval)
        if not part.again:  # a second computation must do what the first did, and is taken already
            self._terms.setdefault("input_penalty", []).append(term)

    def _observe(
        self, layer: int, bound: float, softmax: Softmax, y: Tensor, weights: Tensor, valid: Tensor | None
    ) -> None:
        if not softmax.training:
            return
        terms = {}
        if self.range.weight:
            terms["range_penalty"] = self.range.term(y, valid, bound)
        if self.sums.weight:
            terms["row_sum_penalty"] = self.sums.term(y, weights, valid)
        if softmax.again:  # a second computation must do what the first did, and is taken already
            return
        for name, term in terms.items():
            self._terms.setdefault(name, []).append(term)
        if self.measuring:
            before = len(self._seen)
            self._measure(bound, y.detach(), row_sums(weights.detach(), valid), valid)
            self._places += [layer] * (len(self._seen) - before)  # none where no entry is valid

    def _measure(self, bound: float, y: Tensor, sums: Tensor, valid: Tensor | None) -> None:
        """Keeps the extremes of y and of the row sums (..., Q) of a layer, and how many lie outside of how many."""
        if valid is not None:
            keep = valid.expand(y.shape)
            y, sums = y[keep], sums[keep.any(-1)]
        if y.numel():
            y_outside = (y < -bound) | (y > self.range.high)
            sums_outside = (sums < self.sums.low) | (sums > self.sums.high)
            self._seen.append(
                [
                    float(v)
                    for v in (
                        -y.amin(),
                        y.amax(),
                        -sums.amin(),
                        sums.amax(),
                        y_outside.sum(),
                        y_outside.numel(),
                        sums_outside.sum(),
                        sums_outside.numel(),
                    )
                ]
            )

    def share(self, progress: float) -> float:
        """Of the full weights, at ``progress`` of the steps (above 0, at most 1): a function of it alone."""
        return min(1.0, progress / self.ramp) if self.ramp else 1.0

    def take(self, progress: float = 1.0) -> Tensor | None:
        """What the forward pass just made adds to the loss, or None; the next pass starts afresh."""
        share, terms, seen, places = self.share(progress), self._terms, self._seen, self._places
        self._terms, self._seen, self._last, self._places = {}, [], {}, []
        parts = {}
        if "range_penalty" in terms:
            parts["range_penalty"] = share * self.range.weight * torch.stack(terms["range_penalty"]).sum()
        if "row_sum_penalty" in terms:
            parts["row_sum_penalty"] = share * self.sums.weight * torch.stack(terms["row_sum_penalty"]).mean()
        if "input_penalty" in terms:
            parts["input_penalty"] = share * self.into_parts.weight * torch.stack(terms["input_penalty"]).sum()
        if seen:
            self._last = {**{k: float(v.detach()) for k, v in parts.items()}, **_summary(seen)}
            self._by_layer = [{"layer": at, **_summary([one])} for at, one in zip(places, seen, strict=True)]
        # mypy: a sum of tensors, whose start 0 is an int
        return sum(parts.values()) if parts else None  # type: ignore[return-value]

    def report(self) -> dict[str, float]:
        """Numbers of the last measured pass that was taken, by name; empty where nothing was seen.

        range_penalty, row_sum_penalty, input_penalty   what each added to the loss, ramp included; absent where off
        range_min, range_max             of y over all layers' valid entries
        range_outside                    share of entries outside [-bound, high], each layer by its own bound
        row_sum_min, row_sum_max         over the rows that have a valid entry
        row_sum_outside                  share of those rows outside [row_sum.low, row_sum.high]
        """
        return dict(self._last)

    def by_layer(self) -> list[dict[str, float]]:
        """``report`` by layer, of the last pass that was measured in this process, with the 'layer' of each row.

        Without the penalties. A layer that showed no rows, since its softmax has no exponent, has none here.
        """
        return [dict(row) for row in self._by_layer]


def _summary(layers: list[list[float]]) -> dict[str, float]:
    columns = list(zip(*layers, strict=True))
    most, counts = [max(c) for c in columns[:4]], [sum(c) for c in columns[4:]]
    return {
        "range_min": -most[0],
        "range_max": most[1],
        "range_outside": counts[0] / counts[1],
        "row_sum_min": -most[2],
        "row_sum_max": most[3],
        "row_sum_outside": counts[2] / counts[3],
    }


def together(reports: Sequence[Mapping[str, float]], shares: Sequence[float]) -> dict[str, float]:
    """One report of several shares of a batch: extremes over all, everything else averaged by the shares."""
    extreme = {"min": min, "max": max}
    whole = {}
    for name in reports[0]:
        values = [report[name] for report in reports]
        how = extreme.get(name.rpartition("_")[2])
        whole[name] = how(values) if how else sum(s * v for s, v in zip(shares, values, strict=True))
    return whole
