"""The contract of a softmax: one definition that training, simulation and CKKS all read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

from cgf.errors import UserError
from cgf.softmax.attend import AttentionByWeights
from cgf.softmax.inheritance import DEFINING, refuse_half_a_definition
from cgf.softmax.value import C, V
from cgf.types import Json

if TYPE_CHECKING:  # the definitions themselves need no torch
    from torch import Tensor
    from torch.nn import Parameter

    from cgf.approx.exponential import Exponential, Interval

# receives (softmax, y, weights, valid): y (..., Q, K) is the argument of the exponential
Observer = Callable[["Softmax", "Tensor", "Tensor", "Tensor | None"], None]


@dataclass(eq=False)
class Softmax(AttentionByWeights):
    """Base of every softmax; a subclass gives ``formula`` and becomes usable in all four readings.

    Where the circuit approximates something else than itself, the subclass gives that as ``definition`` beside it.
    A class that gives ``weights`` too names in ``weights_follow`` the methods of ``DEFINING`` that they are computed
    by, in training and evaluation: a subclass may change those alone. TypeError, when the class is made, for a subclass
    that changes another one and keeps the ``weights`` (or the ``definition`` that they follow), which would go on as
    before; and for one that changes the ``weights`` or the ``definition`` alone, since an encrypted run would go on
    with the old formula.

    The public fields of the dataclass are its hyper-parameters: they come from the yaml and go into
    softmax.json. ``tensors`` are what training measured or learned beside the host's weights (BPMax's
    denominator, a chain's constants); ``parameters`` are those that an optimizer moves.
    """

    name: ClassVar[str] = "softmax"
    encryptable: ClassVar[bool] = True
    why_not_encryptable: ClassVar[str] = ""
    weights_follow: ClassVar[tuple[str, ...]] = DEFINING
    label: ClassVar[str]  # of its line in a table, with hyper-parameters in braces; without one, the name
    maximum: ClassVar[str] = "none"  # how its circuit deals with the maximum: comparison, fixed, bound or none
    division: ClassVar[bool] = False  # whether its circuit divides
    adaptive: ClassVar[bool] = False  # whether the shift follows the row
    source: ClassVar[str] = ""  # the publication
    stand_in: ClassVar[str] = ""  # where the publication leaves it open: what was put there by us
    amplification: ClassVar[float] = 1.0  # of an engine's noise by the circuit, beyond that of one exponential

    exponential: Exponential | None = field(default=None, init=False, repr=False)
    layer: int = field(default=0, init=False, repr=False)
    training: bool = field(default=False, init=False, repr=False)
    again: bool = field(default=False, init=False, repr=False)  # computed once more, in a backward pass
    observers: list[Observer] = field(default_factory=list, init=False, repr=False)

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        refuse_half_a_definition(cls, cls.formula is not Softmax.formula)
        if "uses_exponential" in vars(cls):
            raise TypeError(f"{cls.__name__} states uses_exponential, and that is what derives from ExponentialSoftmax")

    @property
    def softmax(self) -> Softmax:
        """Itself, as a slot has it (``cgf.softmax.slot``)."""
        return self

    @property
    def uses_exponential(self) -> bool:
        """Whether it is one exponential of a normalised exponent, which a polynomial may stand in for."""
        return isinstance(self, ExponentialSoftmax)

    def formula(self, x: V) -> V:
        """Weights of the rows x (scaled scores times ``public_scale``); written with Value's operations alone."""
        raise NotImplementedError(f"{type(self).__name__} has no formula of operators")

    def definition(self, x: C) -> C:
        """Weights of the scaled scores x as they are meant, in the clear: the formula, unless it approximates them."""
        scale = self.public_scale(x.count)  # what encryption puts on the scores
        return self.formula(x if scale == 1 else x * scale)

    def public_scale(self, count: int | None) -> float:
        """The public factor that ``formula`` expects on scores of rows of ``count`` entries (None: not all alike)."""
        return 1.0

    @property
    def last_power(self) -> float:
        """p, where the formula is ``without_last`` times n^p with n the row's count; 0: it is not."""
        return 0.0

    def without_last(self, x: V) -> V:
        """The formula without its last factor n^``last_power``, which is public and can wait for decryption."""
        return self.formula(x)

    def scores(self, query: Tensor, key: Tensor, scaling: float) -> Tensor:
        """Scores (B, H, Q, K) of query (B, H, Q, D) and key (B, H, K, D): the scaled dot product."""
        return (query @ key.transpose(-2, -1)) * scaling

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Attention weights of scaled scores, in the clear.

        scores (..., Q, K) of any float dtype, valid a boolean tensor that broadcasts to it (True: may be
        attended; None: all). Returns weights of the same shape in float32, or in float64 if the scores
        are float64; zero where not valid. Computed in float32 or better whatever the scores' dtype.
        """
        from cgf.softmax.tensor import TensorRows

        return self.definition(TensorRows.of(scores, valid)).at_invalid(0.0).data

    def reading(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """What an encrypted run computes, in the clear: the weights, polynomials in place where there are any.

        That is the formula, in float64, where the class has a ``definition`` of its own beside it. Shapes and dtypes as
        for ``weights``.
        """
        if type(self).definition is Softmax.definition:
            return self.weights(scores, valid)
        return self.by_formula(scores, valid)

    def by_formula(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Weights of scaled scores by the formula, in float64. Shapes and dtypes as for ``weights``."""
        import torch

        from cgf.softmax.tensor import TensorRows

        rows = TensorRows.of(scores, valid, torch.float64)
        weights = self.formula(rows * self.public_scale(rows.count)).at_invalid(0.0).data
        return weights.to(torch.promote_types(scores.dtype, torch.float32))

    def argument(self, x: V) -> V:
        """What ``intervals`` are about, of the scaled scores x: the scores themselves, unless a subclass says more."""
        return x

    def intervals(self) -> tuple[Interval, Interval] | None:
        """(domain, guard) of ``argument``: inside the first what is stated of the error holds, beyond the second the
        polynomials explode. None where nothing is stated: no polynomial, or one that is the definition itself."""
        return None

    def reference(self, scores: Tensor, valid: Tensor | None = None) -> tuple[Tensor, float] | None:
        """(weights without any polynomial, the error that ``reading`` states against them on the domain); None where
        no such error is stated."""
        return None

    def sized(self, heads: int) -> None:
        """Takes the count of heads of the layer; called once by whoever installs it, before the first scores.

        For a softmax that keeps something for each head. Raises UserError where it was made for another count.
        """

    def parameters(self) -> list[Parameter]:
        """What is trained beside the host's weights; the same objects at every call, also after load_tensors."""
        return []

    def tensors(self) -> dict[str, Tensor]:
        """Measured or trained state, by name, saved beside the host's weights under this layer's own prefix."""
        return {}

    def required_tensors(self) -> tuple[str, ...]:
        """Names out of ``tensors`` without which an evaluation would compute something else than was trained."""
        return ()

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Takes over what ``tensors`` saved. Raises UserError for names or shapes that this softmax does not keep."""
        if tensors:
            raise UserError(f"{self.name} keeps no tensors, and the checkpoint has {sorted(tensors)}")

    def measured(self) -> Tensor | None:
        """What the last training batch left to measure, for ``pool``; None where nothing is."""
        return None

    def pool(self, measurements: list[Tensor], shares: list[float]) -> None:
        """Merges the ``measured`` values of all processes into this one's state: after it they all hold the same.

        shares: the part of the batch that each process had, in the order of the measurements.
        """

    def title(self) -> str:
        """The label of its line in a table, hyper-parameters filled in; the name where the class itself has none."""
        return str(vars(type(self)).get("label", self.name)).format(**self.params())

    def params(self) -> Json:
        """Hyper-parameters as plain json values."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def to_json(self) -> Json:
        """What ``cgf.softmax.load`` makes this definition from again: its variant's name and hyper-parameters."""
        return {"variant": self.name, **self.params()}

    def describe(self) -> Json:
        """For a checkpoint: what rebuilds the definition, and the polynomial that it was trained with."""
        fixed = None if self.exponential is None else self.exponential.to_json()
        return {"softmax": self.to_json(), "exponential": fixed}


