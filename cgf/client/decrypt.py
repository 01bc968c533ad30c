"""Results in, logits and labels out, or a red light: what it says stays with the client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cgf.bundle.report import Report
from cgf.bundle.sides import ClientBundle
from cgf.bundle.traffic import SampleSet, read_result
from cgf.client.keys import secret_key
from cgf.client.sent import samples_sent
from cgf.errors import UserError
from cgf.he.engines.desilo_files import Decryptor
from cgf.header import RESULT
from cgf.parcel import Parcel
from cgf.results import write_json
from cgf.types import Json

Answer = Json


@dataclass(frozen=True)
class Decrypted:
    """report: of the command;  lights: samples with a red light;  samples: with a result, of those encrypted in all.

    encrypted is None where the folder of keys does not say what was encrypted (cgf/client/sent.py).
    """

    report: Report
    lights: int
    samples: int
    encrypted: int | None


def report_of(out: Path) -> Path:
    """The report beside the logits."""
    return out.with_suffix(".report.json")


def decrypt(bundle: ClientBundle, keys: Path, results: Sequence[Path], out: Path, mode: str) -> Decrypted:
    """Writes label and logits of each sample as JSON, and the report beside.

    A sample with a red light has no label and no logits: why is said instead. UserError for results that do not fit,
    that hold a sample twice, that are of two runs of ``encrypt``, and where ``out`` lies in a folder of results, which
    goes to others.
    """
    terms = bundle.agreement.terms
    bundle.agreement.check_library()
    for path in (out, report_of(out)):
        if path.exists():
            raise UserError(f"{path} is there already and is not overwritten: give another name, or remove the file")
    if any(out.resolve().is_relative_to(path.absolute().parent.resolve()) for path in results):
        raise UserError(f"{out} must lie outside the folder of results: what was decrypted stays with the client")
    secret, key = secret_key(keys, terms)
    report = Report("client decrypt", terms, key)
    answers: dict[int, Answer] = {}
    encrypted = samples_sent(keys, {path: _upload_of(path, bundle, key) for path in results})
    with report.stage("setup: library and secret key"):
        decryptor = Decryptor(terms.max_level, secret, mode)
    for path in results:
        with Parcel(path, RESULT) as parcel, report.stage("result decryption"):
            sent, logits = _logits(bundle, key, decryptor, parcel)
        with report.stage("result postprocessing"):
            new = _answers(bundle, sent, logits)
            if twice := sorted(answers.keys() & new.keys()):
                raise UserError(f"{path} holds sample {twice[0] + 1}, and another result holds it too")
            answers.update(new)
        report.size("encrypted results", path)
    lights = sum(answer["light"] is not None for answer in answers.values())
    content = {
        "kind": "decrypted logits",
        "network": bundle.agreement.name,
        "classes": list(bundle.agreement.classes),
        "bound": bundle.limit.bound,
        "lights": lights,
        "encrypted": encrypted,
        "rows": [answers[index] for index in sorted(answers)],
    }
    write_json(out, content, private=True)
    report.write(report_of(out))
    return Decrypted(report, lights, len(answers), encrypted)


def _upload_of(path: Path, bundle: ClientBundle, key: str) -> tuple[str, SampleSet]:
    """The digest of the upload that a result was computed of, and the samples that the result says it is of."""
    with Parcel(path, RESULT) as parcel:
        told = read_result(parcel, bundle.agreement, key)
        digest: str = parcel.header.facts["upload"]
        return digest, told


def _logits(bundle: ClientBundle, key: str, decryptor: Decryptor, parcel: Parcel) -> tuple[SampleSet, np.ndarray]:
    """(samples, classes) complex."""
    sent = read_result(parcel, bundle.agreement, key)
    columns = []
    for item, data in parcel.items():
        assert item.level is not None
        columns.append(decryptor.decrypt(data, item.level))
    agreement = bundle.agreement
    length = agreement.of_tokens(sent.tokens)
    return sent, length.logits(columns, len(sent.indices), len(agreement.classes))


def _answers(bundle: ClientBundle, sent: SampleSet, logits: np.ndarray) -> dict[int, Answer]:
    made: dict[int, Answer] = {}
    for index, values, light in zip(sent.indices, logits, bundle.limit.lights(logits), strict=True):
        label = None if light else bundle.agreement.classes[int(values.real.argmax())]
        made[index] = {"row": index, "label": label, "logits": None if light else values.real.tolist(), "light": light}
    return made
