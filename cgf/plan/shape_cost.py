"""Operations, levels and memory of a whole network from its sizes alone, for models too large to fold or to dry-run.

Linear maps, activations and the head are counted by their sizes; one attention head a block is run on the simulator's
one slot, since all heads of a block cost the same. A test holds the counts against those of whole circuits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from cgf.he.engines.count import Counting
from cgf.he.engines.engine import Ring
from cgf.he.engines.sim import OneSlot, SimCiphertext
from cgf.he.network_circuit import SWITCH
from cgf.he.network_layout import Steps, TokenLayout, rotated, sum_of_tokens
from cgf.he.network_needs import size_of
from cgf.he.network_operands import AT_ONCE
from cgf.plan.shape_head import OneHead
from cgf.plan.sizes import Sizes


@dataclass
class CircuitCounts:
    """What a set of samples takes.

    by_level       operations by (detail, level of the lowest operand);  most_mib: of all ciphertexts at once
    encrypted, decrypted  ciphertexts;  rotations: steps of the keys;  left: level of the logits
    """

    sizes: Sizes
    layout: TokenLayout
    top: int
    by_level: Counter[tuple[str, int]] = field(default_factory=Counter)
    rotations: set[int] = field(default_factory=set)
    encrypted: int = 0
    decrypted: int = 0
    left: int = 0
    most_mib: float = 0.0

    @property
    def levels(self) -> int:
        """That are used."""
        return self.top - self.left


def counted(sizes: Sizes, ring: Ring, held_level: int | None = None) -> CircuitCounts:
    """A network's operations in a ring, from its levels down.

    held_level: memory as if every ciphertext had this level (of a network that is refreshed on its way, whose own
    levels no ring has).
    """
    return _Count(sizes, ring, held_level).run()


class _Count:
    """The stages of cgf.he.network_circuit, with counts for ciphertexts: source -> how many, and their level."""

    def __init__(self, sizes: Sizes, ring: Ring, held_level: int | None) -> None:
        self.s, self.ring, self.held_level = sizes, ring, held_level
        self.result = CircuitCounts(sizes, sizes.layout(ring.slots), sizes.levels)
        self.steps = Steps.of(sizes.tokens)
        self.sources: dict[str, int] = {"x": sizes.features}  # features of each
        self.level = sizes.levels
        self.whole_map = True  # False: the state is a source itself, and the map of it into the next is the identity
        self.varies = not sizes.rotary  # whether constants of the state differ from token to token
        self.inputs = 1  # turns of the features that are there
        self.stretches = 1  # of the squares in front of the next attention

    def run(self) -> CircuitCounts:
        """Block by block, then the logits."""
        s, result = self.s, self.result
        turns = {*self.steps.key_turns, *self.steps.query_turns}
        turned = not s.rotary and self._turns_inputs(len(turns))
        sent = turned and self.level > self.ring.key_switch_level
        result.encrypted = s.features * (len(turns) if sent else 1)
        if turned:
            self.inputs = len(turns)
            self._held(self._mib(s.features * self.inputs, self.level))
            if not sent:
                self._count("rotate", s.features * (len(turns) - 1), self.level)
                result.rotations |= {t * result.layout.samples % result.layout.slots for t in turns if t}
        for block in range(1, s.blocks + 1):
            self._attention(block, turned and block == 1)
            self._activation(block)
        self._logits()
        return result

    # -- parts -------------------------------------------------------------------------------------

    def _attention(self, block: int, turned: bool) -> None:
        s, level = self.s, self.level
        groups = (s.kv_heads or s.heads) * s.head_width
        weights = level - 3 - s.k - s.more  # the level of weights and values
        streams, waiting = self._total > s.width, self._total
        if turned:  # the turned features stay to the last head, and the outputs of those before it
            beside = self._mib(waiting * self.inputs, level) + self._mib(s.width - s.head_width, weights - 1)
        else:
            self._count("lower", waiting, level)
            self._map(s.width + groups, level)
            queries = self._mib(s.width + groups, level - 1)
            self._count("lower", waiting, weights + 1)
            self._map(groups, weights + 1)
            beside = queries + self._mib(groups, weights)
            if self.stretches > 1:
                self._sums(level, weights, s.width + groups, groups)
                beside += self._mib(s.width, weights - 1)
                there = self._mib(waiting - s.mlp, level + 2) + self._mib(-(-s.mlp // self.stretches), level)
                self._held(beside + there)
            else:
                self._held(queries + self._mib(waiting, level))
                beside += self._mib(s.width, weights - 1) if streams else 0.0
                self._held(beside + self._mib(waiting, weights + 1))
            if streams:
                self._stream(block, weights)
            beside += 0.0 if streams else self._mib(waiting, weights + 1)
        self._heads(level, weights, turned, beside)
        if turned and streams:
            self._stream(block, weights)
        self.inputs = 1
        self.sources[f"o{block}"] = s.width
        self.level = weights - 1

    def _sums(self, level: int, weights: int, scores: int, values: int) -> None:
        """Of stretches: each but the first is added to what those before made."""
        more = self.stretches - 1
        for rows, at in ((scores, level - 1), (values, weights), (self.s.width, weights - 1)):
            self._count("add", more * rows, at)

    def _stream(self, block: int, level: int) -> None:
        """The state as a source of its own, in place of those that it is made of."""
        self._count("lower", self._total, level)
        saved = 0 if self.whole_map else self.s.width - 1  # products, by the identity
        self._map(self.s.width, level, self._total - saved)
        self.sources, self.whole_map, self.varies = {f"h{block}": self.s.width}, False, False

    def _heads(self, level: int, weights: int, turned: bool, beside: float) -> None:
        """One head on the simulator, times the heads."""
        one = OneHead(self.s, self.ring, self.result.layout, self.held_level)
        by_level, rotations, mib = one.run(level, weights, turned, self._total)
        for key, count in by_level.items():
            self.result.by_level[key] += count * self.s.heads
        if turned:
            self._constants(one.mapped_high * self.s.heads, level - 1)
            self._constants(one.mapped_low * self.s.heads, weights)
        self.result.rotations |= rotations
        self._held(beside + mib)

    def _activation(self, block: int) -> None:
        s, level = self.s, self.level
        self._count("lower", self._total, level)
        self._map(s.mlp * (2 if s.gated else 1), level)
        self._count("cmult" if s.gated else "square", s.mlp, level - 1)
        self._count("relinearize", s.mlp, level - 2)
        # squares are made in stretches where the next attention makes a stream of all that it reads
        self.stretches = -(-s.mlp // AT_ONCE) if block < s.blocks and self._total + s.mlp > s.width else 1
        self._held(self._mib(self._total, level) + self._mib(-(-s.mlp // self.stretches), level - 2))
        self.sources[f"s{block}"] = s.mlp
        self.level = level - 2

    def _logits(self) -> None:
        s, level = self.s, self.level
        self._count("lower", self._total, level)
        self._count("mac", s.classes * self._total, level)
        if s.mean:
            self._mean(level - 1)
        self._count("add_float", s.classes, level - 1)
        self._count("lower", s.classes, level - 1)
        self.result.decrypted, self.result.left = s.classes, level - 1

    def _mean(self, level: int) -> None:
        engine = Counting(OneSlot(max(level, 1), rings=(self.ring,)))
        ct = SimCiphertext(np.zeros(1), level)
        samples = self.result.layout.samples
        sum_of_tokens(self.s.tokens, ct, lambda total, turn: rotated(engine, total, turn, samples), engine.add)
        for key, count in engine.by_level.items():
            self.result.by_level[key] += count * self.s.classes
        self.result.rotations |= engine.rotations

    # -- counts ------------------------------------------------------------------------------------

    @property
    def _total(self) -> int:
        return sum(self.sources.values())

    def _turns_inputs(self, turns: int) -> bool:
        """As NetworkCircuit.turns_inputs."""
        giants, babies = self.steps.giants - 1, self.steps.baby - 1
        groups = (self.s.kv_heads or self.s.heads) * self.s.head_width
        turned = self.s.width * giants + 2 * groups * babies
        return self.s.features * (turns - 1) + self.s.features * turned / SWITCH < turned

    def _map(self, rows: int, level: int, features: int | None = None) -> None:
        self._count("mac", rows * (self._total if features is None else features), level)
        self._constants(rows, level - 1)

    def _constants(self, rows: int, level: int) -> None:
        self._count("add_vector" if self.varies else "add_float", rows, level)

    def _count(self, kind: str, count: int, level: int) -> None:
        if count:
            self.result.by_level[kind, level] += count

    def _held(self, mib: float) -> None:
        self.result.most_mib = max(self.result.most_mib, mib)

    def _mib(self, count: int, level: int) -> float:
        return count * size_of(self.ring.slots, level if self.held_level is None else self.held_level) / 2**20
