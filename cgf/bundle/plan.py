"""What a server is told of the circuit before it starts: levels, operations and memory, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from cgf.bundle.agreement import Agreement
from cgf.errors import UserError
from cgf.he.network_needs import NetworkCost
from cgf.named import arguments, fits
from cgf.types import Json, JsonValue


@dataclass(frozen=True)
class StagePlan:
    """left: level of the lowest ciphertext behind it;  most_mib, kept_mib: of ciphertexts, within it and behind it."""

    name: str
    left: int
    most_mib: float
    kept_mib: float
    ops: dict[str, int]


@dataclass(frozen=True)
class Plan:
    """The stages of samples of so many tokens, and the levels that they take, all counted by a dry run."""

    tokens: int
    levels: int
    stages: tuple[StagePlan, ...]

    @property
    def most_mib(self) -> float:
        """Ciphertexts of the stage that holds most."""
        return max(stage.most_mib for stage in self.stages)

    @classmethod
    def of(cls, cost: NetworkCost) -> Plan:
        """Of a dry run."""
        stages = tuple(StagePlan(s.name, s.left, s.most_mib, s.kept_mib, s.ops) for s in cost.stages)
        return cls(cost.circuit.layout.tokens, cost.levels, stages)

    def to_json(self) -> Json:
        """Plain values that ``plans_from_json`` takes."""
        return asdict(self)


def plans_from_json(data: JsonValue, agreement: Agreement, where: str) -> tuple[Plan, ...]:
    """A plan a length of the agreement, in its order. UserError, with the file's name, for anything else."""
    if not fits(data, list[Json]):
        raise UserError(f"'plan' of {where} must be a list of objects, and is none")
    plans = tuple(_plan(**arguments(_plan, one, f"'plan' of {where}")) for one in data)
    if [plan.tokens for plan in plans] != [length.tokens for length in agreement.lengths]:
        raise UserError(f"'plan' of {where} must have an entry for each of the agreement's lengths, and has others")
    if not all(plan.stages and plan.levels <= agreement.terms.max_level for plan in plans):
        raise UserError(f"'plan' of {where} must have stages, and no more levels than the ring")
    return plans


def _plan(tokens: int, levels: int, stages: list[Json]) -> Plan:
    return Plan(tokens, levels, tuple(StagePlan(**arguments(StagePlan, one, "a stage of a plan")) for one in stages))


def plans_of(costs: Sequence[NetworkCost]) -> list[Json]:
    """Plans of dry runs, as a bundle holds them."""
    return [Plan.of(cost).to_json() for cost in costs]
