"""Checkpoint folders: complete or absent, self-contained, and free of pickles."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from safetensors.torch import save_file
from torch import Tensor

from cgf.checkpoint_files import DescribedParts, check_parts, check_run, described_parts, described_softmax
from cgf.errors import UserError, disk_is_full
from cgf.named import short
from cgf.results import plain_json, read_json, without_home, write_json, write_text
from cgf.run_checkpoints import complete_checkpoints
from cgf.seal import HOST, MODEL, RUN, SOFTMAX, hashes, json_hash, run_content, sealed, small_files
from cgf.softmax.base import Softmax
from cgf.softmax.required import check_measured
from cgf.target import file_hash, tensors_of
from cgf.training_state import TrainingState
from cgf.types import Json, JsonValue

PREFIX = "softmax."  # of tensors that belong to a layer's softmax, beside the host's own keys
__all__ = ["Checkpoint", "TrainingState", "read", "resolve", "save"]


class Classification(Protocol):
    """What of a task tells whether a checkpoint was trained on it."""

    name: str

    @property
    def num_classes(self) -> int:
        """Number of classes."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint folder. run is what run.json says; softmax, layers and parts describe what was installed.

    files has the hashes of the folder's files as they were saved, by name; None where it was saved before there were
    any.
    """

    path: Path
    run: Json
    softmax: Softmax
    layers: int
    files: dict[str, str] | None = None
    parts: DescribedParts = field(default_factory=DescribedParts)

    @cached_property
    def model_hash(self) -> str:
        """sha256 of model.safetensors, read once. UserError where it is not the file that was saved."""
        digest = file_hash(self.path / MODEL)
        if self.files is not None and digest != self.files[MODEL]:
            raise UserError(
                f"{self.path / MODEL} was changed or damaged after the checkpoint was saved: take it as it "
                "was saved, or train it anew"
            )
        return digest

    @cached_property
    def identity(self) -> str:
        """The digest as the files' recorded hashes give it, without reading the weights; of an old one the digest."""
        return self.digest if self.files is None else json_hash({"run": self.run, "files": self.files})

    @cached_property
    def digest(self) -> str:
        """sha256 over all that a result depends on: the bytes of model.safetensors, softmax.json and host/, and what
        run.json says; computed alike for checkpoints that were saved without hashes."""
        files = {name: file_hash(self.path / name) for name in small_files(self.path)}
        return json_hash({"run": self.run, "files": {**files, MODEL: self.model_hash}})

    def weights(self) -> tuple[dict[str, Tensor], list[dict[str, Tensor]]]:
        """(host tensors by the host's own key names, measured tensors of each layer's softmax).

        UserError for a file that is damaged or was changed, and for numbers that are not finite.
        """
        tensors = tensors_of(self.path / MODEL)
        if self.files is not None:
            _ = self.model_hash
        for key, value in tensors.items():
            if value.is_floating_point() and not value.isfinite().all():
                raise UserError(f"{self.path / MODEL} needs finite numbers, and '{key}' holds NaN or infinity")
        layers: list[dict[str, Tensor]] = [{} for _ in range(self.layers)]
        for key in [k for k in tensors if k.startswith(PREFIX)]:
            layer, _, name = key[len(PREFIX) :].partition(".")
            if not layer.isdecimal() or int(layer) >= self.layers:
                raise UserError(
                    f"{self.path / MODEL} holds {key}, and softmax.json says that there are {self.layers} layers"
                )
            layers[int(layer)][name] = tensors.pop(key)
        return tensors, layers

    def check_measured(self, layers: list[dict[str, Tensor]]) -> None:
        """UserError where the softmax needs what training measures, and ``layers`` do not have it."""
        for layer, kept in enumerate(layers):
            check_measured(
                self.softmax,
                kept,
                f"checkpoint {self.path} has none in layer {layer}: train it for an epoch at least (train.epochs)",
            )

    def check_data(self, revision: Mapping[str, str]) -> None:
        """UserError where data of a name that it was trained with are others now; ``revision`` is a task's.

        Data of other names, such as a set of the hub in place of a folder, cannot be compared.
        """
        told = self.run.get("data")
        kept = told if isinstance(told, dict) else {}
        now = {str(without_home(name)): digest for name, digest in revision.items()}
        for name, digest in kept.items():
            if name in now and now[name] != digest:
                raise UserError(
                    f"{self.path} was trained with another state of the data {name} than is there now: give the data "
                    "of then (data.root), or train anew (overwrite=true, or another run=NAME)"
                )

    def check_task(self, task: Classification) -> None:
        """UserError unless the task built of this checkpoint's configuration is the one that it was trained on."""
        for key, has in (("task", task.name), ("num_classes", task.num_classes)):
            if self.run[key] != has:
                raise UserError(
                    f"{self.path / RUN} says {key}={self.run[key]}, and the task of its configuration has "
                    f"{has}: it was changed, or is not of these data"
                )


def resolve(path: str | Path) -> Path:
    """A checkpoint folder, or the best (else the newest) one of a run folder. UserError if there is none."""
    if not isinstance(path, str | Path):
        raise UserError(f"ckpt needs a checkpoint or run folder, and {path!r} was given")
    path = Path(path).expanduser()
    if not path.is_dir():
        raise UserError(f"ckpt needs a checkpoint or run folder, and there is no folder {path}")
    if (path / "run.json").is_file():
        return path
    complete = complete_checkpoints(path)
    if (best := _best_so_far(complete)) is not None:  # best.json is written after it, and a kill may come between
        return best
    if (path / "best.json").is_file():
        return _best(path)
    if complete:
        return complete[-1]
    raise UserError(f"{path} holds no complete checkpoint: a checkpoint has run.json, which is written last")


