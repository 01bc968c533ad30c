"""A whole network on ciphertexts: named stages from encrypted features to encrypted logits, nothing decrypted between.

A stage takes the ciphertexts that are there and gives those that are needed further on, as lists by name: between two
stages they can be written to files, and gone on with by another process. Ciphertexts that no later stage reads are
dropped as soon as the last reader is done. Levels: ``cgf.network.program``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.engine import Engine
from cgf.he.network_heads import Head, Turned
from cgf.he.network_layout import Steps, TokenLayout, read_token
from cgf.he.network_maps import Maps, State
from cgf.he.network_operands import AT_ONCE, Operands, Stretch, cut, lowest, read_in_stretches, squares_stage
from cgf.he.side_by_side import Work
from cgf.he.stages import Stage, parts
from cgf.network.form import Form
from cgf.network.program import INPUT, Attend, Program
from cgf.network.twin import check_features
from cgf.types import Ciphertext

LOGITS = "logits"
SWITCH = 50  # combinations of one ciphertext that take as long as a rotation (results/bench/op_times_one_thread.json)


def _met(head: int, engine: Engine, state: State) -> State:
    """The state without the operands of a head that is done; of turned features there are none."""
    return {name: cts for name, cts in state.items() if name not in (f"q{head}", f"k{head}", f"v{head}")}


def _one(work: Work, most: int) -> list[Work]:
    return [work]


def turned_name(turn: int) -> str:
    """The name of the features turned by so many tokens."""
    return INPUT if turn == 0 else f"{INPUT}@{turn}"


@dataclass(frozen=True)
class NetworkCircuit:
    """The circuit of a program in a layout.

    sent_turned  whoever encrypts sends the features in every turn that the first attention needs: where the ring has no
                 level more than the circuit, since a rotation at the top level loses one
    at_once      features of squares that are there at once where only an attention's operands read them
    """

    program: Program
    layout: TokenLayout
    sent_turned: bool = False
    at_once: int = AT_ONCE

    # -- facts -------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> Steps:
        """Baby and giant steps of every attention."""
        return Steps.of(self.layout.tokens)

    @cached_property
    def turns_inputs(self) -> bool:
        """Whether the first attention's operands are maps of turned features, and not turned maps of features.

        Fewer key switches where features are few; every turn takes maps of its own. Rotary positions take queries and
        keys as they are before they are turned.
        """
        if not self.program.steps or not isinstance(first := self.program.steps[0], Attend):
            return False
        if first.layer.rotary is not None:
            return False
        if self.sent_turned:
            return True
        size, (giants, babies) = self.program.features[INPUT], (self.steps.giants - 1, self.steps.baby - 1)
        rotated = first.query.width * giants + (first.key.width + first.value.width) * babies
        return size * (len(self.input_turns) - 1) + size * rotated / SWITCH < rotated

    @property
    def input_turns(self) -> list[int]:
        """Turns of the features that the first attention needs, 0 first."""
        return sorted({*self.steps.key_turns, *self.steps.query_turns}, key=lambda turn: (turn != 0, turn))

    @property
    def sent(self) -> list[tuple[str, int]]:
        """(name, turn) of what is encrypted: a ciphertext a feature for each."""
        turns = self.input_turns if self.sent_turned else [0]
        return [(turned_name(turn), turn) for turn in turns]

    def packed(self, features: np.ndarray) -> dict[str, list[np.ndarray]]:
        """What is encrypted of samples (B, tokens, features), B at most the layout's: slots by name and feature.

        UserError for more samples, and for features of another shape.
        """
        check_features(self.program, features)
        if len(features) > self.layout.samples:
            raise UserError(
                f"a set of ciphertexts takes {self.layout.samples} samples of network '{self.program.name}', and "
                f"{len(features)} were given"
            )
        columns = np.moveaxis(features, 2, 0)
        return {name: [self.layout.pack(column, turn) for column in columns] for name, turn in self.sent}

    def logits(self, slots: list[np.ndarray], samples: int) -> np.ndarray:
        """(samples, classes) of the decrypted logits, a vector a class."""
        token = read_token(self.program)
        return np.stack([self.layout.of_token(vector, samples, token) for vector in slots], axis=1)

    # -- stages ------------------------------------------------------------------------------------

    def stages(self) -> list[Stage]:
        """All stages in order; the last leaves the logits alone."""
        stages: list[Stage] = []
        if self.turns_inputs and not self.sent_turned:
            stages.append(Stage("turned features", self._turns))
        for index, step in enumerate(self.program.steps):
            if isinstance(step, Attend):
                stages += self._attention(index, step)
            elif read_in_stretches(self.program, index + 1) is None:
                made = squares_stage(step, self.layout, slice(0, step.form.width))
                stages.append(replace(made, after=partial(self._without, index)))
        works = partial(cut, self.program.logits.width, self._logits)
        ready = partial(lowest, (self.program.logits,), self.layout)
        return [*stages, Stage(LOGITS, works, lambda engine, state: {LOGITS: state[LOGITS]}, before=ready)]

    def _attention(self, index: int, step: Attend) -> Iterator[Stage]:
        name, turned = f"block {step.block}", index == 0 and self.turns_inputs
        squares, behind = read_in_stretches(self.program, index), partial(self._without, index)
        operands = Operands(step, squares, self.layout, behind, self.at_once)
        if not turned:
            yield from operands.stages()
        for head in range(step.layer.heads):
            outputs = partial(self._turned_head if turned else self._head, step, head)
            after = partial(_met, head)
            yield Stage(f"{name} head {head + 1}", partial(_one, outputs), after, beside=True)
        if turned:
            yield operands.beside(Stretch(None, slice(0), 0, 1), f"{name} state")

    def _turns(self, most: int) -> list[Work]:
        return [partial(self._turn, self.input_turns[1:][some]) for some in parts(len(self.input_turns) - 1, most)]

    def _turn(self, turns: list[int], engine: Engine, state: State) -> State:
        maps = Maps(engine, self.layout)
        return {turned_name(turn): [maps.turned(ct, turn) for ct in state[INPUT]] for turn in turns}

    def _head(self, step: Attend, head: int, engine: Engine, state: State) -> State:
        """Outputs of a head whose queries, keys and values are there: they are turned, and gone then."""
        maps, facts = Maps(engine, self.layout), Head(step.layer, head, self.layout)

        def turned(cts: list[Ciphertext]) -> Turned:
            return lambda turn, some: (maps.turned(ct, turn) for ct in cts[some])

        queries, keys, values = (state.pop(f"{part}{head}") for part in "qkv")
        if step.layer.rotary is not None:
            queries, keys = (facts.with_positions(engine, cts) for cts in (queries, keys))
        outputs = facts.outputs(engine, turned(queries), turned(keys), turned(values))
        del queries, keys, values
        return {step.name: list(outputs)}

    def _turned_head(self, step: Attend, head: int, engine: Engine, state: State) -> State:
        """Outputs of a head whose operands are maps of turned features, each made where it is needed."""
        maps, facts = Maps(engine, self.layout), Head(step.layer, head, self.layout)
        query, key, value = step.of_head(head)
        top = min(engine.level(ct) for turn in self.input_turns for ct in state[turned_name(turn)])

        def mapped(form: Form, level: int) -> Turned:
            def rows(turn: int, some: slice) -> Iterable[Ciphertext]:
                return maps.rows(form.rows(some), {INPUT: maps.lowered(state[turned_name(turn)], level)}, turn)

            return rows

        low = facts.weights_level(top - 1) + 1
        outputs = facts.outputs(
            engine,
            mapped(query.times(facts.query_scale), top),
            mapped(key.times(facts.key_scale), top),
            mapped(value.times(facts.value_scale), low),
        )
        return {step.name: list(outputs)}

    def _logits(self, some: slice, engine: Engine, state: State) -> State:
        """Logits in the form that takes fewest bytes."""
        rows = Maps(engine, self.layout).rows(self.program.logits.rows(some), state)
        return {LOGITS: [engine.lower(ct, engine.level(ct)) for ct in rows]}

    def _without(self, index: int, engine: Engine, state: State) -> State:
        """The ciphertexts that steps behind this one read, and what is half done of it."""
        gone = {name for name, last in self.program.last_use().items() if last <= index}
        gone |= {turned_name(turn) for turn in self.input_turns} - {INPUT}
        return {name: cts for name, cts in state.items() if name not in gone}
