"""A model saved with its softmax, and read again: transformers' by its own save_pretrained, timm's by cgf.save."""

from __future__ import annotations

import copy
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from cgf.checkpoint_files import described_softmax
from cgf.errors import UserError, disk_is_full, reason, with_reason
from cgf.interface.own_model import check_module, measured, put_back
from cgf.interface.state import KEY, weights_alone
from cgf.models.described import CONFIG, is_timm
from cgf.models.install import installed, installed_softmaxes, uninstall
from cgf.models.pretrained import check_class, check_named
from cgf.models.probe import probe_batch
from cgf.models.self_check import TOLERANCE, IndependentExact, distance, evaluating
from cgf.named import short
from cgf.results import read_json, write_json
from cgf.softmax.base import Softmax
from cgf.softmax.load import check_listed
from cgf.softmax.required import check_measured
from cgf.target import check_writable, file_hash, regular, tensors_of
from cgf.types import AutoClass, HostConfig, JsonValue

DESCRIBED, TENSORS = "softmax.json", "softmax.safetensors"
# what helps where a model cannot be made again
BY_HAND = (
    "keep model.state_dict(), and load it into the model that you make again, once cgf.install put the same softmax "
    "into that"
)


def save_with_softmax(model: nn.Module, save_directory: str | Path, **options: object) -> None:
    """transformers' save_pretrained, with softmax.json and the tensors that the softmaxes keep beside the weights.

    A softmax.json of before goes first: weights that are half written stand beside none. UserError where the softmaxes
    differ by layer, are of a class that no file may name, or are to be pushed to a hub, where weights are shared that
    the model's class does not share, and for a folder that cannot be written or has no room.
    """
    if options.get("push_to_hub"):
        raise UserError("save_pretrained(push_to_hub=True) would push before softmax.json is there: save, then push")
    slots, main = _alike(model), bool(options.get("is_main_process", True))
    _check_tied(model, options.get("state_dict"))
    if main:
        described = regular(Path(save_directory) / DESCRIBED)
        check_writable(described)
        described.unlink(missing_ok=True)
    with _room(Path(save_directory), "it holds a part of the model, which cgf.load refuses"):
        # mypy: a transformers model, whose class has it
        type(model).save_pretrained(model, save_directory, **options)  # type: ignore[attr-defined]
        if main:
            _write_softmax(slots, Path(save_directory))


def save(model: nn.Module, folder: str | Path) -> None:
    """Saves a model with the softmax put in, so that ``cgf.load`` gives both back.

    A transformers model saves itself, as its ``save_pretrained`` does, once a model made of its configuration and
    weights gives the same numbers; that takes memory for a second model. Of a model that ``timm.create_model`` made,
    config.json, model.safetensors and softmax.json are written, once a model made of them gives the same numbers.
    Raises UserError for softmaxes that differ by layer, for any other model, for one that cannot be made again, for
    adapters that are not merged, for a folder without room, and for weights that are no finite numbers, which
    ``cgf.load`` would refuse.
    """
    check_module(model)
    _check_merged(model)
    path, slots = _folder(folder), _alike(model)
    if lost := [name for name, weights in model.named_parameters() if not bool(weights.isfinite().all())]:
        raise UserError(f"{type(model).__name__} needs finite weights to be saved, and {lost[0]} has others")
    if hasattr(model, "save_pretrained"):
        _check_class(model)
        _check_same(model)
        model.save_pretrained(path)  # type: ignore[operator]  # a method of transformers' models
        return
    from cgf.models import timm_folder

    goal = regular(path / DESCRIBED).parent
    with _room(goal, "it is as it was"), tempfile.TemporaryDirectory(prefix=".cgf-", dir=goal) as part:
        with weights_alone(model):  # timm reads this folder too, and knows no softmax
            timm_folder.write(model, Path(part))
        _write_softmax(slots, Path(part))
        _check_again(model, Path(part))
        for name in (DESCRIBED, TENSORS):  # of what was saved there before: new weights stand beside none
            (goal / name).unlink(missing_ok=True)
        for file in sorted(Path(part).iterdir()):
            os.replace(file, goal / file.name)


def _folder(folder: object) -> Path:
    """The path of a folder; UserError for what is no path."""
    if not isinstance(folder, str | os.PathLike):
        raise UserError(f"folder must be a path, and is {short(folder)}")
    return Path(folder).expanduser()


def _check_tied(model: nn.Module, state: object) -> None:
    """UserError where a transformers model shares weights that its class does not: they cannot be saved, and its own
    refusal comes once files were written. state: what is saved in place of its ``state_dict``."""
    from transformers import PreTrainedModel
    from transformers.modeling_utils import remove_tied_weights_from_state_dict

    if not isinstance(model, PreTrainedModel):
        return
    try:
        remove_tied_weights_from_state_dict(dict(state if isinstance(state, dict) else model.state_dict()), model)
    except RuntimeError as error:
        shared = sorted(re.findall(r"'([^']+)'", str(error).partition(" which ")[0]))
        raise UserError(
            f"{type(model).__name__} has one weight as {' and '.join(shared[:2]) or 'two'}, which its class does not "
            "share, and cannot be saved so: give each a weight of its own (torch.nn.Parameter(weight.detach().clone()))"
        ) from None


