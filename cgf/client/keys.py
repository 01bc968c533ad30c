"""A client's keys: made once; the secret one stays with the client, the others are for whoever computes."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from cgf.bundle.report import Report
from cgf.bundle.sides import ClientBundle
from cgf.errors import UserError
from cgf.he.engines.desilo_files import KeyMaker, most_bytes
from cgf.header import EVALUATION, PUBLIC, SECRET, Terms, key_id
from cgf.parcel import Parcel, ParcelWriter

FILES = {SECRET: "secret.key", PUBLIC: "public.key", EVALUATION: "evaluation.keys"}


def make_keys(bundle: ClientBundle, folder: Path, mode: str) -> Report:
    """Makes the three files of keys in a folder. UserError where there are any already.

    They appear once all are made, the secret last: a folder that holds it is whole.
    """
    terms, rotations = bundle.agreement.terms, frozenset(bundle.agreement.rotations)
    bundle.agreement.check_library()
    paths = {kind: folder / name for kind, name in FILES.items()}
    if there := [path for path in paths.values() if path.exists()]:
        raise UserError(f"{there[0]} is there already and is not overwritten: keys of other ciphertexts would be lost")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    report = Report("client keys", terms)
    with report.stage("key generation: secret, public, relinearization"):
        maker = KeyMaker(terms.max_level, mode)
        public = maker.public()
    report.key = key = key_id(public)
    with report.stage("key generation: evaluation keys", keys=len(rotations) + 1), ExitStack() as whole:
        # what is entered first is finished last, and all of them once every key is there
        secret, evaluation, made = (
            whole.enter_context(ParcelWriter(paths[kind], kind, terms, key)) for kind in (SECRET, EVALUATION, PUBLIC)
        )
        made.add("public", public)
        secret.add("secret", maker.dump_secret())
        for name, data in maker.evaluation(rotations):
            evaluation.add(name, data)
    report.size("public and evaluation keys", paths[PUBLIC], paths[EVALUATION])
    report.size("secret key", paths[SECRET])
    return report


def public_key(folder: Path, terms: Terms) -> tuple[bytes, str]:
    """The public key and the id of the keys. UserError for a file that does not fit."""
    with Parcel(folder / FILES[PUBLIC], PUBLIC) as parcel:
        data = _only(parcel, terms, "public")
        if key_id(data) != parcel.header.key:
            raise UserError(f"{parcel.path} must hold the public key of {parcel.header.key}, and holds another")
        return data, parcel.header.key


def secret_key(folder: Path, terms: Terms) -> tuple[bytes, str]:
    """The secret key and the id of the keys. UserError for a file that does not fit, or that others may read."""
    path = folder / FILES[SECRET]
    with Parcel(path, SECRET) as parcel:
        if mode := os.stat(path).st_mode & 0o077:
            raise UserError(
                f"{path} must be readable by its owner alone, and has mode {mode:03o} for others: chmod 600"
            )
        return _only(parcel, terms, "secret"), parcel.header.key


def _only(parcel: Parcel, terms: Terms, name: str) -> bytes:
    parcel.check(terms)
    parcel.check_items([name], None, most_bytes(terms.max_level))
    return next(data for _, data in parcel.items())
