"""What every image task shares: items of an image source, augmented in training, and what a model must take."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from cgf.data.image_items import ImageDataset, Images, collate_images
from cgf.data.images import Augment
from cgf.data.task import Collate, ImageInput, Inputs, Task
from cgf.errors import UserError


class VisionTask(Task):
    """An image task; the subclasses say where images come from."""

    kind: ClassVar[str] = "vision"
    # Whether evaluation may cut the border off (`ImageInput.crop_pct`).
    crops: ClassVar[bool] = True

    @abstractmethod
    def read(self, split: str) -> tuple[Images, list[int]]:
        """The images a split is part of, and the indices of its own."""

    @abstractmethod
    def augmentation(self) -> Augment | None:
        """What training images go through, or None."""

    def dataset(self, split: str, inputs: Inputs) -> ImageDataset:
        """Items {'pixel_values': (C, H, W) float32, 'label': int}; only 'train' is augmented.

        UserError without an image input, for an unknown split, and for data that cannot be used.
        """
        self.check_split(split)
        want = self._image(inputs)
        source, own = self.read(split)
        if not own:
            raise UserError(f"task {self.name} needs images in {split}, and there are none")
        keep = self.limited(split, [source.keys[i] for i in own], [source.labels[i] for i in own])
        augment = self.augmentation() if split == "train" else None
        return ImageDataset(source, [own[i] for i in keep], want, augment, self.seed, self.crops)

    def collate(self, inputs: Inputs) -> Collate:
        """See `collate_images`. UserError without an image input."""
        self._image(inputs)
        return collate_images

    def _image(self, inputs: Inputs) -> ImageInput:
        if inputs.image is None:
            raise UserError(f"task {self.name} is vision and needs a model that takes images, and this one does not")
        if inputs.image.size[0] not in (1, 3):
            raise UserError(
                f"task {self.name} needs a model of 1 or 3 channels, and this one has {inputs.image.size[0]}"
            )
        return inputs.image
