"""The activations that a file may name."""

from __future__ import annotations

from cgf.activation.base import ActivationVariant, ExactActivations
from cgf.activation.polynomial import Polynomials, Products, Squares
from cgf.replacement import variant_from_json
from cgf.types import JsonValue

ACTIVATION = "activation.json"
VARIANTS: dict[str, type[ActivationVariant]] = {
    cls.name: cls for cls in (ExactActivations, Squares, Polynomials, Products)
}


def activations_from_json(data: JsonValue, file: str) -> ActivationVariant:
    """The variant of an activation.json. UserError for one that is not in the table, and settings it does not have."""
    return variant_from_json(data, VARIANTS, file)
