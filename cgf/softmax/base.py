"""The contract of a softmax: one definition that training, simulation and CKKS all read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from cgf.errors import UserError
from cgf.softmax.value import Value

if TYPE_CHECKING:  # the definitions themselves need no torch
    from torch import Tensor
    from torch.nn import Parameter

    from cgf.approx.exponential import Exponential, Interval

# receives (softmax, y, weights, valid): y (..., Q, K) is the argument of the exponential
Observer = Callable[["Softmax", "Tensor", "Tensor", "Tensor | None"], None]


DEFINING = ("formula", "exponent", "apply_exponential")  # what a definition is made of


def age(cls: type, method: str) -> int:
    """How many classes lie between cls and the one whose method it uses: of two methods the newer has less."""
    return next((i for i, base in enumerate(cls.__mro__) if method in vars(base)), len(cls.__mro__))


def as_defined(softmax: Any, *methods: Callable[..., Any]) -> bool:
    """Whether the object's methods are these functions: neither a subclass nor the object put others in their place."""
    return all(getattr(getattr(softmax, m.__name__, None), "__func__", None) is m for m in methods)


@dataclass(eq=False)
class Softmax:
    """Base of every softmax; a subclass gives ``formula`` and becomes usable in all four readings.

    A class that gives ``weights`` too names in ``weights_follow`` the methods of ``DEFINING`` that they are computed
    by, in training and evaluation: a subclass may change those alone. TypeError, when the class is made, for a subclass
    that changes another one and keeps the ``weights``, which would go on with the old definition; and for one that
    changes the ``weights`` alone, since an encrypted run would go on with the old definition.

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

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        kept = cls.__mro__[age(cls, "weights")]
        follow = vars(kept).get("weights_follow", ())
        for method in DEFINING:
            if method not in follow and age(cls, method) < age(cls, "weights"):
                raise TypeError(
                    f"{cls.__name__} changes {method}, and the weights of {kept.__name__}, which it keeps, "
                    f"do not follow from {method}: it must give weights too"
                )
        newest = min(DEFINING, key=lambda method: age(cls, method))
        given = cls.formula is not Softmax.formula  # else there is nothing that an encrypted run could go on with
        if given and not follow and age(cls, "weights") < age(cls, newest):
            raise TypeError(
                f"{cls.__name__} changes weights and keeps the {newest}, which an encrypted run computes, of "
                f"{cls.__mro__[age(cls, newest)].__name__}: it must give {newest} too, or name in weights_follow what "
                "its weights are computed by"
            )
        if "uses_exponential" in vars(cls):
            raise TypeError(f"{cls.__name__} states uses_exponential, and that is what derives from ExponentialSoftmax")

    @property
    def softmax(self) -> Softmax:
        """Itself, as a slot has it (``cgf.softmax.slot``)."""
        return self

    @property
    def uses_exponential(self) -> bool:
        return isinstance(self, ExponentialSoftmax)

    def formula(self, x: Value) -> Value:
        """Weights of the rows x (scaled scores times ``public_scale``); written with Value's operations alone."""
        raise NotImplementedError(f"{type(self).__name__} has no formula of operators")

    def public_scale(self, count: int | None) -> float:
        """The public factor that ``formula`` expects on scores of rows of ``count`` entries (None: not all alike)."""
        return 1.0

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

        rows = TensorRows.of(scores, valid)
        scale = self.public_scale(rows.count)  # what encryption puts on the scores
        weights = self.formula(rows if scale == 1 else rows * scale).at_invalid(0.0)
        return weights.data  # type: ignore[attr-defined]

    def reading(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """What an encrypted run computes, in the clear: the weights, polynomials in place where there are any."""
        return self.weights(scores, valid)

    def argument(self, x: Value) -> Value:
        """What ``intervals`` are about, of the scaled scores x: the scores themselves, unless a subclass says more."""
        return x

    def intervals(self) -> tuple[Interval, Interval] | None:
        """(domain, guard) of ``argument``: inside the first what is stated of the error holds, beyond the second the
        polynomials explode. None where nothing is stated: no polynomial, or one that is the definition itself."""
        return None

    def definition(self, scores: Tensor, valid: Tensor | None = None) -> tuple[Tensor, float] | None:
        """(weights without any polynomial, the error that ``reading`` states against them on the domain); None where
        no such error is stated."""
        return None

    def sized(self, heads: int) -> None:
        """Told the heads of its layer by whoever installs it; for a softmax that keeps something a head."""

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
        if tensors:
            raise UserError(f"{self.name} keeps no tensors, and the checkpoint has {sorted(tensors)}")

    def measured(self) -> Any:
        """What the last training batch left to measure, for ``pool``; None where nothing is."""
        return None

    def pool(self, found: list[Any], shares: list[float]) -> None:
        """Takes on what all processes ``measured`` on their shares of a batch: after it they hold the same."""

    def title(self) -> str:
        """The label of its line in a table, hyper-parameters filled in; the name where the class itself has none."""
        return vars(type(self)).get("label", self.name).format(**self.params())

    def params(self) -> dict[str, Any]:
        """Hyper-parameters as plain json values."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def to_json(self) -> dict[str, Any]:
        """What ``cgf.softmax.load`` makes this definition from again: its variant's name and hyper-parameters."""
        return {"variant": self.name, **self.params()}

    def describe(self) -> dict[str, Any]:
        """For a checkpoint: what rebuilds the definition, and the polynomial that it was trained with."""
        fixed = None if self.exponential is None else self.exponential.to_json()
        return {"softmax": self.to_json(), "exponential": fixed}


@dataclass(eq=False)
class ExponentialSoftmax(Softmax):
    """A softmax that is one exponential of a normalised exponent y; the exponential can be swapped."""

    weights_follow: ClassVar[tuple[str, ...]] = ("exponent", "apply_exponential")

    def exponent(self, x: Value) -> Value:
        """y, with weights = exp(y)."""
        raise NotImplementedError

    def argument(self, x: Value) -> Value:
        return self.exponent(x)

    def intervals(self) -> tuple[Interval, Interval] | None:
        fit = None if self.exponential is None else self.exponential.fit
        return None if fit is None else (fit.domain, fit.guard)

    def formula(self, x: Value) -> Value:
        return self.apply_exponential(self.exponent(x).at_invalid(0.0))

    def apply_exponential(self, y: Value) -> Value:
        return y.exp() if self.exponential is None else self.exponential(y)

    def needs_double(self) -> bool:
        """Squarings multiply a relative rounding error by 2^k: a stand-in for exp is read in float64."""
        return self.exponential is not None

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        import torch

        from cgf.softmax.tensor import TensorRows

        dtype = torch.float64 if self.needs_double() else None
        y = self.exponent(TensorRows.of(scores, valid, dtype)).at_invalid(0.0)
        weights = self.apply_exponential(y).at_invalid(0.0).data  # type: ignore[attr-defined]
        weights = weights.to(torch.promote_types(scores.dtype, torch.float32))
        for observer in self.observers:
            observer(self, y.data, weights, valid)  # type: ignore[attr-defined]
        return weights
