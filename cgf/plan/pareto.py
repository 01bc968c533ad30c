"""Every exponential that serves a range, at what its whole circuit costs; the Pareto set; and the pick."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cgf.approx.exponential import Exponential
from cgf.errors import UserError
from cgf.he.dryrun import CircuitCost
from cgf.plan.candidates import Spec
from cgf.plan.choose import cheapest, feasible, first_that_serve, plans_of, why_not
from cgf.plan.cost import PredictedCost, needs_of, predict
from cgf.plan.fit_cache import FitCache
from cgf.plan.op_times import OpTimes
from cgf.plan.plan import Plan
from cgf.plan.request import Request
from cgf.types import Json

FLOOR = 1e-8  # errors below it count as equal: CKKS itself leaves 2e-8 after one square
OBJECTIVES = ("levels", "seconds")
NONE = FitCache(None)  # every fit is made anew


@dataclass(frozen=True)
class CostedPlan:
    """A feasible plan and its whole circuit on the rows of a request.

    entries    of those rows;  predicted: None without a table of operation times
    """

    plan: Plan
    needs: tuple[CircuitCost, ...]
    entries: int
    predicted: PredictedCost | None

    @property
    def levels(self) -> int:
        """Of the whole circuit, the most that a set of ciphertexts takes."""
        return max(n.levels for n in self.needs)

    @property
    def slots(self) -> int:
        """Of the largest ring that a set of ciphertexts needs."""
        return max(n.layout.slots for n in self.needs)

    @property
    def ciphertexts(self) -> int:
        """Of all sets together."""
        return sum(n.layout.ciphertexts for n in self.needs)

    @property
    def cmults(self) -> int:
        """Products of ciphertexts in the whole circuit, over all ciphertexts."""
        return sum(n.ops["cmult"] for n in self.needs)

    @property
    def error(self) -> float:
        """The largest of the exponential on the domain of its fit."""
        assert self.plan.exponential.fit is not None
        return self.plan.exponential.fit.max_error

    @property
    def objectives(self) -> tuple[float, ...]:
        """The less the better, each of them. The guard is not one: it holds the range or the row is not there."""
        p = self.predicted
        return (
            self.levels,
            self.cmults,
            self.slots,
            p.key_mib if p else 0.0,
            p.total_s if p else 0.0,
            max(self.error, FLOOR),
        )

    def to_json(self) -> Json:
        """A row of pareto.json; seconds and MiB null where they are not predicted."""
        e, p = self.plan.exponential, self.predicted
        assert e.fit is not None
        return {
            "method": e.method,
            "degree": getattr(e, "degree", None),
            "k": e.to_json()["k"],
            "levels": self.levels,
            "levels_core": e.levels,
            "ct_mults_core": e.ct_mults,
            "ct_mults": self.cmults,
            "ring_slots": self.slots,
            "max_level": max(n.max_level for n in self.needs),
            "ciphertexts": self.ciphertexts,
            "key_mib": p and p.key_mib,
            "seconds": p and p.total_s,
            "circuit_s": p and p.circuit_s,
            "encrypt_s": p and p.encrypt_s,
            "decrypt_s": p and p.decrypt_s,
            "us_per_entry": p and p.total_s / self.entries * 1e6,
            "max_error": e.fit.max_error,
            "guard": list(e.fit.guard),
            "domain": list(e.fit.domain),
        }


def by(cache: FitCache) -> Callable[[Spec], Exponential]:
    """Fits of candidates, from a cache where it has them."""
    return lambda spec: cache.get((spec.method, *spec.domain, spec.degree, spec.k), spec.make)


def feasible_plans(request: Request, candidates: list[Spec], cache: FitCache, tried: list[Plan]) -> Iterator[Plan]:
    """Feasible plans; all that were fitted go into ``tried``. What is dominated for certain is never fitted.

    That is: more squarings in a family that has reached FLOOR, and whatever takes at least the levels and
    the multiplications of a chain that has (its core is squarings and nothing else).
    """
    request.need_room()
    finished: set[tuple[str, int | None]] = set()  # families that have reached FLOOR
    floors: list[Spec] = []  # chains that have
    for spec in candidates:
        # 1. left out: nothing of it could be better than a plan that is there
        chained = any(spec.levels >= f.levels and spec.ct_mults >= f.ct_mults for f in floors)
        if spec.family in finished or chained:
            continue
        # 2. fitted, on wider domains too where its guard falls short; the last of the fits is the one that counts
        tried += plans_of(request, spec, by(cache))
        if not feasible(tried[-1]):
            continue
        yield tried[-1]
        # 3. an error that CKKS itself covers is not worth more squarings
        e = tried[-1].exponential
        if e.fit is not None and e.fit.max_error <= FLOOR:
            finished.add(spec.family)
            floors += [spec] if spec.method in ("chain", "limit") else []


def least_levels(request: Request, candidates: list[Spec], cache: FitCache) -> Plan:
    """The plan of fewest levels, then multiplications, then error, as ``cgf.plan.choose.cheapest`` finds it."""
    return cheapest(request, candidates, by(cache))


def needs(request: Request, exponential: Exponential) -> list[CircuitCost]:
    """Dry runs of the request's softmax with the exponential, one for each set of ciphertexts of its rows."""
    return needs_of(exponential, request.mask, request.rows, request.columns, softmax=request.softmax)


