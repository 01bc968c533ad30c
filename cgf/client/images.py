"""A client's images in the clear: read from files, and prepared as the model was trained on them.

How is the bundle's ``prepare``: {'image': facts of cgf.data.task.ImageInput, 'crop': bool}. Arrays that have the
model's size already need numpy alone; whatever is to be decoded or resized goes the way of training data, by torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from cgf.checks import one_of, positive
from cgf.errors import UserError
from cgf.named import arguments
from cgf.target import check_regular, content_of
from cgf.types import Json

if TYPE_CHECKING:
    from PIL.Image import Image

FILES, ARRAYS = (".bmp", ".jpeg", ".jpg", ".png", ".webp"), (".npy",)
INTERPOLATIONS = ("nearest", "nearest-exact", "bilinear", "bicubic", "box", "hamming", "lanczos")


@dataclass(frozen=True)
class Preparation:
    """Size (C, H, W) of the model's images, mean and deviation of channels in [0, 1], and how others are resized.

    crop, stretch: the border is cut off, and the shape given up, as in the task's evaluations, see cgf.data.images.fit.
    """

    size: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    crop_pct: float
    crop: bool
    stretch: bool = False

    def __post_init__(self) -> None:
        one_of("interpolation", self.interpolation, INTERPOLATIONS)
        size, mean, std = self.size, self.mean, self.std
        if len(size) != 3 or min(size) < 1 or len(mean) not in (1, size[0]) or len(std) != len(mean) or min(std) <= 0:
            raise UserError(
                f"an image needs a size (C, H, W), and means and deviations of its channels, and has {size}"
            )
        positive("crop_pct", self.crop_pct)

    @classmethod
    def of(cls, prepare: Json, where: str) -> Preparation:
        """Of a bundle's ``prepare``. UserError, with the file's name, for what is none."""
        facts = arguments(_facts, prepare, where)
        image: Preparation = _preparation(**arguments(_preparation, facts["image"], where))
        return replace(image, crop=facts["crop"])

    def prepared(self, path: Path) -> Iterator[np.ndarray]:
        """Each image (C, H, W) in float32 as the model takes it: those of a folder by name, a file's, or an array's.

        UserError for a file that holds none.
        """
        if path.suffix in ARRAYS and not path.is_dir():
            array = read_array(path)
            if array.shape[1:] == self.size and (not self.crop or self.crop_pct == 1):
                mean, std = (np.asarray(each, np.float32)[:, None, None] for each in (self.mean, self.std))
                yield from (array - mean) / std
            else:
                yield from map(self._fitted, array)
        else:
            yield from map(self._fitted, _decoded(path))

    def _fitted(self, image: Image) -> np.ndarray:
        """The way of training data."""
        import torch

        from cgf.data.images import fit, set_channels
        from cgf.data.task import ImageInput

        channels, height, width = self.size
        want = ImageInput(
            (channels, height, width), self.mean, self.std, self.interpolation, self.crop_pct, self.stretch
        )
        image = torch.from_numpy(image) if isinstance(image, np.ndarray) else image
        fitted: np.ndarray = fit(set_channels(image, channels), want, self.crop).numpy()
        return fitted


def read_array(path: Path) -> np.ndarray:
    """Images (N, C, H, W) in float32, in [0, 1], of 1 or 3 channels. UserError for a file of anything else."""
    try:
        check_regular(path)
        array = np.load(
            path, mmap_mode="r", allow_pickle=False
        )  # a header that says more than there is takes no memory
    except UserError:
        raise
    except (OSError, ValueError, EOFError, OverflowError, SyntaxError, BadZipFile) as error:
        raise UserError(f"{path} needs to hold images as numbers, and reading it failed: {error}") from None
    if not isinstance(array, np.ndarray) or array.ndim != 4 or not array.size or array.shape[1] not in (1, 3):
        raise UserError(
            f"{path} needs images (N, C, H, W) of 1 or 3 channels, and holds {getattr(array, 'shape', '?')}"
        )
    if array.dtype == np.uint8:
        array = array / np.float32(255)
    if not np.issubdtype(array.dtype, np.floating) or not ((array >= 0) & (array <= 1)).all():
        raise UserError(f"{path} needs pixels in [0, 1], or of 8 bits, and holds others ({array.dtype})")
    return np.ascontiguousarray(array, dtype=np.float32)


def _decoded(path: Path) -> Iterator[Image]:
    if path.is_dir():
        names = sorted(file for file in path.iterdir() if file.suffix.lower() in FILES)
        # an image that is left out would shift the numbers of those behind it, by which answers are known
        if others := sorted(file.name for file in path.iterdir() if _is_image(file) and file not in names):
            raise UserError(f"{path} must hold images that are read ({', '.join(FILES)}), and holds {others[0]} too")
        if not names:
            raise UserError(f"{path} must hold images ({', '.join(FILES)}), and holds none")
        yield from map(_image, names)
    elif path.suffix.lower() in FILES:
        yield _image(path)
    else:
        raise UserError(f"images are read from a folder, {', '.join(FILES + ARRAYS)}, and {path} was given")


def _is_image(path: Path) -> bool:
    """Whether a file is named as one of any format that Pillow knows."""
    from PIL import Image

    return path.suffix.lower() in Image.registered_extensions()


def _image(path: Path) -> Image:
    from cgf.data.image_files import decoded

    return decoded(partial(content_of, path), str(path))


def _facts(image: Json, crop: bool) -> None:
    """The types of 'prepare' for images."""


def _preparation(
    *, size: list[int], mean: list[float], std: list[float], interpolation: str, crop_pct: float, stretch: bool = False
) -> Preparation:
    """Of plain values, those of ``prepare['image']``; nothing is cropped."""
    return Preparation(tuple(size), tuple(mean), tuple(std), interpolation, crop_pct, crop=False, stretch=stretch)
