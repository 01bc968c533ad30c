"""A network, and what prepares its features, as files: one JSON of facts, one safetensors of arrays, both checked.

No file names code: a layer's kind is looked up in a fixed table, and its numbers are checked by the layer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from cgf.approx.exponential_json import exponential_from_json
from cgf.approx.verified import verified
from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.named import plain, short
from cgf.network.inputs import Inputs, Patches, Table
from cgf.network.layers import (
    Affine,
    Gated,
    Layer,
    Linear,
    Network,
    Pool,
    Positions,
    Residual,
    Rotary,
    SelfAttention,
    Square,
)
from cgf.results import read_json, write_json
from cgf.types import Json, JsonValue

SCHEMA = 1
NETWORK, INPUTS = "network", "inputs"  # names of the files, without their ends
ARRAYS: dict[str, tuple[type, tuple[str, ...]]] = {  # kinds whose fields are arrays alone
    "linear": (Linear, ("weight", "bias")),
    "affine": (Affine, ("scale", "shift")),
    "positions": (Positions, ("values",)),
    "square": (Square, ("coefficients",)),
}
PROJECTIONS = ("query", "key", "value")
TURNS = ("cosines", "sines")  # of rotary positions
DEEPEST = 4  # sums within sums


def save_network(folder: str | Path, network: Network) -> None:
    """Writes network.json and network.safetensors into a folder, which is made."""
    arrays: dict[str, np.ndarray] = {}
    layers = [_described(layer, f"layers.{i}", arrays) for i, layer in enumerate(network.layers)]
    facts = {"name": network.name, "features": network.features, "tokens": list(network.tokens)}
    _write(folder, NETWORK, {**facts, "classes": list(network.classes), "layers": layers}, arrays)


def load_network(folder: str | Path) -> Network:
    """The network of a folder. UserError, with the file's name, for whatever is not one.

    That includes a polynomial whose coefficients have not the error and the guard that the file states.
    """
    facts, arrays = _read(folder, NETWORK)
    where = f"{Path(folder) / NETWORK}.json"
    with _naming(where):
        return _network(facts, arrays, where)


def _network(facts: Json, arrays: dict[str, np.ndarray], where: str) -> Network:
    _keys(facts, ("kind", "schema", "name", "features", "tokens", "classes", "layers"), where)
    layers, classes, tokens = facts["layers"], facts["classes"], facts["tokens"]
    two = isinstance(tokens, list) and len(tokens) == 2
    if not two or not all(map(is_whole, (facts["features"], *tokens))):
        raise UserError(f"{where} needs whole numbers for 'features' and two for 'tokens'")
    if not isinstance(facts["name"], str) or not isinstance(classes, list) or not isinstance(layers, list):
        raise UserError(f"{where} needs a text for 'name', and lists of 'classes' and 'layers'")
    if not all(isinstance(name, str) for name in classes):
        raise UserError(f"{where} needs texts for 'classes'")
    made = tuple(_layer(layer, f"layers.{i}", arrays, where) for i, layer in enumerate(layers))
    if arrays:
        raise UserError(f"{where} has no layer for '{next(iter(arrays))}' of its arrays")
    return Network(facts["name"], facts["features"], (tokens[0], tokens[1]), made, tuple(classes))


def save_inputs(folder: str | Path, inputs: Inputs) -> None:
    """Writes inputs.json, and inputs.safetensors with the table where there is one."""
    if isinstance(inputs, Patches):
        _write(folder, INPUTS, {"inputs": "patches", **vars(inputs)}, {})
    else:
        arrays = {"rows": inputs.rows, "places": inputs.places}
        if inputs.norm is not None:
            arrays["gain"], arrays["shift"] = inputs.norm
        facts = {"inputs": "table", "eps": inputs.eps}
        if inputs.multiple > 1:
            facts |= {"multiple": inputs.multiple, "padding": inputs.padding}
        _write(folder, INPUTS, facts, arrays)


def load_inputs(folder: str | Path) -> Inputs:
    """What prepares a network's features. UserError, with the file's name, for whatever is not that."""
    facts, arrays = _read(folder, INPUTS)
    where = f"{Path(folder) / INPUTS}.json"
    with _naming(where):
        return _inputs(facts, arrays, where)


def _inputs(facts: Json, arrays: dict[str, np.ndarray], where: str) -> Inputs:
    if facts.get("inputs") == "table":
        filled = ("multiple", "padding") if "multiple" in facts else ()
        _keys(facts, ("kind", "schema", "inputs", "eps", *filled), where)
        if not isinstance(facts["eps"], float) or not all(type(facts[key]) is int for key in filled):
            raise UserError(f"{where} needs a number for 'eps', and whole numbers for 'multiple' and 'padding'")
        rows, places = (_taken(arrays, key, where) for key in ("rows", "places"))
        norm = (_taken(arrays, "gain", where), _taken(arrays, "shift", where)) if arrays else None
        return Table(rows, places, norm, facts["eps"], **{key: facts[key] for key in filled})
    sizes = [field.name for field in fields(Patches)]
    _keys(facts, ("kind", "schema", "inputs", *sizes), where)
    if facts["inputs"] != "patches" or not all(type(facts[name]) is int for name in sizes):
        raise UserError(f"{where} needs 'inputs' patches or table, and whole numbers for {', '.join(sizes)}")
    return Patches(**{name: facts[name] for name in sizes})


# -- layers ----------------------------------------------------------------------------------------


def _described(layer: Layer, name: str, arrays: dict[str, np.ndarray]) -> Json:
    """A layer as plain values; its arrays go into ``arrays`` under its name."""
    if isinstance(layer, Residual):
        inner = [_described(one, f"{name}.{i}", arrays) for i, one in enumerate(layer.layers)]
        return {"layer": "residual", "layers": inner}
    if isinstance(layer, Pool):
        return {"layer": "pool", "pool": layer.kind}
    if isinstance(layer, SelfAttention):
        for part in PROJECTIONS:
            _described(getattr(layer, part), f"{name}.{part}", arrays)
        facts = {"heads": layer.heads, "scaling": layer.scaling, "exponential": layer.exponential.to_json()}
        if layer.rotary is not None:
            arrays.update({f"{name}.{key}": getattr(layer.rotary, key) for key in TURNS})
        more = {"causal": layer.causal, "rotary": layer.rotary is not None}
        return {"layer": "attention", **facts, **{key: True for key, there in more.items() if there}}
    if isinstance(layer, Gated):
        _described(layer.up, f"{name}.up", arrays)
        return {"layer": "gated", "gate": [_described(g, f"{name}.{i}", arrays) for i, g in enumerate(layer.gate)]}
    kind = next(kind for kind, (made, _) in ARRAYS.items() if isinstance(layer, made))
    arrays.update({f"{name}.{key}": getattr(layer, key) for key in ARRAYS[kind][1]})
    return {"layer": kind}


def _layer(data: JsonValue, name: str, arrays: dict[str, np.ndarray], where: str, depth: int = 0) -> Layer:
    """The layer of ``_described``; its arrays are taken out of ``arrays``."""
    kind = data.get("layer") if isinstance(data, dict) else None
    if kind == "residual" and isinstance(data.get("layers"), list) and depth < DEEPEST:
        _keys(data, ("layer", "layers"), f"{where}, {name}")
        inner = [_layer(one, f"{name}.{i}", arrays, where, depth + 1) for i, one in enumerate(data["layers"])]
        return Residual(tuple(inner))
    if kind == "pool":
        _keys(data, ("layer", "pool"), f"{where}, {name}")
        return Pool(data["pool"])
    if kind == "attention":
        return _attention(data, name, arrays, where)
    if kind == "gated" and isinstance(data.get("gate"), list) and depth < DEEPEST:
        _keys(data, ("layer", "gate"), f"{where}, {name}")
        gate = [_layer(one, f"{name}.{i}", arrays, where, depth + 1) for i, one in enumerate(data["gate"])]
        return Gated(tuple(gate), _linear(arrays, f"{name}.up", where))
    if not isinstance(kind, str) or kind not in ARRAYS:
        known = ", ".join((*ARRAYS, "attention", "gated", "pool", "residual"))
        raise UserError(f"{where} needs a layer of {known} at {name}, and has {short(data)}")
    _keys(data, ("layer",), f"{where}, {name}")
    make: Callable[..., Layer] = ARRAYS[kind][0]
    return make(*(_taken(arrays, f"{name}.{key}", where) for key in ARRAYS[kind][1]))


def _attention(data: Json, name: str, arrays: dict[str, np.ndarray], where: str) -> SelfAttention:
    more = tuple(key for key in ("causal", "rotary") if key in data)
    _keys(data, ("layer", "heads", "scaling", "exponential", *more), f"{where}, {name}")
    if any(data[key] is not True for key in more):
        raise UserError(f"{where} needs true for '{more[0]}' at {name}, or nothing")
    heads, scaling = data["heads"], data["scaling"]
    if type(heads) is not int or not isinstance(scaling, int | float) or isinstance(scaling, bool):
        raise UserError(f"{where} needs a whole number of heads and a number for the scaling at {name}")
    query, key, value = (_linear(arrays, f"{name}.{part}", where) for part in PROJECTIONS)
    turns = Rotary(*(_taken(arrays, f"{name}.{key}", where) for key in TURNS)) if "rotary" in data else None
    made = exponential_from_json(data["exponential"])
    # a Taylor polynomial may state no domain
    exponential = made if made.fit is None and made.method == "taylor" else verified(made, f"{where}, {name},")
    return SelfAttention(query, key, value, heads, float(scaling), exponential, "causal" in data, turns)


def _linear(arrays: dict[str, np.ndarray], name: str, where: str) -> Linear:
    return Linear(*(_taken(arrays, f"{name}.{key}", where) for key in ("weight", "bias")))


# -- files -----------------------------------------------------------------------------------------


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """What a layer refuses of its own numbers, with the file that they stand in."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error) if where in str(error) else f"{where}: {error}") from None


