"""What both sides know of an encrypted network: the ring, the keys, what is sent in which slots, and the classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from cgf.checks import whole
from cgf.errors import UserError
from cgf.he.alone_circuit import MASKS, TURNED, AloneCircuit
from cgf.he.alone_layout import AloneLayout
from cgf.he.engines.desilo_library import build
from cgf.he.engines.engine import ring_for
from cgf.he.network_circuit import LOGITS, NetworkCircuit
from cgf.he.network_layout import TokenLayout, read_token
from cgf.he.network_needs import NetworkCost, alone_needs, needs_of
from cgf.header import Terms
from cgf.named import arguments, short
from cgf.network.layers import Network
from cgf.network.program import program_of
from cgf.seal import json_hash
from cgf.types import Json, JsonValue

ENGINE = "desilo"
MOST_LENGTHS = 64


@dataclass(frozen=True)
class Alone:
    """Sizes of the layout in which a sample has its ciphertexts to itself: see cgf.he.alone_layout.AloneLayout."""

    heads: int
    lanes: int


@dataclass(frozen=True)
class Length:
    """Samples of so many tokens: how many a set of ciphertexts holds, and the turns in which features are sent.

    turned  (name, tokens that every place is turned by), a ciphertext a feature for each
    alone   of one sample a set, in the layout of least latency; None: of a set of samples
    read    the token at whose places a result holds logits: the last where the network reads that one, else the first
    """

    tokens: int
    samples: int
    turned: tuple[tuple[str, int], ...]
    alone: Alone | None = None
    read: int = 0

    def layout(self, slots: int) -> TokenLayout | AloneLayout:
        """Where a sample's numbers stand in so many slots."""
        if self.alone is not None:
            return AloneLayout(self.tokens, self.alone.heads, slots, self.alone.lanes)
        return TokenLayout(self.tokens, self.samples, slots)

    def packed(self, features: np.ndarray, slots: int) -> dict[str, list[np.ndarray]]:
        """Features (B, tokens, features) as slots, by name and feature; B at most ``samples``."""
        layout, columns = self.layout(slots), np.moveaxis(features, 2, 0)
        if isinstance(layout, AloneLayout):
            return {name: [layout.pack(column, name == TURNED) for column in columns] for name, _ in self.turned}
        return {name: [layout.pack(column, turn) for column in columns] for name, turn in self.turned}

    def answers(self, classes: int) -> int:
        """Ciphertexts of a result: one a class, or one for all of them where a sample is alone."""
        return classes if self.alone is None else 1

    def logits(self, decrypted: Sequence[np.ndarray], samples: int, classes: int) -> np.ndarray:
        """(samples, classes) of the slots of a result's ciphertexts."""
        layout = self.layout(len(decrypted[0]))
        if isinstance(layout, AloneLayout):
            return layout.answers(decrypted[0], classes)
        return np.stack([layout.of_token(slots, samples, self.read) for slots in decrypted], axis=1)


