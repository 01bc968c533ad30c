"""The two bundles of a checkpoint, made by whoever has the weights and the training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from cgf.bundle.agreement import Agreement
from cgf.bundle.folder import check_free
from cgf.bundle.limit import Limit
from cgf.bundle.sides import write_client, write_server
from cgf.checks import whole
from cgf.data.task import Task
from cgf.data.tasks import task_from_node
from cgf.data.text_task import TextTask
from cgf.data.tokens import TYPES
from cgf.data.vision_task import VisionTask
from cgf.errors import UserError
from cgf.evaluate.network_eval import check_one_segment
from cgf.evaluate.open_checkpoint import OpenCheckpoint, open_checkpoint
from cgf.models.network import check_known, network_of
from cgf.models.self_check import evaluating
from cgf.network.inputs import Inputs, Patches
from cgf.network.layers import Network
from cgf.network.program import program_of
from cgf.network.twin import Ranges, twin
from cgf.plan.plan import Plan
from cgf.types import Json

CLIENT, SERVER = "client", "server"  # names of the folders


@dataclass(frozen=True)
class Bundles:
    """Where the bundles are, and what they say; alike: share of training samples labelled as the model was trained."""

    folder: Path
    agreement: Agreement
    limit: Limit
    alike: float


def make_bundles(
    checkpoint: str,
    out: Path,
    tokens: Sequence[int],
    samples: int,
    root: str | None,
    *,
    seed: int = 0,
    alone: bool = False,
    agreement: float = 0.99,
) -> Bundles:
    """Writes <out>/client and <out>/server. UserError for a checkpoint that cannot stay encrypted, and where the
    polynomials fail on training data: entries beyond a guard, or labels that differ from those of the model as trained.

    tokens   counts of tokens that texts may have, each with keys of its own; images have one, and none is given
    samples  of training data that the red light's bound is taken from;  root: of the task's data
    alone    each sample has ciphertexts of its own, in the layout of least latency
    agreement  least share of them that the polynomials label as the model does as trained
    """
    whole("samples", samples, 1)
    if not 0 <= agreement <= 1:
        raise UserError(f"agreement is a share from 0 to 1, and {agreement} was given")
    folders = [check_free(out / name) for name in (CLIENT, SERVER)]
    opened = open_checkpoint(checkpoint, "train", partial(task_from_node, root=root))
    check_known(opened.softmaxes[0])  # before a softmax without an exponential is told to leave its plan
    plan = opened.put_in_place({"method": "plan"})
    network, inputs = network_of(opened.host)
    counts = _tokens(network, inputs, tokens)
    prepare, tokenizer = _prepare(opened.task, opened)
    plain, exact, beyond = _training_logits(network, inputs, opened, opened.samples(samples, seed))
    if beyond:
        raise UserError(
            f"{beyond} entries of {len(plain)} training samples lie beyond the guard of their polynomials, which give "
            f"any number there: {_cure(opened, plan)}"
        )
    limit, alike = Limit.of(plain), float((plain.argmax(1) == exact.argmax(1)).mean())
    if alike < agreement:
        raise UserError(
            f"the polynomials label {alike:.2%} of {len(plain)} training samples as the model does as trained, and "
            f"--agreement asks for {agreement:.2%}: {_cure(opened, plan)}, or ask for less"
        )
    terms = write_server(folders[1], network, counts, alone)
    write_client(folders[0], terms, inputs, prepare, limit, tokenizer)
    return Bundles(out, terms, limit, alike)


def _cure(opened: OpenCheckpoint, plan: Plan | None) -> str:
    """What helps where polynomials fail: where the weights learned with one, another is no help."""
    if plan is None:
        return "train it with a wider softmax.domain or a stronger penalty"
    if opened.trained[0] is not None:
        return (
            f"remove {opened.checkpoint.path / 'plan.json'}, in whose place it has the polynomial that it learned with"
        )
    return "plan them anew (scripts/plan.py)"


def _tokens(network: Network, inputs: Inputs, given: Sequence[int]) -> list[int]:
    if isinstance(inputs, Patches):
        if given:
            raise UserError(f"--tokens is for networks of texts, and images of '{network.name}' have {inputs.tokens}")
        return [inputs.tokens]
    if not given:
        raise UserError(
            f"--tokens must say which counts of tokens texts of '{network.name}' may have, since each takes rotation "
            f"keys of its own: from {network.tokens[0]} to {network.tokens[1]}"
        )
    if other := [count for count in given if inputs.tokens_of(count) != count]:
        raise UserError(
            f"--tokens must be multiples of {inputs.multiple}, which texts of '{network.name}' are filled up to, and "
            f"{other[0]} was given"
        )
    return [network.check_tokens(count) for count in given]


def _prepare(task: Task, opened: OpenCheckpoint) -> tuple[Json, str | None]:
    """How a client prepares raw samples, and its tokenizer."""
    inputs = opened.host.inputs
    if isinstance(task, VisionTask) and inputs.image is not None:
        return {"image": dict(vars(inputs.image)), "crop": task.crops}, None
    backend = getattr(inputs.tokenizer, "backend_tokenizer", None)
    if not isinstance(task, TextTask) or backend is None:
        raise UserError(
            f"a client prepares images, or texts of a tokenizer with a tokenizer.json, and task {task.name} of model "
            f"'{opened.host.name}' has neither"
        )
    if task.has_pairs("train"):
        raise UserError(f"a client takes a text a line, and task {task.name} has pairs of texts")
    if (side := inputs.tokenizer.truncation_side) != "right":
        raise UserError(f"a client cuts texts off at their end, and model '{opened.host.name}' does so on the {side}")
    return {"text": task.max_length}, str(backend.to_str())


def _training_logits(
    network: Network, inputs: Inputs, opened: OpenCheckpoint, chosen: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Logits of the clear twin, and of the model as it was trained, on samples of the training split, whatever counts
    of tokens they have; how many entries lay beyond the guard of their polynomial."""
    by_tokens: dict[int, list[tuple[np.ndarray, int]]] = {}
    for index in chosen:
        item = opened.dataset[index]
        raw = item["pixel_values"].numpy() if isinstance(inputs, Patches) else np.asarray(item["input_ids"])
        check_one_segment(item.get(TYPES))
        features = inputs.prepared(raw[None])[0]
        if network.tokens[0] <= len(features) <= network.tokens[1]:
            by_tokens.setdefault(len(features), []).append((features, index))
    if not by_tokens:
        raise UserError(f"network '{network.name}' takes no sample of the training data: none has its count of tokens")
    plain, exact, ranges = [], [], Ranges()
    for count, samples in sorted(by_tokens.items()):
        plain.append(twin(program_of(network, count), np.stack([features for features, _ in samples]), ranges))
        exact += [_as_trained(opened, index) for _, index in samples]
    return np.concatenate(plain), np.stack(exact), sum(ranges.beyond.values())


def _as_trained(opened: OpenCheckpoint, index: int) -> np.ndarray:
    """Logits (classes,) of one sample by the model as it was trained."""
    batch = opened.collate([opened.dataset[index]])
    batch.pop("labels")
    with opened.as_trained(), evaluating(opened.host.model), torch.inference_mode():
        return opened.host.logits(batch)[0].double().numpy()
