"""Worker processes of an encrypted evaluation: each a party with engines and keys of its own."""

from __future__ import annotations

import functools
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Protocol, TypeVar

import numpy as np

from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.he.layer_record import LayerRecord
from cgf.he.network_run import NetworkRecord
from cgf.he.party import Party
from cgf.he.score_rows import Rows
from cgf.he.side_by_side import together_mib
from cgf.memory import huge_pages, keep_freed_memory, peak_mib
from cgf.network.attention import Heads
from cgf.network.layers import Network
from cgf.softmax.base import Softmax
from cgf.types import Unpickled

TRIES = 3  # of work whose process ended
LESS = "he.workers must be fewer, or he.rows_at_once (whole attentions: he.memory_mib) smaller"
KEYBOARD = frozenset({signal.SIGINT, signal.SIGHUP})  # what a terminal sends to a whole group
KEPT = 64  # softmaxes that a worker remembers: one a layer
T = TypeVar("T")
Weights = tuple[np.ndarray, LayerRecord]  # (R, N), or outputs (I, Q, E), and what was seen while they were computed


class Workers:
    """``count`` processes that each make a Party by ``make_party`` and keep it.

    Processes are started anew, not forked: threads of torch do not survive a fork. Softmaxes travel as bytes and are
    recognised by them, so that a worker's dry runs are made once. Nothing secret travels: a worker encrypts,
    evaluates and decrypts under keys that it made. Where a process ends before its work is done, all are started anew
    and the work is done again, ``TRIES`` times in all; then UserError, as where a worker has no memory left.
    """

    def __init__(self, make_party: Callable[[], Party], count: int, say: Callable[[str], None] = print) -> None:
        self.count, self.say = count, say
        self._peaks: dict[int, float] = {}  # process -> MiB
        self._party = pickle.dumps(make_party)
        self._lock = threading.Lock()  # of the pool, which one of several callers starts anew
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        """A pool whose processes are on their way."""
        # huge pages are asked for when a process starts: the pool starts one a call while none is idle. A signal from
        # the keyboard, or of a terminal that closes, reaches the whole group: blocked here, it is the parent's alone,
        # and is not lost to it
        before = signal.pthread_sigmask(signal.SIG_BLOCK, KEYBOARD)
        try:
            with _quiet_tracker():
                pool = ProcessPoolExecutor(self.count, get_context("spawn"), _start, (self._party,))
            signal.pthread_sigmask(signal.SIG_BLOCK, KEYBOARD)  # CPython lets SIGINT through as it starts its tracker
            with huge_pages():
                for _ in range(self.count):
                    pool.submit(os.getpid)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return pool

    def _start_anew(self, broken: ProcessPoolExecutor) -> None:
        """A new pool in the place of the broken one, unless another caller was here before."""
        with self._lock:
            if self._pool is broken:
                broken.shutdown(wait=False)
                self.say(
                    f"a worker process of {self.count} ended before its work was done: workers start anew, "
                    "and it is done again"
                )
                self._pool = self._started()

    def evaluate(self, softmax: Softmax, tasks: list[tuple[np.ndarray, Rows]]) -> list[Weights]:
        """(weights, record) of each task (scores (R, N), Rows), in the order of the tasks."""
        return self._shared(_evaluate, softmax, tasks, [task[0].size for task in tasks])

    def attend(self, softmax: Softmax, tasks: list[tuple[Heads, np.ndarray]]) -> list[Weights]:
        """(outputs, record) of each task (Heads, chosen instances), in the order of the tasks."""
        return self._shared(_attend, softmax, tasks, [len(task[1]) for task in tasks])

    def network(self, network: Network, features: np.ndarray) -> tuple[np.ndarray, NetworkRecord]:
        """Logits and record of features (B, tokens, width) that fit one set of ciphertexts."""
        return self._shared(_network, network, [(features,)], [1])[0]

    def _shared(
        self,
        work: Callable[..., tuple[T, int, float]],
        softmax: Softmax | Network,
        tasks: Sequence[tuple[object, ...]],
        sizes: list[int],
    ) -> list[T]:
        """``work`` of each task by whichever worker is free, the largest tasks first."""
        packed = pickle.dumps(softmax)
        done: dict[int, tuple[T, int, float]] = {}
        # the longest first, so that nobody waits long for the last
        order = sorted(range(len(tasks)), key=lambda i: -sizes[i])
        for attempt in range(TRIES):
            with self._lock:
                pool = self._pool
            try:
                running = {i: pool.submit(work, packed, *tasks[i]) for i in order if i not in done}
                for i, future in running.items():
                    done[i] = future.result()
                break
            except BrokenProcessPool:
                if attempt + 1 < TRIES:
                    self._start_anew(pool)
            except MemoryError:
                raise UserError(f"a worker process of {self.count} has no memory left: {LESS}") from None
        else:
            raise UserError(
                f"a worker process of {self.count} ended before its work was done, {TRIES} times (out of memory?): "
                f"{LESS}"
            )
        self._peaks.update({process: peak for _, process, peak in done.values()})  # a process's peak never falls
        return [done[i][0] for i in range(len(tasks))]

    def make(self, sizes: dict[int, frozenset[int]]) -> list[Future[None]]:
        """Idle workers make engines and keys of ``sizes`` (see Session.make) while the caller goes on, a call each.

        Where a process ends meanwhile, its call raises BrokenProcessPool: an evaluation makes what is missing.
        """
        try:
            return [self._pool.submit(_make, sizes) for _ in range(self.count)]
        except BrokenProcessPool:  # one ended while it was idle
            self._start_anew(self._pool)
            return [self._pool.submit(_make, sizes) for _ in range(self.count)]

    def peaks_mib(self) -> list[float]:
        """The most memory that each worker has held so far, in MiB."""
        return list(self._peaks.values())

    def close(self) -> None:
        """Ends the processes; tasks that have not begun are dropped."""
        self._pool.shutdown(cancel_futures=True)


