"""What an attention reads: its queries, keys and values, and the state beside it, as maps of their sources.

Squares that only these maps read are made in stretches: some features of them, which are added to every map and are
gone before the next stretch. All of a block at once would be most of what a network holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from cgf.he.engines.engine import Engine
from cgf.he.network_heads import Head
from cgf.he.network_layout import TokenLayout
from cgf.he.network_maps import Maps, State
from cgf.he.side_by_side import Work
from cgf.he.stages import Stage, parts
from cgf.network.form import Form
from cgf.network.program import Attend, Program, Squares
from cgf.types import Ciphertext

AT_ONCE = 32  # features of squares in a stretch


def read_in_stretches(program: Program, index: int) -> Squares | None:
    """The squares in front of step ``index`` where that is an attention, and nothing behind it reads them."""
    if not 0 < index < len(program.steps):
        return None
    step, before = program.steps[index], program.steps[index - 1]
    if not isinstance(step, Attend) or not isinstance(before, Squares) or program.last_use()[before.name] != index:
        return None
    forms = [step.query, step.key, step.value, *([step.stream[1]] if step.stream is not None else [])]
    return before if all(before.name in form.terms for form in forms) else None


@dataclass(frozen=True)
class Stretch:
    """Some features of the squares in front of an attention, the ``number``-th of ``count`` such.

    squares  None: all sources are there at once, and this is the only one
    """

    squares: Squares | None
    some: slice
    number: int
    count: int

    @property
    def last(self) -> bool:
        """Whether no features follow; all other sources are read with these."""
        return self.number == self.count - 1

    def of(self, form: Form) -> Form:
        """What a form reads of these features; the last time of all other sources, and with the constant."""
        return form if self.squares is None else form.of_source(self.squares.name, self.some, self.last)

    def made(self, name: str) -> str:
        """The name of a sum that holds this stretch and those before."""
        return name if self.last else f"{name}+{self.number}"

    def before(self, name: str) -> str:
        """The name of the sum without this stretch."""
        return f"{name}+{self.number - 1}"

    def titled(self, title: str) -> str:
        """The name of a stage."""
        return title if self.count == 1 else f"{title}, {self.number + 1} of {self.count}"


def squared(maps: Maps, step: Squares, some: slice, state: State) -> list[Ciphertext]:
    """Some features of squares; each is mapped, squared and relinearized before the next, so that no map waits in
    memory. Sources come down to the level of the lowest."""
    engine = maps.engine
    maps.bring(state, step.form.terms, maps.level(step.form, state))
    return [engine.relinearize(engine.square(ct)) for ct in maps.rows(step.form.rows(some), state)]


def cut(count: int, work: Callable[[slice, Engine, State], State], most: int) -> list[Work]:
    """``work`` on at most ``most`` stretches of so many heads or features."""
    return [partial(work, some) for some in parts(count, most)]


@dataclass(frozen=True)
class Operands:
    """Stages that make the operands of attention ``step``.

    squares  that are made in stretches of ``at_once`` features; None: all sources are there
    behind   the state without what no step behind the attention reads
    Sums over stretches have the level of a map of all sources at once, since squares are the lowest of its sources.
    """

    step: Attend
    squares: Squares | None
    layout: TokenLayout
    behind: Work
    at_once: int = AT_ONCE

    def stages(self) -> Iterator[Stage]:
        """For each stretch its squares, then queries, keys, values, and the state beside the attention."""
        width = 1 if self.squares is None else self.squares.form.width
        pieces = parts(width, -(-width // self.at_once))
        for number, some in enumerate(pieces):
            stretch = Stretch(self.squares, some, number, len(pieces))
            if self.squares is not None:
                squares = partial(cut, some.stop - some.start, partial(self._squares, self.squares, some.start))
                yield Stage(stretch.titled(f"block {self.squares.block} {self.squares.name}"), squares)
            name, heads, sums = f"block {self.step.block}", self._heads, partial(self._made, stretch)
            for part, made in (("queries", self._queries), ("keys", self._keys), ("values", self._values)):
                maps = partial(cut, len(heads), partial(made, stretch))
                yield Stage(
                    stretch.titled(f"{name} {part}"), maps, partial(sums, [f"{part[0]}{head}" for head in heads])
                )
            yield self.beside(stretch, stretch.titled(f"{name} state"))

    def beside(self, stretch: Stretch, title: str) -> Stage:
        """The state beside the attention as a source of its own, where it is one; the last stage of a stretch."""
        if self.step.stream is None:
            return Stage.whole(title, partial(self._over, stretch))
        width = self.step.stream[1].width
        return Stage(title, partial(cut, width, partial(self._stream, stretch)), partial(self._over, stretch))

    @property
    def _heads(self) -> range:
        return range(self.step.layer.heads)

    def _head(self, head: int) -> Head:
        return Head(self.step.layer, head, self.layout)

    def _squares(self, step: Squares, start: int, some: slice, engine: Engine, state: State) -> State:
        chosen = slice(start + some.start, start + some.stop)
        return {step.name: squared(Maps(engine, self.layout), step, chosen, state)}

    def _queries(self, stretch: Stretch, some: slice, engine: Engine, state: State) -> State:
        """Queries of heads, with their public factor."""
        forms = {head: self.step.of_head(head)[0].times(self._head(head).query_scale) for head in self._heads[some]}
        return self._operands("q", forms, stretch, engine, state)

    def _keys(self, stretch: Stretch, some: slice, engine: Engine, state: State) -> State:
        """Keys of heads, with their public factor."""
        forms = {head: self.step.of_head(head)[1].times(self._head(head).key_scale) for head in self._heads[some]}
        return self._operands("k", forms, stretch, engine, state)

    def _operands(self, part: str, forms: dict[int, Form], stretch: Stretch, engine: Engine, state: State) -> State:
        """Sources come down to the level of the lowest of queries and keys together."""
        maps = Maps(engine, self.layout)
        level = min(maps.level(form, state) for form in (self.step.query, self.step.key))
        maps.bring(state, {name: None for form in forms.values() for name in stretch.of(form).terms}, level)
        made: State = {}
        for head, form in forms.items():
            made |= self._sum(f"{part}{head}", stretch, form, maps, state)
        return made

    def _values(self, stretch: Stretch, some: slice, engine: Engine, state: State) -> State:
        """Values of heads at the level of the weights; sources come down."""
        maps, step = Maps(engine, self.layout), self.step
        made: State = {}
        for head in self._heads[some]:
            facts, value = self._head(head), step.of_head(head)[2]
            level = facts.weights_level(min(map(engine.level, state[stretch.made(f"q{head}")]))) + 1
            maps.bring(state, stretch.of(value).terms, level)
            made |= self._sum(f"v{head}", stretch, value.times(facts.value_scale), maps, state)
        return made

    def _stream(self, stretch: Stretch, some: slice, engine: Engine, state: State) -> State:
        """Features of the state beside the attention, at the level of the values or, of turned features, of the
        outputs."""
        assert self.step.stream is not None
        (name, form), maps = self.step.stream, Maps(engine, self.layout)
        values = state.get(stretch.made("v0"))
        level = min(map(engine.level, state[self.step.name])) + 1 if values is None else min(map(engine.level, values))
        maps.bring(state, stretch.of(form).terms, level)
        return self._sum(name, stretch, form, maps, state, some)

    def _sum(
        self, name: str, stretch: Stretch, form: Form, maps: Maps, state: State, some: slice = slice(None)
    ) -> State:
        """A form's features so far: of this stretch, added to those before, each of which is gone then."""
        rows = maps.rows(stretch.of(form).rows(some), state)
        if stretch.number == 0:
            return {stretch.made(name): list(rows)}
        before, engine = state[stretch.before(name)], maps.engine
        made: list[Ciphertext] = []
        for place, row in zip(range(form.width)[some], rows, strict=True):
            made.append(engine.add(before[place], row))
            before[place] = None
        return {stretch.made(name): made}

    @staticmethod
    def _made(stretch: Stretch, names: Sequence[str], engine: Engine, state: State) -> State:
        """Sums of names hold this stretch now, and those without it are gone."""
        return {name: cts for name, cts in state.items() if name not in map(stretch.before, names)}

    def _over(self, stretch: Stretch, engine: Engine, state: State) -> State:
        if self.step.stream is not None:
            state = self._made(stretch, [self.step.stream[0]], engine, state)
        if stretch.last:
            return self.behind(engine, state)
        assert stretch.squares is not None
        return {name: cts for name, cts in state.items() if name != stretch.squares.name}
