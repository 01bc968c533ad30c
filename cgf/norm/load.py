"""The norms that a file may name, and what a checkpoint says of those in its host."""

from __future__ import annotations

from cgf.norm.base import ExactNorms, NormVariant
from cgf.norm.batch import BatchNorms
from cgf.norm.short import ShortNorms
from cgf.replacement import variant_from_json
from cgf.types import JsonValue

NORM = "norm.json"
VARIANTS: dict[str, type[NormVariant]] = {cls.name: cls for cls in (ExactNorms, BatchNorms, ShortNorms)}


def norms_from_json(data: JsonValue, file: str) -> NormVariant:
    """The variant of a norm.json. UserError for one that is not in the table, and settings that it does not have."""
    return variant_from_json(data, VARIANTS, file)
