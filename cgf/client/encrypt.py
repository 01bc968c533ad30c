"""Samples in, uploads out: each upload holds as many samples as a set of ciphertexts takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cgf.bundle.folder import check_free, draft_of
from cgf.bundle.report import Report
from cgf.bundle.sides import ClientBundle
from cgf.client.keys import public_key
from cgf.client.samples import Batch, batches_of
from cgf.client.sent import note_sent
from cgf.he.engines.desilo_files import Encryptor
from cgf.header import UPLOAD
from cgf.parcel import ParcelWriter


def encrypt(bundle: ClientBundle, keys: Path, samples: Path, folder: Path, mode: str) -> Report:
    """Writes an upload a batch into a folder, which is new, and there whole or not at all.

    UserError for samples and keys that do not fit.
    Numbers of samples and tokens stand in the header in the clear, and nothing else of the samples does.
    """
    terms = bundle.agreement.terms
    bundle.agreement.check_library()
    check_free(folder)
    public, key = public_key(keys, terms)
    report = Report("client encrypt", terms, key)
    with report.stage("input preprocessing"):
        batches = list(batches_of(bundle, samples))
    with report.stage("setup: library and public key"):
        encryptor = Encryptor(terms.max_level, public, mode)
    with draft_of(folder) as part:
        for number, batch in enumerate(batches, start=1):
            path = part / f"{number:04d}.upload"
            with report.stage("input encryption", samples=len(batch.indices), tokens=batch.features.shape[1]):
                _write(bundle, encryptor, key, batch, path)
            report.size("encrypted input", path)
        note_sent(keys, sorted(part.glob("*.upload")), sum(len(batch.indices) for batch in batches))
    return report


def _write(bundle: ClientBundle, encryptor: Encryptor, key: str, batch: Batch, path: Path) -> None:
    agreement, tokens = bundle.agreement, batch.features.shape[1]
    facts = {"agreement": agreement.digest, "tokens": tokens, "rows": list(batch.indices)}
    packed = agreement.of_tokens(tokens).packed(np.asarray(batch.features, dtype=np.float64), agreement.terms.slots)
    with ParcelWriter(path, UPLOAD, agreement.terms, key, facts) as parcel:
        for name, columns in packed.items():
            for i, column in enumerate(columns):
                parcel.add(f"{name}.{i}", encryptor.encrypt(column, encryptor.max_level), encryptor.max_level)
