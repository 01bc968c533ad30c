"""What an encrypted evaluation has finished: one JSON line a sample, and one for each batch that ends it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cgf.errors import UserError
from cgf.he.layer_record import LayerRecord
from cgf.lock import locked
from cgf.named import listed
from cgf.predictions import EncryptedPredictions, write
from cgf.results import MOST_LINES, append_lines, read_lines, run_info
from cgf.softmax.base import Softmax
from cgf.softmax.source import definition_hash
from cgf.target import content_of
from cgf.types import Json

VERSION = "2:"  # how digests begin whose lines carry checksums


@dataclass(frozen=True)
class FinishedSamples:
    """Samples by index, and the batches that they came in.

    A sample: index, label, prediction, plain (same polynomial, in the clear), exact (as trained), logits; prediction
    and logits None where it was ruined (see Encrypted.weights). A batch: its indices, wall seconds since the batch
    before, seconds of the model, peak memory, a LayerRecord a layer, what it was made by.
    """

    samples: dict[int, Json] = field(default_factory=dict)
    batches: list[Json] = field(default_factory=list)

    def layers(self) -> list[LayerRecord]:
        """All batches together, by layer; workers end in any order, and no sum depends on it."""
        count = len(self.batches[0]["layers"]) if self.batches else 0
        records = [LayerRecord() for _ in range(count)]
        for batch in sorted(self.batches, key=lambda batch: min(batch["batch"])):
            for record, row in zip(records, batch["layers"], strict=True):
                record.join(LayerRecord.from_json(row))
        return records

    def made_by(self) -> list[Json]:
        """Every commit and library version that batches were made by, and how many; lines of earlier versions: none."""
        makers: list[Json] = []
        for batch in self.batches:
            maker = batch.get("made_by") or {}
            same = next((row for row in makers if {k: v for k, v in row.items() if k != "batches"} == maker), None)
            if same is None:
                makers.append(same := {**maker, "batches": 0})
            same["batches"] += 1
        return makers

    def ran(self, **now: int) -> Json:
        """Workers and processes of the batches, as results have them: a number, or several as a list.

        now: of this process, which stand where lines of before do not say.
        """
        parts = [batch.get("ran", {}) for batch in self.batches]
        told = {name: list(dict.fromkeys(part.get(name, count) for part in parts)) for name, count in now.items()}
        return {name: counts[0] if len(counts) == 1 else counts for name, counts in told.items()}

    def split_by(self, now: Json) -> Json | list[Json]:
        """The settings that decided which samples shared ciphertexts, as results have them: a list where they differ.

        now: those of this process, which stand where lines of before do not say.
        """
        different: list[Json] = []
        for settings in [batch.get("split_by") or now for batch in self.batches]:
            different += [] if settings in different else [settings]
        return different[0] if len(different) == 1 else different

    def left(self, batches: list[list[int]]) -> list[list[int]]:
        """The batches' samples that are not among these, in the batches that still have one."""
        return [rest for batch in batches if (rest := [i for i in batch if i not in self.samples])]

    def check_among(self, batches: list[list[int]], path: Path) -> None:
        """UserError where a sample of these is in none of the batches: path, of a shard that was batched otherwise.

        Another shard has it now, so that the two could never be merged.
        """
        among = {index for batch in batches for index in batch}
        if strange := [str(index) for index in sorted(self.samples) if index not in among]:
            raise UserError(
                f"a shard needs the batches that it began with, and of the samples in {path} {listed(strange)} would "
                "be another shard's: give the he.batch and he.rows_at_once that it began with, or another out="
            )

    def predictions(self) -> list[tuple[int, int | None]]:
        """(label, prediction) of every sample."""
        return [(record["label"], record["prediction"]) for record in self.samples.values()]

    def keep(self, path: Path) -> dict[str, str]:
        """Writes the predictions beside a result file; returns what the result says of them: path and sha256."""
        return write(path.parent, path.stem, EncryptedPredictions.of(self.samples.values()))

    def share(self, key: str, other: str) -> float:
        """Of all samples, those where two of label, prediction, plain and exact agree."""
        return sum(record[key] == record[other] for record in self.samples.values()) / len(self.samples)

    def shares(self) -> Json:
        """How many samples there are, their accuracies, agreements, and how many were ruined, as results name them."""
        return {
            "samples": len(self.samples),
            "accuracy": self.share("prediction", "label"),
            "accuracy_plain": self.share("plain", "label"),
            "accuracy_exact": self.share("exact", "label"),
            "agreement": self.share("prediction", "plain"),
            "agreement_exact": self.share("prediction", "exact"),
            "ruined": sum(record["prediction"] is None for record in self.samples.values()),
        }


def check_finite_in_the_clear(finite: np.ndarray, indices: Sequence[int], how: str) -> None:
    """UserError where a sample's logits in the clear are no finite numbers: it has no class there to compare with.

    finite: (N,) whether all logits of a sample are;  indices: (N,) of the samples;  how: by which model they came.
    """
    lost = [index for index, whole in zip(indices, finite, strict=True) if not whole]
    if lost:
        raise UserError(
            f"samples need finite logits in the clear, and {how} {listed([str(index) for index in lost])} have none: "
            "leave them out (commands: he.samples=N evaluates fewer, and eval_plain.py not_finite=wrong counts them as "
            "wrong in the clear)"
        )