def costed_plans(
    request: Request, candidates: list[Spec], times: OpTimes | None, cache: FitCache | None = None
) -> list[CostedPlan]:
    """Every feasible plan of the candidates with its whole circuit, fewest levels first. UserError where none is."""
    tried = list[Plan]()
    costed = [_costed(request, plan, times) for plan in feasible_plans(request, candidates, cache or NONE, tried)]
    if not costed:
        raise UserError(why_not(request, tried))
    return sorted(costed, key=_by_levels)


def costed_of_least_levels(
    request: Request, candidates: list[Spec], times: OpTimes | None, cache: FitCache | None = None
) -> list[CostedPlan]:
    """The feasible plans of least levels with their whole circuits. UserError where none is feasible.

    ``pick`` by levels takes the same of them as of ``costed_plans``: what dominates a row of least levels has no
    more levels than it. Most candidates are never fitted.
    """
    plans = first_that_serve(request, candidates, lambda spec: (spec.levels,), by(cache or NONE))
    return sorted((_costed(request, plan, times) for plan in plans), key=_by_levels)


def _costed(request: Request, plan: Plan, times: OpTimes | None) -> CostedPlan:
    blocks = needs(request, plan.exponential)
    predicted = None if times is None else predict(blocks, times)
    return CostedPlan(plan, tuple(blocks), request.rows * request.columns, predicted)


def dominates(a: CostedPlan, b: CostedPlan) -> bool:
    """a is nowhere worse than b, and somewhere better."""
    pairs = list(zip(a.objectives, b.objectives, strict=True))
    return all(x <= y for x, y in pairs) and any(x < y for x, y in pairs)


def pareto_front(costed: list[CostedPlan]) -> list[CostedPlan]:
    """The rows that no other dominates; of rows that cost the same, the one of least error."""
    kept: dict[tuple[float, ...], CostedPlan] = {}
    for row in costed:
        # 1. another one is nowhere worse and somewhere better
        if any(dominates(other, row) for other in costed):
            continue
        # 2. of equals in every objective the first, unless a later one has less error below FLOOR
        same = kept.get(row.objectives)
        if same is None or row.error < same.error:
            kept[row.objectives] = row
    return sorted(kept.values(), key=_by_levels)


def check_objective(objective: str) -> None:
    """UserError for what is no objective."""
    if objective not in OBJECTIVES:
        raise UserError(f"objective must be levels or seconds, and is {objective!r}")


def pick(costed: list[CostedPlan], objective: str = "levels") -> CostedPlan:
    """Of the Pareto set, the row of least levels, or of least predicted seconds."""
    check_objective(objective)
    best = pareto_front(costed)
    if objective == "seconds" and any(row.predicted is None for row in best):
        raise UserError(
            "objective=seconds needs a table of operation times of the engine: python scripts/bench/op_times.py"
        )
    return min(best, key=_by_levels if objective == "levels" else _by_seconds)


def _by_levels(row: CostedPlan) -> tuple[float, ...]:
    return row.levels, row.predicted.total_s if row.predicted else 0.0, row.cmults, row.error


def _by_seconds(row: CostedPlan) -> tuple[float, ...]:
    return row.predicted.total_s if row.predicted else math.inf, row.levels, row.cmults, row.error
