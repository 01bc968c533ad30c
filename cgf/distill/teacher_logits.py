"""Training samples with their teacher's logits: worked out once, not at every step, and kept on disk where asked."""

from __future__ import annotations

import functools
import hashlib
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from cgf.cache import keep
from cgf.data.task import Collate, Items
from cgf.data.text_items import TextDataset
from cgf.errors import UserError
from cgf.evaluate.loop import batches_by_length, evaluate
from cgf.models.host import Host
from cgf.models.replace import parts_of
from cgf.softmax.base import Softmax
from cgf.types import Item, Json

BATCH = 64
ELSEWHERE = ("_name_or_path", "transformers_version")  # of a configuration, which no logit depends on


@dataclass
class WithTeacherLogits(Dataset):
    """Texts with the teacher's logits (N, classes) beside: a batch has them as 'teacher' (B, classes)."""

    samples: TextDataset
    logits: Tensor

    @property
    def lengths(self) -> list[int]:
        """Tokens of each text."""
        return self.samples.lengths

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Item:
        return {**self.samples[index], "teacher": self.logits[index]}

    def set_epoch(self, epoch: int) -> None:
        """Tells the texts which epoch it is."""
        self.samples.set_epoch(epoch)

    @staticmethod
    def collate(collate: Collate) -> Collate:
        """``collate`` of the texts, with the teacher's logits (B, classes) as 'teacher' where they have them."""
        return functools.partial(_collate, collate)


def _collate(collate: Collate, items: Sequence[Item]) -> dict[str, Tensor]:
    told = [item["teacher"] for item in items if "teacher" in item]  # validation has none
    return {**collate(items), **({"teacher": torch.stack(told)} if told else {})}


def taught(
    samples: Items,
    teacher: Host,
    softmaxes: Sequence[Softmax],
    collate: Collate,
    cache: str,
    say: Callable[[str], None] = print,
) -> WithTeacherLogits:
    """The samples with the logits of ``teacher`` in evaluation mode; softmaxes: those in its place.

    cache: folder with one file a teacher and list of texts, which several runs may share: a file appears whole, and a
    damaged one is made anew. UserError for samples that change from epoch to epoch (augmented images), and where the
    folder cannot be written.
    """
    if not isinstance(samples, TextDataset):
        raise UserError(
            "distill.cache needs texts, whose teacher's logits stay the same, and these samples are images "
            "that augmentation changes: distill.cache=null"
        )
    path = Path(cache).expanduser() / f"teacher-{_key(samples, teacher, softmaxes)}.npz"
    logits = _read(path, (len(samples), teacher.num_classes))
    if logits is None:
        say(f"the teacher's logits of {len(samples)} training samples, once for all: {path}")
        teacher.model.to("cuda" if torch.cuda.is_available() else "cpu")
        with torch.no_grad():
            outcome = evaluate(teacher.model, teacher.logits, samples, collate, batches_by_length(samples, BATCH))
        logits = outcome.logits.clone()  # made in inference mode
        keep(path, functools.partial(np.savez, logits=logits.numpy()), "distill.cache")
    return WithTeacherLogits(samples, logits)


def _key(samples: TextDataset, teacher: Host, softmaxes: Sequence[Softmax]) -> str:
    """Of all that the logits depend on."""
    digest = _weights(teacher, softmaxes)
    types = [] if samples.types is None else [samples.types]  # of pairs
    about = [_configuration(teacher), [s.describe() for s in softmaxes], samples.input_ids, *types]
    digest.update(json.dumps(about, sort_keys=True).encode())
    return digest.hexdigest()[:32]


def identity(teacher: Host, softmaxes: Sequence[Softmax]) -> str:
    """A hash of a teacher's weights, of its configuration and of its softmaxes, wherever it was loaded from."""
    digest = _weights(teacher, softmaxes)
    about = [_configuration(teacher), [s.describe() for s in softmaxes]]
    digest.update(json.dumps(about, sort_keys=True).encode())
    return digest.hexdigest()


def _weights(teacher: Host, softmaxes: Sequence[Softmax]) -> hashlib._Hash:
    digest = hashlib.sha256()
    for owner, tensors in [
        ("model", teacher.model.state_dict()),
        *((str(i), s.tensors()) for i, s in enumerate(softmaxes)),
    ]:
        for name, tensor in sorted(tensors.items()):
            digest.update(f"{owner}/{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest


def _configuration(teacher: Host) -> Json:
    """What the logits depend on that no weight shows, such as heads and activations; not where the files lay."""
    config = getattr(teacher.model, "config", None)
    if config is None:  # timm's
        own = {key: teacher.source.get(key) for key in ("timm", "options")}
    else:
        own = json.loads(config.to_json_string(use_diff=False))
        own = {key: value for key, value in own.items() if key not in ELSEWHERE}
    return {"model": own, "parts": parts_of(teacher.model).described()}


def _read(path: Path, shape: tuple[int, int]) -> Tensor | None:
    """The logits of a file; None where there is none, and where its checksum or its content is none of such a file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            kept = file["logits"]
    except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile):
        return None
    fits = kept.shape == shape and kept.dtype == np.float32 and np.isfinite(kept).all()
    return torch.from_numpy(kept) if fits else None
