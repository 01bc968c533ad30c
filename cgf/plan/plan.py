"""A plan: an exponential for a checkpoint or for each of its layers, what it costs, and the ranges that it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from reprlib import repr as shortened

from cgf.approx.exponential import Exponential, Interval
from cgf.approx.exponential_json import exponential_from_json, number, numbers
from cgf.approx.verified import ROUNDING, verified
from cgf.checks import interval
from cgf.errors import UserError
from cgf.plan.cost import SECOND_ORDER, levels_of
from cgf.seal import json_hash
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.softmax.load import softmax_from_json
from cgf.types import Json

LAYERS = 512  # that a plan.json may plan one by one
ROWS = ("full", "masked")
Margin = float | list[float] | tuple[float, ...]  # one for both ends of an interval, or [below, above]


@dataclass(frozen=True)
class Plan:
    """An exponential and what it costs on rows of one kind.

    statistics_levels  levels of the circuit that are not the core's (see ``statistics_levels``)
    levels             statistics_levels + levels of the core, on rows without padding columns: beside those, full
                       rows take the masked circuit, and plan.json says under ``packing`` what that takes
    range              calibrated [lo, hi] of y, None where nothing was measured
    share_outside      share of calibrated entries outside the accuracy domain, None where not measured
    layers             where each layer has a plan of its own: those, by layer; the rest is then that of the
                       deepest layer, with a range that holds all of theirs (see ``by_layer``)
    checkpoint         digest of the checkpoint that it was made for; None in plans of before that was noted
    softmax            as ``Softmax.to_json`` describes it, where its circuit takes other levels than that of
                       CGF-softmax of two cumulants; else None
    The error and the guard interval stand in ``exponential.fit``.
    """

    exponential: Exponential
    row_kind: str
    statistics_levels: int
    levels: int
    ct_mults: int
    range: Interval | None
    tolerance: float
    share_outside: float | None = None
    layers: tuple[Plan, ...] = ()
    checkpoint: str | None = None
    softmax: Json | None = field(default=None, hash=False)

    @property
    def checked(self) -> str:
        """What a reading of it was held against, for a result file."""
        return "coefficients" if self.checkpoint is None else "coefficients and checkpoint"

    @property
    def sha256(self) -> str:
        """Of all that the plan says."""
        return json_hash(self.to_json())

    def of(self, layer: int) -> Plan:
        """The plan of a layer, which is this one where layers have none of their own."""
        return self.layers[layer] if self.layers else self

    def on(self, softmax: Softmax) -> Plan:
        """The same exponentials at the levels that they take in this softmax's circuit."""
        if not isinstance(softmax, ExponentialSoftmax):
            return self
        described = other_than_second_order(self.row_kind, self.exponential, softmax)
        if described == self.softmax:
            return self
        statistics = statistics_levels(self.row_kind, self.exponential, softmax)
        levels, layers = statistics + self.exponential.levels, tuple(plan.on(softmax) for plan in self.layers)
        return replace(self, statistics_levels=statistics, levels=levels, layers=layers, softmax=described)

    def to_json(self) -> Json:
        """What ``from_json`` reads, each layer's plan under ``plans``."""
        layers = {"plans": [plan.to_json() for plan in self.layers]} if self.layers else {}
        return {
            "exponential": self.exponential.to_json(),
            "rows": self.row_kind,
            "statistics_levels": self.statistics_levels,
            "levels": self.levels,
            "ct_mults": self.ct_mults,
            "range": None if self.range is None else list(self.range),
            "tolerance": self.tolerance,
            "share_outside": self.share_outside,
            **layers,
            **({} if self.checkpoint is None else {"checkpoint": self.checkpoint}),
            **({} if self.softmax is None else {"softmax": self.softmax}),
        }

    @classmethod
    def from_json(cls, data: object, file: object = "the plan") -> Plan:
        """The plan that to_json described; what it states is computed again from its coefficients.

        file names it in sentences. Raises UserError for what is no plan, and where the stated numbers are not those
        of the coefficients (see ``verified``), in whichever of its layers.
        """
        if not isinstance(data, dict):
            raise UserError(f"a plan must be a JSON object, and is {shortened(data)}")
        exponential = verified(exponential_from_json(data.get("exponential")), file)
        row_kind, statistics = _statistics(exponential, data)
        range_ = None if data.get("range") is None else interval("range", numbers(data, "range", 2))
        share = None if data.get("share_outside") is None else number(data, "share_outside")
        layers = tuple(cls.from_json(plan, f"{file} (layer {i})") for i, plan in enumerate(_of_layers(data, file)))
        plan = cls(
            exponential,
            row_kind,
            statistics,
            statistics + exponential.levels,
            exponential.ct_mults,
            range_,
            number(data, "tolerance"),
            share,
            layers,
            data.get("checkpoint"),
            data.get("softmax"),
        )
        plan._repeats(data, file)
        return plan

    def _repeats(self, data: Json, file: object) -> None:
        """UserError where the file says beside its coefficients something else than they say."""
        fit = self.exponential.fit
        assert fit is not None
        # beside the exponential, and in it
        computed: Json = {
            "method": self.exponential.method,
            "levels": self.levels,
            "ct_mults": self.ct_mults,
            "domain": fit.domain,
            "guard": fit.guard,
            "max_error": fit.max_error,
        }
        inner = {k: v for k, v in self.exponential.to_json().items() if k in ("k", "levels", "ct_mults")}
        for where, figures in ((data, computed), (data["exponential"], inner)):
            for key, value in figures.items():
                if key in where and not _alike(where[key], value):
                    raise UserError(
                        f"{file} states {key} {where[key]}, and its exponential has {value}: it was "
                        "changed after it was made, and has to be made anew"
                    )
        wrong = [i for i, plan in enumerate(self.layers) if plan.row_kind != self.row_kind or cost(plan) > cost(self)]
        if wrong:
            raise UserError(
                f"{file} is the plan of its deepest layer, and that of layer {wrong[0]} costs more or is "
                "for other rows: it has to be made anew"
            )


