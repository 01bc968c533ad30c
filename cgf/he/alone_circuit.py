"""A whole network on the ciphertexts of one sample: the layout of least latency for one attention and one square.

A set of many samples (cgf.he.network_circuit) takes as long for one of them as for all. Here one ciphertext holds all
products of a layer, and matrices are vectors of numbers: few operations, for two levels more, which masks take.
Source of the layout: this repository.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cgf.errors import UserError
from cgf.he.alone_layout import AloneLayout, Numbers, Place, entries
from cgf.he.alone_maps import AloneMaps, Entry
from cgf.he.attention import weigh
from cgf.he.engines.engine import Engine
from cgf.he.network_circuit import LOGITS
from cgf.he.network_heads import Head
from cgf.he.network_layout import TokenLayout, read_token
from cgf.he.network_maps import State
from cgf.he.packed import Packed
from cgf.he.score_rows import Rows
from cgf.he.stages import Stage
from cgf.network.form import Form
from cgf.network.layers import MEAN
from cgf.network.program import INPUT, Attend, Program, Squares
from cgf.network.twin import check_features
from cgf.types import Ciphertext

TURNED = f"{INPUT}@keys"
MASKS = 2  # levels beyond those of the program


@dataclass(frozen=True)
class AloneCircuit:
    """The circuit of a program of one attention and one square, for one sample a set.

    Levels: those of the program and MASKS. Raises UserError for heads whose exponentials differ, since the slots of all
    heads share one circuit.
    """

    program: Program
    layout: AloneLayout

    def __post_init__(self) -> None:
        layer = self._attend.layer
        first = layer.of_head(0).to_json()
        if any(layer.of_head(head).to_json() != first for head in range(1, layer.heads)):
            raise UserError(
                "a sample alone takes one exponential for all heads of an attention, and network "
                f"'{self.program.name}' has one for each (softmax.trainable=head): "
                "take sets of samples (he.alone=false, no --alone)"
            )

    # -- facts -------------------------------------------------------------------------------------

    @property
    def _attend(self) -> Attend:
        step = self.program.steps[0]
        assert isinstance(step, Attend)
        return step

    @property
    def _hidden(self) -> Squares:
        step = self.program.steps[1]
        assert isinstance(step, Squares)
        return step

    @cached_property
    def _facts(self) -> Head:
        """Public factors and the softmax's circuit, which all heads share."""
        return Head(self._attend.layer, 0, TokenLayout(self.layout.tokens, 1, self.layout.slots))

    @property
    def sent(self) -> list[tuple[str, int]]:
        """(name, 0) of what is encrypted, a ciphertext a feature for each: of the slot's own token, and of its key."""
        return [(INPUT, 0), (TURNED, 0)]

    def packed(self, features: np.ndarray) -> dict[str, list[np.ndarray]]:
        """What is encrypted of one sample (1, tokens, features): slots by name and feature. UserError for more."""
        check_features(self.program, features)
        if len(features) > 1:
            raise UserError(f"a sample alone has its own ciphertexts, and {len(features)} samples were given")
        columns = np.moveaxis(features, 2, 0)
        return {name: [self.layout.pack(column, name == TURNED) for column in columns] for name, _ in self.sent}

    def logits(self, slots: list[np.ndarray], samples: int) -> np.ndarray:
        """(1, classes) of the decrypted logits: a class a lane, in its first slot."""
        return self.layout.answers(slots[0], self.program.logits.width)

    # -- stages ------------------------------------------------------------------------------------

    def stages(self) -> list[Stage]:
        """All stages in order; the last leaves the logits alone."""
        return [
            Stage.whole("attention", self._attention),
            Stage.whole("outputs", self._outputs),
            Stage.whole("hidden layer", self._square),
            Stage.whole(LOGITS, self._logits),
        ]

    def _attention(self, engine: Engine, state: State) -> State:
        """Weights meet values; the sum over keys is right at turn 0.

        1. Queries of the slot's own token, keys of its key: a product with a vector for each feature.
        2. The product of both, summed over a head's features: a score, the same in each lane.
        3. The softmax along the turns, by its own circuit.
        4. Values, at the level of the weights; their products, summed over the turns.
        """
        step, facts, layout, maps = self._attend, self._facts, self.layout, AloneMaps(engine, self.layout)
        query = self._projected(maps, state[INPUT], step.query.times(facts.query_scale), False)
        key = self._projected(maps, state[TURNED], step.key.times(facts.key_scale), True)
        width = step.query.width // layout.heads
        score = maps.summed(engine.relinearize(engine.mul(query, key)), layout.lane, width)
        keys = np.full(layout.turn, float(layout.tokens))
        rows = Rows((1, layout.heads, layout.tokens, layout.tokens), 0, None, keys)
        weights = weigh(facts.circuit, Packed(engine, layout.rows, rows, (score,))).cts[0]
        low = maps.lowered(state.pop(TURNED), engine.level(weights) + 1)
        values = self._projected(maps, low, step.value.times(facts.value_scale), True)
        met = engine.relinearize(engine.mul(weights, values))
        return {INPUT: state[INPUT], step.name: [maps.summed(met, layout.turn, layout.tokens)]}

    def _projected(self, maps: AloneMaps, cts: Sequence[Ciphertext], form: Form, turned: bool) -> Ciphertext:
        """A form of the features: in each lane a feature of the slot's head, of its token or, turned, of its key."""
        width = form.width // self.layout.heads

        def of(array: np.ndarray) -> Numbers:
            """Numbers (tokens or 1, features of all heads) in their slots."""
            return lambda place: entries(array, self.layout.met(place, turned), place.head * width + place.lane % width)

        return maps.plus(maps.products(cts, [of(column[None]) for column in form.terms[INPUT].T]), of(form.constant))

    def _outputs(self, engine: Engine, state: State) -> State:
        """The attention's outputs at every turn: what is not at turn 0 is masked, one level, then turn 0 is copied."""
        layout, name, maps = self.layout, self._attend.name, AloneMaps(engine, self.layout)
        masked = maps.times(state[name][0], lambda place: place.turn == 0)
        return {**state, name: [maps.summed(masked, -layout.turn, layout.tokens)]}

    def _square(self, engine: Engine, state: State) -> State:
        """Hidden feature lane * tokens + turn of each token, at head 0, squared.

        1. Outputs along the lanes, each head's part of the sum at that head; features and the constant at head 0.
        2. The sum over heads.
        """
        form, layout, name, maps = self._hidden.form, self.layout, self._attend.name, AloneMaps(engine, self.layout)
        parts = []

        def hidden(lane: np.ndarray, place: Place) -> np.ndarray:
            feature: np.ndarray = lane * layout.tokens + place.turn
            return feature

        if name in form.terms:
            matrix = form.terms[name]
            parts.append(
                maps.along_lanes(
                    state[name][0], lambda out, place: entries(matrix, hidden(out, place), self._output(place))
                )
            )
        if INPUT in form.terms:
            low = maps.lowered(state[INPUT], engine.level(state[name][0]))
            parts.append(maps.products(low, [_at_head(column, hidden) for column in form.terms[INPUT].T]))

        total = maps.plus(
            maps.total(parts),
            lambda place: np.where(
                place.head == 0, entries(form.constant, place.token, hidden(place.lane, place)), 0.0
            ),
        )
        total = maps.summed(total, 1, layout.heads)
        return {**state, self._hidden.name: [engine.relinearize(engine.square(total))]}

    def _output(self, place: Place) -> np.ndarray:
        """The feature of an attention's outputs that stands in a slot; one that is none where none does."""
        heads, width = self.layout.heads, self._attend.value.width // self.layout.heads
        feature: np.ndarray = np.where(place.lane < width, place.head * width + place.lane, heads * width)
        return feature

    def _logits(self, engine: Engine, state: State) -> State:
        """A class a lane: sources along the lanes, then the sum of each lane, masked, so that nothing else is sent.

        A pooling by the mean is a factor of the numbers, one by the first or the last token a zero at the others.
        """
        form, layout, maps = self.program.logits, self.layout, AloneMaps(engine, self.layout)
        level = engine.level(state[self._hidden.name][0])
        parts = [
            maps.along_lanes(maps.lowered(state[name], level)[0], entry)
            for name, entry in self._logit_entries().items()
            if name in form.terms
        ]
        if INPUT in form.terms:
            numbers = [self._logit_of_feature(column) for column in form.terms[INPUT].T]
            parts.append(maps.products(maps.lowered(state[INPUT], level), numbers))
        total = maps.summed(maps.total(parts), 1, layout.lane)

        def first(place: Place) -> np.ndarray:
            return np.where((place.turn == 0) & (place.token == 0) & (place.head == 0), place.lane < form.width, False)

        answer = maps.times(total, first)
        answer = maps.plus(answer, lambda place: entries(form.constant, 0, place.lane) * first(place))
        return {LOGITS: [engine.lower(answer, engine.level(answer))]}

    def _logit_entries(self) -> dict[str, Entry]:
        """What each source's slots are multiplied by on their way to a class, by the source's name."""
        form, tokens = self.program.logits, self.layout.tokens

        def of_outputs(out: np.ndarray, place: Place) -> np.ndarray:
            numbers = entries(form.terms[self._attend.name], out, self._output(place))
            return np.where(place.turn == 0, numbers * self._pooled(place), 0.0)

        def of_squares(out: np.ndarray, place: Place) -> np.ndarray:
            numbers = entries(form.terms[self._hidden.name], out, place.lane * tokens + place.turn)
            return np.where(place.head == 0, numbers * self._pooled(place), 0.0)

        return {self._attend.name: of_outputs, self._hidden.name: of_squares}

    def _logit_of_feature(self, column: np.ndarray) -> Numbers:
        """What a feature of the input is multiplied by: at turn 0 and head 0 of each class's lane."""

        def numbers(place: Place) -> np.ndarray:
            here = (place.turn == 0) & (place.head == 0)
            return np.where(here, entries(column[None], 0, place.lane) * self._pooled(place), 0.0)

        return numbers

    def _pooled(self, place: Place) -> np.ndarray:
        """The share of a token in the one that is pooled of all."""
        if self.program.logits.pool == MEAN:
            return np.full(place.token.shape, 1.0 / self.layout.tokens)
        return np.where(place.token == read_token(self.program), 1.0, 0.0)


def _at_head(column: np.ndarray, hidden: Entry) -> Numbers:
    """What a feature of the input is multiplied by on its way to the hidden features: at head 0."""
    return lambda place: np.where(place.head == 0, entries(column[None], 0, hidden(place.lane, place)), 0.0)
