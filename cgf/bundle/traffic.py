"""What stands in the headers of uploads and results, checked against the agreement before a ciphertext is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cgf.bundle.agreement import Agreement
from cgf.errors import UserError
from cgf.he.engines.desilo_files import evaluation_names, most_bytes
from cgf.named import arguments
from cgf.parcel import Parcel


@dataclass(frozen=True)
class SampleSet:
    """tokens: of each sample;  indices: which of the client's samples they are, in the order of the slots."""

    tokens: int
    indices: tuple[int, ...]


def read_upload(parcel: Parcel, agreement: Agreement, key: str) -> SampleSet:
    """UserError for an upload that does not fit the agreement and the keys."""
    sent = _sent(parcel, agreement, key, _upload_facts)
    level = agreement.terms.max_level
    parcel.check_items(agreement.upload_names(sent.tokens), level, most_bytes(level, level))
    return sent


def read_result(parcel: Parcel, agreement: Agreement, key: str) -> SampleSet:
    """UserError for a result that does not fit the agreement and the keys."""
    sent = _sent(parcel, agreement, key, _result_facts)
    level = parcel.header.items[0].level if parcel.header.items else None
    most = agreement.terms.max_level
    if level is None or not 0 <= level <= most:
        raise UserError(f"{parcel.path} must hold ciphertexts of a level from 0 to {most}, and holds {level}")
    parcel.check_items(agreement.result_names(sent.tokens), level, most_bytes(most, level))
    return sent


def check_evaluation_keys(parcel: Parcel, agreement: Agreement) -> None:
    """UserError for evaluation keys that are not those that the circuit takes."""
    parcel.check(agreement.terms)
    parcel.check_items(evaluation_names(frozenset(agreement.rotations)), None, most_bytes(agreement.terms.max_level))


def _sent(parcel: Parcel, agreement: Agreement, key: str, types: Callable[..., None]) -> SampleSet:
    parcel.check(agreement.terms, key)
    facts = arguments(types, parcel.header.facts, str(parcel.path))
    if facts["agreement"] != agreement.digest:
        raise UserError(
            f"{parcel.path} must be of the agreement {agreement.digest[:16]} of the bundle, and is of "
            f"{facts['agreement'][:16]}: take the client's and the server's bundle that were made together"
        )
    indices, length = facts["rows"], agreement.of_tokens(facts["tokens"])
    if not 1 <= len(indices) <= length.samples or min(indices) < 0 or len(set(indices)) != len(indices):
        raise UserError(
            f"{parcel.path} must hold 1 to {length.samples} samples, each once, and has {len(indices)} rows"
        )
    return SampleSet(length.tokens, tuple(indices))


def _upload_facts(agreement: str, tokens: int, rows: list[int]) -> None:
    """The types of the facts of an upload."""


def _result_facts(agreement: str, tokens: int, rows: list[int], upload: str) -> None:
    """The types of the facts of a result; upload: the digest of what it was computed of."""
