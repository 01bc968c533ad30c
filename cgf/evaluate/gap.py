"""What CGF-softmax costs a model, by layer and head: the error of its row sums, and the loss that goes with it.

CGF-softmax keeps the ratios of the exact weights: its weights are s times the exact ones, with s their row sum. So ln s
is the error of its log mean exponential with the sign turned, s - 1 the error of the row sum, and an attention's output
is s times the exact one. Whatever CGF-softmax loses, it loses by these factors, one for each row and head.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from scipy.stats import spearmanr
from torch import Tensor

from cgf.errors import UserError
from cgf.evaluate.loop import Outcome
from cgf.evaluate.observe import rows_of_real_tokens
from cgf.models.host import Host
from cgf.models.install import installed
from cgf.softmax.attend import Dropout
from cgf.softmax.base import Softmax
from cgf.softmax.cgf import CGF, MOST
from cgf.softmax.exact import Exact
from cgf.softmax.slot import Around, Slot
from cgf.softmax.tensor import TensorRows
from cgf.types import Json

NEAR = (0.5, 2.0)  # row sums between these are not told as outside
Run = Callable[[], Outcome]  # one pass of the host, as it stands, over the samples
Factor = Callable[[Tensor, Tensor, "Tensor | None"], Tensor]  # weights, row sums (..., 1), valid -> weights


def log_row_sums(softmax: CGF, scores: Tensor, valid: Tensor | None) -> Tensor:
    """ln s (..., Q) of scores (..., Q, K) in float64: the log sum of the exponentials of the exponent, exp itself."""
    y = softmax.exponent(TensorRows.of(scores, valid, torch.float64)).data
    if valid is not None:
        y = y.masked_fill(~valid.expand(y.shape), -torch.inf)
    return y.logsumexp(-1)


@dataclass
class HeadSums:
    """Sums over the rows of real tokens of a layer, a number for each head."""

    rows: Tensor | float = 0.0
    log: Tensor | float = 0.0
    log_squared: Tensor | float = 0.0
    off: Tensor | float = 0.0  # |s - 1|
    outside: Tensor | float = 0.0
    error: Tensor | float = 0.0  # squares of the outputs' errors, and of the exact outputs
    output: Tensor | float = 0.0

    def add(self, log: Tensor, output: Tensor, real: Tensor) -> None:
        """log and real (B, H, Q), output (B, H, Q, E): ln s, whose rows count, and the exact outputs."""
        weight, s = real.double(), log.clamp(max=MOST).exp()
        size = output.double().square().sum(-1)
        for name, each in (
            ("rows", torch.ones_like(log)),
            ("log", log),
            ("log_squared", log.square()),
            ("off", (s - 1).abs()),
            ("outside", ((s < NEAR[0]) | (s > NEAR[1])).double()),
            ("error", (s - 1).square() * size),
            ("output", size),
        ):
            setattr(self, name, getattr(self, name) + (each.where(real, 0.0) * weight).sum((0, 2)))

    def heads(self) -> Iterator[Json]:
        """Of each head: rows, mean and deviation of ln s, mean of |s - 1|, share outside, error of the outputs."""
        table = torch.stack([torch.as_tensor(getattr(self, name)) for name in vars(self)]).T.tolist()
        for rows, log, squared, off, outside, error, output in table:
            mean, mean_square = log / rows, squared / rows
            yield {
                "rows": int(rows),
                "log_mean": mean,
                "log_deviation": max(0.0, mean_square - mean**2) ** 0.5,
                "log_size": mean_square**0.5,
                "row_sum_off": off / rows,
                "outside": outside / rows,
                "output_error": (error / output) ** 0.5 if output else 0.0,
            }


class Watched(Around):
    """Sums up what another softmax, the ``subject``, would do to each row that the inner slot sees."""

    def __init__(self, inner: Slot, subject: CGF) -> None:
        super().__init__(inner)
        self.subject, self.sums = subject, HeadSums()

    def attention(
        self, query: Tensor, key: Tensor, value: Tensor, scaling: float, valid: Tensor | None, drop: Dropout
    ) -> tuple[Tensor, Tensor | None]:
        """The inner slot's outputs and weights."""
        scores = self.scores(query, key, scaling)
        exact = Exact().weights(scores, valid).to(value.dtype) @ value
        log = log_row_sums(self.subject, scores, valid)
        real = rows_of_real_tokens(valid, scores.shape)
        self.sums.add(log, exact, torch.ones_like(log, dtype=torch.bool) if real is None else real)
        return super().attention(query, key, value, scaling, valid, drop)


