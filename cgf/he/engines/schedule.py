"""Which worker does which operation when: list scheduling of a circuit's operations on equal workers."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar


@dataclass(eq=False)
class ScheduledTask:
    """An operation with what it waits for.

    cost     in any unit, the same for all tasks
    needs    tasks whose results it takes
    worker   where it runs, or ran; None: not decided yet
    """

    cost: float
    needs: tuple[ScheduledTask, ...]
    worker: int | None = None
    finish: float = field(default=0.0, repr=False)
    rank: float = field(default=0.0, repr=False)


T = TypeVar("T", bound=ScheduledTask)


def list_schedule(tasks: Sequence[T], workers: int, transfer: float) -> list[list[T]]:
    """Tasks in order for each worker; ``tasks`` come in an order in which each follows what it needs.

    The task with the longest way to the end goes first, to the worker that finishes it earliest; a result
    that another worker made costs ``transfer`` once more. Tasks outside ``tasks`` count as done at time 0
    on their worker. Every worker's order agrees with the dependencies, so waiting for each other cannot
    deadlock. Source: heterogeneous earliest finish time (Topcuoglu, Hariri, Wu 2002), on equal workers.
    """
    inside = set(map(id, tasks))
    users: dict[int, list[T]] = {id(t): [] for t in tasks}
    waits: dict[int, int] = {}
    for task in tasks:
        mine = [n for n in task.needs if id(n) in inside]
        waits[id(task)] = len(mine)
        for need in mine:
            users[id(need)].append(task)
    for task in reversed(tasks):
        task.rank = task.cost + max((u.rank for u in users[id(task)]), default=0.0)
    number = {id(t): i for i, t in enumerate(tasks)}
    ready = [(-t.rank, number[id(t)], t) for t in tasks if not waits[id(t)]]
    heapq.heapify(ready)
    free = [0.0] * workers
    order: list[list[T]] = [[] for _ in range(workers)]
    while ready:
        task = heapq.heappop(ready)[2]
        task.finish, task.worker = min((_finish(task, w, free[w], transfer, inside), w) for w in range(workers))
        free[task.worker] = task.finish
        order[task.worker].append(task)
        for user in users[id(task)]:
            waits[id(user)] -= 1
            if not waits[id(user)]:
                heapq.heappush(ready, (-user.rank, number[id(user)], user))
    return order


def _finish(task: ScheduledTask, worker: int, free: float, transfer: float, inside: set[int]) -> float:
    start, moved = free, 0
    for need in task.needs:
        away = need.worker is not None and need.worker != worker
        start = max(start, (need.finish if id(need) in inside else 0.0))
        moved += away
    return start + moved * transfer + task.cost
