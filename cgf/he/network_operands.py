"""What an attention reads: its queries, keys and values, and the state beside it, as maps of their sources.

Squares, and products of gated units, that only these maps read are made in stretches: some features of them, which are
added to every map and are gone before the next stretch. All of a block at once would be most of what a network holds.
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
from cgf.he.stages import Stage, as_it_is, parts
from cgf.network.form import Form
from cgf.network.program import Attend, Multiplied, Program
from cgf.types import Ciphertext

AT_ONCE = 32  # features of squares in a stretch


def read_in_stretches(program: Program, index: int) -> Multiplied | None:
    """Squares or products in front of step ``index`` where that is an attention, and nothing behind it reads them."""
    if not 0 < index < len(program.steps):
        return None
    step, before = program.steps[index], program.steps[index - 1]
    if not isinstance(step, Attend) or isinstance(before, Attend) or program.last_use()[before.name] != index:
        return None
    forms = [step.query, step.key, step.value, *([step.stream[1]] if step.stream is not None else [])]
    return before if all(before.name in form.terms for form in forms) else None


@dataclass(frozen=True)
class Stretch:
    """Some features of the squares in front of an attention, the ``number``-th of ``count`` such.

    squares  None: all sources are there at once, and this is the only one
    """

    squares: Multiplied | None
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


def lowest(forms: Sequence[Form], layout: TokenLayout, engine: Engine, state: State, again: bool = True) -> State:
    """Sources of some forms come down to the level of the lowest of all; again: as ``Maps.bring``."""
    maps = Maps(engine, layout)
    level = min(maps.level(form, state) for form in forms)
    maps.bring(state, {name: None for form in forms for name in form.terms}, level, again)
    return state


def multiplied(step: Multiplied, start: int, layout: TokenLayout, some: slice, engine: Engine, state: State) -> State:
    """Some features of squares or products, counted from ``start``; each is mapped, multiplied and relinearized before
    the next, so that no map waits in memory."""
    maps, features = Maps(engine, layout), slice(start + some.start, start + some.stop)
    rows = zip(*(maps.rows(form.rows(features), state) for form in step.forms), strict=True)
    made = (engine.square(cts[0]) if len(cts) == 1 else engine.mul(*cts) for cts in rows)
    return {step.name: [engine.relinearize(ct) for ct in made]}


def cut(count: int, work: Callable[[slice, Engine, State], State], most: int) -> list[Work]:
    """``work`` on at most ``most`` stretches of so many heads or features."""
    return [partial(work, some) for some in parts(count, most)]


def squares_stage(step: Multiplied, layout: TokenLayout, some: slice, titled: Callable[[str], str] = str) -> Stage:
    """Some features of squares or products; before the first the sources come down to the level of the lowest."""
    works = partial(cut, some.stop - some.start, partial(multiplied, step, some.start, layout))
    before = partial(lowest, step.forms, layout, again=some.start == 0)
    return Stage(titled(f"block {step.block} {step.name}"), works, before=before)


@dataclass(frozen=True)
class Operands:
    """Stages that make the operands of attention ``step``.

    squares  or products that are made in stretches of ``at_once`` features; None: all sources are there
    behind   the state without what no step behind the attention reads
    Sums over stretches have the level of a map of all sources at once, since squares are the lowest of its sources.
    """

    step: Attend
    squares: Multiplied | None
    layout: TokenLayout
    behind: Work
    at_once: int = AT_ONCE

    def stages(self) -> Iterator[Stage]:
        """For each stretch its squares, then queries, keys, values, and the state beside the attention.

        Before each of these all sources that it reads come down to its level, once for all processes.
        """
        width = 1 if self.squares is None else self.squares.form.width
        pieces = parts(width, -(-width // self.at_once))
        for number, some in enumerate(pieces):
            stretch = Stretch(self.squares, some, number, len(pieces))
            if self.squares is not None:
                yield squares_stage(self.squares, self.layout, some, stretch.titled)
            name, heads = f"block {self.step.block}", self.step.layer.heads
            for part, made, before in (
                ("queries", partial(self._of_scores, 0), self._before_scores),
                ("keys", partial(self._of_scores, 1), None),
                ("values", self._values, self._before_values),
            ):
                yield Stage(
                    stretch.titled(f"{name} {part}"),
                    partial(cut, heads, partial(made, stretch)),
                    partial(self._made, stretch, [f"{part[0]}{head}" for head in range(heads)]),
                    before=as_it_is if before is None else partial(before, stretch),
                )
            yield self.beside(stretch, stretch.titled(f"{name} state"))

    def beside(self, stretch: Stretch, title: str) -> Stage:
        """The state beside the attention as a source of its own, where it is one; the last stage of a stretch."""
        after = partial(self._over, stretch)
        if self.step.stream is None:
            return Stage.whole(title, after)
        works = partial(cut, self.step.stream[1].width, partial(self._stream, stretch))
        return Stage(title, works, after, before=partial(self._before_stream, stretch))

    def _head(self, head: int) -> Head:
        return Head(self.step.layer, head, self.layout)

    def _before_scores(self, stretch: Stretch, engine: Engine, state: State) -> State:
        """Sources come down to the level of the lowest of queries and keys together."""
        maps, forms = Maps(engine, self.layout), (self.step.query, self.step.key)
        level = min(maps.level(form, state) for form in forms)
        maps.bring(state, {name: None for form in forms for name in stretch.of(form).terms}, level)
        return state

    def _of_scores(self, part: int, stretch: Stretch, some: slice, engine: Engine, state: State) -> State:
        """Queries (part 0) or keys (part 1) of heads, with their public factor."""
        made: State = {}
        for number in range(self.step.layer.heads)[some]:
            head = self._head(number)
            form = self.step.of_head(number)[part].times((head.query_scale, head.key_scale)[part])
            made |= self._sum(f"{'qk'[part]}{number}", stretch, form, engine, state)
        return made

    def _value_level(self, head: int, stretch: Stretch, engine: Engine, state: State) -> int:
        """Above that of a head's weights, by its queries."""
        return self._head(head).weights_level(min(map(engine.level, state[stretch.made(f"q{head}")]))) + 1

    def _before_values(self, stretch: Stretch, engine: Engine, state: State) -> State:
        """Sources come down to the highest level that a head's values are made at."""
        levels = [self._value_level(head, stretch, engine, state) for head in range(self.step.layer.heads)]
        Maps(engine, self.layout).bring(state, stretch.of(self.step.value).terms, max(levels))
        return state

    def _values(self, stretch: Stretch, some: slice, engine: Engine, state: State) -> State:
        """Values of heads, each at the level of its weights; sources come down further where heads differ."""
        made: State = {}
        for head in range(self.step.layer.heads)[some]:
            value = self.step.of_head(head)[2].times(self._head(head).value_scale)
            level = self._value_level(head, stretch, engine, state)
            Maps(engine, self.layout).bring(state, stretch.of(value).terms, level, again=False)
            made |= self._sum(f"v{head}", stretch, value, engine, state)
        return made

    def _before_stream(self, stretch: Stretch, engine: Engine, state: State) -> State:
        """Sources come down to the level of the values or, of turned features, above that of the outputs."""
        assert self.step.stream is not None
        values = state.get(stretch.made("v0"))
        level = min(map(engine.level, state[self.step.name])) + 1 if values is None else min(map(engine.level, values))
        Maps(engine, self.layout).bring(state, stretch.of(self.step.stream[1]).terms, level)
        return state

    def _stream(self, stretch: Stretch, some: slice, engine: Engine, state: State) -> State:
        """Features of the state beside the attention."""
        assert self.step.stream is not None
        name, form = self.step.stream
        return self._sum(name, stretch, form, engine, state, some)

    def _sum(
        self, name: str, stretch: Stretch, form: Form, engine: Engine, state: State, some: slice = slice(None)
    ) -> State:
        """A form's features so far: of this stretch, added to those before, each of which is gone then."""
        rows = Maps(engine, self.layout).rows(stretch.of(form).rows(some), state)
        if stretch.number == 0:
            return {stretch.made(name): list(rows)}
        before = state[stretch.before(name)]
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
