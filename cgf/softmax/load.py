"""From softmax.json back to a definition: looked up by name in a fixed table, its parameters checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from cgf.errors import UserError
from cgf.former import current_name
from cgf.named import arguments, short
from cgf.softmax.base import Softmax
from cgf.softmax.bpmax import BPMax, CalibratedBPMax
from cgf.softmax.cgf import CGF
from cgf.softmax.chain_cgf import ChainCGF
from cgf.softmax.exact import Exact
from cgf.softmax.poly_cgf import PolynomialCGF
from cgf.softmax.published.comparison import Comparison
from cgf.softmax.published.gaussian import GaussianKernel
from cgf.softmax.published.normalize_square import NormalizeSquare, Thor
from cgf.softmax.published.pointwise import ScaledReLU, ScaledSigmoid
from cgf.softmax.published.quotient import Power, Quad, StablePower
from cgf.softmax.published.standard import FixedMax, Standard
from cgf.softmax.published.statistical import Arion, Tricycle
from cgf.softmax.published.the_x import TheX
from cgf.softmax.published.two_relu import TwoReLU
from cgf.softmax.taylor import TaylorCGF
from cgf.softmax.unit_cgf import UnitCGF, UnitChainCGF
from cgf.types import Json, JsonValue

# every softmax that a file may name; a new one is added here
DEFINITIONS: tuple[type[Softmax], ...] = (
    BPMax,
    CalibratedBPMax,
    CGF,
    ChainCGF,
    Comparison,
    Exact,
    GaussianKernel,
    NormalizeSquare,
    Thor,
    ScaledReLU,
    ScaledSigmoid,
    PolynomialCGF,
    Power,
    Quad,
    StablePower,
    FixedMax,
    Standard,
    Arion,
    Tricycle,
    TaylorCGF,
    TheX,
    TwoReLU,
    UnitCGF,
    UnitChainCGF,
)


def by_name(definitions: Sequence[type[Softmax]]) -> dict[str, type[Softmax]]:
    """Each definition by its name. TypeError for one that has none of its own: files that name another would be read
    as it."""
    named: dict[str, type[Softmax]] = {}
    for cls in definitions:
        if "name" not in vars(cls) or cls.name in named:
            other = named.get(cls.name, cls.__mro__[1])
            raise TypeError(
                f"{cls.__module__}.{cls.__qualname__} needs a name of its own in its class (name: ClassVar[str]), "
                f"and has '{cls.name}', as {other.__module__}.{other.__qualname__} has"
            )
        named[cls.name] = cls
    return named


VARIANTS = by_name(DEFINITIONS)
# what ``_target_`` of a softmax.json may read: a name in this table, never a path that is imported from
TARGETS = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in DEFINITIONS}
# whole numbers are degrees, powers and counts of steps, which circuits and fits are as long as; n and fewest are
# lengths of rows
BOUNDS, BOUNDS_BY_NAME = (0, 512), {"n": (1, 2**20), "fewest": (1, 2**20)}


def softmax_from_json(data: JsonValue, source: str = "softmax.json") -> Softmax:
    """The definition that ``Softmax.to_json`` described; errors name the ``source`` of the description.

    Raises UserError for a variant that is not in the table, a ``_target_`` that is not in it or another variant's, and
    parameters that the variant does not have or that are of another type or out of reach.
    """
    if not isinstance(data, dict):
        raise UserError(f"{source} must describe a softmax by an object, and holds {short(data)}")
    cls = _looked_up(data, source)
    params = {k: v for k, v in data.items() if k not in ("_target_", "variant")}
    what = f"{source}'s '{cls.name}'"
    given, kinds = arguments(cls, params, what), {one.name: str(one.type) for one in fields(cls)}
    for name, value in given.items():
        _within_reach(name, value, what, "int" in kinds[name])
    try:
        return cls(**given)
    except UserError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:
        raise UserError(f"{what} cannot be built from its parameters: {error}") from None


def check_listed(softmax: Softmax) -> None:
    """UserError unless a checkpoint of this softmax could be read again: asked before it is trained."""
    cls = type(softmax)
    if VARIANTS.get(softmax.name) is not cls:
        raise UserError(
            f"softmax '{softmax.name}' needs its row in DEFINITIONS of cgf/softmax/load.py, and there is none: "
            f"a checkpoint could not be read again ({cls.__module__}.{cls.__qualname__})"
        )


def _looked_up(data: Json, source: str) -> type[Softmax]:
    target, variant = current_name(data.get("_target_")), data.get("variant")
    choices = f"one of {', '.join(sorted(VARIANTS))}"
    if target is not None and (not isinstance(target, str) or target not in TARGETS):
        raise UserError(f"{source} must name a softmax of this project, {choices}, and names {short(target)}")
    named = variant if variant is not None or target is None else TARGETS[target].name
    if not isinstance(named, str) or named not in VARIANTS:
        raise UserError(f"{source} needs the variant {choices}, and has {short(named)}")
    if target is not None and TARGETS[target] is not VARIANTS[named]:
        raise UserError(f"{source} says variant '{named}' and _target_ {target}, which is '{TARGETS[target].name}'")
    return VARIANTS[named]


def _within_reach(name: str, value: JsonValue, what: str, counts: bool) -> None:
    """UserError for a whole number or a list that no circuit and no fit could have.

    counts: whole numbers here are counts; else they are numbers that happen to be whole, as the ends of a domain.
    """
    least, most = BOUNDS_BY_NAME.get(name, BOUNDS)
    if isinstance(value, list | tuple):
        if len(value) > most:
            raise UserError(f"'{name}' of {what} may have {most} entries at most, and has {len(value)}")
        for item in value:
            _within_reach(name, item, what, counts)
    elif counts and isinstance(value, int) and not least <= value <= most:
        raise UserError(f"'{name}' of {what} must be from {least} to {most}, and is {value}")


def trains_constants(softmax: Softmax, node: Json) -> bool:
    """Whether training moves constants of a softmax of this configuration: it has a method of its own that tells them,
    and ``trainable`` is not 'none'. How many there are may hang on heads that are not known yet."""
    return type(softmax).parameters is not Softmax.parameters and node.get("trainable") != "none"