@dataclass(frozen=True)
class SampleLog:
    """The lines file of one evaluation.

    digest  of all that the lines depend on: those of another are not gone on with. Each line carries a sha256 of what
            it says, digest included, unless its digest is of before (see VERSION)
    made_by of the batches that are added (see made_by below); not part of the digest
    ran     workers and processes of the batches that are added; not part of it either
    split_by  settings that decide which samples of theirs share ciphertexts; nor are these
    """

    path: Path
    digest: str = ""
    made_by: Json | None = None
    ran: dict[str, int] = field(default_factory=dict)
    split_by: Json | None = None

    def read(self) -> FinishedSamples:
        """What whole batches hold; samples whose batch was cut off by a kill are left out.

        UserError, with its number, for a line that was changed after it was written.
        """
        records = read_lines(self.path)
        for number, record in enumerate(records, 1):
            if not isinstance(record, dict):
                raise UserError(f"{self.path} should hold one JSON object a line, and line {number} has none")
            if str(record.get("digest")).startswith(VERSION) and record.get("sha256") != checksum(record):
                raise UserError(
                    f"{self.path} line {number} was changed after it was written: its checksum is another. "
                    "Remove the file, and evaluate anew"
                )
        return collect((record for record in records if record.get("digest") == self.digest), self.path)

    def add(self, samples: list[Json], batch: Json) -> None:
        """Appends the lines of a batch's samples, then the one of the batch, each with its checksum."""
        records = [
            {**record, "digest": self.digest}
            for record in (*samples, {**batch, "made_by": self.made_by, "ran": self.ran, "split_by": self.split_by})
        ]
        append_lines(self.path, [{**record, "sha256": checksum(record)} for record in map(_as_read, records)])

    def sha256(self) -> str:
        """Of the whole file, for the result that is made of it."""
        return hashlib.sha256(content_of(self.path, MOST_LINES)).hexdigest()

    def of(self, result: Json) -> SampleLog:
        """These lines, where a result was made of them as they are; results of before say nothing of it."""
        if self.path.is_file() and result.get("lines_sha256") not in (None, self.sha256()):
            raise UserError(
                f"{self.path} was changed after {self.path.with_suffix('.json').name} was made of it: run "
                "the same evaluation again"
            )
        return self

    def alone(self) -> AbstractContextManager[object]:
        """Keeps other processes from evaluating into the same lines; UserError where another is at work there."""
        return locked(
            self.path.with_name(f".{self.path.name}.lock"),
            f"another process evaluates into {self.path}: wait for it, stop it, or give another out=",
        )

    def check_own(self) -> None:
        """UserError where the file holds something else than lines of this evaluation: nothing of it is removed.

        Lines that another definition of the same softmax made are something else, too; those of before do not say.
        """
        records = read_lines(self.path)
        own = [record for record in records if isinstance(record, dict) and record.get("digest") == self.digest]
        definition = (self.made_by or {}).get("definition")
        others = {(record.get("made_by") or {}).get("definition") for record in own} - {None, definition}
        if definition is not None and others:
            raise UserError(
                f"{self.path} holds samples by another definition of this softmax, whose source was changed since: "
                f"give another out=, or remove it and {self.path.with_suffix('.json').name}"
            )
        if own:
            return
        torn = not records and (not self.path.exists() or self.path.read_bytes()[:9] in (b"", b'{"index":'))
        if not torn:
            samples = sum(isinstance(record, dict) and "index" in record for record in records)
            what = f"{samples} samples of another evaluation" if samples else "no lines of an evaluation"
            raise UserError(
                f"{self.path} holds {what} (other settings, samples, polynomial or checkpoint) and is not "
                f"overwritten: give another out=, or remove it and {self.path.with_suffix('.json').name}"
            )


def checksum(record: Json) -> str:
    """sha256 of a line's content, its own checksum left out."""
    content = {key: value for key, value in record.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _as_read(record: Json) -> Json:
    """A line as it comes back from its file: keys are texts, numpy's numbers plain ones."""
    return json.loads(json.dumps(record, default=lambda value: value.tolist()))


def made_by(softmax: Softmax) -> Json:
    """Commit, whether anything was changed since, the versions of the CKKS libraries, and a hash of the softmax's
    definition, of this process."""
    info = run_info()
    libraries = {k: v for k, v in info["versions"].items() if k.startswith(("desilofhe", "openfhe"))}
    return {**info["git"], **libraries, "definition": definition_hash(softmax)}


def together(parts: Iterable[FinishedSamples]) -> FinishedSamples:
    """The samples and batches of several as those of one."""
    whole = FinishedSamples()
    for part in parts:
        whole.samples.update(part.samples)
        whole.batches.extend(part.batches)
    return whole


def collect(records: Iterable[Json], path: Path) -> FinishedSamples:
    """Samples and batches of the lines of a file; samples whose batch did not end are left out.

    UserError where a sample is in two batches, or a batch's sample has no line: lines were added twice, or lost.
    """
    samples: dict[int, Json] = {}
    finished = FinishedSamples()
    for record in records:
        if "batch" in record:
            for index in record["batch"]:
                if index in finished.samples or index not in samples:
                    what = "is in two batches" if index in finished.samples else "has no line before that of its batch"
                    raise UserError(f"{path} was changed after it was written: sample {index} {what}. Evaluate anew")
            finished.batches.append(record)
            finished.samples.update({i: samples[i] for i in record["batch"]})
        else:
            samples[record["index"]] = record
    return finished
