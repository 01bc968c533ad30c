"""The algebra that saves levels: a network as few maps of ciphertexts, everything affine folded into their matrices.

The state of a network is never formed on the way. It is kept as an affine form of *sources*: the prepared features, the
outputs of each attention, the squares of each activation, the products of each gated unit. So norms, scales, positions
and biases fold into matrices and constants, and matrices that follow one another (the last of an MLP and the next
queries', an attention's output and the MLP's first) are one matrix over the list of sources. Levels: 6 + k a block of
an attention (k: its exponential's) and a square or a product, 2 more where it is causal and 1 with rotary positions, 1
for the logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cgf.errors import UserError
from cgf.network.form import Form
from cgf.network.layers import Affine, Gated, Layer, Linear, Network, Pool, Positions, Residual, SelfAttention
from cgf.network.layers import Square as SquareLayer

INPUT = "x"


@dataclass(frozen=True, eq=False)
class Attend:
    """Source ``name``: the outputs of an attention, (heads x width of a value) features.

    query, key, value  affine forms;  layer: its heads, scaling and exponential
    stream    the state beside it as a source of its own, formed late and at a low level where that takes fewer products
              later; None: the state stays a form.  block: number of the attention, from 1
    """

    name: str
    block: int
    layer: SelfAttention
    query: Form
    key: Form
    value: Form
    stream: tuple[str, Form] | None = None

    def of_head(self, head: int) -> tuple[Form, Form, Form]:
        """Queries, keys and values of one head."""
        parts = []
        for form in (self.query, self.key, self.value):
            size = form.width // self.layer.heads
            parts.append(form.rows(slice(head * size, (head + 1) * size)))
        return parts[0], parts[1], parts[2]


@dataclass(frozen=True, eq=False)
class Squares:
    """Source ``name``: the squares of a form's features."""

    name: str
    block: int
    form: Form

    @property
    def forms(self) -> tuple[Form, ...]:
        """What is multiplied."""
        return (self.form,)


@dataclass(frozen=True, eq=False)
class Products:
    """Source ``name``: the products of the features of two forms of one width."""

    name: str
    block: int
    form: Form
    other: Form

    @property
    def forms(self) -> tuple[Form, ...]:
        """What is multiplied."""
        return self.form, self.other


Multiplied = Squares | Products
Step = Attend | Multiplied


@dataclass(frozen=True, eq=False)
class Program:
    """Steps, each of which makes a source of those before, and the form of the logits (classes features).

    features: of each source;  tokens: of a sample
    """

    name: str
    tokens: int
    steps: tuple[Step, ...]
    logits: Form
    features: dict[str, int] = field(default_factory=dict)

    @property
    def pool(self) -> str:
        """How one token comes of all: what the logits read, or squares behind the pooling do."""
        forms = [self.logits, *(form for step in self.steps if not isinstance(step, Attend) for form in step.forms)]
        return next(form.pool for form in forms if form.pool is not None)

    def last_use(self) -> dict[str, int]:
        """Source -> index of the last step that reads it; the logits are the step behind the last."""
        last: dict[str, int] = {}
        for index, step in enumerate(self.steps):
            forms = [step.query, step.key, step.value] if isinstance(step, Attend) else list(step.forms)
            if isinstance(step, Attend) and step.stream is not None:
                forms.append(step.stream[1])
            last.update({name: index for form in forms for name in form.terms})
        last.update(dict.fromkeys(self.logits.terms, len(self.steps)))
        return last

    def depth(self) -> int:
        """Levels by the count of the circuits' steps: the longest way from the features to the logits.

        A map 1, an attention 3 and its exponential's and what its mask and its positions take, a square or a product 1.
        A dry run counts them anew, off the circuit itself.
        """
        level = {INPUT: 0}
        for step in self.steps:
            if not isinstance(step, Attend):
                level[step.name] = max(_deepest(form, level) for form in step.forms) + 2
                continue
            score = max(_deepest(step.query, level), _deepest(step.key, level)) + 2 + step.layer.more_levels
            core = max(step.layer.of_head(head).levels for head in range(step.layer.heads))
            level[step.name] = max(score + 1 + core, _deepest(step.value, level) + 1) + 1
            if step.stream is not None:
                level[step.stream[0]] = _deepest(step.stream[1], level) + 1
        return _deepest(self.logits, level) + 1


def _deepest(form: Form, level: dict[str, int]) -> int:
    return max(level[name] for name in form.terms)


