"""Operations that are noted before they run: what each needs, which lane has it, and an order that they can run in."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cgf.he.engines.schedule import ScheduledTask
from cgf.he.engines.sim import SimCiphertext
from cgf.types import Ciphertext, Operand

if TYPE_CHECKING:  # which imports this module
    from cgf.he.engines.lanes import LanesEngine


@dataclass(eq=False)
class DeferredOperation(ScheduledTask):
    """A ciphertext of LanesEngine: the operation that makes it, its level and polynomials, later the ciphertext."""

    needs: tuple[DeferredOperation, ...]
    operation: str = ""
    operands: tuple[Operand, ...] = ()
    shadow: SimCiphertext | None = None
    engine: LanesEngine | None = None
    sent: bool = False  # another lane needs it
    users: int = 0  # of this run, that have not had it yet
    copies: dict[int, Ciphertext] = field(default_factory=dict, repr=False)  # lane -> ciphertext
    data: bytes | None = field(default=None, repr=False)
    done: threading.Event = field(default_factory=threading.Event, repr=False)


def in_order(results: Sequence[DeferredOperation]) -> list[DeferredOperation]:
    """What was not run yet, each after what it needs; without recursion: circuits are deep."""
    seen: set[int] = set()
    order: list[DeferredOperation] = []
    stack: list[tuple[DeferredOperation, bool]] = [(r, False) for r in reversed(results)]
    while stack:
        task, open_ = stack.pop()
        if open_:
            order.append(task)
        elif id(task) not in seen and not task.done.is_set():
            seen.add(id(task))
            stack.append((task, True))
            stack += [(n, False) for n in reversed(task.needs)]
    return order
