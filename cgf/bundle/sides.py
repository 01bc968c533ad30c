"""A client's bundle and a server's, read and written."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cgf.bundle.agreement import Agreement, agreement_of, costs_of
from cgf.bundle.folder import CLIENT, SERVER, read_bundle, write_bundle
from cgf.bundle.limit import Limit
from cgf.bundle.plan import Plan, plans_from_json, plans_of
from cgf.errors import UserError
from cgf.named import arguments
from cgf.network.files import load_inputs, load_network, save_inputs, save_network
from cgf.network.inputs import Inputs
from cgf.network.layers import Network
from cgf.types import Json

TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class ClientBundle:
    """What a client needs: it prepares, encrypts and decrypts, and judges logits.

    prepare: how raw samples become what ``inputs`` takes, see cgf.client.samples;  seal: of the folder
    """

    folder: Path
    agreement: Agreement
    inputs: Inputs
    prepare: Json
    limit: Limit

    @classmethod
    def read(cls, folder: str | Path) -> ClientBundle:
        """UserError, naming the file, for a folder that is no whole client bundle."""
        folder = Path(folder).expanduser()
        agreement, facts, _ = read_bundle(folder, CLIENT, ("prepare", "limit"))
        where = str(folder / "bundle.json")
        if not isinstance(facts["limit"], dict) or not isinstance(facts["prepare"], dict):
            raise UserError(f"{where} needs objects for 'prepare' and 'limit'")
        inputs = load_inputs(folder)
        if inputs.features != agreement.features:
            raise UserError(f"{where} needs inputs of {agreement.features} features, and they have {inputs.features}")
        limit = Limit(**arguments(Limit, facts["limit"], f"'limit' of {where}"))
        return cls(folder, agreement, inputs, facts["prepare"], limit)


@dataclass(frozen=True)
class ServerBundle:
    """What a server needs beside the keys that a client sends: the network with its weights."""

    folder: Path
    agreement: Agreement
    network: Network
    plans: tuple[Plan, ...]
    seal: str

    @classmethod
    def read(cls, folder: str | Path) -> ServerBundle:
        """UserError, naming the file, for a folder that is no whole server bundle."""
        folder = Path(folder).expanduser()
        agreement, facts, seal = read_bundle(folder, SERVER, ("plan",))
        network = load_network(folder)
        own = (network.name, network.features, network.classes)
        if (
            own != (agreement.name, agreement.features, agreement.classes)
            or network_digest(folder) != agreement.network
        ):
            raise UserError(f"{folder} holds another network than its bundle.json speaks of")
        for length in agreement.lengths:
            network.check_tokens(length.tokens)
        plans = plans_from_json(facts["plan"], agreement, str(folder / "bundle.json"))
        return cls(folder, agreement, network, plans, seal)

    def plan(self, tokens: int) -> Plan:
        """Of samples of so many tokens."""
        return next(plan for plan in self.plans if plan.tokens == tokens)


def network_digest(folder: Path) -> str:
    """sha256 over a network's two files, by which both bundles name it."""
    digest = hashlib.sha256()
    for name in ("network.json", "network.safetensors"):
        content = (folder / name).read_bytes()
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()


def write_server(folder: Path, network: Network, tokens: Sequence[int], alone: bool = False) -> Agreement:
    """Writes a server's bundle for samples of these numbers of tokens. UserError where no ring holds the network.

    alone: each sample has ciphertexts of its own, in the layout of least latency
    """
    costs = costs_of(network, tokens, alone)
    with tempfile.TemporaryDirectory() as trial:  # the agreement names the digest of files that come beside it
        save_network(trial, network)
        agreement = agreement_of(network, network_digest(Path(trial)), costs)
    write_bundle(folder, SERVER, agreement, {"plan": plans_of(costs)}, lambda part: save_network(part, network))
    return agreement


def write_client(
    folder: Path, agreement: Agreement, inputs: Inputs, prepare: Json, limit: Limit, tokenizer: str | None = None
) -> None:
    """Writes a client's bundle; tokenizer: the text of its tokenizer.json, for networks of texts."""

    def files(part: Path) -> None:
        save_inputs(part, inputs)
        if tokenizer is not None:
            (part / TOKENIZER).write_text(tokenizer, encoding="utf-8")

    write_bundle(folder, CLIENT, agreement, {"prepare": prepare, "limit": limit.to_json()}, files)
