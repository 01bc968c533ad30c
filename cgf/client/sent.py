"""What a client has encrypted, for itself alone: which uploads belong together, and how many samples they hold.

A line for each run of ``encrypt`` in a file beside the keys, which goes to nobody. A result names the upload that it
was computed of, so that one of other samples, and one that is missing, can be told. What else it says of its samples is
the server's word, and is held against the line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cgf.bundle.traffic import SampleSet
from cgf.errors import UserError
from cgf.header import UPLOAD
from cgf.named import arguments
from cgf.parcel import Parcel
from cgf.results import append_line, read_lines
from cgf.types import Json

FILE = "encrypted.jsonl"


def note_sent(keys: Path, uploads: Sequence[Path], samples: int) -> None:
    """Adds a line for uploads that were made together: the digest, tokens and samples' numbers of each."""
    line: Json = {"uploads": [], "tokens": [], "indices": [], "samples": samples}
    for path in uploads:
        with Parcel(path, UPLOAD) as upload:
            line["uploads"].append(upload.header.digest())
            line["tokens"].append(upload.header.facts["tokens"])
            line["indices"].append(upload.header.facts["rows"])
    append_line(keys / FILE, line)


def samples_sent(keys: Path, of: Mapping[Path, tuple[str, SampleSet]]) -> int | None:
    """How many samples were encrypted together with those of the results; None where the keys have no such file.

    of: the digest of the upload that each result was computed of, and the samples that its header names, which a server
    writes. UserError for a result of an upload that was not made with these keys beside this file, for one that names
    other samples than its upload has, and for results of two runs of ``encrypt``.
    """
    path = keys / FILE
    if not path.exists():
        return None
    runs = [_checked(line, path) for line in read_lines(path)]
    met: dict[int, Path] = {}
    for result, (digest, told) in of.items():
        number = next((i for i, run in enumerate(runs) if digest in run["uploads"]), None)
        if number is None:
            raise UserError(f"{result} must be of an upload that {path} has, and is of none of them")
        _check_same(result, told, runs[number], runs[number]["uploads"].index(digest))
        met.setdefault(number, result)
    if len(met) > 1:
        first, second, *_ = met.values()
        raise UserError(
            f"{first} and {second} are of two runs of encrypt, and number their samples alike: decrypt them apart"
        )
    samples: int = runs[next(iter(met))]["samples"]
    return samples


def _check_same(result: Path, told: SampleSet, run: Json, place: int) -> None:
    """UserError for samples that are not those of the upload; of a line of before there is their count alone."""
    if "indices" in run:
        tokens = run["tokens"][place]
        if list(told.indices) != run["indices"][place]:
            raise UserError(f"{result} must name the samples of its upload in their order, and names others")
        if told.tokens != tokens:
            raise UserError(f"{result} must be of samples of {tokens} tokens, as its upload is, and says {told.tokens}")
    elif max(told.indices) >= run["samples"]:
        raise UserError(
            f"{result} must be of {run['samples']} samples at most, which were encrypted, and names sample "
            f"{max(told.indices) + 1}"
        )


def _checked(line: Json, path: Path) -> Json:
    """A line as it was written. UserError for another, and for one that has no tokens and samples for each upload."""
    before = isinstance(line, dict) and not {"tokens", "indices"} & line.keys()
    run = arguments(_line_of_before if before else _line, line, str(path))
    if not before and not len(run["uploads"]) == len(run["tokens"]) == len(run["indices"]):
        raise UserError(f"{path} must have tokens and indices for each of its uploads in a line, and has others")
    return run


def _line(uploads: list[str], samples: int, tokens: list[int], indices: list[list[int]]) -> None:
    """The types of a line."""


def _line_of_before(uploads: list[str], samples: int) -> None:
    """The types of a line of before tokens and indices were kept."""
