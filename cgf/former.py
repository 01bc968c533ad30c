"""What files of earlier versions say, in today's terms: the one place where old names are known.

A checkpoint's configuration and softmax.json name classes by where they stood when it was written. Nothing is imported
by such a name; it is looked up in a fixed table, and this file says under which name.
"""

from __future__ import annotations

from cgf.errors import UserError
from cgf.types import Json, JsonValue

ROW_SCHEMA = 3  # of results/train/*.json; 1 is that of files that say none
WITHIN = 0.5  # points below exact softmax that rows of CGF-softmax of schema 1 were to stay within
MARKS = ("attention", "hidden", "lora", "tempered", "untrained")  # in names of runs of schema 1, beside the softmax's
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


def current_name(target: JsonValue) -> JsonValue:
    """The dotted name under which ``target`` is known today; what is no text, or was never moved, stays as it is."""
    if not isinstance(target, str):
        return target
    module, _, name = target.rpartition(".")
    return f"{MOVED[module]}.{name}" if module in MOVED else target


def current_names(node: JsonValue) -> JsonValue:
    """A configuration with every ``_target_`` in it under today's name, so that two configurations compare."""
    if isinstance(node, dict):
        return {k: current_name(v) if k == "_target_" else current_names(v) for k, v in node.items()}
    return [current_names(item) for item in node] if isinstance(node, list) else node


def current_plan(data: JsonValue, file: object) -> JsonValue:
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


def current_row(row: JsonValue, file: object) -> JsonValue:
    """What a row of training holds, in today's terms.

    Schema 1 kept the name of the run alone, as ``softmax``, and all else was read out of that name: its words beside
    the softmax's own say how the run was trained, and ``lora`` alone was CGF-softmax. The provenance stood under
    ``run``. Up to schema 2 a row kept no predictions, and ``trials`` was the list that a choice was made from:
    trainings that led to the settings of a run otherwise were not counted, so that its count is a least one.
    UserError for a schema of a later version.
    """
    if not isinstance(row, dict) or "softmax" not in row:
        return row
    schema = row.get("schema", 1)
    if schema not in (1, 2, ROW_SCHEMA) or isinstance(schema, bool):
        raise UserError(f"{file} is of schema {schema!r}, and this version reads rows up to schema {ROW_SCHEMA}")
    if schema == ROW_SCHEMA:
        return row
    tried = row.get("trials") or []
    since = {"schema": ROW_SCHEMA, "tried": tried, "trials": max(1, len(tried)), "all_trials": False}
    return {**(row if schema == 2 else _of_run_name(row)), **since, "predictions": None}


def _of_run_name(row: Json) -> Json:
    """A row of schema 1 with what the name of its run says in fields of their own."""
    words = str(row["softmax"]).split("_")
    softmax = "_".join(word for word in words if word not in MARKS) or "cgf"
    trained = "untrained" not in words
    return {
        **{key: value for key, value in row.items() if key != "run"},
        "run": row["softmax"],
        "softmax": softmax,
        "tuning": next((mode for mode in ("lora", "attention") if mode in words), "full"),
        "tempered": "tempered" in words,
        "trained": trained,
        "yardstick": softmax in ("bpmax", "bpmax_calibrated"),
        "within": WITHIN if softmax == "cgf" and trained else None,
        "made": row.get("run"),
    }
