"""A client's samples, in the clear: images or texts from files, as features of a network.

How raw samples become features is the bundle's ``prepare``: {'image': facts of cgf.data.task.ImageInput, 'crop': bool}
or {'text': most tokens}, with a tokenizer.json beside it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cgf.bundle.sides import TOKENIZER, ClientBundle
from cgf.checks import one_of, positive, whole
from cgf.errors import UserError
from cgf.named import arguments
from cgf.network.inputs import Patches

IMAGES = (".bmp", ".jpeg", ".jpg", ".png", ".webp")
ARRAYS, TEXTS = (".npy",), (".txt",)


@dataclass(frozen=True)
class Batch:
    """Samples that one set of ciphertexts holds: which rows of the client's they are, and their features."""

    rows: tuple[int, ...]
    features: np.ndarray  # (samples, tokens, features)


def batches_of(bundle: ClientBundle, path: Path) -> Iterator[Batch]:
    """The samples of a file or folder, of one number of tokens each, as many as a set of ciphertexts holds.

    Images: a folder of image files (by name), one such file, or a .npy of (N, C, H, W) in [0, 1] or 8-bit. Texts: a
    .txt, a line a text. UserError for whatever is not that, and for texts of a number of tokens that has no circuit.
    """
    given = _images(bundle, path) if isinstance(bundle.inputs, Patches) else _ids(bundle, path)
    by_tokens: dict[int, list[int]] = {}
    features = [bundle.inputs.prepared(one[None])[0] for one in given]
    for row, one in enumerate(features):
        try:
            bundle.agreement.of_tokens(len(one))
        except UserError as error:
            raise UserError(f"{path}, sample {row + 1}: {error}") from None
        by_tokens.setdefault(len(one), []).append(row)
    for tokens, rows in sorted(by_tokens.items()):
        most = bundle.agreement.of_tokens(tokens).samples
        for start in range(0, len(rows), most):
            own = rows[start : start + most]
            yield Batch(tuple(own), np.stack([features[row] for row in own]))


def _images(bundle: ClientBundle, path: Path) -> list[np.ndarray]:
    from cgf.data.images import fit, set_channels

    where = f"'prepare' of {bundle.folder / 'bundle.json'}"
    facts = arguments(_image_facts, bundle.prepare, where)
    want = _image_input(**arguments(_image_input, facts["image"], where))
    prepared = [fit(set_channels(one, want.size[0]), want, facts["crop"]).numpy() for one in _raw_images(path)]
    if not all(np.isfinite(one).all() for one in prepared):
        raise UserError(f"{path} must hold finite pixels, and does not")
    return prepared


def _raw_images(path: Path) -> Iterator[Any]:
    if path.is_dir():
        names = sorted(file for file in path.iterdir() if file.suffix.lower() in IMAGES)
        if not names:
            raise UserError(f"{path} must hold images ({', '.join(IMAGES)}), and holds none")
        for name in names:
            yield _image(name)
    elif path.suffix.lower() in IMAGES:
        yield _image(path)
    elif path.suffix in ARRAYS:
        yield from _array(path)
    else:
        raise UserError(f"images are read from a folder, {', '.join(IMAGES + ARRAYS)}, and {path} was given")


def _image(path: Path) -> Any:
    from PIL import Image, UnidentifiedImageError

    from cgf.data.images import shallow

    try:
        image = Image.open(io.BytesIO(path.read_bytes()))
        image.load()
    except (OSError, UnidentifiedImageError) as error:
        raise UserError(f"{path} needs to be an image, and reading it failed: {error}") from None
    return shallow(image, str(path))


def _array(path: Path) -> Iterator[Any]:
    import torch

    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path} needs to hold images as numbers, and reading it failed: {error}") from None
    if not isinstance(array, np.ndarray) or array.ndim != 4 or not array.size or array.shape[1] not in (1, 3):
        raise UserError(
            f"{path} needs images (N, C, H, W) of 1 or 3 channels, and holds {getattr(array, 'shape', '?')}"
        )
    if array.dtype == np.uint8:
        array = array / np.float32(255)
    if not np.issubdtype(array.dtype, np.floating) or not ((array >= 0) & (array <= 1)).all():
        raise UserError(f"{path} needs pixels in [0, 1], or of 8 bits, and holds others ({array.dtype})")
    yield from torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def _ids(bundle: ClientBundle, path: Path) -> list[np.ndarray]:
    """Token ids of each line of a text file."""
    from tokenizers import Tokenizer

    facts = arguments(_text_facts, bundle.prepare, f"'prepare' of {bundle.folder / 'bundle.json'}")
    if path.suffix not in TEXTS:
        raise UserError(f"texts are read from {', '.join(TEXTS)}, a line a text, and {path} was given")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UserError(f"{path} needs to be a text file in UTF-8, and reading it failed: {error}") from None
    if not lines:
        raise UserError(f"{path} must hold a text a line, and is empty")
    try:
        tokenizer = Tokenizer.from_file(str(bundle.folder / TOKENIZER))
    except Exception as error:  # the library raises Exception itself
        raise UserError(f"{bundle.folder / TOKENIZER} must describe a tokenizer, and does not: {error}") from None
    tokenizer.enable_truncation(whole("text", facts["text"], 1))
    tokenizer.no_padding()
    return [np.asarray(encoding.ids, dtype=np.int64) for encoding in tokenizer.encode_batch(lines)]


def _image_facts(image: dict[str, Any], crop: bool) -> None:
    """The types of 'prepare' for images."""


def _image_input(size: list[int], mean: list[float], std: list[float], interpolation: str, crop_pct: float) -> Any:
    """'image' within it, as an ImageInput. UserError for values that are none."""
    from torchvision.transforms import InterpolationMode

    from cgf.data.task import ImageInput

    one_of("interpolation", interpolation, [mode.value for mode in InterpolationMode])
    if len(size) != 3 or min(size) < 1 or len(mean) not in (1, size[0]) or len(std) != len(mean) or min(std) <= 0:
        raise UserError(f"an image needs a size (C, H, W), and means and deviations of its channels, and has {size}")
    positive("crop_pct", crop_pct)
    return ImageInput((size[0], size[1], size[2]), tuple(mean), tuple(std), interpolation, crop_pct)


def _text_facts(text: int) -> None:
    """The types of 'prepare' for texts."""