class EngineNode(Protocol):
    """What is read of the configuration's ``he``: the owner's settings, and among how many workers cores are shared."""

    @property
    def owner(self) -> Mapping[str, object]:
        """The settings that the owner is made with."""

    @property
    def workers(self) -> int:
        """How many processes evaluate."""

    @property
    def processes(self) -> int:
        """How many share out one set of ciphertexts of a network."""


def whole_workers(count: object, name: str = "he.workers") -> int:
    """A setting checked: a whole number of at least 1, at most the cores that this process may use."""
    cores = len(os.sched_getaffinity(0))
    if not is_whole(count) or not 1 <= count <= cores:
        raise UserError(f"{name} must be a whole number from 1 to the {cores} cores here, and {count!r} was given")
    return count


def owner_settings(he: EngineNode) -> dict[str, object]:
    """``he.owner`` for each of ``he.workers``: a library's threads, where none are named, are its share of cores.

    desilofhe's mode 'cpu' takes two thirds of the time of its mode 'parallel' with one thread. UserError for
    bootstrap keys by more than one worker: each would make its own.
    """
    owner = dict(he.owner)
    if he.workers > 1 and owner.get("bootstrap") not in (None, "plain"):
        raise UserError(
            f"he.owner.bootstrap={owner['bootstrap']} needs he.workers=1, since each worker would make a "
            f"key of 13 to 21.5 GiB of its own, and he.workers={he.workers} was given"
        )
    sharing = he.workers * whole_workers(he.processes, "he.processes")
    if he.processes > 1 and (owner.get("mode") not in ("cpu", "parallel") or owner.get("threads") is not None):
        raise UserError(
            "he.processes needs he=desilo on a processor without he.owner.threads, since a fork has no threads, and "
            f"he.owner.mode={owner.get('mode')} with he.owner.threads={owner.get('threads')} was given"
        )
    if sharing > 1 and owner.get("threads", 0) is None:
        owner["threads"] = threads = max(1, len(os.sched_getaffinity(0)) // sharing)
        if owner.get("mode") == "cpu" or (owner.get("mode") == "parallel" and (threads == 1 or he.processes > 1)):
            owner.update(mode="cpu", threads=None)
    return owner


_party: Party  # of a worker process, which makes it first


@contextmanager
def _quiet_tracker() -> Iterator[None]:
    """CPython's own process that removes semaphores, where it is started here, does so without a word.

    It would warn on stderr of each owner of a pool that was stopped.
    """
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (before, "ignore:resource_tracker:UserWarning")))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


def _start(make_party: bytes) -> None:
    global _party
    keep_freed_memory()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _party = pickle.loads(make_party)()


def _end_with_parent() -> None:
    """A parent that was killed closes no queue: without this its workers would wait, and hold their keys, for ever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@functools.lru_cache(KEPT)
def _unpacked(packed: bytes) -> Unpickled:
    """What a task is about, the same object for the same bytes."""
    return pickle.loads(packed)


def _make(sizes: dict[int, frozenset[int]]) -> None:
    _party.make(sizes)


def _evaluate(softmax: bytes, scores: np.ndarray, rows: Rows) -> tuple[Weights, int, float]:
    return _party.run(_unpacked(softmax), scores, rows), os.getpid(), peak_mib()


def _attend(softmax: bytes, heads: Heads, chosen: np.ndarray) -> tuple[Weights, int, float]:
    return _party.attend(_unpacked(softmax), heads, chosen), os.getpid(), peak_mib()


def _network(network: bytes, features: np.ndarray) -> tuple[tuple[np.ndarray, NetworkRecord], int, float]:
    return _party.network(_unpacked(network), features), os.getpid(), max(peak_mib(), together_mib())