def program_of(network: Network, tokens: int, streams: bool = True) -> Program:
    """The program of samples of so many tokens. UserError for a count that the network does not take.

    streams: the state becomes a source of its own beside an attention where its sources have more features than it.
    """
    walk = _Walk(network.check_tokens(tokens), streams)
    state = walk.through(network.layers, walk.source(INPUT, network.features))
    return Program(network.name, tokens, tuple(walk.steps), state, walk.features)


class _Walk:
    """From layer to layer with the state as a form; makes a step where a layer is more than affine."""

    def __init__(self, tokens: int, streams: bool) -> None:
        self.tokens, self.streams, self.blocks = tokens, streams, 0
        self.steps: list[Step] = []
        self.features: dict[str, int] = {}

    def source(self, name: str, width: int, pool: str | None = None) -> Form:
        """A new source, as the state that it is; behind a pooling of one token."""
        self.features[name] = width
        return Form.of(name, width, self.tokens if pool is None else 1)

    def through(self, layers: Sequence[Layer], state: Form, outer: Form | None = None) -> Form:
        """The state behind the layers; outer: the state that a sum around them adds, which may become a stream."""
        for layer in layers:
            if isinstance(layer, Linear):
                state = state.mapped(layer.weight, layer.bias)
            elif isinstance(layer, Affine):
                state = state.scaled(layer.scale, layer.shift)
            elif isinstance(layer, Positions):
                state = replace(state, constant=state.constant + layer.values[: self.tokens])
            elif isinstance(layer, Pool):
                state = state.pooled(layer.kind)
            elif isinstance(layer, SquareLayer):
                state = self._squares(layer, state)
            elif isinstance(layer, Gated):
                state = self._products(layer, state)
            elif isinstance(layer, SelfAttention):
                state = self._attend(layer, state, outer)
            elif isinstance(layer, Residual):
                state = self._sum(layer, state)
            else:
                raise UserError(f"a network has no layer {type(layer).__name__}")
        return state

    def _sum(self, layer: Residual, state: Form) -> Form:
        # 1. the branch, which is told the state that it is added to: an attention in it may make that a stream
        before = len(self.steps)
        inner = self.through(layer.layers, state, state)
        # 2. where one did, the state is that source, and no longer the form of all sources before it; an attention of a
        #    sum within the branch made a stream of that sum's state, which is not this one
        outer = state
        for step in self.steps[before:]:
            if isinstance(step, Attend) and step.stream is not None and step.stream[1] is outer:
                state = Form.of(step.stream[0], state.width, self.tokens)
        return state.plus(inner)

    def _attend(self, layer: SelfAttention, state: Form, outer: Form | None) -> Form:
        self.blocks += 1
        # 1. the state beside it becomes a source where its sources have more features than it
        stream = None
        if self.streams and outer is not None and outer.features > outer.width:
            stream = (f"h{self.blocks}", outer)
            self.features[stream[0]] = outer.width
        # 2. queries, keys and values as forms of the sources; what comes of them is a source of its own
        query, key, value = (state.mapped(one.weight, one.bias) for one in (layer.query, layer.key, layer.value))
        self.steps.append(Attend(f"o{self.blocks}", self.blocks, layer, query, key, value, stream))
        return self.source(f"o{self.blocks}", value.width)

    def _squares(self, layer: SquareLayer, state: Form) -> Form:
        """a u^2 + b u + c = sign(a) u'^2 + c - b^2 / 4a with u' = sqrt|a| (u + b / 2a): u' squared takes the level."""
        # 1. u' as a form: the affine part goes into the matrices of the sources
        c, b, a = layer.coefficients
        root = np.sqrt(np.abs(a))
        completed = state.scaled(root, root * b / (2 * a))
        # 2. u' squared is a source, and the sign and the constant are affine again
        name = f"s{self._made(Squares)}"
        self.steps.append(Squares(name, self.blocks, completed))
        return self.source(name, len(a), state.pool).scaled(np.sign(a), c - b * b / (4 * a))

    def _products(self, layer: Gated, state: Form) -> Form:
        """gate(x) * (up x): the gate may make sources of its own, and the product of both forms is another."""
        gate, up = self.through(layer.gate, state), state.mapped(layer.up.weight, layer.up.bias)
        name = f"p{self._made(Products)}"
        self.steps.append(Products(name, self.blocks, gate, up))
        return self.source(name, up.width)

    def _made(self, kind: type[Step]) -> int:
        """The number of the next step of a kind, from 1."""
        return sum(isinstance(step, kind) for step in self.steps) + 1
