"""What norms and activations that stand in a host have in common: a module, and the variant that a file names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.named import arguments, short
from cgf.types import Json, JsonValue

# receives (replacement, values, (lo, hi)) in training: values that are to stay inside the interval
Observer = Callable[["Replacement", Tensor, tuple[float, float]], None]
MOST_FEATURES = 2**20


class Tokens:
    """Which tokens of the batch at hand are real: valid (B, T) boolean, None where all are."""

    def __init__(self) -> None:
        self.valid: Tensor | None = None

    def rows(self, values: Tensor, where: str) -> Tensor:
        """The real tokens' rows (N, D) of values (..., D). UserError for a shape that the mask does not tell about."""
        valid = self.valid
        if valid is None or values.dim() == 2:  # one row a sample, or texts without their padding in one row
            return values.reshape(-1, values.shape[-1])
        if values.dim() < 3 or values.shape[:2] != valid.shape:
            raise UserError(
                f"{where} is given values of shape {tuple(values.shape)}, and the mask of the batch is "
                f"{tuple(valid.shape)}: it cannot be told which of them are padding"
            )
        return values[valid].reshape(-1, values.shape[-1])


class Replacement(nn.Module):
    """A module in the place of a host's own norm or activation.

    variant    the name by which a checkpoint knows it
    place      the name of the module or function that it stands for
    tokens     which tokens are real, one object for all replacements of a host
    waits      in training the host's own function is computed (staged replacement); probing: everywhere
    starting   the next pass is one over training data that its constants start from
    again      computed once more in a backward pass: nothing is measured twice
    observers  see in training what is to stay inside a range; whoever keeps it leaves out what comes ``again``
    """

    variant: ClassVar[str] = "replacement"
    steps: int

    def __init__(self) -> None:
        super().__init__()
        self.place, self.tokens = "", Tokens()
        self.waits = self.probing = self.starting = self.again = False
        self.observers: list[Observer] = []

    @property
    def own(self) -> bool:
        """Whether the host's own function is computed in this pass."""
        return self.probing or (self.training and self.waits)

    def at(self, progress: float) -> None:
        """Told at ``progress`` (0 to 1) of the steps before each; for what changes on the way."""

    def hold(self) -> None:
        """Puts parameters back into what is allowed, after an optimizer's step."""

    def measured(self) -> list[Tensor]:
        """Running values that a training pass moved, by reference; processes average them by their shares."""
        return []

    def observe(self, values: Tensor, interval: tuple[float, float]) -> None:
        """Shows values to the observers in training; in a second computation, too, which must do what the first did."""
        if self.training:
            for observer in self.observers:
                observer(self, values, interval)


V = TypeVar("V", bound="Variant")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A choice of the configuration and its settings; what a file says of it is looked up by ``name`` in a table.

    keep: names of modules that stay the host's own, such as a norm over embeddings, which a client computes in the
    clear.
    """

    name: ClassVar[str] = "variant"
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        keep = (self.keep,) if isinstance(self.keep, str) else self.keep
        if not isinstance(keep, Sequence) or not all(isinstance(name, str) and name for name in keep):
            raise UserError(f"keep must be a list of names of modules, and {short(keep)} was given")
        object.__setattr__(self, "keep", tuple(keep))

    def to_json(self) -> Json:
        """The variant's name and its settings as plain values."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"variant": self.name, **{k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}}


def variant_from_json(data: JsonValue, table: Mapping[str, type[V]], file: str) -> V:
    """The variant that ``Variant.to_json`` described, looked up in the table. UserError for anything else."""
    if not isinstance(data, dict) or not isinstance(data.get("variant"), str) or data["variant"] not in table:
        said = data.get("variant") if isinstance(data, dict) else data
        raise UserError(f"{file} needs a variant, one of {', '.join(table)}, and has {short(said)}")
    cls = table[data["variant"]]
    return cls(**arguments(cls, {k: v for k, v in data.items() if k != "variant"}, f"{file}'s '{cls.name}'"))


def check_features(features: JsonValue, where: str) -> int:
    """The count of features that a file gives. UserError for what is none."""
    if not is_whole(features) or not 1 <= features <= MOST_FEATURES:
        raise UserError(f"'features' of {where} must be from 1 to {MOST_FEATURES}, and is {short(features)}")
    return features


def wide(values: Tensor) -> Tensor:
    """Values in float32 at least, whatever the host computes in."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
