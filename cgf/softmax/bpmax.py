"""BPMax: a shifted odd power over a denominator that is a public constant by the time of encryption."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cgf.approx.exponential import A, square
from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.softmax.base import Softmax
from cgf.softmax.value import V

if TYPE_CHECKING:
    from torch import Tensor

EPSILON = 1e-10  # the definition's own guard against a zero denominator
UNREACHED = 1.0  # R of a query position at which no row of a training batch had a key


def power(value: A, p: int, times: A | None = None) -> A:
    """value^p for p >= 1 by squaring, times another value if given: ceil(log2 p) levels.

    The other value enters first, so that it costs no level of its own where p has a bit to spare.
    """
    result, base = times, value
    while p:
        if p & 1:
            result = base if result is None else result * base
        p >>= 1
        base = square(base) if p else base
    assert result is not None
    return result


@dataclass(eq=False)
class BPMax(Softmax):
    """P = (x + c)^p;  weights = P / R, with R[h, q] = max over the batch of sum_k P[b, h, q, k].

    As defined for Powerformer (Park et al., ACL 2025): p odd, the sum runs over all keys, those that may
    not be attended included; in training R comes from the batch and the gradient flows through it; the
    buffer keeps the last training batch's value, and evaluation uses it. Query positions that no training
    batch reached keep R = 1. Encrypted, R is public and divides the scores as its p-th root (``roots``): levels
    ceil(log2 p). Weights are zero where not valid; x + c < 0 gives negative weights. Raises UserError for a p that is
    not odd and positive, and a c that is no finite number.
    """

    name: ClassVar[str] = "bpmax"
    label: ClassVar[str] = "BPMax, p = {p}"
    source: ClassVar[str] = "Powerformer, Park et al., ACL 2025"
    p: int = 5
    c: float = 5.0
    denominator: Tensor | None = field(default=None, init=False, repr=False)  # (H, Q, 1)
    reached: int = field(default=0, init=False, repr=False)  # query positions of the last training batch
    heads: int | None = field(default=None, init=False, repr=False)  # of the layer that it was put into

    def __post_init__(self) -> None:
        if not is_whole(self.p) or self.p < 1 or self.p % 2 == 0:
            raise UserError(f"BPMax needs a positive odd power p, and p={self.p} was given")
        if isinstance(self.c, bool) or not isinstance(self.c, int | float) or not math.isfinite(self.c):
            raise UserError(f"BPMax needs a finite number for its shift c, and c={self.c!r} was given")

    def formula(self, x: V) -> V:
        """The frozen form: the denominator is public. r/R joins one factor, which saves a level, but for p = 1.

        x is scores times r^(-1/p) with r the geometric mean of the R: powers and factors are then near 1, where 1/R
        alone, often below 1e-4, would leave few digits above the noise of a ciphertext.
        """
        shifted = x + self.c * self.public_scale(None)
        scaled = shifted.times_public(self.typical / self.denominators(x.queries))
        return scaled if self.p == 1 else power(shifted, self.p - 1, times=scaled)

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """As ``Softmax.weights`` for scores (..., H, Q, K); in training by the R of this batch, which is kept.

        Raises UserError for scores without heads.
        """
        import torch

        from cgf.softmax.tensor import TensorRows

        if scores.dim() < 3:
            raise UserError(f"{self.name} needs scores (..., H, Q, K), and got {scores.dim()} dimensions")
        dense = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if self.training:
            powers = power(dense + self.c, self.p)
            denominator = self.measure(powers, valid)
            weights = powers / (denominator + EPSILON)
            return weights if valid is None else torch.where(valid, weights, weights.new_zeros(()))
        if self.denominator is None:
            warnings.warn(f"{self.name} has measured no denominators, and computes with R = 1: train it", stacklevel=2)
        rows = TensorRows(dense, valid, 1.0)  # at_invalid(0) comes last: the power needs no mask
        return self.formula(rows * self.public_scale(None)).at_invalid(0.0).data

    def measure(self, powers: Tensor, valid: Tensor | None) -> Tensor:
        """Denominator (H, Q, 1) of this batch of powers (..., H, Q, K), kept for evaluation."""
        sums = powers.sum(-1, keepdim=True)
        batch_max = sums.reshape(-1, *sums.shape[-3:]).amax(0)
        self._keep(batch_max.detach())
        return batch_max

    def _keep(self, measured: Tensor) -> None:
        """Takes R (H, Q, 1) over; positions beyond Q keep what an earlier batch left."""
        heads, queries, _ = measured.shape
        old = self.denominator
        if old is None:
            old = measured.new_ones(heads, 0, 1)
        if old.shape[1] < queries:
            grown = measured.new_ones(heads, queries, 1)
            grown[:, : old.shape[1]] = old.to(measured.device)
            old = grown
        old = old.to(measured.device).clone()
        old[:, :queries] = measured
        self.denominator, self.reached = old, queries

    def measured(self) -> Tensor | None:
        """R (H, Q, 1) at the positions that the last training batch reached."""
        return None if self.denominator is None else self.denominator[:, : self.reached].cpu()

    def pool(self, measurements: list[Tensor], shares: list[float]) -> None:
        """At each position the R of those that reached it, as ``merge`` puts them together: for BPMax their largest."""
        import torch

        present, start, parts = [(r, share) for r, share in zip(measurements, shares, strict=True) if share], 0, []
        for end in sorted({r.shape[1] for r, _ in present}):
            reaching = [(r[:, start:end], share) for r, share in present if r.shape[1] >= end]
            parts.append(self.merge([r for r, _ in reaching], [share for _, share in reaching]))
            start = end
        assert self.denominator is not None
        self._keep(torch.cat(parts, 1).to(self.denominator.device))

    @staticmethod
    def merge(values: list[Tensor], shares: list[float]) -> Tensor:
        """One R (H, Q, 1) of those of several processes: their largest."""
        import torch

        return torch.stack(values).amax(0)

    @property
    def typical(self) -> float:
        """r, the geometric mean of the denominators' sizes; 1 where none is left.

        Zeros and positions that training did not reach are left out.

        An odd power of scores below -c is negative, so that a denominator may be.
        """
        sizes = None if self.denominator is None else self.denominator.double().abs()
        if sizes is None or not bool((sizes > EPSILON).any()):
            return 1.0
        known = sizes[(sizes > EPSILON) & (sizes != UNREACHED)]
        return float(known.log().mean().exp()) if len(known) else 1.0

    def public_scale(self, count: int | None) -> float:
        """r^(-1/p), which makes powers of the shifted scores weights but for the ratio of r and R."""
        return float(self.typical ** (-1.0 / self.p))

    def denominators(self, queries: int) -> Tensor | float:
        """R + eps as (H, Q, 1) in float64, or a number near 1 where nothing was measured yet.

        Warns where there are more query positions than training reached. UserError where one of them is no number that
        can divide.
        """
        if self.denominator is None:
            return 1.0 + EPSILON
        kept, reached = self.denominator, self.denominator.shape[1]
        if reached < queries:
            warnings.warn(
                f"{self.name} measured its denominators on {reached} query positions, and these rows have more: "
                "beyond them R = 1, so that weights there are powers of scores that nothing divides",
                stacklevel=2,
            )
            kept = kept.new_ones(kept.shape[0], queries, 1)
            kept[:, :reached] = self.denominator
        if missing := int((self.denominator[:, :queries] == UNREACHED).all(0).sum()):
            warnings.warn(
                f"{self.name} measured no denominator at {missing} of {queries} query positions, where no row of its "
                "training had a key: R = 1 there, so that weights are powers of scores that nothing divides",
                stacklevel=2,
            )
        known = kept[:, :queries].double() + EPSILON
        if not bool((known.isfinite() & (known != 0)).all()):
            head, query = (~known.isfinite() | (known == 0)).nonzero()[0, :2].tolist()
            raise UserError(
                f"layer {self.layer} of {self.name} cannot divide by {float(known[head, query, 0])}, the denominator "
                f"of head {head} at query position {query}: train it again"
            )
        return known

    def roots(self, queries: int) -> np.ndarray:
        """t (H, Q, 1), or one number where nothing was measured yet, with (t x + t c)^p = (x + c)^p / (R + eps).

        Of a negative R the root is negative, since p is odd.
        """
        known = self.denominators(queries)
        values = np.asarray(known if isinstance(known, float) else known.cpu())
        roots: np.ndarray = np.sign(values) * np.abs(values) ** (-1.0 / self.p)
        return roots

    def tensors(self) -> dict[str, Tensor]:
        """denominator: R (H, Q, 1), once it was measured."""
        return {} if self.denominator is None else {"denominator": self.denominator}

    def required_tensors(self) -> tuple[str, ...]:
        """The denominator."""
        return ("denominator",)

    def sized(self, heads: int) -> None:
        """Takes the count of heads, which denominators are kept for. UserError where it has those of another count."""
        if self.denominator is not None and self.denominator.shape[0] != heads:
            raise UserError(
                f"{self.name} has denominators of {self.denominator.shape[0]} heads, and this layer has {heads}"
            )
        self.heads = heads

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Takes the denominator over. Raises UserError for any other tensor, and for one of another shape."""
        unknown = set(tensors) - {"denominator"}
        if unknown:
            raise UserError(f"{self.name} keeps the tensor 'denominator', and the checkpoint has {sorted(unknown)}")
        given = tensors.get("denominator")
        shape = None if given is None else tuple(given.shape)
        if shape is not None and (len(shape) != 3 or shape[2] != 1 or self.heads not in (None, shape[0])):
            raise UserError(
                f"{self.name} needs 'denominator' of shape ({self.heads or 'heads'}, queries, 1), and the checkpoint "
                f"has {shape}"
            )
        self.denominator = given


