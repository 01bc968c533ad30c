"""Samples out of a user's loader: batches taken apart, so that evaluations can batch them as ciphertexts take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.interface.own_model import IMAGE, TEXT
from cgf.models.host import Host
from cgf.models.samples import check_ends, read_longest
from cgf.types import Item

MASK, TYPES, LABELS = "attention_mask", "token_type_ids", ("labels", "label")
UNLABELLED = -1


@dataclass(frozen=True)
class Samples:
    """Items of a loader, one sample each, without padding.

    lengths  tokens of each text, None for images;  pad_id: what ``collate`` pads ids with, on the right
    """

    items: list[Item]
    pad_id: int
    lengths: list[int] | None

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int, /) -> Item:
        return self.items[index]

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """One batch: texts padded on the right to the longest of them, images stacked; labels (B,)."""
        batch = {"labels": torch.tensor([item["labels"] for item in items])}
        for key in (key for key in items[0] if key != "labels"):
            values = [item[key] for item in items]
            if self.lengths is None:
                batch[key] = torch.stack(values)
            else:
                fill = self.pad_id if key == TEXT else 0
                batch[key] = torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=fill)
        return batch


def read(loader: Iterable[object], most: int | None, host: Host, labelled: bool = False) -> Samples:
    """The first ``most`` samples of a loader, None: all, in its order, as samples for the host.

    A batch is a mapping as transformers' collators give it (input_ids, attention_mask, token_type_ids or pixel_values;
    labels), or a pair (images, labels). labelled: labels must be there. UserError for another batch, padding on the
    left, an input that is not known, a loader without samples or of texts where the model takes
    images, and texts that it cannot read.
    """
    if most is not None and (not is_whole(most) or most < 1):
        raise UserError(f"samples must be a whole number of at least 1, and {most!r} was given")
    if not isinstance(loader, Iterable):
        raise UserError(
            f"samples need a loader of batches, such as a DataLoader, and {type(loader).__name__} was given"
        )
    items = list(islice((item for batch in loader for item in _items(batch, labelled)), most))
    if not items:
        raise UserError("the loader gives no samples: one that can be read again is needed, such as a DataLoader")
    if len({tuple(sorted(item)) for item in items}) > 1:
        raise UserError("the batches of the loader have different inputs: the same of every batch are needed")
    takes, given = ("texts" if host.inputs.image is None else "images"), ("texts" if TEXT in items[0] else "images")
    if takes != given:
        raise UserError(f"{host.name} takes {takes}, and the loader gives {given}")
    if given == "images":
        _check_images(host, items)
        return Samples(items, 0, None)
    data = Samples(items, getattr(host.inputs.tokenizer, "pad_token_id", 0), [len(item[TEXT]) for item in items])
    _check_texts(host, data)
    return data


def _check_images(host: Host, items: Sequence[Item]) -> None:
    """UserError for images of another shape or type than the model takes."""
    want = None if host.inputs.image is None else tuple(host.inputs.image.size)
    if odd := next((tuple(item[IMAGE].shape) for item in items if tuple(item[IMAGE].shape) != want), None):
        raise UserError(f"{host.name} takes images (C, H, W) of {want}, and one of the loader is {odd}")
    if other := next((item[IMAGE].dtype for item in items if item[IMAGE].dtype != torch.float32), None):
        raise UserError(f"images in torch.float32 are needed, scaled as the model takes them, and one is in {other}")


def _check_texts(host: Host, data: Samples) -> None:
    """UserError for token ids that the model does not embed, and for a text longer than it can read."""
    # mypy: a model that takes texts has it
    count = host.model.get_input_embeddings().num_embeddings  # type: ignore[operator]
    ids = torch.cat([item[TEXT] for item in data.items])
    if odd := sorted(set(ids[(ids < 0) | (ids >= count)].tolist())):
        raise UserError(f"{host.name} embeds the token ids 0 to {count - 1}, and a text of the loader has {odd[0]}")
    check_ends(host, (item[TEXT].tolist() for item in data.items), "the loader")
    read_longest(host, data, data.lengths or [], data.collate, "the loader")


def _items(batch: object, labelled: bool) -> list[Item]:
    fields = _fields(batch)
    given = {key: value for key, value in fields.items() if key not in LABELS}
    labels = next((fields[key] for key in LABELS if key in fields), None)
    if labels is None and labelled:
        raise UserError("an evaluation needs the labels of its samples, and the loader's batches have none")
    if unknown := sorted(set(given) - {TEXT, MASK, TYPES, IMAGE}):
        raise UserError(f"a batch of the loader has '{unknown[0]}', which is not read here")
    if (TEXT in given) == (IMAGE in given):
        raise UserError(f"a batch of the loader needs {TEXT} or {IMAGE}, and has {', '.join(sorted(given)) or 'none'}")
    first = next(iter(given.values()))
    count = len(first) if isinstance(first, Tensor) and first.dim() else 0
    for key, value in {**given, **({} if labels is None else {"labels": labels})}.items():
        if not isinstance(value, Tensor) or not value.dim() or len(value) != count:
            raise UserError(f"'{key}' of a batch of the loader needs to be a tensor with a row for each sample")
    if labels is not None and (labels.dim() != 1 or labels.is_floating_point()):
        raise UserError("labels must be whole numbers (B,), one class for each sample")
    numbers = [UNLABELLED] * count if labels is None else labels.tolist()
    inputs = _texts(given) if TEXT in given else [{IMAGE: image.detach().cpu()} for image in given[IMAGE]]
    return [{**one, "labels": number} for one, number in zip(inputs, numbers, strict=True)]


def _texts(given: dict[str, Tensor]) -> list[Item]:
    if IMAGE in given or given[TEXT].dim() != 2:
        raise UserError(f"{TEXT} of a batch of the loader must be (B, T)")
    for key in (TEXT, TYPES):
        if key in given and given[key].dtype not in (torch.int64, torch.int32):
            raise UserError(f"{key} of a batch needs to be in torch.long, and is in {given[key].dtype}")
        if key in given and given[key].shape != given[TEXT].shape:
            raise UserError(f"{key} of a batch needs the shape of {TEXT}, and has {tuple(given[key].shape)}")
    mask = given.get(MASK)
    if mask is None:
        raise UserError(f"a batch of texts needs its {MASK}: without it padding cannot be told from text")
    if mask.shape != given[TEXT].shape or not bool(((mask == 0) | (mask == 1)).all()):
        raise UserError(f"{MASK} of a batch needs 1 for each token and 0 for padding, in the shape of {TEXT}")
    if bool((mask[:, 1:] > mask[:, :-1]).any()) or bool((mask.sum(1) == 0).any()):
        raise UserError("texts must be padded on the right, with one token at least: tokenizer.padding_side='right'")
    return [
        {key: value[i, : int(mask[i].sum())].detach().cpu() for key, value in given.items()} for i in range(len(mask))
    ]


def _fields(batch: object) -> Item:
    if isinstance(batch, Mapping):
        return dict(batch)
    if isinstance(batch, list | tuple) and len(batch) == 2:
        return {IMAGE: batch[0], "labels": batch[1]}
    raise UserError("a batch of the loader must be a mapping of tensors, or a pair (images, labels)")
