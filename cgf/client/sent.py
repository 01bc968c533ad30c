"""What a client has encrypted, for itself alone: which uploads belong together, and how many samples they hold.

A line for each run of ``encrypt`` in a file beside the keys, which goes to nobody. A result names the upload that it
was computed of, so that one of other samples, and one that is missing, can be told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cgf.errors import UserError
from cgf.header import UPLOAD
from cgf.named import arguments
from cgf.parcel import Parcel
from cgf.results import append_line, read_lines

FILE = "encrypted.jsonl"


def note_sent(keys: Path, uploads: Sequence[Path], samples: int) -> None:
    """Adds a line for uploads that were made together."""
    digests = []
    for path in uploads:
        with Parcel(path, UPLOAD) as upload:
            digests.append(upload.header.digest())
    append_line(keys / FILE, {"uploads": digests, "samples": samples})


def samples_sent(keys: Path, of: Mapping[Path, str]) -> int | None:
    """How many samples were encrypted together with those of the results; None where the keys have no such file.

    of: the digest of the upload that each result was computed of. UserError for a result of an upload that was not made
    with these keys beside this file, and for results of two runs of ``encrypt``.
    """
    path = keys / FILE
    if not path.exists():
        return None
    runs = [arguments(_line, line, str(path)) for line in read_lines(path)]
    met: dict[int, Path] = {}
    for result, digest in of.items():
        number = next((i for i, run in enumerate(runs) if digest in run["uploads"]), None)
        if number is None:
            raise UserError(f"{result} must be of an upload that {path} has, and is of none of them")
        met.setdefault(number, result)
    if len(met) > 1:
        first, second, *_ = met.values()
        raise UserError(
            f"{first} and {second} are of two runs of encrypt, and number their samples alike: decrypt them apart"
        )
    samples: int = runs[next(iter(met))]["samples"]
    return samples


def _line(uploads: list[str], samples: int) -> None:
    """The types of a line."""