def _best_so_far(complete: list[Path]) -> Path | None:
    """The checkpoint that the newest one says is the best; None where none is, as in runs of earlier versions."""
    told = read_json(complete[-1] / RUN) if complete else None
    progress = told.get("progress") if isinstance(told, dict) else None
    if not isinstance(progress, dict) or not progress.get("val_samples"):
        return None
    return next((path for path in complete if path.name == f"ckpt-{progress.get('best_step')}"), None)


def _best(run: Path) -> Path:
    """The checkpoint that best.json names, which lies in the run folder itself."""
    said = read_json(run / "best.json")
    name = said.get("checkpoint") if isinstance(said, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"ckpt-[0-9]{1,18}", name):
        raise UserError(
            f"{run / 'best.json'} must name a checkpoint of its own folder (ckpt-<step>), and names {short(name)}"
        )
    if not (run / name / RUN).is_file():
        raise UserError(
            f"{run / 'best.json'} names {name}, and there is no complete checkpoint of that name: a "
            "checkpoint has run.json, which is written last"
        )
    return run / name


def read(path: str | Path) -> Checkpoint:
    """Opens a checkpoint; UserError if it is missing, half-written, changed since it was saved, or not one of ours.

    The weights' hash is checked where they are read, or the digest is asked for.
    """
    folder = resolve(path)
    missing = [f for f in (MODEL, SOFTMAX) if not (folder / f).is_file()]
    if missing:
        raise UserError(f"checkpoint {folder} lacks {' and '.join(missing)}")
    told, described = read_json(folder / RUN), read_json(folder / SOFTMAX)
    for name, content, keys in (
        (RUN, told, ("model", "task", "num_classes", "family", "source", "config")),
        (SOFTMAX, described, ("softmax", "layers")),
    ):
        if not isinstance(content, dict):
            raise UserError(f"{folder / name} should hold one JSON object: it is not a checkpoint of this project")
        if missing := [key for key in keys if key not in content]:
            raise UserError(f"{folder / name} lacks '{missing[0]}': it is not a checkpoint of this project")
    files, run = hashes(told, folder), run_content(told)
    softmax, layers = described_softmax(described, folder / SOFTMAX)
    check_run(run, softmax, folder / RUN)
    parts = described_parts(folder)
    check_parts(run, parts, folder / RUN)
    return Checkpoint(folder, run, softmax, layers, files, parts)


def save(
    folder: Path,
    host: dict[str, Tensor],
    softmaxes: list[Softmax],
    run: Json,
    surroundings: Callable[[Path], object] | None = None,
    state: TrainingState | None = None,
    *,
    parts: Mapping[str, JsonValue] | None = None,
    card: str | None = None,
) -> Path:
    """Writes a checkpoint under a temporary name and renames it; run.json comes last, with the hashes of the rest.

    host          the model's state dict, host's own keys
    surroundings  function that writes the host's configuration and tokenizer into a folder
    parts         what stands at norms and activations, by 'norm' and 'activation'; their tensors are in host
    card          text of README.md, for people: no result depends on it, and it has no hash

    UserError where the disk has no room for it.
    """
    draft, before = folder.with_name(f".{folder.name}.part"), folder.with_name(f".{folder.name}.before")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        _write_tensors(draft / MODEL, host, softmaxes)
        write_json(draft / SOFTMAX, _described(softmaxes))
        for kind, described in (parts or {}).items():
            write_json(draft / f"{kind}.json", described)
        if surroundings is not None:
            surroundings(draft / HOST)
        if state is not None:
            state.write(draft / "state")
        if card is not None:
            write_text(draft / "README.md", card)
        write_json(draft / RUN, sealed(plain_json(run), draft))
        shutil.rmtree(before, ignore_errors=True)
        if folder.exists():
            os.replace(folder, before)
        os.replace(draft, folder)
        shutil.rmtree(before, ignore_errors=True)
    except BaseException as error:
        shutil.rmtree(draft, ignore_errors=True)
        if before.exists() and not folder.exists():
            os.replace(before, folder)
        if disk_is_full(error):
            need = sum(t.nbytes for t in [*host.values(), *({} if state is None else state.tensors).values()])
            free = shutil.disk_usage(folder.parent).free
            less = (
                "" if free < need else ", of which a quota, a limit of file sizes or its other files leave too little"
            )
            raise UserError(
                f"checkpoint {folder} needs {need / 2**20:.1f} MiB of disk, and {free / 2**20:.1f} are free{less}; "
                "those before it are whole, and the same command goes on from the last"
            ) from None
        raise
    return folder


def _write_tensors(path: Path, host: dict[str, Tensor], softmaxes: list[Softmax]) -> None:
    """The host's tensors and, under PREFIX and their layer, those of the softmaxes in one file."""
    tensors = dict(host)
    for layer, softmax in enumerate(softmaxes):
        tensors.update({f"{PREFIX}{layer}.{k}": v for k, v in softmax.tensors().items()})
    save_file({k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}, path)


def _described(softmaxes: list[Softmax]) -> Json:
    """softmax.json; 'exponentials' has those of all layers where they differ, for people to read: what is
    loaded are the tensors."""
    described = {**softmaxes[0].describe(), "layers": len(softmaxes)}
    exponentials = [softmax.describe()["exponential"] for softmax in softmaxes]
    return described if all(e == exponentials[0] for e in exponentials) else {**described, "exponentials": exponentials}
