"""A client's samples, in the clear: images or texts from files, as features of a network.

How raw samples become features is the bundle's ``prepare``: cgf.client.images says it of images; of texts it is
{'text': most tokens}, with a tokenizer.json beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cgf.bundle.sides import TOKENIZER, ClientBundle
from cgf.checks import whole
from cgf.client.images import Preparation
from cgf.data.files import read_text
from cgf.errors import UserError
from cgf.named import arguments
from cgf.network.inputs import Patches

TEXTS = (".txt",)


@dataclass(frozen=True)
class Batch:
    """Samples that one set of ciphertexts holds: which of the client's they are, and their features."""

    indices: tuple[int, ...]
    features: np.ndarray  # (samples, tokens, features)


def batches_of(bundle: ClientBundle, path: Path) -> Iterator[Batch]:
    """The samples of a file or folder, of one number of tokens each, as many as a set of ciphertexts holds.

    Images: a folder of image files (by name), one such file, or a .npy of (N, C, H, W) in [0, 1] or 8-bit. Texts: a
    .txt, a line a text. UserError for whatever is not that, and for texts of a number of tokens that has no circuit.
    """
    given = _images(bundle, path) if isinstance(bundle.inputs, Patches) else _ids(bundle, path)
    by_tokens: dict[int, list[int]] = {}
    features = [bundle.inputs.prepared(one[None])[0] for one in given]
    for index, one in enumerate(features):
        try:
            bundle.agreement.of_tokens(len(one))
        except UserError as error:
            raise UserError(f"{path}, sample {index + 1}: {error}") from None
        by_tokens.setdefault(len(one), []).append(index)
    for tokens, indices in sorted(by_tokens.items()):
        most = bundle.agreement.of_tokens(tokens).samples
        for start in range(0, len(indices), most):
            own = indices[start : start + most]
            yield Batch(tuple(own), np.stack([features[index] for index in own]))


def _images(bundle: ClientBundle, path: Path) -> list[np.ndarray]:
    preparation = Preparation.of(bundle.prepare, f"'prepare' of {bundle.folder / 'bundle.json'}")
    return list(preparation.prepared(path))


def _ids(bundle: ClientBundle, path: Path) -> list[np.ndarray]:
    """Token ids of each line of a text file."""
    from tokenizers import Tokenizer

    facts = arguments(_text_facts, bundle.prepare, f"'prepare' of {bundle.folder / 'bundle.json'}")
    if path.suffix not in TEXTS:
        raise UserError(f"texts are read from {', '.join(TEXTS)}, a line a text, and {path} was given")
    text = read_text(path).replace("\r\n", "\n").replace("\r", "\n")  # as texts to train on are read
    # and at no other separator, without the blanks around a text
    lines = [line.strip() for line in text.removesuffix("\n").split("\n")]
    if lines == [""]:
        raise UserError(f"{path} must hold a text a line, and is empty")
    if "" in lines:
        raise UserError(f"{path} must hold a text a line, and line {lines.index('') + 1} is empty")
    try:
        tokenizer = Tokenizer.from_file(str(bundle.folder / TOKENIZER))
    except Exception as error:  # the library raises Exception itself
        raise UserError(f"{bundle.folder / TOKENIZER} must describe a tokenizer, and does not: {error}") from None
    tokenizer.enable_truncation(whole("text", facts["text"], 1))
    tokenizer.no_padding()
    return [np.asarray(encoding.ids, dtype=np.int64) for encoding in tokenizer.encode_batch(lines)]


def _text_facts(text: int) -> None:
    """The types of 'prepare' for texts."""
