"""What several processes compute of one set of ciphertexts: forks, which share keys and ciphertexts and copy neither.

Threads on one engine end the process (desilofhe 2.0.0), and a process that is started anew would need the keys once
more. A fork reads all that is there, makes what is its own, and sends that back as bytes.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, ClassVar, NoReturn

from cgf.errors import memory_is_out, reason
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import Engine, Portable
from cgf.he.network_maps import State
from cgf.memory import give_freed_memory_back, private_mib, resident_mib
from cgf.types import Json

Work = Callable[[Engine, State], State]  # new ciphertexts by name; it may empty the state that it is given
DIE_WITH_PARENT = 1  # of Linux's prctl
SENT_AT_ONCE = 4  # ciphertexts, after which a process gives their memory back
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def processor_s() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def together_mib() -> float:
    """The most memory, in MiB, that this process and its forks have held together so far; 0 before any fork.

    What they share counts once. All are measured as they have ended their work and before one's ciphertexts are sent:
    each keeps what it freed on the way where ``cgf.memory.keep_freed_memory`` was called.
    """
    return _Fork.together_mib


def side_by_side(works: Sequence[Work], engine: Engine, portable: Portable, state: State) -> list[State]:
    """What each of some works makes of the same state: the first here, every other in a fork of its own.

    engine    that works are computed on, a Counting one's counts with them; portable: the same, its ciphertexts to and
              from bytes. It must have no threads of its own: a fork has none of them

    1. A fork for every work but the first.  2. The first, here.  3. All others have ended their work, or themselves.
    4. Their ciphertexts, in the order of the works.
    A work whose process was killed is done again here. MemoryError where one had no memory left; what else ended one is
    a RuntimeError with its reason. No process is left behind.
    """
    give_freed_memory_back()  # each fork would hold what it writes there once more
    forks: list[_Fork] = []
    try:
        forks += [_Fork.of(work, engine, portable, state) for work in works[1:]]
        made = [works[0](engine, state)]
        held = resident_mib() + sum(fork.own_mib() for fork in forks)
        _Fork.together_mib = max(_Fork.together_mib, held)
        for fork, work in zip(forks, works[1:], strict=True):
            result = fork.result(engine, portable)
            made.append(work(engine, state) if result is None else result)
        return made
    finally:
        for fork in forks:
            fork.end()


@dataclass
class _Fork:
    """A process on its way, and what it writes to this one.

    head          its first line, once it has ended its work and that was read; None before, and where it was killed
    together_mib  of this process and the forks of any round, at most so far
    """

    together_mib: ClassVar[float] = 0.0
    process: int
    stream: BinaryIO
    head: Json | None = None
    ended: bool = False

    @classmethod
    def of(cls, work: Work, engine: Engine, portable: Portable, state: State) -> _Fork:
        """Signals wait until the new process answers them as any other does: a handler here is not meant for it."""
        read, write = os.pipe()
        parent = os.getpid()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            process = os.fork()
            if process == 0:
                os.close(read)
                _compute(work, engine, portable, state, write, parent)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(write)
        return cls(process, os.fdopen(read, "rb"))

    def own_mib(self) -> float:
        """What it holds of its own once it has ended its work, which is waited for; 0 where it was killed."""
        self.head = _line(self.stream)
        return 0.0 if self.head is None else float(self.head["private_mib"])

    def result(self, engine: Engine, portable: Portable) -> State | None:
        """The ciphertexts that it made, behind ``own_mib``; None where it ended before they were all here."""
        if self.head is None:
            return None
        made: State = {}
        for name, count in self.head["counts"].items():
            made[name] = []
            for _ in range(count):
                if (each := _line(self.stream)) is None:
                    return None
                if len(data := self.stream.read(each["size"])) != each["size"]:
                    return None
                made[name].append(portable.load(data))
        if isinstance(engine, Counting):
            engine.ops.update(self.head["ops"])
        return made

    def end(self) -> None:
        """Waits for it; one that is still at work is killed, since nobody waits for what it makes."""
        if not self.ended:
            self.ended = True
            self.stream.close()
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)


def _line(stream: BinaryIO) -> Json | None:
    """What a process says next; None where it ended. MemoryError and RuntimeError where it tells why."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    told: Json = json.loads(line)
    if "memory" in told:
        raise MemoryError(told["memory"])
    if "reason" in told:
        raise RuntimeError(f"a process that computed a part of a set ended: {told['reason']}")
    return told


def _compute(work: Work, engine: Engine, portable: Portable, state: State, pipe: int, parent: int) -> NoReturn:
    """The new process: a line that says what follows, and the ciphertexts, each behind its size and gone then.

    Nothing of the parent's is written twice.
    """
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if os.getppid() != parent:  # it was killed before the line above
            os._exit(1)
        with os.fdopen(pipe, "wb") as stream, _told(stream.write):
            before = Counter(engine.ops) if isinstance(engine, Counting) else Counter[str]()
            made = work(engine, state)
            ops = Counter(engine.ops) - before if isinstance(engine, Counting) else before
            counts = {name: len(cts) for name, cts in made.items()}
            head = {"counts": counts, "ops": ops, "private_mib": private_mib()}
            stream.write(json.dumps(head).encode() + b"\n")
            stream.flush()
            waiting = [ct for cts in made.values() for ct in cts][::-1]
            made.clear()
            for sent in range(len(waiting)):
                if sent and sent % SENT_AT_ONCE == 0:
                    give_freed_memory_back()  # the parent holds what was sent from now on
                data = portable.dump(waiting.pop())
                stream.write(json.dumps({"size": len(data)}).encode() + b"\n")
                stream.write(data)
        code = 0
    finally:
        os._exit(code)


@contextmanager
def _told(write: Callable[[bytes], object]) -> Iterator[None]:
    """An error is told to the parent where it expects a line, by its kind."""
    try:
        yield
    except Exception as error:
        kind = "memory" if memory_is_out(error) else "reason"
        write(json.dumps({kind: f"{type(error).__name__}: {reason(error)}"}).encode() + b"\n")