class Replaced(Around):
    """The inner slot's weights, but for one head, whose are another softmax's."""

    def __init__(self, inner: Slot, other: Softmax, head: int) -> None:
        super().__init__(inner)
        self.other, self.head = other, head

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Weights (B, H, Q, K)."""
        weights = super().weights(scores, valid).clone()
        weights[:, self.head] = self.other.weights(scores, valid)[:, self.head]
        return weights


class Corrected(Around):
    """CGF-softmax's weights with their row sums put right in some way."""

    def __init__(self, inner: Slot, correct: Factor) -> None:
        super().__init__(inner)
        self.correct = correct

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Weights (B, H, Q, K)."""
        weights = super().weights(scores, valid)
        return self.correct(weights, weights.sum(-1, keepdim=True), valid)


def unit_rows(weights: Tensor, sums: Tensor, valid: Tensor | None) -> Tensor:
    """w + (1 - s) / n: the order stays, the row sums to one, linear in w (no level). n: valid entries of the row."""
    if valid is None:
        return weights + (1 - sums) / weights.shape[-1]
    there = valid.expand(weights.shape)
    return (weights + (1 - sums) / there.sum(-1, keepdim=True).clamp(min=1)).where(there, 0.0)


def newton(weights: Tensor, sums: Tensor, valid: Tensor | None) -> Tensor:
    """w (2 - s): a step of Newton's iteration for 1 / s from 1, one level; good where s is near one."""
    return weights * (2 - sums)


def scaled(weights: Tensor, sums: Tensor, valid: Tensor | None, by_head: Tensor) -> Tensor:
    """Each head's weights times one public number (H,): no level."""
    return weights * by_head.to(weights.dtype)[:, None, None]


@dataclass(frozen=True)
class Gap:
    """One host, CGF-softmax, and the softmaxes that the host was trained with: all exact, or all CGF-softmax.

    run  a pass of the host over the samples; what puts rows right is chosen by it, so never of the test split
    Raises UserError for a model that was trained with another softmax than these two.
    """

    host: Host
    own: Sequence[Softmax]
    subject: CGF
    run: Run
    say: Callable[[str], None] = field(default=print)

    def __post_init__(self) -> None:
        if not self.exact and any(own.to_json() != self.subject.to_json() for own in self.own):
            raise UserError(
                f"the gap is between exact softmax and {self.subject.to_json()}, and the checkpoint was trained with "
                f"{self.own[0].to_json()}: leave softmax out"
            )

    @property
    def exact(self) -> bool:
        """Whether the model was trained with exact softmax."""
        return all(isinstance(softmax, Exact) for softmax in self.own)

    def measured(self) -> Json:
        """``heads`` with what each one's row sums are and cost, what of them ``tells`` the cost, the ``whole`` model.

        cost  cross-entropy with CGF-softmax in the head, less that with exact softmax there, all others as trained;
              None where one of them is no finite number
        """
        with installed(self.host.model, lambda layer: Watched(self.own[layer], self.subject)) as slots:
            base = self.run()
            sums = [slot.sums for slot in slots]
        heads: list[Json] = []
        for layer, of_layer in enumerate(sums):
            for head, row in enumerate(of_layer.heads()):
                change = self._with(partial(self._one, layer, head)).loss - base.loss
                heads.append({"layer": layer, "head": head, **row, "cost": finite(change if self.exact else -change)})
            self.say(f"layer {layer + 1} of {len(sums)}: {len(heads)} heads done")
        return {"heads": heads, "tells": tells(heads), "whole": self.whole(sums)}

    def whole(self, sums: Sequence[HeadSums]) -> Json:
        """Cross-entropy and accuracy with exact softmax everywhere, with CGF-softmax, and with its rows put right.

        mean_off takes the mean of ln s off, a number for each head, as measured on the same samples.
        """
        factors = [torch.tensor([-row["log_mean"] for row in one.heads()]).exp() for one in sums]
        ways: dict[str, Callable[[int], Slot]] = {
            "exact": lambda layer: Exact(),
            "as_it_is": lambda layer: self._subject(),
            "mean_off": lambda layer: Corrected(self._subject(), partial(scaled, by_head=factors[layer])),
            "unit_rows": lambda layer: Corrected(self._subject(), unit_rows),
            "newton": lambda layer: Corrected(self._subject(), newton),
        }
        outcomes = {name: self._with(slot) for name, slot in ways.items()}
        return {name: {"loss": finite(one.loss), "accuracy": one.accuracy} for name, one in outcomes.items()}

    def _subject(self) -> CGF:
        return copy.deepcopy(self.subject)

    def _one(self, changed: int, head: int, layer: int) -> Slot:
        """The layer's own softmax; in the changed layer with the other one in a head."""
        other = self._subject() if self.exact else Exact()
        return Replaced(self.own[layer], other, head) if layer == changed else self.own[layer]

    def _with(self, slot: Callable[[int], Slot]) -> Outcome:
        with installed(self.host.model, slot):
            return self.run()


def finite(value: float) -> float | None:
    """The value; None where it is no finite number."""
    return value if math.isfinite(value) else None


def tells(heads: Sequence[Json]) -> Json:
    """Spearman's rank correlation over the heads of each measure with the cost, and its p; None where all are alike,
    or there are fewer than three.

    A cost that is no number ranks above all others.
    """
    costs = [math.inf if head["cost"] is None else head["cost"] for head in heads]
    told: Json = {}
    for name in ("log_size", "log_deviation", "row_sum_off", "outside", "output_error"):
        measure = [head[name] for head in heads]
        alike = len(set(measure)) == 1 or len(set(costs)) == 1 or len(heads) < 3  # two have no p
        ranks = None if alike else spearmanr(measure, costs)
        told[name] = None if ranks is None else {"rho": float(ranks.statistic), "p": float(ranks.pvalue)}
    return told
