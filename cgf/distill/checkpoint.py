"""Checkpoint folders: complete or absent, self-contained, and free of pickles."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from cgf.approx.exponential_json import exponential_from_json
from cgf.approx.verified import verified
from cgf.errors import UserError, disk_is_full
from cgf.results import read_json, write_json
from cgf.softmax.base import Softmax
from cgf.softmax.load import softmax_from_json

PREFIX = "softmax."  # of tensors that belong to a layer's softmax, beside the host's own keys


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint folder. run is run.json; softmax and layers describe what was installed."""

    path: Path
    run: dict[str, Any]
    softmax: Softmax
    layers: int

    @cached_property
    def digest(self) -> str:
        """sha256 over weights, softmax.json, run.json and the host's files: what a result of it depends on."""
        names = ("model.safetensors", "softmax.json", "run.json")
        files = [self.path / name for name in names] + sorted(p for p in self.path.glob("host/**/*") if p.is_file())
        found = hashlib.sha256()
        for path in files:
            with open(path, "rb") as file:
                part = hashlib.file_digest(file, "sha256").hexdigest()
            found.update(f"{path.relative_to(self.path).as_posix()} {part}\n".encode())
        return found.hexdigest()

    def weights(self) -> tuple[dict[str, Tensor], list[dict[str, Tensor]]]:
        """(host tensors by the host's own key names, measured tensors of each layer's softmax)."""
        try:
            tensors = load_file(self.path / "model.safetensors")
        except (SafetensorError, OSError) as error:
            raise UserError(f"{self.path / 'model.safetensors'} cannot be read: {error}") from None
        layers: list[dict[str, Tensor]] = [{} for _ in range(self.layers)]
        for key in [k for k in tensors if k.startswith(PREFIX)]:
            layer, _, name = key[len(PREFIX) :].partition(".")
            if not layer.isdecimal() or int(layer) >= self.layers:
                raise UserError(f"{self.path / 'model.safetensors'} holds {key}, and softmax.json says that there are "
                                f"{self.layers} layers")
            layers[int(layer)][name] = tensors.pop(key)
        return tensors, layers


def resolve(path: str | Path) -> Path:
    """A checkpoint folder, or the best (else the newest) one of a run folder. UserError if there is none."""
    path = Path(path).expanduser()
    if not path.is_dir():
        raise UserError(f"ckpt needs a checkpoint or run folder, and there is no folder {path}")
    if (path / "run.json").is_file():
        return path
    if (path / "best.json").is_file():
        return resolve(path / str(read_json(path / "best.json")["checkpoint"]))
    complete = complete_checkpoints(path)
    if complete:
        return complete[-1]
    raise UserError(f"{path} holds no complete checkpoint: a checkpoint has run.json, which is written last")


def complete_checkpoints(run: Path) -> list[Path]:
    """Complete checkpoints of a run folder, oldest first."""
    found = [p for p in run.glob("ckpt-*") if (p / "run.json").is_file() and p.name[5:].isdigit()]
    return sorted(found, key=lambda p: int(p.name[5:]))


def read(path: str | Path) -> Checkpoint:
    """Opens a checkpoint; UserError if it is missing, half-written or not one of ours."""
    folder = resolve(path)
    missing = [f for f in ("model.safetensors", "softmax.json") if not (folder / f).is_file()]
    if missing:
        raise UserError(f"checkpoint {folder} lacks {' and '.join(missing)}")
    run, described = read_json(folder / "run.json"), read_json(folder / "softmax.json")
    for name, found, keys in (("run.json", run, ("model", "task", "num_classes", "family", "source", "config")),
                              ("softmax.json", described, ("softmax", "layers"))):
        if not isinstance(found, dict):
            raise UserError(f"{folder / name} should hold one JSON object: it is not a checkpoint of this project")
        if missing := [key for key in keys if key not in found]:
            raise UserError(f"{folder / name} lacks '{missing[0]}': it is not a checkpoint of this project")
    softmax, layers = described["softmax"], described["layers"]
    if not isinstance(softmax, dict) or not isinstance(layers, int) or layers < 1:
        raise UserError(f"{folder / 'softmax.json'} needs a softmax and a count of layers: "
                        "it is not a checkpoint of this project")
    made = softmax_from_json(softmax)
    if made.uses_exponential and described.get("exponential") is not None:  # the one trained with, not a new fit
        made.exponential = exponential_from_json(described["exponential"])
        if made.exponential.fit is not None or made.exponential.method != "taylor":  # Taylor's may state no domain
            made.exponential = verified(made.exponential, folder / "softmax.json")
    return Checkpoint(folder, run, made, layers)


