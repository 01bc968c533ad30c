"""What a search tries: the configurations of a grid, by number, and how many of them each round trains for how long."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cgf.checks import path_part, whole
from cgf.errors import UserError
from cgf.types import JsonValue


@dataclass(frozen=True)
class Grid:
    """What a softmax may be set to.

    name     of the search and of the run whose settings it finds
    options  overrides of train.py that every configuration shares
    axes     values by key of train.py; factors: values that multiply what the schedule says of that key
    """

    name: str
    options: tuple[str, ...]
    axes: Mapping[str, tuple[JsonValue, ...]]
    factors: Mapping[str, tuple[float, ...]]

    @classmethod
    def of(cls, node: Mapping[str, JsonValue], host: str) -> Grid:
        """The grid of a configuration, with the axes that it has for this host in place of its own axes and factors.

        UserError for an axis without values or with one twice.
        """
        path_part("grid.name", node["name"])
        axes = {**node["axes"], **((node.get("axes_of") or {}).get(host) or {})}
        factors = {key: values for key, values in (node.get("factors") or {}).items() if key not in axes}
        for key, values in {**axes, **factors}.items():
            if not values or len({str(v) for v in values}) != len(values):
                raise UserError(f"axis {key} of grid {node['name']} needs values that differ, and has {values}")
        return cls(
            node["name"],
            tuple(node["options"]),
            {k: tuple(v) for k, v in axes.items()},
            {k: tuple(v) for k, v in factors.items()},
        )

    @property
    def size(self) -> int:
        """How many configurations it has."""
        return math.prod(len(values) for values in (*self.axes.values(), *self.factors.values()))

    def at(self, index: int, arguments: Sequence[str]) -> list[str]:
        """The overrides of a configuration by its number; arguments: those of the schedule, which factors multiply.

        UserError where a factor's key has no value there.
        """
        given = dict(argument.split("=", 1) for argument in arguments)
        overrides = []
        for key, values in (*self.axes.items(), *self.factors.items()):
            index, place = divmod(index, len(values))
            value = values[place]
            if key in self.factors:
                if key not in given:
                    raise UserError(f"factor {key} of grid {self.name} needs a schedule that sets {key}")
                value = float(given[key]) * value
            overrides.append(f"{key}={_text(value)}")
        return [*self.options, *overrides]


def _text(value: object) -> str:
    return "null" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Budget:
    """What is trained.

    rounds  (configurations, epochs) of each, epochs None: the schedule's
    seed    of the draw and of every training

    UserError where there is no round, and where a later one has more configurations than the one before.
    """

    rounds: tuple[tuple[int, int | None], ...]
    seed: int

    @classmethod
    def of(cls, rounds: Sequence[JsonValue], seed: int) -> Budget:
        """The budget of a configuration's ``rounds``; UserError where it is no list, or one of them no pair."""
        if not isinstance(rounds, Sequence) or isinstance(rounds, str):
            raise UserError(f"rounds must be a list of pairs [configurations, epochs], and {rounds} was given")
        for pair in rounds:
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
                raise UserError(f"each of rounds must be [configurations, epochs], and {pair} was given")
        return cls(tuple((count, epochs) for count, epochs in rounds), seed)

    def __post_init__(self) -> None:
        for count, epochs in self.rounds:
            whole("rounds", count, 1)
            if epochs is not None:
                whole("rounds", epochs, 1)
        counts = [count for count, _ in self.rounds]
        if not counts:
            raise UserError("rounds must have a pair [configurations, epochs] at least, and it is empty")
        if counts != sorted(counts, reverse=True):
            raise UserError(f"each round needs no more configurations than the one before, and rounds are {counts}")

    def drawn(self, size: int) -> list[int]:
        """Numbers of the configurations of the first round: all of a grid that has no more."""
        return random.Random(self.seed).sample(range(size), min(self.rounds[0][0], size))
