"""What a softmax needs that only training measures, held against what there is."""

from __future__ import annotations

from collections.abc import Container

from cgf.errors import UserError
from cgf.softmax.base import Softmax


def check_measured(softmax: Softmax, kept: Container[str], lacks: str) -> None:
    """UserError, ended by ``lacks``, where one of the tensors that the softmax requires is not among those kept."""
    if missing := [name for name in softmax.required_tensors() if name not in kept]:
        raise UserError(f"softmax '{softmax.name}' needs '{missing[0]}', which training measures, and {lacks}")
