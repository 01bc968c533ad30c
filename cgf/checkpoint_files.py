"""What softmax.json and run.json of a checkpoint say, checked before anything is made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cgf.activation.base import ActivationVariant, ExactActivations
from cgf.activation.load import ACTIVATION, activations_from_json
from cgf.approx.exponential import Exponential
from cgf.approx.exponential_json import exponential_from_json
from cgf.approx.verified import verified
from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.former import current_name
from cgf.named import plain, short
from cgf.norm.base import ExactNorms, NormVariant
from cgf.norm.load import NORM, norms_from_json
from cgf.replacement import check_features
from cgf.results import read_json
from cgf.softmax.base import Softmax
from cgf.softmax.load import TARGETS, softmax_from_json
from cgf.types import Json, JsonValue

MOST_LAYERS, MOST_CLASSES = 1024, 2**16
MOST_SQUARINGS, MOST_COEFFICIENTS = 64, 1024  # of an exponential
MOST_PLACES = 2**14


@dataclass(frozen=True)
class DescribedParts:
    """What norm.json and activation.json say: the variants, and the features of every place by its name."""

    norm: NormVariant = field(default_factory=ExactNorms)
    activation: ActivationVariant = field(default_factory=ExactActivations)
    norms: dict[str, int] = field(default_factory=dict)
    activations: dict[str, int] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Whether anything is replaced."""
        return bool(self.norms or self.activations)


def described_parts(folder: Path) -> DescribedParts:
    """The norms and activations of a checkpoint; without a file they are the host's own. UserError for a bad file."""
    norm, norms = _part(folder / NORM)
    activation, activations = _part(folder / ACTIVATION)
    return DescribedParts(
        ExactNorms() if norm is None else norms_from_json(norm, NORM),
        ExactActivations() if activation is None else activations_from_json(activation, ACTIVATION),
        norms,
        activations,
    )


def _part(path: Path) -> tuple[Json | None, dict[str, int]]:
    """(the variant's node, features by place); (None, none) where there is no such file."""
    if not path.is_file():
        return None, {}
    data = read_json(path)
    plain(data, str(path))
    listed = data.get("places") if isinstance(data, dict) else None
    if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_PLACES:
        raise UserError(f"{path} needs a list of 1 to {MOST_PLACES} places: it is not a checkpoint of this project")
    places: dict[str, int] = {}
    for place in listed:
        name = place.get("name") if isinstance(place, dict) else None
        if not isinstance(name, str) or set(place) != {"name", "features"} or name in places:
            raise UserError(f"{path} needs places with a name of their own and features, and has {short(place)}")
        places[name] = check_features(place["features"], str(path))
    if data.get("variant") == "exact":
        raise UserError(f"{path} says that nothing is replaced, and names {len(places)} places: it was changed")
    return {key: value for key, value in data.items() if key != "places"}, places


def described_softmax(described: Json, path: Path) -> tuple[Softmax, int]:
    """The softmax of softmax.json, with the exponential that it was trained with, and the count of layers."""
    softmax, layers = described["softmax"], described["layers"]
    if not isinstance(softmax, dict) or not is_whole(layers) or layers < 1:
        raise UserError(f"{path} needs a softmax and a count of layers: it is not a checkpoint of this project")
    if layers > MOST_LAYERS:
        raise UserError(f"{path} may have {MOST_LAYERS} layers at most, and says {short(layers)}")
    made = softmax_from_json(softmax)
    if made.uses_exponential and described.get("exponential") is not None:  # the one trained with, not a new fit
        made.exponential = _exponential(described["exponential"], path)
    return made, layers


def _exponential(described: JsonValue, path: Path) -> Exponential:
    plain(described, f"the exponential of {path}")
    if isinstance(described, dict):
        squarings, lists = described.get("k", 0), [v for v in described.values() if isinstance(v, list)]
        longest = max((len(v) for each in lists for v in (each, *each) if isinstance(v, list)), default=0)
        if longest > MOST_COEFFICIENTS or (isinstance(squarings, int) and not 0 <= squarings <= MOST_SQUARINGS):
            raise UserError(
                f"the exponential of {path} may have {MOST_SQUARINGS} squarings and {MOST_COEFFICIENTS} "
                f"coefficients at most, and has k={short(squarings)} and {longest}"
            )
    made = exponential_from_json(described)
    # a Taylor polynomial may state no domain
    return made if made.fit is None and made.method == "taylor" else verified(made, path)


def check_run(run: Json, softmax: Softmax, path: Path) -> None:
    """UserError where run.json holds what it cannot, or what its own configuration and softmax.json contradict."""
    plain(run["source"], f"'source' of {path}")
    kinds: dict[str, type] = {"model": str, "task": str, "num_classes": int, "family": str, "source": dict}
    for key, kind in kinds.items():
        if not isinstance(run[key], kind) or isinstance(run[key], bool):
            raise UserError(f"'{key}' of {path} must be of type {kind.__name__}, and is {short(run[key])}")
    if not 1 <= run["num_classes"] <= MOST_CLASSES:
        raise UserError(f"'num_classes' of {path} must be from 1 to {MOST_CLASSES}, and is {short(run['num_classes'])}")
    config = run["config"] if isinstance(run["config"], dict) else {}
    model, trained = config.get("model"), config.get("softmax")
    if isinstance(model, dict) and model.get("name", run["model"]) != run["model"]:
        raise UserError(
            f"{path} says model={run['model']}, and its configuration {short(model['name'])}: it was changed"
        )
    if (
        isinstance(trained, dict)
        and current_name(trained.get("_target_")) in TARGETS
        and _params(trained) != softmax.to_json()
    ):
        raise UserError(
            f"{path} was trained with the softmax {short(_params(trained))}, and softmax.json has "
            f"{short(softmax.to_json())}: one of them was changed"
        )


def check_parts(run: Json, parts: DescribedParts, path: Path) -> None:
    """UserError where the configuration in run.json names other norms or activations than their files do."""
    config = run["config"] if isinstance(run["config"], dict) else {}
    for kind, variant in (("norm", parts.norm), ("activation", parts.activation)):
        node = config.get(kind)
        target = node.get("_target_") if isinstance(node, dict) else None
        cls = type(variant)
        if isinstance(target, str) and target != f"{cls.__module__}.{cls.__qualname__}":
            raise UserError(
                f"{path} was trained with {kind} {short(target)}, and {kind}.json says '{variant.name}': one of them "
                "was changed"
            )


def _params(node: Json) -> Json:
    return softmax_from_json(node).to_json()
