"""The state of a training run: what a resumed one needs beside the weights, checked before it is put back."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.amp import GradScaler

from cgf.errors import UserError
from cgf.named import plain, short
from cgf.results import read_json
from cgf.target import tensors_of
from cgf.types import Json, Options

LOSS_SCALE = "loss_scale"
MT_WORDS = 624  # of the Mersenne twister that numpy and Python draw from


@dataclass
class TrainingState:
    """What a resumed run needs beside the weights: optimizer, place in the data, random numbers.

    progress   json values: step, epoch, position in the epoch, best so far; of fp16 the scale of the loss too
    tensors    flat tensors: the optimizer's as '<index>.<name>', rng.*, trainable.* (adapters)
    groups     the optimizer's param_groups without their parameters
    """

    progress: Json
    tensors: dict[str, Tensor]
    groups: list[Options]

    @classmethod
    def of(
        cls,
        progress: Json,
        optimizer: torch.optim.Optimizer,
        trainable: dict[str, Tensor] | None = None,
        scaler: GradScaler | None = None,
    ) -> TrainingState:
        """The state of a run as it is now: progress, optimizer and random numbers.

        trainable: adapters, by name; scaler: what scales the loss of fp16, whose factor follows the gradients.
        """
        packed = optimizer.state_dict()
        tensors = {f"optimizer.{i}.{k}": v for i, s in packed["state"].items() for k, v in s.items()}
        tensors["rng.torch"] = torch.get_rng_state()
        for i, s in enumerate(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []):
            tensors[f"rng.cuda.{i}"] = s
        tensors.update({f"trainable.{k}": v for k, v in (trainable or {}).items()})
        groups = [
            {k: v for k, v in g.items() if k != "params"} | {"count": len(g["params"])} for g in packed["param_groups"]
        ]
        name, keys, *rest = np.random.get_state()  # noqa: NPY002  (libraries draw from the global state)
        version, internal, gauss = random.getstate()
        randoms = {"numpy": [name, np.asarray(keys).tolist(), *rest], "python": [version, list(internal), gauss]}
        scale = {} if scaler is None else {LOSS_SCALE: scaler.state_dict()}
        return cls({**progress, "random": randoms, **scale}, tensors, groups)

    def restore(self, optimizer: torch.optim.Optimizer, scaler: GradScaler | None = None) -> Json:
        """Puts optimizer, random numbers and the scale of the loss back; returns the rest of the progress.

        A state without a scale, as one of another precision is, leaves that of ``scaler`` as it is. UserError where
        they do not fit.
        """
        try:
            optimizer.load_state_dict(self._for(optimizer))
            if scaler is not None and LOSS_SCALE in self.progress:
                scaler.load_state_dict(self._scale(scaler))
            self._restore_randoms()
        except UserError:
            raise
        except (LookupError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
            raise UserError(
                "the training state cannot be gone on from, it is damaged or another run's: "
                f"{type(error).__name__} {str(error).partition(chr(10))[0]}"
            ) from None
        return {key: value for key, value in self.progress.items() if key not in ("random", LOSS_SCALE)}

    def _scale(self, scaler: GradScaler) -> Json:
        """The scaler's state dict. UserError where a number of it is missing or is none."""
        given, own = self.progress[LOSS_SCALE], scaler.state_dict()
        if not isinstance(given, dict) or given.keys() != own.keys() or not all(_positive(v) for v in given.values()):
            raise UserError(
                f"'{LOSS_SCALE}' of the training state needs numbers of at least 0 for {', '.join(own)}, and is "
                f"{short(given)}"
            )
        return given

    def _for(self, optimizer: torch.optim.Optimizer) -> Json:
        """The optimizer's state dict. UserError where groups or tensors are not those of its parameters."""
        own = optimizer.param_groups
        if [g.get("count") for g in self.groups] != [len(g["params"]) for g in own]:
            raise UserError(
                f"the training state is of {short([g.get('count') for g in self.groups])} parameters, and "
                f"the run has {[len(g['params']) for g in own]}"
            )
        parameters = [p for g in own for p in g["params"]]
        groups: list[Options] = []
        for given, group in zip(self.groups, own, strict=True):
            rest = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items() if k != "count"}
            for key, value in rest.items():
                if not _alike(value, group.get(key, value)):
                    raise UserError(f"'{key}' of the training state must be like {group[key]!r}, and is {short(value)}")
            first = sum(len(g["params"]) for g in groups)
            groups.append({**rest, "params": list(range(first, first + given["count"]))})
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in self.tensors.items():
            if key.startswith("optimizer."):
                _, index, name = key.split(".", 2)
                if value.dim() and value.shape != parameters[int(index)].shape:
                    raise UserError(
                        f"'{key}' of the training state must be of shape "
                        f"{tuple(parameters[int(index)].shape)}, and is of {tuple(value.shape)}"
                    )
                state.setdefault(int(index), {})[name] = value
        return {"state": state, "param_groups": groups}

    def _restore_randoms(self) -> None:
        randoms = self.progress["random"]
        name, keys, *rest = randoms["numpy"]
        if name != "MT19937" or len(keys) != MT_WORDS or not 0 <= rest[0] <= MT_WORDS:  # numpy reads it unchecked
            raise UserError("the training state needs numpy's random numbers as an MT19937 state, and has another")
        torch.set_rng_state(self.tensors["rng.torch"])
        if torch.cuda.is_available():
            names = sorted(
                (k for k in self.tensors if k.startswith("rng.cuda.")), key=lambda k: int(k.rpartition(".")[2])
            )
            torch.cuda.set_rng_state_all([self.tensors[name] for name in names[: torch.cuda.device_count()]])
        np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
        version, internal, gauss = randoms["python"]
        random.setstate((version, tuple(internal), gauss))

    def trainable(self) -> dict[str, Tensor]:
        """The trained parameters that the checkpoint's weights do not hold by themselves (adapters), by name."""
        return {k[len("trainable.") :]: v for k, v in self.tensors.items() if k.startswith("trainable.")}

    def write(self, folder: Path) -> None:
        """Writes tensors.safetensors and progress.json into a new folder."""
        folder.mkdir(parents=True)
        save_file({k: v.detach().cpu().contiguous() for k, v in self.tensors.items()}, folder / "tensors.safetensors")
        (folder / "progress.json").write_text(json.dumps({"progress": self.progress, "groups": self.groups}))

    @classmethod
    def read(cls, folder: Path) -> TrainingState:
        """The state that ``write`` left in a folder. UserError where it is damaged or holds what no state does."""
        described = read_json(folder / "progress.json")
        plain(described, f"{folder / 'progress.json'}")
        form = {"progress": dict, "groups": list}
        if (
            not isinstance(described, dict)
            or not all(isinstance(described.get(k), t) for k, t in form.items())
            or not all(isinstance(group, dict) for group in described["groups"])
        ):
            raise UserError(
                f"{folder / 'progress.json'} needs an object 'progress' and a list 'groups' of objects: it "
                "cannot be resumed from"
            )
        return cls(described["progress"], tensors_of(folder / "tensors.safetensors"), described["groups"])


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _alike(value: object, own: object) -> bool:
    """Whether a setting of an optimizer can stand where its own stands: a number for a number, flags for flags."""
    if isinstance(own, tuple):
        if not isinstance(value, tuple) or len(value) != len(own):
            return False
        return all(_alike(v, o) for v, o in zip(value, own, strict=True))
    if own is None or isinstance(own, bool):
        return value is None or isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)
