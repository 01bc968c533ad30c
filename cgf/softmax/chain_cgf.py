"""CGF-softmax with a square chain in place of exp, in training already, its constants trained along."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from cgf.approx.chain import SquareChain
from cgf.approx.exponential import Exponential, square
from cgf.approx.fit import chain, with_fit
from cgf.approx.head_chain import HeadChain
from cgf.checks import one_of, whole
from cgf.errors import UserError
from cgf.softmax.loop import LoopCGF
from cgf.softmax.value import Value

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter

TRAINABLE = ("none", "layer", "head")
SINGLE_K = 5  # squarings that float32 bears in training: 2^k times its rounding is 4e-6, below the chain's error


@dataclass(eq=False)
class ChainCGF(LoopCGF):
    """e(y) = z_k with z_0 = alpha y + beta, z_{i+1} = z_i^2 + c_i: k squarings, fitted on ``domain`` to start with.

    trainable  'layer': every layer trains its own beta and c; 'head': every head of every layer; 'none'.
    alpha stays as fitted, so that all heads share the circuit that the statistics are folded into. Constants are
    kept in float64 and read in training in the precision of y (float32 for k <= 5). Trained or not, a chain
    takes k levels: constants are added in the clear. After training ``exponential`` is a SquareChain, or a
    HeadChain, whose error and guard are measured anew on ``domain``.
    Source: ``SquareChain``; CGF-softmax paper, appendix 'Low-degree Variant' for the exponential in the loop.
    """

    name: ClassVar[str] = "cgf_chain"
    label: ClassVar[str] = "chain of {k} in the loop"
    source: ClassVar[str] = "this repository"
    weights_follow: ClassVar[tuple[str, ...]] = ("exponent", "apply_exponential")
    k: int = 3
    trainable: str = "layer"
    _heads: int | None = field(default=None, init=False, repr=False)
    _alpha: float | None = field(default=None, init=False, repr=False)
    _beta: Any = field(default=None, init=False, repr=False)  # Parameter () or (heads, 1, 1)
    _constants: Any = field(default=None, init=False, repr=False)  # Parameter (k,) or (k, heads, 1, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("softmax.k", self.k, 1, 12)
        one_of("softmax.trainable", self.trainable, TRAINABLE)

    # -- the constants -----------------------------------------------------------------------------

    def sized(self, heads: int) -> None:
        if self._heads not in (None, heads):
            raise UserError(f"the chains of {self._heads} heads do not fit a layer of {heads} heads")
        if self.trainable == "head":
            self._heads = heads

    def _start(self) -> tuple[Parameter, Parameter]:
        """(beta, constants), from the fit where nothing was trained or loaded yet."""
        if self._beta is None:
            import torch

            first = self._from_fit()
            self._put(
                first.a,
                torch.tensor(first.b, dtype=torch.float64).expand(self._shape()),
                torch.tensor(first.constants, dtype=torch.float64)
                .reshape(self.k, *[1] * len(self._shape()))
                .expand(self.k, *self._shape()),
            )
        return self._beta, self._constants

    def _from_fit(self) -> SquareChain:
        return chain(self.domain[0], self.domain[1], self.k)

    def _put(self, alpha: float, beta: Tensor, constants: Tensor) -> None:
        """Takes these constants over, in the Parameters that an optimizer may hold already."""
        from torch.nn import Parameter

        self._alpha, self._moved = alpha, True
        if self._beta is None:
            learns = self.trainable != "none"
            self._beta, self._constants = (
                Parameter(t.double().clone(), requires_grad=learns) for t in (beta, constants)
            )
        else:
            self._beta.data.copy_(beta)
            self._constants.data.copy_(constants)

    def _shape(self) -> tuple[int, ...]:
        if self.trainable != "head":
            return ()
        if self._heads is None:
            raise UserError(
                "softmax.trainable=head needs the layer's count of heads: install the softmax in a model, "
                "or call sized(heads)"
            )
        return (self._heads, 1, 1)

    def parameters(self) -> list[Parameter]:
        return [] if self.trainable == "none" else list(self._start())

    def tensors(self) -> dict[str, Tensor]:
        import torch

        beta, constants = self._start()
        return {
            "alpha": torch.tensor(self._alpha, dtype=torch.float64),
            "beta": beta.detach(),
            "constants": constants.detach(),
        }

    def required_tensors(self) -> tuple[str, ...]:
        return ("alpha", "beta", "constants")

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        if set(tensors) != {"alpha", "beta", "constants"}:
            raise UserError(
                f"{self.name} keeps the tensors 'alpha', 'beta' and 'constants', and the checkpoint has "
                f"{sorted(tensors)}"
            )
        shapes = {"alpha": (), "beta": self._shape(), "constants": (self.k, *self._shape())}
        for name, shape in shapes.items():
            if tuple(tensors[name].shape) != shape:
                raise UserError(
                    f"{self.name} with k={self.k}, trainable={self.trainable} needs '{name}' of shape "
                    f"{shape}, and the checkpoint has {tuple(tensors[name].shape)}"
                )
        self._put(float(tensors["alpha"]), tensors["beta"], tensors["constants"])

    # -- readings ----------------------------------------------------------------------------------

    def fitted(self) -> Exponential:
        if self._beta is None:
            return self._from_fit()
        betas = self._beta.detach().cpu().reshape(-1).tolist()
        rows = self._constants.detach().cpu().reshape(self.k, -1).T.tolist()
        chains = tuple(
            SquareChain("chain", self._alpha, b, tuple(row))  # type: ignore[arg-type]
            for b, row in zip(betas, rows, strict=True)
        )
        return with_fit(
            chains[0] if self.trainable != "head" else HeadChain("head_chain", chains), (self.domain[0], self.domain[1])
        )

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        if self.trainable == "head":
            if scores.dim() < 3:
                raise UserError(f"{self.name} by head needs scores (..., H, Q, K), and got {scores.dim()} dimensions")
            self.sized(scores.shape[-3])
        return super().weights(scores, valid)

    def needs_double(self) -> bool:
        return self.k > SINGLE_K if self.training else super().needs_double()

    def in_training(self, y: Value) -> Value:
        """The chain on its Parameters, so that gradients reach them; y is a TensorRows."""
        data = y.data  # type: ignore[attr-defined]
        beta, constants = (p.to(data.device, data.dtype) for p in self._start())
        assert self._alpha is not None
        value = data * self._alpha + beta
        for constant in constants:
            value = square(value) + constant
        self._moved = self._moved or self.trainable != "none"  # an optimizer step follows
        return y._with(value)  # type: ignore[attr-defined]