@dataclass(eq=False)
class ExponentialSoftmax(Softmax):
    """A softmax that is one exponential of a normalised exponent y; the exponential can be swapped.

    ``observers`` receive y (..., Q, K), zero where not valid, and exp(y), or what stands in for it, at every call of
    ``weights``. These are the weights, unless a subclass makes more of them in ``from_exponentials``.
    """

    weights_follow: ClassVar[tuple[str, ...]] = ("exponent", "apply_exponential", "from_exponentials")

    def exponent(self, x: V) -> V:
        """y of the scaled scores x, with weights = exp(y)."""
        raise NotImplementedError

    def argument(self, x: V) -> V:
        """The exponent y, which domain and guard of the exponential are about."""
        return self.exponent(x)

    def intervals(self) -> tuple[Interval, Interval] | None:
        """Domain and guard of the exponential's fit, in units of y; None for exp itself, or without a fit."""
        fit = None if self.exponential is None else self.exponential.fit
        return None if fit is None else (fit.domain, fit.guard)

    def formula(self, x: V) -> V:
        """exp(y), or what stands in for it; entries that do not count enter it at y = 0."""
        return self.from_exponentials(self.apply_exponential(self.exponent(x).at_invalid(0.0)))

    def apply_exponential(self, y: V) -> V:
        """exp(y), by ``exponential`` where one is set."""
        return y.exp() if self.exponential is None else self.exponential(y)

    def from_exponentials(self, p: V) -> V:
        """The weights of p = exp(y), or of what stands in for it: p itself, unless a subclass puts its rows right."""
        return p

    def needs_double(self) -> bool:
        """Squarings multiply a relative rounding error by 2^k: a stand-in for exp is read in float64."""
        return self.exponential is not None

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """As ``Softmax.weights``, from the methods of ``weights_follow``; every observer is called on the way."""
        import torch

        from cgf.softmax.tensor import TensorRows

        dtype = torch.float64 if self.needs_double() else None
        y = self.exponent(TensorRows.of(scores, valid, dtype)).at_invalid(0.0)
        p, returned = self.apply_exponential(y).at_invalid(0.0), torch.promote_types(scores.dtype, torch.float32)
        exponentials = p.data.to(returned)
        for observer in self.observers:
            observer(self, y.data, exponentials, valid)
        weights = self.from_exponentials(p)
        return exponentials if weights is p else weights.at_invalid(0.0).data.to(returned)
