"""One training run on several devices: each process works through its share of every batch."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TypeVar, cast

import numpy as np
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs, PartialState
from accelerate.data_loader import prepare_data_loader
from accelerate.state import AcceleratorState
from accelerate.utils import parse_flag_from_env
from torch import Tensor, distributed
from torch.utils.data import DataLoader, Dataset

from cgf.data.task import Collate, Items
from cgf.errors import UserError
from cgf.types import Item

T = TypeVar("T")
SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")  # where launchers tell their number
WORKS = "torchrun --nproc_per_node N train.py starts N processes that train together, on CPU too"


def main_first() -> AbstractContextManager[None]:
    """Within it the main process goes ahead; the others follow and find what it left on disk."""
    return _state().main_process_first()


def say(text: str) -> None:
    """A line from the main process alone."""
    if _state().is_main_process:
        print(text, flush=True)


def alone_at(held: AbstractContextManager[object]) -> AbstractContextManager[object]:
    """``held`` in the main process; nothing in the others, which work under it."""
    return held if _state().is_main_process else nullcontext()


def _state() -> PartialState:
    """This process among those of its launch; UserError where they would not know of each other.

    torchrun starts processes on CPU without telling accelerate so: it would take each of them for the only one.
    """
    refuse_single(os.environ)
    state = PartialState(cpu=_on_cpu())
    count = max(int(os.environ.get(name) or 1) for name in SIZES)
    if state.num_processes == 1 < count:
        raise UserError(f"{count} processes were started and would not know of each other: {WORKS}")
    return state


def _on_cpu() -> bool:
    return parse_flag_from_env("ACCELERATE_USE_CPU") or (
        "LOCAL_RANK" in os.environ and not torch.accelerator.is_available()
    )


@cache
def _part_at_exit() -> None:
    """Takes leave of the other processes as this one ends, which a training that came to its end may do."""
    atexit.register(PartialState().destroy_process_group)


def refuse_single(environment: Mapping[str, str]) -> None:
    """UserError for the one process that accelerate launch starts where several were asked for without GPUs.

    It leaves the address at which they were to meet, and neither a rank nor their number.
    """
    launched = "ACCELERATE_MIXED_PRECISION" in environment and "MASTER_PORT" in environment
    if launched and not any(name in environment for name in ("RANK", "LOCAL_RANK", *SIZES)):
        raise UserError(
            "accelerate launch was asked for several processes and starts only one where there are no "
            f"GPUs for them (MASTER_PORT is set, RANK is not): {WORKS}"
        )


class Processes:
    """The processes that ``accelerate launch`` or ``torchrun`` started, or this one alone.

    A step's batch is divided among them, so that steps, epochs, learning rates and checkpoints are those of one
    process, and a run may go on with another number of them. (accelerate's own loaders hand out whole batches instead:
    steps an epoch would shrink, and uneven ends be filled with samples seen already.)

    batch_size   samples of a step; UserError where there are more processes than that
    sometimes    whether some parameters are without a gradient, in some steps (layers replaced one after another) or in
                 all (CLIP's last norm); asked where there are several processes, which wait for each gradient else
    """

    def __init__(
        self, batch_size: int, seed: int, mixed_precision: str, sometimes: Callable[[], bool], wandb: bool
    ) -> None:
        AcceleratorState._reset_state()  # an earlier run of a sweep may have had another precision
        unused = _state().num_processes > 1 and sometimes()
        self.accelerator = Accelerator(
            cpu=_on_cpu(),
            mixed_precision=mixed_precision,
            log_with="wandb" if wandb else None,
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=unused)],
        )
        self.seed = seed
        self.count, self.rank = int(self.accelerator.num_processes), int(self.accelerator.process_index)
        self.main = self.accelerator.is_main_process
        if batch_size < self.count:
            raise UserError(
                f"train.batch_size is divided among the processes: it must be at least their number "
                f"({self.count}), and is {batch_size}"
            )

    def share(self, batch: list[int]) -> tuple[list[int], float]:
        """(this process's samples of a batch, what share of it they are): every n-th, so lengths stay alike.

        Of a batch with fewer samples than processes some have share 0, and a sample of another's to go along with.
        """
        own = batch[self.rank :: self.count]
        return own or batch[:1], len(own) / len(batch)

    def batches(
        self, dataset: Items, whole: list[list[int]], collate: Collate, *, workers: int, epoch: int
    ) -> Iterator[tuple[dict[str, Tensor], float]]:
        """(this process's part of each batch of indices in ``whole``, on its device, what share of it that is).

        workers: processes that load the items; epoch: which one it is, for the data set's set_epoch.
        """
        own, shares = zip(*(self.share(batch) for batch in whole), strict=True)
        # a generator of its own: the loader would otherwise draw from the global one, and a resumed run
        # would see other dropout masks than an unbroken one
        items = cast("Dataset[Item]", dataset)
        loader = DataLoader(
            items, batch_sampler=list(own), collate_fn=collate, num_workers=workers, generator=torch.Generator()
        )
        device = self.accelerator.device  # the batches are this process's own already
        prepared = prepare_data_loader(loader, device, num_processes=1, process_index=0, put_on_device=True)
        prepared.iteration = epoch  # accelerate hands this to set_epoch as it starts
        yield from zip(prepared, shares, strict=True)

    def reseed(self, step: int) -> None:
        """Dropout of a step, another in each process, the same again in a resumed run; one process draws on."""
        if self.count > 1:
            torch.manual_seed(int(np.random.SeedSequence([self.seed, step, self.rank]).generate_state(1)[0]))

    def gather(self, value: T) -> list[T]:
        """The values of all processes, in their order, to each of them; what passes holds no tensor of a device."""
        if self.count == 1:
            return [value]
        values: list[T] = [value] * self.count
        distributed.all_gather_object(values, value)
        return values

    def end(self) -> None:
        """Ends the trackers. The processes stay in touch for a sweep's next training, and part as they end.

        (accelerate's own end of a training parts them at once, and no later training finds them again.)
        """
        for tracker in self.accelerator.trackers:
            tracker.finish()
        _part_at_exit()

    def alone(self, act: Callable[[], object]) -> None:
        """``act`` in the main process; the others wait for its end."""
        self.accelerator.wait_for_everyone()
        if self.main:
            act()
        self.accelerator.wait_for_everyone()
