"""What files of earlier versions say, in today's terms: the one place where old names are known.

A checkpoint's configuration and softmax.json name classes by where they stood when it was written. Nothing is imported
by such a name; it is looked up in a fixed table, and this file says under which name.
"""

from __future__ import annotations

from typing import Any

from cgf.errors import UserError

PLAN_SCHEMA = 2  # of plan.json; 1 is that of files that say none
PUBLISHED = (
    "comparison",
    "gaussian",
    "normalize_square",
    "pointwise",
    "quotient",
    "standard",
    "statistical",
    "the_x",
    "two_relu",
)
ENGINES = ("desilo", "lanes", "openfhe", "sim")
MOVED = {  # module in files of schema 1 and 2 -> module today
    **{f"cgf.softmax.{name}": f"cgf.softmax.published.{name}" for name in PUBLISHED},
    **{f"cgf.he.{name}": f"cgf.he.engines.{name}" for name in ENGINES},
    **{f"models.{name}": f"cgf.models.{name}" for name in ("bert", "dino", "llama", "vit")},
}


def current_name(target: Any) -> Any:
    """The dotted name under which ``target`` is known today; what is no text, or was never moved, stays as it is."""
    if not isinstance(target, str):
        return target
    module, _, name = target.rpartition(".")
    return f"{MOVED[module]}.{name}" if module in MOVED else target


def current_names(node: Any) -> Any:
    """A configuration with every ``_target_`` in it under today's name, so that two configurations compare."""
    if isinstance(node, dict):
        return {k: current_name(v) if k == "_target_" else current_names(v) for k, v in node.items()}
    return [current_names(item) for item in node] if isinstance(node, list) else node


def current_plan(data: Any, file: Any) -> Any:
    """What a plan.json holds, in today's terms.

    Schema 1 knew no ``softmax``: it counted the statistics of CGF-softmax for each, and whoever puts such a plan in
    the place of another softmax's exponential counts anew (``Plan.on``). All else is said as today. UserError for a
    schema of a later version.
    """
    if not isinstance(data, dict):
        return data
    schema = data.get("schema", 1)
    if schema not in (1, PLAN_SCHEMA) or isinstance(schema, bool):
        raise UserError(f"{file} is of schema {schema!r}, and this version reads plans up to schema {PLAN_SCHEMA}")
    return {**data, "schema": PLAN_SCHEMA}
