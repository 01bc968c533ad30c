"""Where images come from: folders, zip archives and columns of the hub, each image decoded when it is asked for."""

import hashlib
import io
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from itertools import permutations
from pathlib import Path, PurePosixPath

from PIL import Image, ImageOps, UnidentifiedImageError

from cgf.data.files import MOST_TEXT
from cgf.data.hub import stored_images
from cgf.errors import UserError
from cgf.target import content_of, file_hash
from cgf.types import HubDataset

SUFFIXES = {".bmp", ".jpeg", ".jpg", ".png", ".webp"}
# formats of Pillow's that are pixels and nothing else: it finds the format by content, whatever a file is called, and
# hands what is a program (EPS) to an interpreter
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
DEEP = ("I", "F")  # modes of more than 8 bits a channel: PIL cuts them off at 255 without a word
MOST_PIXELS = 2**26  # of an image before it is resized
LONGEST = 200  # times as long as wide: the shorter side is brought to the model's, and the longer one grows with it
TURNED, UPRIGHT = 0x112, 1  # EXIF's entry of how an image is turned, and its value for one that is not
FULLEST = 100  # an archive of images holds at most so many times its own size
# what PIL and zipfile raise for damaged files, beside their own errors
BROKEN = (OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, struct.error, zlib.error)
BROKEN_IMAGE = (*BROKEN, Image.DecompressionBombError, MemoryError)
BROKEN_ZIP = (*BROKEN, zipfile.BadZipFile, NotImplementedError, RuntimeError)  # the last: it is encrypted


class Folder:
    """Image files below a folder, named by their path in it: <top>/<class>/<file>."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self, top: str) -> list[str]:
        """Names of the image files in `top/<class>/`, sorted; hidden ones are left out."""
        folders = (self.path / top / name for name in self.classes(top))
        names = (f"{top}/{folder.name}/{file.name}" for folder in folders for file in folder.glob("[!.]*"))
        return sorted(name for name in names if PurePosixPath(name).suffix.lower() in SUFFIXES)

    def classes(self, top: str) -> list[str]:
        """The class folders of `top`, sorted, without hidden ones; an empty list where there is no such folder."""
        return sorted(path.name for path in (self.path / top).glob("[!.]*") if path.is_dir())

    def places(self, top: str) -> set[Path]:
        """Where `top` and its class folders really are, links followed."""
        return {(self.path / top).resolve(), *((self.path / top / name).resolve() for name in self.classes(top))}

    def read(self, name: str) -> bytes:
        """The bytes of one file."""
        return content_of(self.path / name, MOST_TEXT)

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
        inside = [path for path in inside if not any(part.startswith(".") for part in path.parts[1:])]
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
    """The image column of a hub dataset, decoded when asked for.

    as_stored: as files of folders are read; False: turned and mirrored as their EXIF data say, which `datasets` does.
    """

    def __init__(self, data: HubDataset, column: str, as_stored: bool) -> None:
        self.stored = stored_images(data, column)
        self.as_stored = as_stored
        self.column = column

    def __len__(self) -> int:
        return len(self.stored)

    def contents(self) -> list[str]:
        """Of each image the hash of its bytes as they are stored; UserError for one that is not there."""
        return [self._hash(i, value) for i, value in enumerate(self.stored[self.column])]

    def _hash(self, index: int, value: Mapping[str, object] | None) -> str:
        held = self._held(index, value)
        return file_hash(held, MOST_TEXT) if isinstance(held, Path) else hashlib.sha256(held).hexdigest()

    def _held(self, index: int, value: Mapping[str, object] | None) -> bytes | Path:
        """The bytes of an image, or the file that has them; UserError where there is neither."""
        held, path = (value or {}).get("bytes"), (value or {}).get("path")
        if isinstance(held, bytes):
            return held
        if not isinstance(path, str) or not Path(path).is_file():
            raise UserError(f"image {index} of column '{self.column}' needs to be an image, and there is none")
        return Path(path)

    def __getitem__(self, index: int) -> Image.Image:
        where = f"image {index} of column '{self.column}'"
        held = self._held(index, self.stored[index][self.column])
        image = decoded(lambda: content_of(held, MOST_TEXT) if isinstance(held, Path) else held, where)
        if self.as_stored:
            return image
        try:
            return ImageOps.exif_transpose(image)
        except BROKEN_IMAGE as error:
            raise UserError(f"{where} needs to be an image, and reading it failed: {_first_line(error)}") from error


def decoded(read: Callable[[], bytes], where: str) -> Image.Image:
    """The image that the bytes hold; UserError for none, for one of too many pixels, and what is not ``usable``.

    The pixels are counted before they take memory: a file of kilobytes can say that it has thousands of millions.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # PIL's own of pixels and of what a damaged file lacks: one sentence is said
            image: Image.Image = Image.open(io.BytesIO(read()), formats=FORMATS)
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise UserError(f"{where} may have {MOST_PIXELS} pixels, and has {width} x {height}")
            image.load()
    except UserError:
        raise
    except BROKEN_IMAGE as error:
        raise UserError(f"{where} needs to be an image, and reading it failed: {_first_line(error)}") from error
    return usable(image, where)


def is_turned(image: Image.Image) -> bool:
    """Whether it says by EXIF that it is to be turned or mirrored before it is looked at."""
    return bool(image.getexif().get(TURNED, UPRIGHT) != UPRIGHT)


def is_transparent(image: Image.Image) -> bool:
    """Whether it has transparency, which is left out where it is read: what alpha alone draws is gone."""
    return "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info


def is_so(path: Path, told: Callable[[Image.Image], bool]) -> bool:
    """What ``told`` says of an image file without decoding it; False of one that is none, which is said elsewhere."""
    try:
        with warnings.catch_warnings(), Image.open(path, formats=FORMATS) as image:
            warnings.simplefilter("ignore")
            return told(image)
    except BROKEN_IMAGE:
        return False


def _first_line(error: BaseException) -> str:
    if isinstance(error, UnidentifiedImageError):  # whose own words hold an address of memory
        return f"it is of no format that is read ({', '.join(FORMATS)})"
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def usable(image: Image.Image, where: str) -> Image.Image:
    """The image; UserError for one of more than 8 bits a channel, and for one that is a thin line."""
    if image.mode.split(";")[0] in DEEP:
        raise UserError(f"{where} needs 8 bits a channel, and is of PIL's mode {image.mode}")
    if max(image.size) > LONGEST * min(image.size):
        raise UserError(f"{where} may be {LONGEST} times as long as wide, and has {image.size[0]} x {image.size[1]}")
    return image
