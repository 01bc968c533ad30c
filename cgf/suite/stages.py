"""The stages of one softmax and of one whole attention, each a process: python -m cgf.suite STAGE WORKLOAD SIZE ...

Folders: ``own`` is the client's or the server's alone, ``shared`` holds what goes from one to the other. A client's
stage is given the client's folder, a server's the server's, and no stage both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile

from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.header import RESULT, UPLOAD
from cgf.memory import keep_freed_memory
from cgf.named import short
from cgf.parcel import Parcel, ParcelWriter
from cgf.results import read_json, write_json
from cgf.suite.halves import Opener, Receiver, Sender, nothing, read_to_the_end
from cgf.suite.sides import decryptor, encryptor, evaluator, make_keys, terms_of
from cgf.suite.workloads import Data, Workload, workload_of

INPUT, PREPARED, DECRYPTED, RESULTS = "input.npz", "prepared.npz", "decrypted.npy", "result.npy"


@dataclass(frozen=True)
class Place:
    """A stage's workload, engine and folders."""

    workload: Workload
    engine: str
    own: Path
    shared: Path

    @classmethod
    def of(cls, name: str, size: str, engine: str, own: Path, shared: Path) -> Place:
        """UserError for a workload, a size or an engine that is not known."""
        made = cls(workload_of(name, size), engine, own, shared)
        own.mkdir(parents=True, exist_ok=True, mode=0o700)
        shared.mkdir(parents=True, exist_ok=True)
        return made

    @property
    def upload(self) -> Path:
        """The client's ciphertexts."""
        return self.shared / "ciphertexts.upload"

    @property
    def download(self) -> Path:
        """The server's."""
        return self.shared / "ciphertexts.result"


def client_key_generation(place: Place) -> None:
    """Secret and public key into the client's folder, evaluation keys into the shared one."""
    make_keys(terms_of(place.engine, place.workload.keys), place.workload.keys, place.own, place.shared)


def server_preprocess_model(place: Place) -> None:
    """The circuit's dry run: levels, slots and operations, kept for the run to be held against. There is no weight."""
    keys, facts = place.workload.keys, {"levels": place.workload.levels, "ops": place.workload.ops}
    steps = {"rotations": sorted(keys.rotations), "conjugation": keys.conjugation}
    write_json(place.own / "plan.json", {**facts, "max_level": keys.max_level, "slots": keys.slots, **steps})


def client_preprocess_input(place: Place) -> None:
    """Checks shapes and numbers. Packing into slots belongs to the next stage, which does it block by block."""
    data, blank = _arrays(place.own / INPUT), place.workload.blank()
    shapes = {name: array.shape for name, array in data.items()}
    if shapes != {name: array.shape for name, array in blank.items()}:
        raise UserError(f"{place.own / INPUT} holds arrays of other names or shapes than the workload's: {shapes}")
    if not all(np.isfinite(array).all() for array in data.values()):
        raise UserError(f"{place.own / INPUT} holds numbers that are not finite")
    np.savez(place.own / PREPARED, **{name: array.astype(np.float64) for name, array in data.items()})  # type: ignore[arg-type]


def client_encode_encrypt_input(place: Place) -> None:
    """Packs, encodes and encrypts with the public key."""
    terms = terms_of(place.engine, place.workload.keys)
    encrypts, key = encryptor(terms, place.own)
    with ParcelWriter(place.upload, UPLOAD, terms, key) as upload:
        place.workload.run(Sender(terms, encrypts, upload), nothing(terms), _arrays(place.own / PREPARED))


def server_encrypted_compute(place: Place) -> None:
    """Computes on the upload with the evaluation keys. UserError where it took other levels than planned."""
    keep_freed_memory()
    terms, planned = terms_of(place.engine, place.workload.keys), _planned_levels(place.own / "plan.json")
    engine, key = evaluator(terms, place.workload.keys, place.shared)
    with Parcel(place.upload, UPLOAD) as upload:
        upload.check(terms, key)
        if not upload.header.items:
            raise UserError(f"{place.upload} must hold a ciphertext for each step of the run, and holds none")
        first = max(item.level or 0 for item in upload.header.items)
        with ParcelWriter(place.download, RESULT, terms, key) as download:
            receiver = Receiver(terms, engine, upload, download)
            place.workload.run(receiver, engine, place.workload.blank())
            read_to_the_end(receiver)
            taken = first - receiver.lowest
            if taken != planned:
                raise UserError(f"the run must take {planned} levels, as planned, and took {taken}")
    facts = {"levels": taken, "ciphertexts_in": len(upload.header.items), "ciphertexts_out": receiver.count}
    write_json(place.own / "computed.json", {**facts, "slots": terms.slots, "terms": asdict(terms)})


def client_decrypt_decode(place: Place) -> None:
    """Decrypts, decodes and takes the numbers out of their slots."""
    terms = terms_of(place.engine, place.workload.keys)
    decrypts, key = decryptor(terms, place.own)
    with Parcel(place.download, RESULT) as download:
        download.check(terms, key)
        opener = Opener(terms, decrypts, download)
        decrypted = place.workload.run(opener, nothing(terms), _arrays(place.own / PREPARED))
        read_to_the_end(opener)
    np.save(place.own / DECRYPTED, decrypted, allow_pickle=False)


def client_postprocess(place: Place) -> None:
    """The answer in its own shape: heads side by side, weights as they are."""
    path = place.own / DECRYPTED
    try:
        decrypted = np.load(path, allow_pickle=False)
        if not isinstance(decrypted, np.ndarray):
            raise ValueError
    except (OSError, ValueError, EOFError):  # numpy's own words advise to load it unsafely
        raise UserError(f"{path} must hold one array, that which was decrypted, and holds none") from None
    np.save(place.own / RESULTS, place.workload.finished(decrypted), allow_pickle=False)


def _planned_levels(path: Path) -> int:
    plan = read_json(path)
    levels = plan.get("levels") if isinstance(plan, dict) else None
    if not is_whole(levels):
        raise UserError(f"{path} must have the levels of the dry run, a whole number, and has {short(levels)}")
    return levels


def _arrays(path: Path) -> Data:
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, NpzFile):
            raise ValueError("it is one array alone")
        with file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise UserError(f"{path} must hold the arrays of the workload, and cannot be read: {error}") from None


STAGES: dict[str, Callable[[Place], None]] = {
    stage.__name__: stage
    for stage in (
        server_preprocess_model,
        client_key_generation,
        client_preprocess_input,
        client_encode_encrypt_input,
        server_encrypted_compute,
        client_decrypt_decode,
        client_postprocess,
    )
}
