"""Images in, model inputs out: where images come from, augmentation, resizing.

An image is a PIL image or a float tensor (C, H, W) in [0, 1] until it is normalised; torchvision's functions
take both, and PIL's own resizing is what pretrained models were evaluated with.
"""

import hashlib
import io
import math
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from PIL import Image
from torch.nn.functional import affine_grid, grid_sample
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional as F

from cgf.data.task import ImageInput
from cgf.errors import UserError

SUFFIXES = {".bmp", ".jpeg", ".jpg", ".png", ".webp"}
DEEP = ("I", "F")  # modes of more than 8 bits a channel: PIL cuts them off at 255 without a word
MOST_PIXELS = 2**26  # of an image before it is resized
FULLEST = 100  # an archive of images holds at most so many times its own size
# what PIL and zipfile raise for damaged files, beside their own errors
BROKEN = (OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, struct.error, zlib.error)
BROKEN_IMAGE = (*BROKEN, Image.DecompressionBombError, MemoryError)
BROKEN_ZIP = (*BROKEN, zipfile.BadZipFile, NotImplementedError, RuntimeError)  # the last: it is encrypted
Augment = Callable[[Any, ImageInput], Any]


class Folder:
    """Image files below a folder, named by their path in it: <top>/<class>/<file>."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self, top: str) -> list[str]:
        """Names of the image files in `top/<class>/`, sorted."""
        folders = sorted(path for path in (self.path / top).glob("*") if path.is_dir())
        names = (f"{top}/{folder.name}/{file.name}" for folder in folders for file in folder.iterdir())
        return sorted(name for name in names if PurePosixPath(name).suffix.lower() in SUFFIXES)

    def classes(self, top: str) -> list[str]:
        """The class folders of `top`, sorted; an empty list where there is no such folder."""
        return sorted(path.name for path in (self.path / top).glob("*") if path.is_dir())

    def places(self, top: str) -> set[Path]:
        """Where `top` and its class folders really are, links followed."""
        return {(self.path / top).resolve(), *((self.path / top / name).resolve() for name in self.classes(top))}

    def read(self, name: str) -> bytes:
        """The bytes of one file."""
        return (self.path / name).read_bytes()

    def revision(self, top: str) -> str:
        """sha256 over names and sizes: hashing every byte of ImageNet would take longer than an epoch."""
        digest = hashlib.sha256()
        for name in self.names(top):
            digest.update(f"{name} {(self.path / name).stat().st_size}\n".encode())
        return digest.hexdigest()


class Archive(Folder):
    """The same layout inside a zip archive, read into memory whole. UserError if it is no such archive."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            with zipfile.ZipFile(path) as archive:
                self._check_size(archive)
                self.content = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
        except UserError:
            raise
        except BROKEN_ZIP as error:
            raise UserError(f"{path} needs to be a zip archive, and reading it failed: {error}") from error

    def _check_size(self, archive: zipfile.ZipFile) -> None:
        packed, whole = self.path.stat().st_size, sum(entry.file_size for entry in archive.infolist())
        if whole > FULLEST * packed:  # images are packed already
            raise UserError(f"{self.path} has {packed} bytes and may hold {FULLEST * packed}, and says {whole}")

    def names(self, top: str) -> list[str]:
        """See Folder."""
        paths = [PurePosixPath(name) for name in self.content]
        inside = [path for path in paths if len(path.parts) == 3 and path.parts[0] == top]
        return sorted(str(path) for path in inside if path.suffix.lower() in SUFFIXES)

    def classes(self, top: str) -> list[str]:
        """See Folder."""
        return sorted({name.split("/")[1] for name in self.names(top)})

    def places(self, top: str) -> set[Path]:
        """See Folder."""
        return {Path(os.path.normpath(top))}

    def read(self, name: str) -> bytes:
        """See Folder."""
        return self.content[name]

    def revision(self, top: str) -> str:
        """sha256 of the archive."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def check_places(task: str, source: Folder, folders: Mapping[str, str]) -> None:
    """UserError where two splits share a folder of images, or one's lies inside another's; links are followed."""
    places = {split: source.places(folder) for split, folder in folders.items()}
    for one, other in permutations(places, 2):
        if any({place, *place.parents} & places[other] for place in places[one]):
            raise UserError(
                f"task {task} needs a source of its own for each split, and {source.path}/{folders[one]} for {one} "
                f"has images of {source.path}/{folders[other]} for {other}"
            )


class EncodedImages:
    """PIL images, decoded when asked for. UserError for a file that is no image."""

    def __init__(self, source: Folder, names: list[str]) -> None:
        self.source = source
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Image.Image:
        name = self.names[index]
        return decoded(lambda: self.source.read(name), f"{self.source.path}: {name}")


class HubImages:
    """The image column of a hub dataset, decoded when asked for."""

    def __init__(self, data: Any, column: str) -> None:
        self.data = data
        self.column = column

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Image.Image:
        where = f"image {index} of column '{self.column}'"
        try:
            image = self.data[index][self.column]
        except BROKEN_IMAGE as error:
            raise UserError(f"{where} needs to be an image, and reading it failed: {_first_line(error)}") from error
        if image is None:
            raise UserError(f"{where} needs to be an image, and there is none")
        return shallow(image, where)


def decoded(read: Callable[[], bytes], where: str) -> Image.Image:
    """The image that the bytes hold; UserError for none, for one of too many pixels, and of more than 8 bits a channel.

    The pixels are counted before they take memory: a file of kilobytes can say that it has thousands of millions.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # PIL's own of pixels and of what a damaged file lacks: one sentence is said
            image: Image.Image = Image.open(io.BytesIO(read()))
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise UserError(f"{where} may have {MOST_PIXELS} pixels, and has {width} x {height}")
            image.load()
    except UserError:
        raise
    except BROKEN_IMAGE as error:
        raise UserError(f"{where} needs to be an image, and reading it failed: {_first_line(error)}") from error
    return shallow(image, where)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def shallow(image: Image.Image, where: str) -> Image.Image:
    """The image; UserError for one of more than 8 bits a channel."""
    if image.mode.split(";")[0] in DEEP:
        raise UserError(f"{where} needs 8 bits a channel, and is of PIL's mode {image.mode}")
    return image


