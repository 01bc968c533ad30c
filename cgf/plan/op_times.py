"""How long one operation takes, by kind, engine size and level: measured once, written, read back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cgf.checks import one_of, positive, whole
from cgf.errors import UserError
from cgf.he.engines.engine import Engine, Owner, ring_for
from cgf.results import read_json
from cgf.types import Json, Operand

TABLE = Path(__file__).with_name("op_times.json")  # a link to the measured one, of which a wheel holds a copy
# of cgf.he.engines.count.detail, and the owner's two
KINDS = (
    "add",
    "add_levels",
    "add_float",
    "add_vector",
    "pmult_float",
    "pmult_vector",
    "imult",
    "square",
    "cmult",
    "relinearize",
    "rotate",
    "encrypt",
    "decrypt",
    "prepare",
    "prepared",
    "conjugate",
    "mac",
    "lower",
)
TAKES_A_LEVEL = ("pmult_float", "pmult_vector", "square", "cmult", "prepared", "mac")
PREPARED = 8  # pairs in a timed dot or combination; a product's time is its share, addition included
WALL = "wall"
CLOCKS: dict[str, Callable[[], float]] = {WALL: time.perf_counter, "cpu": time.process_time}
LEAST = 3  # timings of an operation, however long it takes


@dataclass(frozen=True)
class Size:
    """An engine of so many levels: slots, bytes of one key of each kind, milliseconds by kind and level."""

    slots: int
    key_bytes: dict[str, int]
    ms: dict[str, dict[int, float]]

    def at(self, kind: str, level: int) -> float:
        """ms, linear in the level between measured ones and level with the ends beyond them."""
        by_level = self.ms.get(kind)
        if not by_level:
            raise UserError(f"the table of operation times has no '{kind}': it has {', '.join(sorted(self.ms))}")
        levels = sorted(by_level)
        return float(np.interp(level, levels, [by_level[x] for x in levels]))

    def to_json(self) -> Json:
        """An entry of the table's sizes, levels as texts."""
        return {
            "slots": self.slots,
            "key_bytes": self.key_bytes,
            "ms": {kind: {str(x): ms for x, ms in row.items()} for kind, row in self.ms.items()},
        }


@dataclass(frozen=True)
class OpTimes:
    """Sizes by max_level, for one library, mode and count of threads."""

    sizes: dict[int, Size]

    def neighbours(self, max_level: int) -> tuple[int, int]:
        """The measured sizes of the same ring at or next to max_level (the end one twice beyond the ends)."""
        slots = ring_for(max_level).slots
        near = sorted(m for m, size in self.sizes.items() if size.slots == slots)
        if not near:
            raise UserError(
                f"the table of operation times has no engine of {slots} slots: python scripts/bench/op_times.py "
                f"with {max_level} among max_levels"
            )
        below = max((m for m in near if m <= max_level), default=near[0])
        return below, min((m for m in near if m >= max_level), default=near[-1])

    def end_told(self, max_level: int) -> str:
        """A sentence where no measured engine of the ring has so many levels, which times of fewer then stand for."""
        below, above = self.neighbours(max_level)
        if above >= max_level:
            return ""
        return (
            f"The table of operation times ends at {below} levels in this ring: an engine of {max_level} takes longer "
            f"and larger keys than said (python scripts/bench/op_times.py with {max_level} among max_levels)"
        )

    def ms(self, kind: str, max_level: int, level: int) -> float:
        """Milliseconds; a size between two measured ones of its ring is read between them, linearly."""
        below, above = self.neighbours(max_level)
        upper = self.sizes[above].at(kind, level)
        if below == above or level > below:
            return upper
        share = (max_level - below) / (above - below)
        return (1 - share) * self.sizes[below].at(kind, level) + share * upper

    def key_bytes(self, kind: str, max_level: int) -> float:
        """Bytes of one key of a kind, relinearize or rotate; read between measured sizes, linearly."""
        below, above = self.neighbours(max_level)
        ends = [self.sizes[m].key_bytes[kind] for m in (below, above)]
        return float(np.interp(max_level, [below, above], ends)) if below < above else float(ends[0])

    @classmethod
    def from_json(cls, data: Json) -> OpTimes:
        """The table of a file. UserError for what is none."""
        try:
            return cls(
                {
                    int(m): Size(
                        whole("slots", s["slots"], 1),
                        {k: whole(f"key_bytes.{k}", b, 1) for k, b in s["key_bytes"].items()},
                        {k: {int(x): positive(f"ms.{k}", t) for x, t in row.items()} for k, row in s["ms"].items()},
                    )
                    for m, s in data["sizes"].items()
                }
            )
        except UserError as error:
            raise UserError(f"a table of operation times cannot be read: {error}") from None
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise UserError(
                f"a table of operation times needs sizes with slots, key_bytes and ms ({error!r}): make "
                "one by python scripts/bench/op_times.py"
            ) from None


