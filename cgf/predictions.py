"""Predictions on a test set, kept beside their result: small, compressed, and known again by their hash."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cgf.errors import UserError
from cgf.results import write_bytes
from cgf.target import content_of
from cgf.types import Json, JsonValue

FOLDER = "predictions"  # beside the rows
MOST = 2**26  # bytes of a file, and of what it holds when unpacked: tens of millions of samples
Classes = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Predictions:
    """Class numbers by test sample, in the order of the test set, each (N,) and unsigned.

    labels   the truth
    this     of the softmax as it was trained
    against  of the run that it is compared with
    planned  of the softmax with its plan's polynomial; None where it has no plan
    """

    labels: Classes
    this: Classes
    against: Classes
    planned: Classes | None = None

    def right(self, name: str) -> NDArray[np.bool_]:
        """Whether each sample is right by 'this' or 'against', (N,)."""
        return {"this": self.this, "against": self.against}[name] == self.labels


@dataclass(frozen=True)
class EncryptedPredictions:
    """Class numbers of an evaluation under CKKS, a sample each, in the order of their indices; each (N,) and unsigned.

    index      of the sample in its split
    labels     the truth
    encrypted  of the evaluation under CKKS; no class where the sample was ruined
    plain      of the same model in the clear, with the same polynomials
    exact      of the same model in the clear, as it was trained
    ruined     1 where weights came back as no finite numbers, else 0: a wrong answer
    """

    index: Classes
    labels: Classes
    encrypted: Classes
    plain: Classes
    exact: Classes
    ruined: Classes

    @classmethod
    def of(cls, samples: Iterable[Json]) -> EncryptedPredictions:
        """The predictions of finished samples, each with ``index``, ``label``, ``prediction``, ``plain``, ``exact``;
        prediction None where a sample was ruined."""
        rows = sorted(samples, key=lambda row: row["index"])
        ruined = [row["prediction"] is None for row in rows]
        return cls(
            packed("indices", [row["index"] for row in rows]),
            packed("labels", [row["label"] for row in rows]),
            packed("predictions", [0 if lost else row["prediction"] for row, lost in zip(rows, ruined, strict=True)]),
            packed("predictions in the clear", [row["plain"] for row in rows]),
            packed("predictions as trained", [row["exact"] for row in rows]),
            packed("ruined samples", [int(lost) for lost in ruined]),
        )

    def right(self) -> NDArray[np.bool_]:
        """Whether each sample is right under CKKS, (N,)."""
        return (self.encrypted == self.labels) & (self.ruined == 0)


def packed(name: str, classes: Sequence[int]) -> Classes:
    """Class numbers in the fewest bytes that hold them; UserError for a negative one, or none at all."""
    values = np.asarray(classes)
    if values.ndim != 1 or not values.size or values.dtype.kind not in "iu" or values.min() < 0:
        raise UserError(f"{name} must be class numbers of at least 0, one a sample")
    kept: Classes = values.astype(np.min_scalar_type(int(values.max())))
    return kept


def name_of(row: str) -> str:
    """The file of a row's predictions, relative to the folder of rows; row: the row's file without its suffix."""
    return f"{FOLDER}/{row}.npz"


def write(folder: Path, row: str, predictions: Predictions | EncryptedPredictions) -> dict[str, str]:
    """Writes the predictions of a row below the folder of rows; returns what the row says of them: path and sha256."""
    arrays = {key: value for key, value in vars(predictions).items() if value is not None}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_bytes(folder / name_of(row), buffer.getvalue())
    return {"path": name_of(row), "sha256": hashlib.sha256(buffer.getvalue()).hexdigest()}


def read(folder: Path, row: str, told: JsonValue) -> Predictions:
    """The predictions that a row of training tells of.

    UserError where they are missing, changed since the row was written, of another row, or not one class a sample.
    """
    return Predictions(**_arrays(folder, row, told, {"labels", "this", "against"}, {"planned"}))


def read_encrypted(folder: Path, row: str, told: JsonValue) -> EncryptedPredictions:
    """The predictions that a result under CKKS tells of; row: the result's file without its suffix.

    UserError where they are missing, changed since the result was written, of another one, or not one class a sample.
    """
    return EncryptedPredictions(**_arrays(folder, row, told, {f.name for f in fields(EncryptedPredictions)}, set()))


def _arrays(folder: Path, row: str, told: JsonValue, needed: set[str], more: set[str]) -> dict[str, Classes]:
    """The arrays of a file by name: those needed, and of ``more`` those that are there."""
    if not isinstance(told, dict) or told.get("path") != name_of(row):
        raise UserError(f"row {row} must name its predictions as {name_of(row)} with a sha256, and says {told!r}")
    path = folder / name_of(row)
    if not path.is_file():
        raise UserError(f"row {row} needs {path}, and there is no such file")
    content = content_of(path, MOST)
    if hashlib.sha256(content).hexdigest() != told.get("sha256"):
        raise UserError(f"{path} was changed after its row was written: take both as they were, or make the row anew")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            if (held := sum(array.file_size for array in packed.infolist())) > MOST:
                raise UserError(f"{path} may hold {MOST} bytes when unpacked, and holds {held}")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except UserError:
        raise
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    if not needed <= set(arrays) <= needed | more:
        raise UserError(f"{path} must hold {', '.join(sorted(needed))}, and holds {', '.join(sorted(arrays))}")
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) != 1 or any(a.ndim != 1 or a.dtype.kind != "u" or not a.size for a in arrays.values()):
        raise UserError(f"{path} must hold one class number a sample in each of its arrays")
    return arrays
