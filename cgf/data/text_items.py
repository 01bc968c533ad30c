"""Tokenised texts as a dataset, and how they become a batch."""

from collections.abc import Sequence

import torch
from torch.utils.data import Dataset

from cgf.data.tokens import TYPES
from cgf.types import Item


class TextDataset(Dataset):
    """Tokenised texts. `lengths` holds the token count of each, for batches of like length.

    types: 1 for each token of the second text of a pair, else 0; None where the model is not told.
    """

    def __init__(self, input_ids: list[list[int]], labels: list[int], types: list[list[int]] | None = None) -> None:
        self.input_ids = input_ids
        self.labels = labels
        self.types = types
        self.lengths = [len(ids) for ids in input_ids]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Item:
        types = {} if self.types is None else {TYPES: self.types[index]}
        return {"input_ids": self.input_ids[index], "label": self.labels[index], **types}

    def set_epoch(self, epoch: int) -> None:
        """Nothing here depends on the epoch."""


def collate_text(items: Sequence[Item], pad_id: int) -> dict[str, torch.Tensor]:
    """{'input_ids' (B, L), 'attention_mask' (B, L), 'labels' (B,)}, int64, padded right to the longest; and
    'token_type_ids' (B, L), 0 at padding, where the items have them."""
    longest = max(len(item["input_ids"]) for item in items)
    ids = torch.full((len(items), longest), pad_id, dtype=torch.int64)
    mask = torch.zeros((len(items), longest), dtype=torch.int64)
    for row, item in enumerate(items):
        count = len(item["input_ids"])
        ids[row, :count] = torch.tensor(item["input_ids"], dtype=torch.int64)
        mask[row, :count] = 1
    labels = torch.tensor([item["label"] for item in items], dtype=torch.int64)
    batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    if TYPES in items[0]:
        batch[TYPES] = torch.zeros_like(ids)
        for row, item in enumerate(items):
            batch[TYPES][row, : len(item[TYPES])] = torch.tensor(item[TYPES], dtype=torch.int64)
    return batch
