"""The samples of a task as a host takes them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cgf.data.image_items import ImageDataset
from cgf.data.task import Collate, Items, LabelledItems, Task
from cgf.data.text_items import TextDataset
from cgf.errors import with_reason
from cgf.models.host import Host
from cgf.models.install import installed
from cgf.models.rotary import check_lengths
from cgf.models.self_check import evaluating
from cgf.softmax.exact import Exact


def samples_of(task: Task, split: str, host: Host, training: bool = False) -> LabelledItems:
    """The items of a split, as an evaluation reads them; with ``training`` images of train are augmented.

    UserError where the host cannot read the longest of its texts, and see `Task.dataset`.
    """
    dataset = task.dataset(split, host.inputs)
    if isinstance(dataset, ImageDataset) and not training:
        dataset = dataset.as_evaluated()
    check_texts(host, dataset, task.collate(host.inputs), split)
    return dataset


def check_texts(host: Host, dataset: Items, collate: Collate, split: str) -> None:
    """UserError where the host cannot read the longest text of a split, as 512 learned positions cannot 600 tokens, or
    where that text would change what the others of its batch give (``cgf.models.rotary``)."""
    if isinstance(dataset, TextDataset):
        read_longest(host, dataset, dataset.lengths, collate, split)


def read_longest(host: Host, dataset: Items, lengths: Sequence[int], collate: Collate, source: str) -> None:
    """The longest of the texts goes through the model once, with exact softmax; the model is as it was afterwards.

    lengths: tokens of each; source: where they are from. UserError where that fails, and see ``check_texts``.
    """
    check_lengths(host, max(lengths), source)
    batch = collate([dataset[max(range(len(lengths)), key=lengths.__getitem__)]])
    batch.pop("labels")
    with (
        installed(host.model, lambda _: Exact()),
        evaluating(host.model),
        torch.random.fork_rng(devices=[]),
        torch.no_grad(),
        with_reason(
            f"model {host.name} cannot read the longest text of {source}, of {max(lengths)} tokens: cut texts by a "
            "smaller task.max_length, or where a loader makes them",
            named=True,
        ),
    ):
        host.logits(batch)
