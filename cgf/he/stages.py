"""Stages of a network's circuit, one after the other or, where processes share them out, some side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from cgf.he.engines.engine import Engine, Portable
from cgf.he.network_maps import State
from cgf.he.side_by_side import Work, side_by_side


def as_it_is(engine: Engine, state: State) -> State:
    """Nothing is done to the state."""
    return state


@dataclass(frozen=True)
class Stage:
    """A part of the circuit: works that make ciphertexts of the state, and what is left of the state behind them.

    before  what is done to the state first, once
    works   at most so many, which read nothing of each other; what they make is put together in their order
    after   the state that goes on; it may make more
    beside  whether it reads nothing that the stages beside it make, and has one work
    """

    name: str
    works: Callable[[int], Sequence[Work]]
    after: Work = as_it_is
    beside: bool = False
    before: Work = as_it_is

    @classmethod
    def whole(cls, name: str, run: Work) -> Stage:
        """A stage that nothing is shared out of: ``run`` takes the state and gives the one that goes on."""
        return cls(name, lambda most: [], run)

    def run(self, engine: Engine, state: State) -> State:
        """The state that goes on; the one that is given may be emptied."""
        state = self.before(engine, state)
        for work in self.works(1):
            add(state, work(engine, state))
        return self.after(engine, state)


def add(state: State, made: State) -> None:
    """Puts the ciphertexts that a work made behind those of their names."""
    for name, cts in made.items():
        state[name] = [*state.get(name, []), *cts]


def rounds(stages: Iterable[Stage], processes: int) -> Iterator[list[Stage]]:
    """The stages in order; those that may run beside each other together, as many as there are processes."""
    together: list[Stage] = []
    for stage in stages:
        if together and (not stage.beside or len(together) == processes):
            yield together
            together = []
        if stage.beside:
            together.append(stage)
        else:
            yield [stage]
    if together:
        yield together


def run_round(together: Sequence[Stage], engine: Engine, evaluator: Engine, state: State, processes: int) -> State:
    """The state behind some stages that run at the same time; alone, a stage is cut into as many works as it can be.

    engine      that is computed on, evaluator or what counts its operations
    processes   1: this one alone. Above 1 the evaluator must be ``Portable`` and have no threads of its own
    Raises as ``side_by_side``.
    """
    if processes == 1:
        for stage in together:
            state = stage.run(engine, state)
        return state
    for stage in together:
        state = stage.before(engine, state)
    works = [work for stage in together for work in stage.works(1 if stage.beside else processes)]
    if works:
        for made in side_by_side(works, engine, cast(Portable, evaluator), state):
            add(state, made)
    for stage in together:
        state = stage.after(engine, state)
    return state


def parts(count: int, most: int) -> list[slice]:
    """So many things in at most ``most`` stretches, alike to one."""
    most = max(1, min(most, count))
    return [slice(a, b) for a, b in pairwise(count * i // most for i in range(most + 1)) if a < b]
