"""One circuit on several engines at once: operations are noted first, then run side by side.

Ciphertexts of desilofhe must not be shared between threads, and its own threads make one operation only 1.2
to 1.5 times faster. So every lane has an engine, keys and a thread of its own; a ciphertext that another lane
needs goes there as bytes. What runs where follows from the whole circuit, known before it starts.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.he.engines.count import Counting
from cgf.he.engines.deferred import DeferredOperation, in_order
from cgf.he.engines.engine import RINGS, Portable, PortableOwner, Ring, decrypt_all, rings_of
from cgf.he.engines.rules import need_bootstrap
from cgf.he.engines.schedule import list_schedule
from cgf.he.engines.sim import OneSlot, SimCiphertext
from cgf.he.engines.wrapper import Wrapper
from cgf.types import Ciphertext, Operand

# of one key switch at level 0; measured at 16,384 slots, one thread (results/bench/op_times.json has them all)
SHARES = {"relinearize": 1.0, "rotate": 1.0, "square": 0.2, "mul": 0.25, "add": 0.02, "sub": 0.02, "times_i": 0.02}
TRANSFER = 0.05
NOT_RUN = ("prepare", "dot", "conjugate", "lower", "combine")
T = TypeVar("T")
Slots = np.ndarray | tuple[np.ndarray, np.ndarray]  # (slots,), or real and imaginary parts


class LanesEngine(Wrapper):
    """Engine over several equal engines, the lanes. Operations are noted; ``wait`` runs them, and so does decryption.

    Levels and polynomials are known at once, from the rules of the simulator for the same rings. Raises
    what an operation raises: at once where the simulator sees it, else from ``wait``.
    """

    def __init__(self, lanes: Sequence[Portable], rotations: frozenset[int], rings: tuple[Ring, ...] = RINGS) -> None:
        self._lanes = list(lanes)
        self.slots, self.max_level = lanes[0].slots, lanes[0].max_level
        self.refreshed = None
        self.pairs = all(lane.pairs for lane in lanes)
        self._shadow = OneSlot(self.max_level, rotations=rotations, rings=rings)
        self._lock = threading.Lock()

    def level(self, ct: DeferredOperation) -> int:
        """The level that a ciphertext has, or will have once it is run, by the simulator's rules."""
        return self._seen(ct).level

    def polynomials(self, ct: DeferredOperation) -> int:
        """Its polynomials, likewise."""
        return self._seen(ct).polynomials

    @staticmethod
    def _seen(ct: DeferredOperation) -> SimCiphertext:
        assert ct.shadow is not None
        return ct.shadow

    def _apply(self, operation: str, *operands: Operand) -> DeferredOperation:
        """Notes an operation."""
        if operation == "bootstrap":
            need_bootstrap(self.refreshed)
            raise AssertionError("lanes have no bootstrap keys")
        if operation in NOT_RUN:
            raise UserError(f"lanes do not run {operation}: whole attention needs he=desilo, with he.workers for cores")
        shadows = [x.shadow if isinstance(x, DeferredOperation) else x for x in operands]
        shadow = getattr(self._shadow, operation)(*shadows)
        needs = tuple(x for x in operands if isinstance(x, DeferredOperation))
        share = SHARES[operation] if len(needs) == 2 or operation != "mul" else SHARES["add"]
        return DeferredOperation(
            share * (1 + self.level(needs[0])),
            needs,
            operation=operation,
            operands=operands,
            shadow=shadow,
            engine=self,
        )

    # -- running -----------------------------------------------------------------------------------

    def wait(self, results: Sequence[DeferredOperation], forget: bool = False) -> Counter[str]:
        """Runs what these ciphertexts need and was not run yet, each lane in a thread of its own.

        forget  drops every ciphertext but the results as soon as it was used for the last time, inputs too: a
                circuit of many columns then takes the memory of what is in work
        Returns the seconds of that, by kind of operation, summed over the lanes.
        """
        spent: Counter[str] = Counter()
        tasks = in_order(results)
        order = list_schedule(tasks, len(self._lanes), TRANSFER)
        for task in tasks:
            for need in task.needs:
                need.sent = need.sent or need.worker != task.worker
                need.users += forget
        for result in results:
            result.users += forget  # never the last
        for need in {n for t in tasks for n in t.needs if n.done.is_set() and n.sent}:
            self._send(need)
        failed: list[BaseException] = []
        threads = [
            threading.Thread(target=self._run, args=(lane, todo, tasks, spent, failed))
            for lane, todo in enumerate(order)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        return spent

    def _run(
        self,
        lane: int,
        todo: list[DeferredOperation],
        tasks: list[DeferredOperation],
        spent: Counter[str],
        failed: list[BaseException],
    ) -> None:
        engine = Counting(self._lanes[lane])
        try:
            for task in todo:
                operands = [self._fetch(x, lane) if isinstance(x, DeferredOperation) else x for x in task.operands]
                if failed:
                    return
                task.copies[lane] = getattr(engine, task.operation)(*operands)
                if task.sent:
                    self._send(task)
                task.done.set()
                self._used(task.needs)
        except BaseException as error:  # handed to the caller's thread; the other lanes must not wait for ever
            failed.append(error)
            for task in tasks:
                task.done.set()
        with self._lock:
            spent.update(engine.seconds)

    def _used(self, needs: tuple[DeferredOperation, ...]) -> None:
        """One use less to come of each; without forget there is nothing to count down."""
        with self._lock:
            for ct in needs:
                if ct.users:
                    ct.users -= 1
                    if not ct.users:
                        ct.copies, ct.data = {}, None

    def _send(self, ct: DeferredOperation) -> None:
        assert ct.worker is not None
        if ct.data is None:
            ct.data = self._lanes[ct.worker].dump(ct.copies[ct.worker])

    def _fetch(self, ct: DeferredOperation, lane: int) -> Ciphertext:
        if lane not in ct.copies:
            ct.done.wait()
            if lane not in ct.copies and ct.data is not None:
                ct.copies[lane] = self._lanes[lane].load(ct.data)
        return ct.copies.get(lane)


class LanesOwner:
    """Owner whose lanes share one secret key.

    make_owner  (max_level, secret or None) -> Owner that dumps its secret, for each lane
    lanes       how many; each takes the memory of an engine and its keys. None: every core this process may use
    """

    def __init__(self, max_level: int, make_owner: Callable[..., PortableOwner], lanes: int | None = None) -> None:
        lanes = len(os.sched_getaffinity(0)) if lanes is None else lanes
        if not is_whole(lanes) or lanes < 1:
            raise UserError(f"lanes must be a whole number of at least 1, and {lanes!r} was given")
        first = make_owner(max_level=max_level)
        others = [make_owner(max_level=max_level, secret=first.dump_secret()) for _ in range(lanes - 1)]
        self._owners: list[PortableOwner] = [first, *others]
        self.library, self.pairs = first.library, first.pairs
        self.max_level, self.slots, self.rings, self._next = max_level, first.slots, rings_of(make_owner), 0

    def encrypt(self, values: np.ndarray, level: int) -> DeferredOperation:
        """The lanes take turns, so that a row's ciphertexts lie where there is room."""
        lane, self._next = self._next, (self._next + 1) % len(self._owners)
        return self._encrypted(values, level, lane)

    def _encrypted(self, values: np.ndarray, level: int, lane: int) -> DeferredOperation:
        ct = DeferredOperation(0.0, (), lane, shadow=SimCiphertext(np.zeros(1), level))
        ct.copies[lane] = self._owners[lane].encrypt(values, level)
        ct.done.set()
        return ct

    def encrypt_all(self, vectors: Sequence[np.ndarray], level: int) -> list[DeferredOperation]:
        """A ciphertext a vector, every lane in a thread of its own."""
        count = len(self._owners)
        shares = self._side_by_side(lambda lane: [self._encrypted(v, level, lane) for v in vectors[lane::count]])
        return [shares[i % count][i // count] for i in range(len(vectors))]

    def decrypt_all(self, cts: Sequence[DeferredOperation], pairs: bool = False) -> list[Slots]:
        """The slots of each, or their real and imaginary parts, every lane in a thread of its own."""
        if waiting := [ct for ct in cts if not ct.done.is_set()]:
            assert waiting[0].engine is not None
            waiting[0].engine.wait(waiting)
        places = [[i for i, ct in enumerate(cts) if ct.worker == lane] for lane in range(len(self._owners))]

        def opened(lane: int) -> list[Slots]:
            owner = self._owners[lane]
            one: Callable[[Ciphertext], Slots] = owner.decrypt_pair if pairs else owner.decrypt
            return [one(cts[i].copies[lane]) for i in places[lane]]

        shares = self._side_by_side(opened)
        slots_of = {i: slots for lane in zip(places, shares, strict=True) for i, slots in zip(*lane, strict=True)}
        return [slots_of[i] for i in range(len(cts))]

    def _side_by_side(self, work: Callable[[int], list[T]]) -> list[list[T]]:
        with ThreadPoolExecutor(len(self._owners)) as pool:
            return list(pool.map(work, range(len(self._owners))))

    def decrypt(self, ct: DeferredOperation) -> np.ndarray:
        """The real parts (slots,); what it is made of is run first, where it was not yet."""
        return decrypt_all(self, [ct])[0]

    def decrypt_pair(self, ct: DeferredOperation) -> tuple[np.ndarray, np.ndarray]:
        """Real and imaginary parts (slots,), as ``decrypt``."""
        return decrypt_all(self, [ct], pairs=True)[0]

    def evaluator(self, rotations: frozenset[int], conjugation: bool = False) -> LanesEngine:
        """An engine that notes operations, over an engine a lane with the keys of these steps each.

        UserError where a conjugation key is asked for, since no lane conjugates.
        """
        if conjugation:
            raise UserError("lanes do not run conjugate: whole attention needs he=desilo, with he.workers for cores")
        return LanesEngine([o.evaluator(rotations) for o in self._owners], rotations, self.rings)