@contextmanager
def seeded(*parts: int) -> Iterator[None]:
    """Torch's CPU generator seeded from the parts inside, and as before afterwards."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed: it would also reset the CUDA generators, which dropout draws from.
        torch.default_generator.manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        yield


def set_channels(image: Any, channels: int) -> Any:
    """The image in grey (1) or colour (3)."""
    if isinstance(image, Image.Image):
        return image.convert("L" if channels == 1 else "RGB")
    if image.shape[0] == channels:
        return image
    return image.expand(3, -1, -1) if channels == 3 else F.rgb_to_grayscale(image)


def resized_crop(image: Any, want: ImageInput) -> Any:
    """A random part of 8 to 100 % of the area, at the model's size, and a flip; ImageNet's usual choice."""
    size, mode = list(want.size[1:]), InterpolationMode(want.interpolation)
    return v2.RandomHorizontalFlip()(v2.RandomResizedCrop(size, interpolation=mode, antialias=True)(image))


def pad_crop(image: Any, want: ImageInput) -> Any:
    """A random crop after padding by an eighth of the side (4 of CIFAR's 32 pixels), and a flip."""
    height, width = F.get_size(image)
    crop = v2.RandomCrop([height, width], padding=max(1, min(height, width) // 8))
    return v2.RandomHorizontalFlip()(crop(image))


def small_affine(image: Any, want: ImageInput) -> Any:
    """Up to 15 degrees, 15 % of scale and a sixth of the side; no flip, since digits have a handedness.

    Bicubic and by parts of a pixel, because whole pixels are coarse on an image of 8 x 8. Three images in ten
    stay as they are: a model trained on moved, and so blurred, images alone reads sharp ones badly.
    """
    if torch.rand(()) < 0.3:
        return image
    angle, scale, right, down = (torch.rand(4) - 0.5).tolist()
    turn, size = math.radians(30 * angle), 1 + 0.3 * scale
    rows = [
        [math.cos(turn) / size, -math.sin(turn) / size, 0.35 * right],
        [math.sin(turn) / size, math.cos(turn) / size, 0.35 * down],
    ]
    grid = affine_grid(torch.tensor([rows]), [1, *image.shape], align_corners=False)
    return grid_sample(image[None], grid, mode="bicubic", align_corners=False)[0]


AUGMENTS: dict[str, Augment] = {"resized_crop": resized_crop, "pad_crop": pad_crop, "small_affine": small_affine}


def check_augment(name: str | None) -> None:
    """UserError unless it names an augmentation, or none."""
    if name is not None and name not in AUGMENTS:
        raise UserError(f"task.augment needs to be one of {', '.join(AUGMENTS)}, null, and it is {name!r}")


def fit(image: Any, want: ImageInput, crop: bool) -> torch.Tensor:
    """The model's input (C, H, W) float32: resized, its centre cropped, normalised.

    crop: resize to size / crop_pct, keeping the shape unless the model stretches, and crop the centre; else stretch to
    the size.
    An image that already has the size is left as it is where crop is False or crop_pct is 1.
    """
    height, width = want.size[1:]
    mode = InterpolationMode(want.interpolation)
    if not crop or (want.crop_pct >= 1 and height != width):
        goal = [height, width]
    elif height == width and not want.stretch:
        goal = [int(height / want.crop_pct)]
    else:
        goal = [int(height / want.crop_pct), int(width / want.crop_pct)]
    if F.get_size(image) != [height, width] or goal not in ([height], [height, width]):
        image = F.center_crop(F.resize(image, goal, interpolation=mode, antialias=True), [height, width])
    if isinstance(image, Image.Image):
        image = F.to_dtype(F.pil_to_tensor(image), torch.float32, scale=True)
    return F.normalize(image, list(want.mean), list(want.std))