@dataclass(frozen=True)
class Agreement:
    """Terms of the files, and what of the circuit is public.

    network    sha256 of the network's files: both bundles of one network have the same
    features   of a token;  classes: names, in the order of the logits
    lengths    which numbers of tokens a sample may have;  rotations: steps whose keys the circuit takes
    """

    terms: Terms
    name: str
    network: str
    features: int
    classes: tuple[str, ...]
    lengths: tuple[Length, ...]
    rotations: tuple[int, ...]

    @property
    def digest(self) -> str:
        """sha256 of all of it, by which uploads and results say whose they are: network, ring, slots and classes."""
        return json_hash(self.to_json())

    def of_tokens(self, tokens: int) -> Length:
        """The entry of a number of tokens. UserError where there is none."""
        for length in self.lengths:
            if length.tokens == tokens:
                return length
        there = ", ".join(str(length.tokens) for length in self.lengths)
        raise UserError(f"network '{self.name}' takes samples of {there} tokens here, and one has {tokens}")

    def upload_names(self, tokens: int) -> list[str]:
        """Items of an upload, in order: each name's features."""
        return [f"{name}.{i}" for name, _ in self.of_tokens(tokens).turned for i in range(self.features)]

    def result_names(self, tokens: int) -> list[str]:
        """Items of a result, in order: a logit a class, or one ciphertext of all where a sample is alone."""
        return [f"{LOGITS}.{i}" for i in range(self.of_tokens(tokens).answers(len(self.classes)))]

    def check_library(self) -> None:
        """UserError where another library is installed than the one whose files these are."""
        if (here := build()) != self.terms.build:
            raise UserError(
                f"the files of network '{self.name}' are of library {self.terms.build}, and {here} is installed here: "
                "both sides need the same one"
            )

    def to_json(self) -> Json:
        """Plain values that ``from_json`` takes."""
        return {**asdict(self), "terms": asdict(self.terms)}

    @classmethod
    def from_json(cls, data: Json, where: str) -> Agreement:
        """UserError, with the file's name, for what is no agreement."""
        made = _agreement(**arguments(_agreement, data, where))
        made._check(where)
        return made

    def _check(self, where: str) -> None:
        slots = ring_for(whole(f"max_level of {where}", self.terms.max_level, 1)).slots
        if self.terms.engine != ENGINE or self.terms.slots != slots:
            raise UserError(
                f"{where} must be of engine {ENGINE} and {slots} slots, and is of {self.terms.engine} and "
                f"{self.terms.slots}"
            )
        whole(f"features of {where}", self.features, 1, 2**16)
        whole(f"lengths of {where}", len(self.lengths), 1, MOST_LENGTHS)
        for length in self.lengths:
            whole(f"tokens of {where}", length.tokens, 1, slots)
            whole(f"samples of {where}", length.samples, 1, slots // length.tokens)
            whole(f"read of {where}", length.read, 0, 0 if length.alone is not None else length.tokens - 1)
            if length.alone is not None:
                _check_alone(length, length.alone, slots, len(self.classes), where)
        if not self.classes or not all(0 < step < slots for step in self.rotations):
            raise UserError(f"{where} needs classes, and rotations from 1 to {slots - 1}")


def _check_alone(length: Length, alone: Alone, slots: int, classes: int, where: str) -> None:
    """UserError for sizes that no layout of a sample alone has."""
    whole(f"lanes of {where}, one a class at least,", alone.lanes, classes, slots)
    used = whole(f"heads of {where}", alone.heads, 1, slots) * alone.lanes * length.tokens**2
    if length.samples != 1 or used > slots or used & (used - 1):
        raise UserError(
            f"{where} must have one sample a set, and a power of two of at most {slots} slots for it, where samples "
            f"are alone, and has {length.samples} and {used}"
        )


def costs_of(network: Network, tokens: Sequence[int], alone: bool = False) -> list[NetworkCost]:
    """What the circuits of samples of these numbers of tokens need, in one ring for all. UserError where none fits.

    alone: each sample has ciphertexts of its own, in the layout of least latency
    """
    programs = [program_of(network, count, streams=not alone) for count in sorted(set(tokens))]
    level, find = max(program.depth() for program in programs), needs_of
    if alone:
        level, find = level + MASKS, alone_needs
    return [find(program, max_level=level) for program in programs]


def agreement_of(network: Network, digest: str, costs: Sequence[NetworkCost]) -> Agreement:
    """The agreement of a network, given its files' digest, whose circuits need so much."""
    lengths = tuple(_length_of(cost) for cost in costs)
    terms = Terms(ENGINE, build(), costs[0].ring.slots, costs[0].max_level)
    rotations = tuple(sorted(frozenset().union(*(cost.rotations for cost in costs))))
    made = Agreement(terms, network.name, digest, network.features, network.classes, lengths, rotations)
    made._check("the agreement")  # before it is written, and not by whoever reads it
    return made


def _length_of(cost: NetworkCost) -> Length:
    circuit = cost.circuit
    alone = Alone(circuit.layout.heads, circuit.layout.lanes) if isinstance(circuit, AloneCircuit) else None
    read = 0 if alone is not None else read_token(circuit.program)
    return Length(circuit.layout.tokens, cost.samples, tuple(circuit.sent), alone, read)


def circuit_of(network: Network, length: Length, terms: Terms) -> NetworkCircuit | AloneCircuit:
    """The circuit that an agreement speaks of. UserError where what is sent is not what the circuit takes."""
    program = program_of(network, length.tokens, streams=length.alone is None)
    layout = length.layout(terms.slots)
    circuit: NetworkCircuit | AloneCircuit
    if isinstance(layout, AloneLayout):
        circuit, own = AloneCircuit(program, layout), AloneLayout.of(program, terms.slots) == layout
    else:
        circuit = NetworkCircuit(program, layout, len(length.turned) > 1)
        own = TokenLayout.of(program, terms.slots) == layout
    if not own or tuple(circuit.sent) != length.turned:
        raise UserError(f"network '{network.name}' takes samples of {length.tokens} tokens in other slots or turns")
    if length.alone is None and length.read != read_token(program):
        raise UserError(
            f"network '{network.name}' has its logits at token {read_token(program)}, and the bundle reads token "
            f"{length.read}: make both bundles anew"
        )
    return circuit


def _agreement(
    *,
    terms: Json,
    name: str,
    network: str,
    features: int,
    classes: list[str],
    lengths: list[Json],
    rotations: list[int],
) -> Agreement:
    """An agreement of plain values; those of its parts are checked here."""
    of_ring = Terms(**arguments(Terms, terms, "'terms' of a bundle"))
    of_tokens = tuple(_length(**arguments(_length, one, "'lengths' of a bundle")) for one in lengths)
    return Agreement(of_ring, name, network, features, tuple(classes), of_tokens, tuple(rotations))


def _length(
    tokens: int, samples: int, turned: list[list[JsonValue]], alone: Json | None = None, read: int = 0
) -> Length:
    """A length of plain values."""
    for one in turned:
        if len(one) != 2 or not isinstance(one[0], str) or type(one[1]) is not int:
            raise UserError(f"'turned' must hold a name and a whole number each, and holds {short(one)}")
    sizes = None if alone is None else Alone(**arguments(Alone, alone, "'alone' of a bundle"))
    return Length(tokens, samples, tuple((one[0], one[1]) for one in turned), sizes, read)