@contextmanager
def _room(folder: Path, state: str) -> Iterator[None]:
    """UserError where the disk is full, or a limit of its files is met: it says in what ``state`` the folder is."""
    try:
        yield
    except Exception as error:
        if not disk_is_full(error):
            raise
        raise UserError(
            f"{folder} has no room for the model ({reason(error)}), and {state}: make room, and save it again"
        ) from error


def _check_again(model: nn.Module, part: Path) -> None:
    """UserError where what was written is another model than this one, as one that was changed by hand is."""
    host = measured(model)
    batch = probe_batch(host)
    again = load(part)
    with evaluating(model), evaluating(again), torch.no_grad():
        away = distance(host.forward(model, batch), host.forward(again, batch))
    if away > TOLERANCE:
        raise UserError(
            f"{type(model).__name__} made again by timm gives other numbers (by {away:.1e} of the largest): {BY_HAND}"
        )


def _check_merged(model: nn.Module) -> None:
    """UserError for a model within peft's adapters, whose own files hold neither the model nor its softmax."""
    peft = sys.modules.get("peft")  # whoever has a model of its has imported it
    if peft is not None and isinstance(model, peft.PeftModel):
        raise UserError(
            f"{type(model).__name__} keeps its adapters alone where it is saved: merge them first "
            "(model = model.merge_and_unload()), and save that"
        )


def _check_class(model: nn.Module) -> None:
    """UserError for a transformers model of another class than transformers makes of its configuration."""
    from transformers.models.auto import modeling_auto as auto

    mappings = (auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING)
    config: HostConfig = model.config
    if type(model) not in [mapping.get(type(config), None) for mapping in mappings]:
        raise UserError(
            f"{type(model).__name__} is no sequence or image classifier of transformers' own, which cgf.load makes: "
            f"{BY_HAND}"
        )


def _check_same(model: nn.Module) -> None:
    """UserError where a model made of this one's configuration and weights gives other numbers: changed by hand.

    Of a model that is not in float32, in which numbers are compared, nothing is said.
    """
    if any(p.dtype != torch.float32 for p in model.parameters()):
        return
    host, before = measured(model), installed_softmaxes(model)
    batch = {key: value.to(model.device) for key, value in probe_batch(host).items()}  # type: ignore[arg-type]  # its own
    with weights_alone(model):
        state = model.state_dict()
    with torch.random.fork_rng(devices=[]):  # its first weights are drawn
        again = type(model)(copy.deepcopy(model.config)).to(model.device)  # type: ignore[arg-type]  # as above
    name = type(model).__name__
    try:
        again.load_state_dict(state)
    except RuntimeError as error:
        raise UserError(
            f"{name} has other weights than transformers makes of it ({reason(error)}): {BY_HAND}"
        ) from None
    uninstall(model)
    try:
        own, other = (installed(each, lambda _: IndependentExact()) for each in (model, again))
        with evaluating(model), evaluating(again), own, other, torch.no_grad():
            away = distance(host.forward(model, batch), host.forward(again, batch))
    finally:
        put_back(model, before)
    if away > TOLERANCE:
        raise UserError(
            f"{name} made again by transformers gives other numbers (by {away:.1e} of the largest): {BY_HAND}"
        )


def _alike(model: nn.Module) -> list[Softmax]:
    """The softmaxes of a model; UserError where they differ by layer, or are of a class that no file may name."""
    slots = [slot for slot in installed_softmaxes(model) if isinstance(slot, Softmax)]
    if not slots:
        raise UserError(f"{type(model).__name__} has no softmax put in: cgf.install(model, 'cgf') first")
    same = (lambda slot: slot.to_json()) if slots[0].tensors() else (lambda slot: slot.describe())
    if any(same(slot) != same(slots[0]) for slot in slots):  # what differs in trained constants has tensors
        raise UserError("softmaxes that differ by layer cannot be saved by save_pretrained")
    check_listed(slots[0])
    return slots


def _write_softmax(slots: list[Softmax], folder: Path) -> None:
    """softmax.json, and the tensors that the softmaxes keep, where there are such."""
    kept = {f"{layer}.{name}": t for layer, slot in enumerate(slots) for name, t in slot.tensors().items()}
    (folder / TENSORS).unlink(missing_ok=True)
    if kept:
        save_file({key: tensor.detach().cpu().contiguous() for key, tensor in kept.items()}, folder / TENSORS)
    described = {**slots[0].describe(), "layers": len(slots), "tensors": bool(kept), "weights": _weights(folder)}
    write_json(folder / DESCRIBED, described)


def _weights(folder: Path) -> dict[str, str]:
    """The hash of each file of weights in a folder, and of what the softmax keeps, by name."""
    return {path.name: file_hash(path) for path in sorted(folder.glob("*.safetensors"))}