def _write(folder: str | Path, name: str, facts: Json, arrays: Mapping[str, np.ndarray]) -> None:
    """Arrays first, the JSON last: a folder without it holds nothing."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if arrays:
        save_file({key: np.ascontiguousarray(value) for key, value in arrays.items()}, folder / f"{name}.safetensors")
    write_json(folder / f"{name}.json", {"kind": name, "schema": SCHEMA, **facts})


def _read(folder: str | Path, name: str) -> tuple[Json, dict[str, np.ndarray]]:
    path = Path(folder) / f"{name}.json"
    facts = read_json(path)
    plain(facts, str(path))
    if not isinstance(facts, dict) or facts.get("kind") != name or facts.get("schema") != SCHEMA:
        raise UserError(f"{path} needs kind '{name}' and schema {SCHEMA}, and is {short(facts)}")
    arrays = path.with_suffix(".safetensors")
    if not arrays.is_file():
        return facts, {}
    try:
        loaded = load_file(arrays)
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{arrays} cannot be read: {error}") from None
    except (TypeError, AttributeError, KeyError):  # BF16 and F8, by the version of safetensors
        loaded = None
    if loaded is None or any(array.dtype.kind == "V" for array in loaded.values()):  # V: of a package beside NumPy
        raise UserError(f"{arrays} must hold numbers of a type that NumPy has, such as F64, and holds others")
    return facts, loaded


def _keys(data: Json, keys: tuple[str, ...], where: str) -> None:
    """UserError for a key that is missing or not known."""
    if missing := [key for key in keys if key not in data]:
        raise UserError(f"{where} needs '{missing[0]}', and it is not given")
    if unknown := sorted(set(data) - set(keys)):
        raise UserError(f"{where} has no setting '{unknown[0]}': there are {', '.join(keys)}")


def _taken(arrays: dict[str, np.ndarray], key: str, where: str) -> np.ndarray:
    if key not in arrays:
        raise UserError(f"{where} needs the array '{key}' beside it, and it is not there")
    return arrays.pop(key)
