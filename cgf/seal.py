"""What a checkpoint's files were when it was saved: their hashes in run.json, and a seal over run.json itself.

Both find what was changed, damaged or mixed up since. They are no signature: who rewrites a whole checkpoint can seal
it anew. The training state has no hash here, since it may be pruned from a checkpoint that stays as it was.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from cgf.errors import UserError
from cgf.named import short
from cgf.target import file_hash
from cgf.types import Json, JsonValue

SCHEMA = 2
MODEL, SOFTMAX, RUN, HOST = "model.safetensors", "softmax.json", "run.json", "host"
PARTS = ("norm.json", "activation.json")  # where norms or activations are replaced
KEYS = ("schema", "files", "seal")  # what run.json says of the folder, beside its content
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".gguf", ".npz", ".npy", ".h5", ".onnx")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
MOST_SMALL = 2**28  # bytes of a file that is no weights
AS_SAVED = "take it as it was saved, or train it anew"


def json_hash(data: JsonValue) -> str:
    """sha256 of the canonical text of what a JSON file holds."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def with_seal(data: Json) -> Json:
    """JSON's own values, and their hash as 'seal'."""
    return {**data, "seal": json_hash(data)}


def check_seal(data: JsonValue, path: Path) -> None:
    """UserError where ``data``, read from ``path``, has a seal that does not fit it; files of before have none."""
    if isinstance(data, dict) and "seal" in data:
        content = {key: value for key, value in data.items() if key != "seal"}
        if json_hash(content) != data["seal"]:
            raise UserError(f"{path} was changed after it was made, its seal does not fit: take it as it was made")


def small_files(folder: Path) -> list[str]:
    """What a checkpoint's results depend on beside the weights and run.json: names relative to the folder, sorted."""
    host = [p.relative_to(folder).as_posix() for p in (folder / HOST).rglob("*") if not p.is_dir()]
    return sorted([SOFTMAX, *(name for name in PARTS if (folder / name).is_file()), *host])


def sealed(content: Json, folder: Path) -> Json:
    """run.json of a folder whose other files are written: ``content`` (JSON's own values), hashes and the seal."""
    run = {
        **content,
        "schema": SCHEMA,
        "files": {name: file_hash(folder / name) for name in (MODEL, *small_files(folder))},
    }
    return {**run, "seal": json_hash(run)}


def run_content(run: Json) -> Json:
    """What run.json says of the run: without schema, hashes and seal."""
    return {key: value for key, value in run.items() if key not in KEYS}


def hashes(run: Json, folder: Path) -> dict[str, str] | None:
    """Hashes by file as run.json has them, checked but for the weights', whose reader does; None: an old one.

    UserError, naming the file, where one was changed, taken away or added since, and where run.json itself was.
    """
    _no_pickles(folder)
    if not any(key in run for key in KEYS):
        return None
    if run.get("schema") != SCHEMA or isinstance(run.get("schema"), bool):
        raise UserError(
            f"{folder / RUN} must be of schema {SCHEMA}, and is of {short(run.get('schema'))}: this code "
            "does not read it"
        )
    if json_hash({k: v for k, v in run.items() if k != "seal"}) != run.get("seal"):
        raise UserError(f"{folder / RUN} was changed after the checkpoint was saved, its seal does not fit: {AS_SAVED}")
    kept = run.get("files")
    if not isinstance(kept, dict) or MODEL not in kept:
        raise UserError(f"{folder / RUN} needs a hash for every file, and has none for {MODEL}: {AS_SAVED}")
    there = {*small_files(folder), *(p.name for p in folder.iterdir() if p.suffix in WEIGHTS)}
    for name in sorted({*kept, *there}):
        if name not in there:
            raise UserError(f"checkpoint {folder} lacks {name}, which was saved with it: {AS_SAVED}")
        if name not in kept:
            raise UserError(f"checkpoint {folder} holds {name}, which was not saved with it: take that file away")
        if name != MODEL and file_hash(folder / name, MOST_SMALL) != kept[name]:
            raise UserError(f"{folder / name} was changed after the checkpoint was saved: {AS_SAVED}")
    return kept


def _no_pickles(folder: Path) -> None:
    for path in [*folder.iterdir(), *(folder / HOST).rglob("*")]:
        if path.suffix in PICKLED:
            raise UserError(
                f"checkpoint {folder} holds {path.relative_to(folder)}, a pickled file, which could run "
                "code: weights lie in model.safetensors alone, so take that file away"
            )
