"""What was seen in one attention layer while it was evaluated under encryption."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from cgf.types import Json


@dataclass
class HeadErrors:
    """Of each head (H,): the largest error, and how many entries lay where or came back how.

    outside  the accuracy domain;  beyond  the guard (weights that no ciphertext holds, where none is stated)
    ruined   samples whose weights came back from this head as no numbers, the first time that they did
    wrong    entries that came back further from the polynomials in the clear than ten times the stated noise
    inexact  entries inside the domain where the polynomials in the clear are further from the definition than ten
             times the stated error
    """

    max_error: np.ndarray
    outside: np.ndarray
    beyond: np.ndarray
    ruined: np.ndarray
    wrong: np.ndarray
    inexact: np.ndarray

    @classmethod
    def of(cls, heads: int) -> HeadErrors:
        """Of so many heads, before anything was seen."""
        none = np.zeros(heads, dtype=np.int64)
        return cls(np.zeros(heads), *[none] * 5)

    def join(self, other: HeadErrors) -> None:
        """Takes in those of the same heads elsewhere."""
        self.max_error = np.maximum(self.max_error, other.max_error)
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_json(self) -> Json:
        """A list of one number a head, by name."""
        return {name: getattr(self, name).tolist() for name in ("max_error", *COUNTED)}

    @classmethod
    def from_json(cls, row: Json) -> HeadErrors:
        """Of a row that may be from before all of these were counted."""
        none = [0] * len(row["beyond"])
        return cls(np.array(row["max_error"]), *(np.array(row.get(name, none)) for name in COUNTED))


COUNTED = ("outside", "beyond", "ruined", "wrong", "inexact")


@dataclass
class LayerRecord:
    """Counts, errors and seconds of one layer; records of the same layer join.

    levels  that the ciphertexts lost, and those that the dry run counted
    seconds by phase and operation, summed over the workers; 'pack' includes the unpacking
    heads   None where nothing was compared
    low, high  the least and the greatest argument (the exponent, or what else the intervals are about)
    circuits  entries by the circuit that they went through
    overflow  slots of the simulator beyond what a ciphertext holds
    lost    entries of ruined samples, which no error counts
    outputs, macs, instances  of whole attentions: numbers that were compared (the weights themselves where 0),
            multiply-adds, samples times heads
    layouts of whole attentions: sets of ciphertexts by ring and tile
    ruined  places of ruined samples in the batch under way; not written, a sample's own line says so
    """

    entries: int = 0
    sum_error: float = 0.0
    low: float | None = None
    high: float | None = None
    levels: int = 0
    levels_counted: int = 0
    slots: set[int] = field(default_factory=set)
    ops: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    heads: HeadErrors | None = None
    circuits: Counter[str] = field(default_factory=Counter)
    overflow: int = 0
    lost: int = 0
    outputs: int = 0
    macs: int = 0
    instances: int = 0
    layouts: Counter[str] = field(default_factory=Counter)
    ruined: set[int] = field(default_factory=set)

    @property
    def max_error(self) -> float:
        """The largest of all heads, in units of a weight; 0 where nothing was compared."""
        return 0.0 if self.heads is None else float(self.heads.max_error.max())

    @property
    def outside(self) -> int:
        """Entries outside the accuracy domain."""
        return self.count("outside")

    @property
    def beyond(self) -> int:
        """Entries beyond the guard."""
        return self.count("beyond")

    def count(self, name: str) -> int:
        """Of all heads: entries outside, beyond, wrong or inexact, samples ruined."""
        return 0 if self.heads is None else int(getattr(self.heads, name).sum())

    def join(self, other: LayerRecord) -> None:
        """Takes in another one of the same layer: sums, and the extremes of levels and arguments."""
        self.entries += other.entries
        self.sum_error += other.sum_error
        self.low = min((x for x in (self.low, other.low) if x is not None), default=None)
        self.high = max((x for x in (self.high, other.high) if x is not None), default=None)
        self.levels = max(self.levels, other.levels)
        self.levels_counted = max(self.levels_counted, other.levels_counted)
        self.slots |= other.slots
        self.ops.update(other.ops)
        self.seconds.update(other.seconds)
        self.circuits.update(other.circuits)
        self.overflow += other.overflow
        self.lost += other.lost
        self.outputs += other.outputs
        self.macs += other.macs
        self.instances += other.instances
        self.layouts.update(other.layouts)
        self.ruined |= other.ruined
        if other.heads is not None:
            self.heads = self.heads or HeadErrors.of(len(other.heads.max_error))
            self.heads.join(other.heads)

    def to_json(self) -> Json:
        """The object of a layer in a result's lines."""
        return {
            "entries": self.entries,
            "sum_error": self.sum_error,
            "low": self.low,
            "high": self.high,
            "levels": self.levels,
            "levels_counted": self.levels_counted,
            "slots": sorted(self.slots),
            "ops": dict(self.ops),
            "seconds": dict(self.seconds),
            "circuits": dict(self.circuits),
            "overflow": self.overflow,
            "lost": self.lost,
            **(self._whole() if self.outputs else {}),
            "heads": None if self.heads is None else self.heads.to_json(),
        }

    def _whole(self) -> Json:
        counts = {name: getattr(self, name) for name in ("outputs", "macs", "instances")}
        return {**counts, "layouts": dict(self.layouts)}

    @classmethod
    def from_json(cls, row: Json) -> LayerRecord:
        """The record that to_json described; lines of before circuits were counted have none."""
        heads = row["heads"]
        return cls(
            **{
                **row,
                "slots": set(row["slots"]),
                "ops": Counter(row["ops"]),
                "seconds": Counter(row["seconds"]),
                "circuits": Counter(row.get("circuits", {})),
                "layouts": Counter(row.get("layouts", {})),
                "heads": None if heads is None else HeadErrors.from_json(heads),
            }
        )