def _check_weights(path: Path, stated: JsonValue) -> None:
    """UserError unless the files of a folder are those that were saved with its softmax; older ones lack its own."""
    if not isinstance(stated, dict):
        raise UserError(f"'weights' of {path / DESCRIBED} needs hashes by name of file, and is {short(stated)}")
    now = _weights(path)
    if TENSORS not in stated:
        now.pop(TENSORS, None)
    if stated == now:
        return
    if {**stated, TENSORS: None} == {**now, TENSORS: None}:
        raise UserError(
            f"{path / TENSORS} is not the one that {DESCRIBED} was saved with, and its softmax is another: save the "
            "model by cgf.save"
        )
    raise UserError(
        f"the weights in {path} are not those that {DESCRIBED} was saved with: save the model by cgf.save, or "
        f"remove {DESCRIBED} where it has no such softmax any more"
    )


def load(folder: str | Path) -> nn.Module:
    """The classifier that ``cgf.save`` or ``save_pretrained`` wrote after ``install``, in float32, with its softmax, in
    evaluation mode.

    Reads safetensors and JSON alone, no code and no pickle. Raises UserError for a folder that is not there or holds no
    softmax.json, weights that were saved there without their softmax since, a model that is neither a sequence nor an
    image classifier, and what ``install`` refuses.
    """
    from cgf.interface.installing import install

    path = _folder(folder)
    if not (path / DESCRIBED).is_file():
        raise UserError(f"{path} holds no {DESCRIBED}: cgf.load reads what cgf.save wrote after cgf.install")
    described = read_json(path / DESCRIBED)
    if not isinstance(described, dict) or not {"softmax", "layers"} <= set(described):
        raise UserError(f"{path / DESCRIBED} needs a softmax and a count of layers")
    if described.get("tensors") and not (path / TENSORS).is_file():
        raise UserError(f"{path} lacks {TENSORS}, which its softmax was saved with")
    if "weights" in described:  # older folders do not state them
        _check_weights(path, described["weights"])
    softmax, layers = described_softmax(described, path / DESCRIBED)
    model = _classifier(path)
    slots = install(model, softmax)
    if len(slots) != layers:
        raise UserError(f"{path / DESCRIBED} is of {layers} layers, and the model has {len(slots)}")
    kept: list[dict[str, torch.Tensor]] = [{} for _ in slots]
    for key, tensor in (tensors_of(path / TENSORS) if described.get("tensors") else {}).items():
        layer, _, name = key.partition(".")
        if not layer.isdecimal() or int(layer) >= layers or not bool(tensor.isfinite().all()):
            raise UserError(f"{path / TENSORS} holds {key}, which no layer of the model has, or no finite numbers")
        kept[int(layer)][name] = tensor
    for number, (slot, tensors) in enumerate(zip(slots, kept, strict=True)):
        if described.get("tensors"):  # one that was never trained has none yet
            check_measured(slot, tensors, f"{path / TENSORS} has none of layer {number}")
        slot.load_tensors(tensors)
    return model.eval()  # timm makes its models in training mode, in which some softmaxes measure anew


def _classifier(path: Path) -> nn.Module:
    if (path / CONFIG).is_file() and is_timm(read_json(path / CONFIG)):
        from cgf.models import timm_folder

        folder = timm_folder.read(path)
        return folder.model(folder.classes)[0]
    from transformers import AutoConfig, AutoModelForImageClassification, AutoModelForSequenceClassification, logging

    check_named(str(path))
    with with_reason(f"{path / CONFIG} describes no model that transformers can make"):
        config = AutoConfig.from_pretrained(path, trust_remote_code=False, local_files_only=True)
    stated = " ".join(config.architectures or ())
    kinds: dict[str, AutoClass] = {"ForSequenceClassification": AutoModelForSequenceClassification}
    kinds["ForImageClassification"] = AutoModelForImageClassification
    auto = next((kind for ending, kind in kinds.items() if stated.endswith(ending)), None)
    check_class(config, str(path))
    if auto is None:
        raise UserError(f"{path} is of {stated or 'no model that it names'}: a sequence or image classifier is needed")
    options = {"dtype": torch.float32, "trust_remote_code": False, "local_files_only": True, "use_safetensors": True}
    level = logging.get_verbosity()
    logging.set_verbosity_error()  # its report names what the softmaxes keep in state_dict as weights without a place
    try:
        with with_reason(f"{path} is no model that transformers can make"):
            model, info = auto.from_pretrained(path, output_loading_info=True, **options)
    finally:
        logging.set_verbosity(level)
    if lost := sorted(map(str, [*info["missing_keys"], *info["mismatched_keys"]])):
        raise UserError(f"{path} lacks weights of its model: {lost[0]}")
    if without := sorted(str(key) for key in info["unexpected_keys"] if not str(key).startswith(KEY)):
        warnings.warn(f"{path} holds weights that its model has no place for: {without[0]}", stacklevel=3)
    return model
