"""CGF-softmax with a square chain in place of exp, in training already, its constants trained along."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from cgf.approx.chain import SquareChain
from cgf.approx.exponential import Exponential, square
from cgf.approx.fit import chain, with_fit
from cgf.approx.head_chain import HeadChain
from cgf.checks import one_of, whole
from cgf.errors import UserError
from cgf.softmax.loop import UNMADE, LoopCGF
from cgf.softmax.value import V

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
    HeadChain, whose error and guard are measured anew on ``domain``. Raises UserError for k outside 1 to 12 and an
    unknown ``trainable``.
    Source: ``SquareChain``; CGF-softmax paper, appendix 'Low-degree Variant' for the exponential in the loop.
    """

    name: ClassVar[str] = "cgf_chain"
    label: ClassVar[str] = "chain of {k} in the loop"
    source: ClassVar[str] = "this repository"
    weights_follow: ClassVar[tuple[str, ...]] = ("exponent", "apply_exponential", "from_exponentials")
    k: int = 3
    trainable: str = "layer"
    _heads: int | None = field(default=None, init=False, repr=False)
    _alpha: float | None = field(default=None, init=False, repr=False)
    _beta: Parameter | None = field(default=None, init=False, repr=False)  # () or (heads, 1, 1)
    _constants: Parameter | None = field(default=None, init=False, repr=False)  # (k,) or (k, heads, 1, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("softmax.k", self.k, 1, 12)
        one_of("softmax.trainable", self.trainable, TRAINABLE)

    # -- the constants -----------------------------------------------------------------------------

    def sized(self, heads: int) -> None:
        """Keeps the count of heads where every head trains its own chain. Raises UserError where it kept another."""
        if self._heads not in (None, heads):
            raise UserError(f"the chains of {self._heads} heads do not fit a layer of {heads} heads")
        if self.trainable == "head":
            self._heads = heads

    def _start(self) -> tuple[Parameter, Parameter]:
        """(beta, constants), from the fit where nothing was trained or loaded yet."""
        if self._beta is None:
            import torch

            first, shape = self._from_fit(), self._shape()
            constants = torch.tensor(first.constants, dtype=torch.float64).reshape(self.k, *[1] * len(shape))
            self._put(
                first.a, torch.tensor(first.b, dtype=torch.float64).expand(shape), constants.expand(self.k, *shape)
            )
        assert self._beta is not None and self._constants is not None
        return self._beta, self._constants

    def _from_fit(self) -> SquareChain:
        return chain(self.domain[0], self.domain[1], self.k)

    def _put(self, alpha: float, beta: Tensor, constants: Tensor) -> None:
        """Takes these constants over, in the Parameters that an optimizer may hold already."""
        from torch.nn import Parameter

        self._alpha, self._kept_of = alpha, UNMADE
        if self._beta is None or self._constants is None:
            learns = self.trainable != "none"
            self._beta, self._constants = (
                Parameter(t.double().clone(), requires_grad=learns) for t in (beta, constants)
            )
        else:
            self._beta.data.copy_(beta)
            self._constants.data.copy_(constants)

    def _shape(self) -> tuple[int, ...]:
        """Of beta, and of each constant: (), or (heads, 1, 1) where every head has its own."""
        if self.trainable != "head":
            return ()
        if self._heads is None:
            raise UserError(
                "softmax.trainable=head needs the layer's count of heads: install the softmax in a model, "
                "or call sized(heads)"
            )
        return (self._heads, 1, 1)

    def parameters(self) -> list[Parameter]:
        """[beta, constants], or none where nothing is trained."""
        return [] if self.trainable == "none" else list(self._start())

    def tensors(self) -> dict[str, Tensor]:
        """alpha (), beta () or (heads, 1, 1), constants (k,) or (k, heads, 1, 1), all in float64."""
        import torch

        beta, constants = self._start()
        return {
            "alpha": torch.tensor(self._alpha, dtype=torch.float64),
            "beta": beta.detach(),
            "constants": constants.detach(),
        }

    def required_tensors(self) -> tuple[str, ...]:
        """All of them: a fit made anew would differ from what was trained."""
        return ("alpha", "beta", "constants")

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Takes all three over. Raises UserError for other names, or shapes that do not fit k and ``trainable``."""
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

    def made_of(self) -> object:
        """(alpha, beta, constants) as they stand: an optimizer, an average or a hand may have changed them."""
        if self._beta is None or self._constants is None:
            return None
        return self._alpha, *(tuple(t.detach().reshape(-1).tolist()) for t in (self._beta, self._constants))

    def fitted(self) -> Exponential:
        """A SquareChain, or a HeadChain, of the constants as they stand, its error and guard on ``domain``."""
        if self._beta is None or self._constants is None:
            return self._from_fit()
        import torch

        if "torch._dynamo" not in sys.modules:  # nothing is compiled, and to load the compiler takes seconds
            return self._measured()
        # numpy measures it: nothing that torch.compile could trace
        measured: Exponential = torch.compiler.disable(self._measured)()  # type: ignore[no-untyped-call]
        return measured

    def _measured(self) -> Exponential:
        """``fitted`` where there are constants."""
        assert self._alpha is not None and self._beta is not None and self._constants is not None
        alpha, betas = self._alpha, self._beta.detach().cpu().reshape(-1).tolist()
        by_head = self._constants.detach().cpu().reshape(self.k, -1).T.tolist()
        chains = tuple(
            SquareChain("chain", alpha, beta, tuple(constants)) for beta, constants in zip(betas, by_head, strict=True)
        )
        domain = self.domain[0], self.domain[1]
        return (
            with_fit(HeadChain("head_chain", chains), domain)
            if self.trainable == "head"
            else with_fit(chains[0], domain)
        )

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """As ``ExponentialSoftmax.weights``. Raises UserError for scores without heads where each has its chain."""
        if self.trainable == "head":
            if scores.dim() < 3:
                raise UserError(f"{self.name} by head needs scores (..., H, Q, K), and got {scores.dim()} dimensions")
            self.sized(scores.shape[-3])
        return super().weights(scores, valid)

    def needs_double(self) -> bool:
        """In training only for more squarings than float32 bears."""
        return self.k > SINGLE_K if self.training else super().needs_double()

    def in_training(self, y: V) -> V:
        """The chain on its Parameters, in the precision of y, so that gradients reach them."""
        beta, constants = self._start()
        assert self._alpha is not None
        value = (y * self._alpha).plus_public(beta)
        for constant in constants:
            value = square(value).plus_public(constant)
        return value