def save(folder: Path, host: dict[str, Tensor], softmaxes: list[Softmax], run: dict[str, Any],
         surroundings: Any = None, state: TrainingState | None = None) -> Path:
    """Writes a checkpoint under a temporary name and renames it; run.json comes last.

    host          the model's state dict, host's own keys
    surroundings  function that writes the host's configuration and tokenizer into a folder

    UserError where the disk has no room for it.
    """
    draft = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        tensors = dict(host)
        for layer, softmax in enumerate(softmaxes):
            tensors.update({f"{PREFIX}{layer}.{k}": v for k, v in softmax.tensors().items()})
        save_file({k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}, draft / "model.safetensors")
        write_json(draft / "softmax.json", _described(softmaxes))
        if surroundings is not None:
            surroundings(draft / "host")
        if state is not None:
            state.write(draft / "state")
        write_json(draft / "run.json", run)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(draft, folder)
    except BaseException as error:
        shutil.rmtree(draft, ignore_errors=True)
        if disk_is_full(error):
            need = sum(t.nbytes for t in [*host.values(), *({} if state is None else state.tensors).values()])
            raise UserError(f"checkpoint {folder} needs {need / 2**20:.1f} MiB of disk, and "
                            f"{shutil.disk_usage(folder.parent).free / 2**20:.1f} are free; those before it are whole, "
                            "and the same command goes on from the last") from None
        raise
    return folder


def _described(softmaxes: list[Softmax]) -> dict[str, Any]:
    """softmax.json; 'exponentials' has those of all layers where they differ, for people to read: what is
    loaded are the tensors."""
    described = {**softmaxes[0].describe(), "layers": len(softmaxes)}
    exponentials = [softmax.describe()["exponential"] for softmax in softmaxes]
    return described if all(e == exponentials[0] for e in exponentials) else {**described, "exponentials": exponentials}


@dataclass
class TrainingState:
    """What a resumed run needs beside the weights: optimizer, place in the data, random numbers.

    progress   json values: step, epoch, position in the epoch, best so far
    tensors    flat tensors: the optimizer's as '<index>.<name>', rng.*, trainable.* (adapters)
    groups     the optimizer's param_groups without their parameters
    """

    progress: dict[str, Any]
    tensors: dict[str, Tensor]
    groups: list[dict[str, Any]]

    @classmethod
    def of(cls, progress: dict[str, Any], optimizer: torch.optim.Optimizer,
           trainable: dict[str, Tensor] | None = None) -> TrainingState:
        packed = optimizer.state_dict()
        tensors = {f"optimizer.{i}.{k}": v for i, s in packed["state"].items() for k, v in s.items()}
        tensors["rng.torch"] = torch.get_rng_state()
        for i, s in enumerate(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []):
            tensors[f"rng.cuda.{i}"] = s
        tensors.update({f"trainable.{k}": v for k, v in (trainable or {}).items()})
        groups = [{k: v for k, v in g.items() if k != "params"} | {"count": len(g["params"])}
                  for g in packed["param_groups"]]
        name, keys, *rest = np.random.get_state()  # noqa: NPY002  (libraries draw from the global state)
        version, internal, gauss = random.getstate()
        randoms = {"numpy": [name, np.asarray(keys).tolist(), *rest], "python": [version, list(internal), gauss]}
        return cls({**progress, "random": randoms}, tensors, groups)

    def restore(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Puts optimizer and random numbers back; returns the progress."""
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in self.tensors.items():
            if key.startswith("optimizer."):
                _, index, name = key.split(".", 2)
                state.setdefault(int(index), {})[name] = value
        groups, first = [], 0
        for g in self.groups:
            rest = {k: v for k, v in g.items() if k != "count"}
            rest = {k: tuple(v) if isinstance(v, list) else v for k, v in rest.items()}
            groups.append({**rest, "params": list(range(first, first + g["count"]))})
            first += g["count"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
        torch.set_rng_state(self.tensors["rng.torch"])
        if torch.cuda.is_available():
            states = [v for k, v in sorted(self.tensors.items()) if k.startswith("rng.cuda.")]
            torch.cuda.set_rng_state_all(states[: torch.cuda.device_count()])
        randoms = self.progress["random"]
        name, keys, *rest = randoms["numpy"]
        np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
        version, internal, gauss = randoms["python"]
        random.setstate((version, tuple(internal), gauss))
        return self.progress

    def trainable(self) -> dict[str, Tensor]:
        return {k[len("trainable.") :]: v for k, v in self.tensors.items() if k.startswith("trainable.")}

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        save_file({k: v.detach().cpu().contiguous() for k, v in self.tensors.items()}, folder / "tensors.safetensors")
        (folder / "progress.json").write_text(json.dumps({"progress": self.progress, "groups": self.groups}))

    @classmethod
    def read(cls, folder: Path) -> TrainingState:
        try:
            described = read_json(folder / "progress.json")
            return cls(described["progress"], load_file(folder / "tensors.safetensors"), described["groups"])
        except (SafetensorError, OSError, KeyError) as error:
            raise UserError(f"{folder} cannot be resumed from: {error}") from None
