"""Predictions of a row on the test set, kept beside it: small, compressed, and known again by their hash."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cgf.errors import UserError
from cgf.results import write_bytes
from cgf.types import JsonValue

FOLDER = "predictions"  # beside the rows
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


def write(folder: Path, row: str, predictions: Predictions) -> dict[str, str]:
    """Writes the predictions of a row below the folder of rows; returns what the row says of them: path and sha256."""
    arrays = {key: value for key, value in vars(predictions).items() if value is not None}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_bytes(folder / name_of(row), buffer.getvalue())
    return {"path": name_of(row), "sha256": hashlib.sha256(buffer.getvalue()).hexdigest()}


def read(folder: Path, row: str, told: JsonValue) -> Predictions:
    """The predictions that a row tells of.

    UserError where they are missing, changed since the row was written, of another row, or not one class a sample.
    """
    if not isinstance(told, dict) or told.get("path") != name_of(row):
        raise UserError(f"row {row} must name its predictions as {name_of(row)} with a sha256, and says {told!r}")
    path = folder / name_of(row)
    if not path.is_file():
        raise UserError(f"row {row} needs {path}, and there is no such file")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != told.get("sha256"):
        raise UserError(f"{path} was changed after its row was written: take both as they were, or make the row anew")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    return _checked(path, arrays)


def _checked(path: Path, arrays: dict[str, np.ndarray]) -> Predictions:
    names = {"labels", "this", "against"}
    if not names <= set(arrays) <= names | {"planned"}:
        raise UserError(f"{path} must hold {', '.join(sorted(names))}, and holds {', '.join(sorted(arrays))}")
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) != 1 or any(a.ndim != 1 or a.dtype.kind != "u" or not a.size for a in arrays.values()):
        raise UserError(f"{path} must hold one class number a sample in each of its arrays")
    return Predictions(**arrays)
