"""Tokenized texts, kept on disk where asked: the next run with the same tokenizer and texts reads them."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cgf.cache import keep
from cgf.data.pairs import parted
from cgf.errors import UserError
from cgf.types import Tokenizer

TYPES = "token_type_ids"  # as tokenizers and models of transformers call them


def tokenized(texts: Sequence[str], tokenizer: Tokenizer, max_length: int, cache: str | None = None) -> list[list[int]]:
    """Token ids of each text, truncated to max_length, special tokens included.

    A text that is a pair (``cgf.data.pairs``) is tokenised as one, the longer of its two truncated first.

    cache: folder in which they are kept, one file a tokenizer, length and list of texts; None: nowhere. Several
    runs may share it: a file appears whole, and one that is damaged is made anew. Tokenizers without a description
    of their own (slow ones) are not cached. UserError where the folder cannot be written.
    """
    key = None if cache is None else _key(texts, tokenizer, max_length)
    if cache is None or key is None:
        return _encode(texts, tokenizer, max_length)
    path = Path(cache).expanduser() / f"{key}.npz"
    ids = _read(path, len(texts))
    if ids is None:
        ids = _encode(texts, tokenizer, max_length)
        _write(path, ids)
    return ids


def token_types(texts: Sequence[str], tokenizer: Tokenizer, max_length: int) -> list[list[int]] | None:
    """Of each token 1 where it is of the second text of its pair, else 0, for the same tokens as ``tokenized``.

    None where the texts are no pairs, or the tokenizer has no types for its models.
    """
    first, second = parted(texts)
    if second is None or TYPES not in tokenizer.model_input_names:
        return None
    return tokenizer(first, second, truncation=True, max_length=max_length, padding=False)[TYPES]


def check_pairs(tokenizer: Tokenizer, types: bool) -> None:
    """UserError for a tokenizer that would run the two texts of a pair together.

    types: whether the model takes token types, by which it can tell them apart.
    """
    alone, paired = (tokenizer.num_special_tokens_to_add(pair=pair) for pair in (False, True))
    if paired <= alone and not (types and TYPES in tokenizer.model_input_names):
        raise UserError(
            f"{type(tokenizer).__name__} puts no token between the two texts of a pair, which would run together: give "
            "the model one text that holds both, with a separator of yours"
        )


def _encode(texts: Sequence[str], tokenizer: Tokenizer, max_length: int) -> list[list[int]]:
    first, second = parted(texts)
    pairs = () if second is None else (second,)
    return tokenizer(first, *pairs, truncation=True, max_length=max_length, padding=False)["input_ids"]


def _key(texts: Sequence[str], tokenizer: Tokenizer, max_length: int) -> str | None:
    """Of all that the ids depend on; None for a tokenizer that cannot be described."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    described = json.loads(backend.to_str())
    for state in ("truncation", "padding"):  # left over from the last call
        described.pop(state, None)
    digest = hashlib.sha256(json.dumps([described, tokenizer.truncation_side, max_length], sort_keys=True).encode())
    for text in texts:
        raw = text.encode()
        digest.update(b"%d:" % len(raw) + raw)
    return digest.hexdigest()


def _read(path: Path, count: int) -> list[list[int]] | None:
    try:
        with np.load(path, allow_pickle=False) as kept:
            ids, lengths = kept["ids"], kept["lengths"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    if len(lengths) != count or int(lengths.sum()) != len(ids):
        return None
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] if count else []


def _write(path: Path, ids: list[list[int]]) -> None:
    flat = np.fromiter((i for text in ids for i in text), dtype=np.int32)
    lengths = np.array([len(text) for text in ids], dtype=np.int64)
    keep(path, lambda part: np.savez_compressed(part, ids=flat, lengths=lengths), "task.cache")
