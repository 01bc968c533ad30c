"""Images as a dataset, and how they become a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch.utils.data import Dataset

from cgf.data.images import Augment, Picture, fit, seeded, set_channels
from cgf.data.task import ImageInput
from cgf.types import Item


class Pictures(Protocol):
    """Images (N), decoded when they are asked for or kept as tensors."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, index: int, /) -> Picture:
        """One of them, as ``cgf.data.images`` takes it."""


P = TypeVar("P", bound=Pictures)


@dataclass(frozen=True)
class Images(Generic[P]):
    """Images (N), the key that names each, and the labels (N,); contents: a hash of each file, None: not worked out."""

    images: P
    keys: list[str]
    labels: list[int]
    contents: list[str] | None = None

    @property
    def alike(self) -> list[str]:
        """Of each image the key of the first that is equal to it, byte for byte, where that is known."""
        first: dict[str, str] = {}
        return [first.setdefault(c, key) for c, key in zip(self.contents or self.keys, self.keys, strict=True)]


class ImageDataset(Dataset):
    """Items {'pixel_values': (C, H, W) float32, 'label': int}.

    Augmentation draws from (seed, epoch, index) alone, so neither the number of workers nor a resumed run
    changes an image.
    """

    def __init__(
        self, source: Images, own: list[int], want: ImageInput, augment: Augment | None, seed: int, crop: bool
    ) -> None:
        self.source, self.own, self.want = source, own, want
        self.augment, self.seed, self.crop = augment, seed, crop
        self.labels = [source.labels[i] for i in own]
        # In shared memory, for workers that live on from one epoch to the next.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, index: int) -> Item:
        image = set_channels(self.source.images[self.own[index]], self.want.size[0])
        if self.augment is not None:
            with seeded(self.seed, int(self._epoch), self.own[index]):
                image = self.augment(image, self.want)
        # An augmented image is a crop already; to cut its border off again would train on other scales.
        crop = self.crop and self.augment is None
        return {"pixel_values": fit(image, self.want, crop), "label": self.labels[index]}

    def as_evaluated(self) -> "ImageDataset":
        """The same images without augmentation."""
        return ImageDataset(self.source, self.own, self.want, None, self.seed, self.crop)

    def set_epoch(self, epoch: int) -> None:
        """Another epoch, another augmentation."""
        self._epoch.fill_(epoch)


def collate_images(items: Sequence[Item]) -> dict[str, torch.Tensor]:
    """{'pixel_values' (B, C, H, W) float32, 'labels' (B,) int64}."""
    labels = torch.tensor([item["label"] for item in items], dtype=torch.int64)
    return {"pixel_values": torch.stack([item["pixel_values"] for item in items]), "labels": labels}