@dataclass(eq=False)
class CalibratedBPMax(BPMax):
    """BPMax whose denominator is a running mean of the row sums over valid keys; our variant, not theirs.

    R[h, q] <- momentum R[h, q] + (1 - momentum) mean over the batch of sum over valid k of P[b, h, q, k];
    no gradient flows through it, and training uses the same number that evaluation will, so a model does
    not depend on its last batch. Rows sum to about 1. Positions not reached yet start at the batch's own, and a
    position at which no row of a batch has a valid key keeps what it had. Raises UserError for a momentum
    outside [0, 1).
    """

    name: ClassVar[str] = "bpmax_calibrated"
    label: ClassVar[str] = "calibrated BPMax, p = {p}"
    stand_in: ClassVar[str] = "the running mean for a denominator is ours"
    momentum: float = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise UserError(f"a running mean needs momentum from 0 to below 1, and momentum={self.momentum} was given")

    def measure(self, powers: Tensor, valid: Tensor | None) -> Tensor:
        """Running mean (H, Q, 1) after this batch of powers (..., H, Q, K), kept for evaluation."""
        import torch

        powers = powers.detach()
        # gradient checkpointing computes a batch once more: this project's says so, others do it within a backward pass
        again = self.again or torch._C._current_graph_task_id() != -1
        if again and self.denominator is not None:  # the pass before has counted this batch already
            return self.denominator[:, : powers.shape[-2]].to(powers)
        if valid is None:
            sums, present = powers.sum(-1, keepdim=True), None
        else:
            sums = torch.where(valid, powers, powers.new_zeros(())).sum(-1, keepdim=True)
            present = valid.any(-1, keepdim=True).expand(sums.shape).to(sums.dtype)
        sums = sums.reshape(-1, *sums.shape[-3:])
        if present is None:
            mean = sums.mean(0)
        else:
            # 1. the mean over rows with a key; a position without any is not reached by this batch
            present = present.reshape(sums.shape)
            having = present.sum(0)
            mean = torch.where(
                having > 0, (sums * present).sum(0) / having.clamp(min=1.0), having.new_tensor(UNREACHED)
            )
        if self.denominator is not None and (shared := min(self.denominator.shape[1], mean.shape[1])):
            # 2. moved towards it where both are known, else the one that is
            old, new = self.denominator[:, :shared].to(mean.device), mean[:, :shared]
            moved = self.momentum * old + (1 - self.momentum) * new
            mean[:, :shared] = torch.where(old == UNREACHED, new, torch.where(new == UNREACHED, old, moved))
        self._keep(mean)
        return mean

    @staticmethod
    def merge(values: list[Tensor], shares: list[float]) -> Tensor:
        """Their mean, each by its share of the batch, over those that reached a position."""
        import torch

        reached = torch.stack([value != UNREACHED for value in values])
        if not bool(reached.all()):
            every, share = torch.stack(values), values[0].new_tensor(shares)[:, None, None, None] * reached
            total = share.sum(0)
            mean = (share * every).sum(0) / total.clamp(min=EPSILON)
            return torch.where(total > 0, mean, total.new_tensor(UNREACHED))
        weighted = sum(
            (share * value for share, value in zip(shares, values, strict=True)), start=values[0].new_zeros(())
        )
        return weighted / sum(shares)
