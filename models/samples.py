"""The samples of a task as a host takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from cgf.data.image_items import ImageDataset
from cgf.data.task import Collate, Items, LabelledItems, Task
from cgf.data.text_items import TextDataset
from cgf.errors import UserError, with_reason
from cgf.models import llama
from cgf.models.host import Host
from cgf.models.install import installed
from cgf.models.rotary import check_lengths
from cgf.models.self_check import evaluating
from cgf.softmax.exact import Exact
from cgf.types import HostConfig


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


def check_ends(host: Host, texts: Iterable[Sequence[int]], source: str) -> None:
    """UserError for a decoder that came with its head where a text ends in the id that stands at padding.

    transformers' own head, which was trained so, reads the last token of another id; by the mask it is this one.
    """
    if not host.head_trained or not llama.has_head(host.model):
        return
    config: HostConfig = host.model.config
    pad = config.pad_token_id
    if any(len(ids) and int(ids[-1]) == pad for ids in texts):
        raise UserError(
            f"model {host.name} reads the last token that is not padding, and a text of {source} ends in the id of "
            f"padding ({pad}), before which the head that it came with reads: give config.pad_token_id, and the "
            "tokenizer, an id that ends no text"
        )


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
