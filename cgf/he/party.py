"""One process of an evaluation, without torch: its keys; scores in, encrypted, computed on, decrypted, weights out."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.he import attention_run
from cgf.he.attention_needs import AttentionCost, needs_of
from cgf.he.delivery import join_pairs, open_pairs
from cgf.he.dryrun import CircuitCost, dry_run
from cgf.he.engines.check import Checking, Divergence
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import BOOTSTRAPPABLE, Engine, KeyHolder, Owner, complex_slots, encrypt_all, finish, rings_of
from cgf.he.engines.library import library_of
from cgf.he.engines.sim import SimOwner
from cgf.he.laps import Laps
from cgf.he.layer_record import LayerRecord
from cgf.he.network_needs import NetworkCost, alone_needs
from cgf.he.network_needs import needs_of as network_needs_of
from cgf.he.network_run import NetworkRecord
from cgf.he.network_run import run as run_network
from cgf.he.packed import Packed
from cgf.he.score_rows import Rows
from cgf.memory import keep_freed_memory
from cgf.network.attention import Heads
from cgf.network.layers import Network
from cgf.network.program import program_of
from cgf.softmax.base import Softmax

NOISE = 1e-4  # of an owner that a function hands out: that of the libraries that encrypt
TENFOLD = 10.0  # a value that is off by more than so many times the stated noise is a fault
KEPT = 64  # dry runs that a party remembers


class Party:
    """Engines, keys and dry runs of one process, made when first needed and kept.

    make_owner, max_level, style, check, alone, processes: see cgf.he.session.Session. Several threads may ask for
    ``needs``.
    """

    def __init__(
        self,
        make_owner: Callable[..., Owner],
        max_level: int | None = None,
        style: str = "folded",
        check: bool = False,
        most_mib: float = math.inf,
        alone: bool = False,
        processes: int = 1,
    ) -> None:
        if max_level is not None and not is_whole(max_level):
            raise UserError(f"he.max_level must be a whole number or null, and {max_level!r} was given")
        if not isinstance(check, bool):
            raise UserError(f"he.check must be true or false, and {check!r} was given")
        self._make_owner, self.max_level, self.style, self.check = make_owner, max_level, style, check
        self.most_mib, self.alone, self.processes = most_mib, alone, processes
        self.rings, library = rings_of(make_owner), library_of(make_owner)
        if check and self.rings == (BOOTSTRAPPABLE,):
            raise UserError(
                "he.check=true needs an engine without bootstraps, since how far they may be off is not stated, and "
                "he.owner.bootstrap asks for them: he.owner.bootstrap=null"
            )
        self.noise = NOISE if library is None else library.noise  # as the library states it
        self._owners: dict[int, Owner] = {}
        self._rotations: dict[int, frozenset[int]] = {}
        self._attentions: dict[tuple[object, ...], AttentionCost] = {}
        self._needs: dict[tuple[object, ...], CircuitCost] = {}
        self._networks: dict[tuple[Network, int], NetworkCost] = {}
        self._lock = threading.Lock()

    def needs(self, softmax: Softmax, rows: Rows, columns: int) -> CircuitCost:
        """What the circuit of rows (R, columns) needs, from a dry run that is remembered. UserError as ``dry_run``."""
        # a layout, and with it the operations, follows from these facts alone; circuits carry coefficients,
        # denominators and row counts, so rows that differ there have runs of their own (the softmax itself, not its id:
        # an id comes back once its object is gone)
        masks = None if rows.valid is None else rows.valid.tobytes()
        place = rows.first if isinstance(rows.first, int) else rows.first.tobytes()
        kept = tuple(
            (name, tensor.detach().cpu().double().numpy().tobytes()) for name, tensor in softmax.tensors().items()
        )
        key = (softmax, softmax.exponential, kept, columns, rows.shape, place, masks, rows.counts.tobytes())
        with self._lock:
            if key not in self._needs:
                while len(self._needs) >= KEPT:  # a circuit keeps its rows' masks: megabytes each
                    self._needs.pop(next(iter(self._needs)))
                self._needs[key] = dry_run(softmax, rows, columns, self.style, self.max_level, self.rings)
            return self._needs[key]

    def circuits(self) -> set[str]:
        """Names of the circuits that were asked for so far."""
        return {needs.circuit.name for needs in self._needs.values()}

    def make(self, sizes: dict[int, frozenset[int]]) -> None:
        """Engines of these max_levels, with keys for these rotation steps."""
        for max_level, rotations in sizes.items():
            self._evaluator(max_level, rotations)

    def _owner(self, max_level: int) -> Owner:
        if max_level not in self._owners:
            keep_freed_memory()
            self._owners[max_level] = self._make_owner(max_level=max_level)
        return self._owners[max_level]

    def _evaluator(self, max_level: int, rotations: frozenset[int]) -> Engine:
        """One with the keys asked for so far."""
        self._rotations[max_level] = self._rotations.get(max_level, frozenset()) | rotations
        return self._owner(max_level).evaluator(self._rotations[max_level])

    def run(self, softmax: Softmax, matrix: np.ndarray, rows: Rows) -> tuple[np.ndarray, LayerRecord]:
        """Weights (R, N) of scores (R, N), one set of ciphertexts, and its levels, ops and seconds."""
        needs = self.needs(softmax, rows, matrix.shape[1])
        owner, evaluator = self._pair(softmax, needs)
        with self._sides(softmax, needs, owner, evaluator) as (holder, engine):
            return _run(needs, holder, engine, matrix, rows)

    @contextmanager
    def _sides(
        self, softmax: Softmax, needs: CircuitCost | AttentionCost, owner: Owner, evaluator: Engine
    ) -> Iterator[tuple[KeyHolder, Engine]]:
        """Who encrypts and who evaluates: the two given; with ``check`` both, beside the simulator's.

        Raises Divergence, with the softmax and its layer, where the two part.
        """
        if not self.check:
            yield owner, evaluator
            return
        reference = SimOwner(needs.max_level, rings=self.rings)
        tolerance = TENFOLD * self.noise * softmax.amplification
        both = Checking((reference, reference.evaluator(needs.rotations, True)), (owner, evaluator), tolerance)
        try:
            yield both, both
        except Divergence as where:
            raise Divergence(
                f"he.check: the simulator and the engine {owner.library.name} part in softmax '{softmax.name}' of "
                f"layer {softmax.layer} at {where}"
            ) from None

    def attention_needs(self, softmax: Softmax, heads: Heads, chosen: np.ndarray) -> AttentionCost:
        """What chosen instances of a layer need as a whole attention; remembered by the public facts alone."""
        mask = None if heads.mask is None else heads.mask[np.divmod(chosen, heads.shape[1])].tobytes()
        shapes = heads.shape[1:], heads.query.shape[3], heads.value.shape[3]
        key = (softmax, softmax.exponential, shapes, len(chosen), mask)
        with self._lock:
            if key not in self._attentions:
                while len(self._attentions) >= KEPT:
                    self._attentions.pop(next(iter(self._attentions)))
                self._attentions[key] = needs_of(
                    softmax,
                    heads,
                    chosen,
                    self.style,
                    rings=self.rings,
                    pairs=complex_slots(self._make_owner),
                    max_level=self.max_level,
                    most_mib=self.most_mib,
                )
            return self._attentions[key]

    def attend(self, softmax: Softmax, heads: Heads, chosen: np.ndarray) -> tuple[np.ndarray, LayerRecord]:
        """Outputs (I, Q, E) of chosen instances that fit one set of ciphertexts, and what was seen."""
        needs = self.attention_needs(softmax, heads, chosen)
        assert needs.tile.instances == len(chosen)  # the session shares out what fits
        task = needs.task(heads, chosen)
        owner = self._owner(needs.max_level)
        self._rotations[needs.max_level] = self._rotations.get(needs.max_level, frozenset()) | needs.rotations
        evaluator = owner.evaluator(self._rotations[needs.max_level], needs.pairs)
        with self._sides(softmax, needs, owner, evaluator) as (holder, engine):
            return attention_run.run(needs, holder, engine, softmax, task)

    def network_needs(self, network: Network, tokens: int) -> NetworkCost:
        """What a network needs for samples of so many tokens, from a dry run that is remembered."""
        with self._lock:
            if (network, tokens) not in self._networks:
                program = program_of(network, tokens, streams=not self.alone)
                find = alone_needs if self.alone else network_needs_of
                self._networks[network, tokens] = find(program, self.rings, self.max_level)
            return self._networks[network, tokens]

    def network(self, network: Network, features: np.ndarray) -> tuple[np.ndarray, NetworkRecord]:
        """Logits (B, classes) of features (B, tokens, width) that fit one set of ciphertexts, and what was seen.

        Keys are those of this count of tokens alone: another count has other rotations, and keys are large.
        """
        needs = self.network_needs(network, features.shape[1])
        if not needs.rotations <= self._rotations.get(needs.max_level, needs.rotations):
            self._owners.pop(needs.max_level, None)
        self._rotations[needs.max_level] = needs.rotations
        owner = self._owner(needs.max_level)
        evaluator = owner.evaluator(needs.rotations)
        if not self.check:
            return run_network(needs, owner, evaluator, features, self.processes)
        reference = SimOwner(needs.max_level, rings=self.rings)
        sides = (reference, reference.evaluator(needs.rotations)), (owner, evaluator)
        both = Checking(*sides, TENFOLD * self.noise)
        return run_network(needs, both, both, features)

    def _pair(self, softmax: Softmax, needs: CircuitCost) -> tuple[Owner, Engine]:
        """The owner of this size and its evaluator. UserError where they cannot run the circuit."""
        if needs.bootstrap and self.rings != (BOOTSTRAPPABLE,):
            raise UserError(
                f"softmax '{softmax.name}' needs bootstraps here, and the engine has no key for them: "
                "he.owner.bootstrap=small (13 GiB) or medium (21.5 GiB), with he.workers=1"
            )
        owner = self._owner(needs.max_level)
        if owner.slots != needs.layout.slots:
            raise UserError(f"the plan needs {needs.layout.slots} slots, and the engine has {owner.slots}")
        return owner, self._evaluator(needs.max_level, needs.rotations)


def _run(
    needs: CircuitCost, owner: KeyHolder, evaluator: Engine, matrix: np.ndarray, rows: Rows
) -> tuple[np.ndarray, LayerRecord]:
    """(weights (R, N), record) of scores (R, N), encrypted by the owner, run by the evaluator, opened by the owner."""
    engine, layout, lap = Counting(evaluator), needs.layout, Laps()
    vectors = layout.pack(matrix * needs.circuit.input_scale)
    lap("pack")
    cts = tuple(encrypt_all(owner, vectors, needs.max_level))
    lap("encrypt")
    result = needs.circuit.run(Packed(engine, layout, rows, cts))
    pairs = join_pairs(engine, result.cts)
    spent = finish(evaluator, pairs) or engine.seconds
    lap("circuit")
    vectors = open_pairs(owner, pairs, len(result.cts))
    lap("decrypt")
    weights = needs.circuit.opened(layout.unpack(vectors))
    lap("pack")
    entries = {needs.circuit.style: int(rows.valid.sum()) if rows.valid is not None else matrix.size}
    return weights, LayerRecord(
        levels=needs.max_level - result.level,
        levels_counted=needs.levels,
        slots={layout.slots},
        ops=Counter(engine.ops),
        seconds=Counter({**spent, **lap.seconds}),
        circuits=Counter(entries),
        overflow=getattr(evaluator, "beyond", 0),
    )
