"""From softmax.json back to a definition; only classes of this package are built from a file."""

from __future__ import annotations

import importlib
from typing import Any

from cgf.errors import UserError
from cgf.softmax.base import Softmax

PACKAGE = "cgf.softmax."


def softmax_from_json(data: dict[str, Any]) -> Softmax:
    """The definition that ``Softmax.to_json`` described.

    Raises UserError where the target is not a Softmax below cgf.softmax: a checkpoint must not be able to
    name arbitrary code.
    """
    target = str(data.get("_target_", ""))
    module_name, _, class_name = target.rpartition(".")
    if not target.startswith(PACKAGE) or ".." in target:
        raise UserError(f"softmax.json must name a class below {PACKAGE[:-1]}, and names {target!r}")
    try:
        cls = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError):
        raise UserError(f"softmax.json names {target}, and this version has no such class") from None
    if not (isinstance(cls, type) and issubclass(cls, Softmax)):
        raise UserError(f"softmax.json names {target}, which is not a softmax")
    params = {k: v for k, v in data.items() if k not in ("_target_", "variant")}
    try:
        return cls(**params)
    except TypeError as error:
        raise UserError(f"softmax.json does not fit {target}: {error}") from None