def _of_layers(data: Json, file: object) -> list[Json]:
    """The plans of the layers as JSON, none for one plan; UserError for more than LAYERS, or for plans within them."""
    plans = data.get("plans", [])
    if not isinstance(plans, list):
        raise UserError(f"the plans of a plan must be a list, one a layer, and are {shortened(plans)}")
    if len(plans) > LAYERS:
        raise UserError(f"{file} may hold {LAYERS} layers at most, and holds {len(plans)}")
    for layer, plan in enumerate(plans):
        if isinstance(plan, dict) and plan.get("plans"):
            raise UserError(f"{file} (layer {layer}) is the plan of one layer, and holds plans of others")
    return plans


def _alike(stated: object, value: str | float | tuple[float, float]) -> bool:
    """Whether a field of a file has a value, numbers to within rounding."""
    if isinstance(value, tuple):
        return isinstance(stated, list | tuple) and len(stated) == len(value) and all(map(_alike, stated, value))
    if isinstance(value, str) or isinstance(stated, bool) or not isinstance(stated, int | float):
        return bool(stated == value)
    return math.isclose(stated, value, rel_tol=ROUNDING)


def cost(plan: Plan) -> tuple[int, int, float]:
    """What plans are ordered by: levels, then multiplications, then error."""
    return plan.levels, plan.ct_mults, error_of(plan)


def error_of(plan: Plan) -> float:
    """The largest error on the domain of its fit; inf where there is none."""
    return math.inf if plan.exponential.fit is None else plan.exponential.fit.max_error


def by_layer(plans: list[Plan]) -> Plan:
    """One plan of many, one a layer: a model's levels are those of its deepest layer."""
    deepest = max(plans, key=cost)
    ranges = [plan.range for plan in plans if plan.range is not None]
    range_ = (min(lo for lo, _ in ranges), max(hi for _, hi in ranges)) if ranges else None
    return replace(deepest, range=range_, layers=tuple(plans))


def statistics_levels(row_kind: str, exponential: Exponential, softmax: ExponentialSoftmax = SECOND_ORDER) -> int:
    """Levels of the softmax's circuit that are not the core's, counted in a dry run of it.

    CGF-softmax of two cumulants: variance and scaling, 2 on masked rows, and 1 on full ones, where a common public
    factor moves through the core into its constants (cgf.he.circuits.folded). A softmax without statistics: 0.
    """
    one_of_rows(row_kind)
    return levels_of(exponential, row_kind, softmax) - exponential.levels


def other_than_second_order(row_kind: str, exponential: Exponential, softmax: ExponentialSoftmax) -> Json | None:
    """The softmax as JSON, where its circuit takes other levels than CGF-softmax of two cumulants; else None."""
    alike = levels_of(exponential, row_kind, softmax) == levels_of(exponential, row_kind)
    return None if alike else softmax.to_json()


def one_of_rows(row_kind: object) -> None:
    """UserError for what is no kind of rows."""
    if row_kind not in ROWS:
        raise UserError(f"rows must be full or masked, and is {row_kind!r}")


def _statistics(exponential: Exponential, data: Json) -> tuple[str, int]:
    """(row_kind, statistics_levels) of a plan's JSON; UserError for levels that the circuit does not take.

    2 on full rows are those of a circuit that does not fold.
    """
    row_kind, statistics = data.get("rows"), data.get("statistics_levels")
    if data.get("softmax") is None:
        if row_kind not in ROWS or statistics is None or statistics not in ((1, 2) if row_kind == "full" else (2,)):
            raise UserError(
                f"a plan needs rows full with 1 or 2 statistics_levels, or masked with 2, and has {row_kind!r} "
                f"and {statistics!r}"
            )
        return row_kind, statistics
    softmax = softmax_from_json(data["softmax"])
    if not isinstance(softmax, ExponentialSoftmax):
        raise UserError(f"softmax '{softmax.name}' has no exponential to plan, and a plan says that it is made for it")
    counted = statistics_levels(str(row_kind), exponential, softmax)
    if statistics != counted:
        raise UserError(
            f"a plan for softmax '{softmax.name}' needs {counted} statistics_levels on {row_kind} rows, and has "
            f"{statistics!r}"
        )
    return str(row_kind), counted


def stretched(interval: Interval, margin: Margin) -> Interval:
    """A calibrated interval that reaches to 0 on both sides, with room around it: margin, or [below, above].

    A polynomial's guard ends near ln of the bound above (12.5 at 2^18), and costs a level a doubling below: rare
    rows that go far below need more room there than one margin for both ends can give. UserError for a margin that
    is neither a number of at least 1 nor two.
    """
    try:
        below, above = (float(m) for m in (margin if isinstance(margin, list | tuple) else (margin, margin)))
    except (TypeError, ValueError):
        below = above = math.nan
    if not (1 <= below < math.inf and 1 <= above < math.inf):
        raise UserError(f"margin must be a number of at least 1 or two, [below, above], and is {margin!r}")
    return interval[0] * below, interval[1] * above