def table_of(path: str | None, engine: str) -> OpTimes | None:
    """The table of operation times in a file, None: in this package's own, which may be of another engine: None then.

    UserError for a file of another engine.
    """
    data = read_json(TABLE if path is None else Path(path).expanduser())
    if not isinstance(data, dict) or data.get("engine") == engine:
        return OpTimes.from_json(data)  # which says what a table needs
    if path is not None:
        raise UserError(
            f"{path} must hold operation times of engine={engine}, and holds those of {data.get('engine')}: "
            "python scripts/bench/op_times.py makes a table"
        )
    return None


def levels_to_measure(max_level: int, most: int = 9) -> list[int]:
    """All levels of a small engine; else ``most`` of them, evenly, both ends among them."""
    return sorted({round(x) for x in np.linspace(0, max_level, min(most, max_level + 1))})


def measure(
    owner: Owner,
    key_bytes: dict[str, int],
    levels: Iterable[int],
    repeats: int = 7,
    budget_s: float = 0.5,
    clock: str = WALL,
) -> Size:
    """Median milliseconds of every kind at the levels.

    Operands are made once a level: a second operation on the same ones takes as long as the first. An
    operation is timed ``repeats`` times, or at least LEAST times once ``budget_s`` are spent on it.
    Values are normal numbers in every slot: times do not depend on them.
    clock: 'wall', or 'cpu', seconds of this process's cores, which others on the host lengthen less.
    Raises UserError for another clock.
    """
    one_of("clock", clock, sorted(CLOCKS))
    engine = owner.evaluator(frozenset([1]), owner.pairs)
    values = np.random.default_rng(0).normal(size=owner.slots) * 0.1
    ms: dict[str, dict[int, float]] = {kind: {} for kind in KINDS}
    for level in levels:
        for kind, (operands, operation) in _trials(owner, engine, values, level).items():
            ms[kind][level] = _median_ms(operands, operation, repeats, budget_s, CLOCKS[clock]) / (
                2 * PREPARED if kind in ("prepared", "mac") else 1
            )
    return Size(owner.slots, key_bytes, ms)


Trial = tuple[tuple[Operand, ...], Callable[..., object]]  # an operation and its operands


def _trials(owner: Owner, engine: Engine, values: np.ndarray, level: int) -> dict[str, Trial]:
    """kind -> (operands, operation) at the level; without the kinds it cannot have there."""
    a, b = owner.encrypt(values, level), owner.encrypt(values, level)
    trials: dict[str, Trial] = {
        "add": ((a, b), engine.add),
        "add_float": ((a, 0.5), engine.add),
        "add_vector": ((a, values), engine.add),
        "imult": ((a, 5), engine.mul),
        "pmult_float": ((a, 0.5), engine.mul),
        "pmult_vector": ((a, values), engine.mul),
        "square": ((a,), engine.square),
        "cmult": ((a, b), engine.mul),
        "rotate": ((a, 1), engine.rotate),
        "encrypt": ((values, level), owner.encrypt),
        "decrypt": ((a,), owner.decrypt),
    }
    left, right = [engine.prepare(ct) for ct in (a, b)], [engine.prepare(b)] * 2
    trials["prepare"] = ((a,), engine.prepare)
    if level > 0:
        trials["prepared"] = ((left * PREPARED, right * PREPARED), engine.dot)
        low = [engine.lower(ct, level) for ct in (a, b)]
        trials["mac"] = ((low * PREPARED, [0.3, -0.7] * PREPARED), engine.combine)
    if owner.pairs:
        trials["conjugate"] = ((a,), engine.conjugate)
    if level < owner.max_level:
        higher = owner.encrypt(values, level + 1)
        trials["lower"] = ((higher, level), engine.lower)
        trials["add_levels"] = ((higher, a), engine.add)
        trials["relinearize"] = ((engine.square(higher),), engine.relinearize)
    return {kind: trial for kind, trial in trials.items() if level > 0 or kind not in TAKES_A_LEVEL}


def _median_ms(
    operands: tuple[Operand, ...],
    operation: Callable[..., object],
    repeats: int,
    budget_s: float,
    now: Callable[[], float],
) -> float:
    times: list[float] = []
    while len(times) < LEAST or (len(times) < repeats and sum(times) < budget_s):
        start = now()
        operation(*operands)
        times.append(now() - start)
    return float(np.median(times)) * 1e3
