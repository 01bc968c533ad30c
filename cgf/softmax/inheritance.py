"""Which methods a class of softmaxes changes: its weights in the clear and its circuit must stay one definition."""

from __future__ import annotations

from collections.abc import Callable

CIRCUIT = ("formula", "exponent", "apply_exponential", "from_exponentials")  # what an encrypted run computes
DEFINING = (*CIRCUIT, "definition")  # what a softmax is made of


def age(cls: type, method: str) -> int:
    """How many classes lie between cls and the one whose method it uses: of two methods the newer has less."""
    return next((i for i, base in enumerate(cls.__mro__) if method in vars(base)), len(cls.__mro__))


def as_defined(softmax: object, *methods: Callable[..., object]) -> bool:
    """Whether the object's methods are these functions: neither a subclass nor the object put others in their place."""
    return all(getattr(getattr(softmax, m.__name__, None), "__func__", None) is m for m in methods)


def refuse_half_a_definition(cls: type, has_formula: bool) -> None:
    """TypeError where the weights in the clear and the circuit of a new class belong to two definitions.

    has_formula: whether the class has one at all, its own or of a class that it derives from.
    """
    owner = cls.__mro__[age(cls, "weights")]
    follow = vars(owner).get("weights_follow", ())
    clear = "definition" if "definition" in follow else "weights"  # what decides the weights in the clear
    owner = cls.__mro__[age(cls, clear)]
    does = "do" if clear == "weights" else "does"
    # 1. the circuit changed, and the weights do not follow from what changed
    for method in DEFINING:
        if method not in follow and age(cls, method) < age(cls, clear):
            raise TypeError(
                f"{cls.__name__} changes {method}, and the {clear} of {owner.__name__}, which it keeps, "
                f"{does} not follow from {method}: it must give {clear} too"
            )
    # 2. the weights changed, and the circuit did not; where there is no formula, no encrypted run could go on with it
    newest = min(CIRCUIT, key=lambda method: age(cls, method))
    alone = clear == "definition" or not follow
    if has_formula and alone and age(cls, clear) < age(cls, newest):
        raise TypeError(
            f"{cls.__name__} changes {clear} and keeps the {newest}, which an encrypted run computes, of "
            f"{cls.__mro__[age(cls, newest)].__name__}: it must give {newest} too, or name in weights_follow what "
            "its weights are computed by"
        )
