"""From a configuration or a checkpoint to a host model with its softmax in place."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from cgf.checkpoint import Checkpoint
from cgf.errors import UserError, with_reason
from cgf.models import bert, hf_image, llama
from cgf.models.described import CONFIG, check_folder, image_facts, timm_source
from cgf.models.host import Host, HostFacts
from cgf.models.install import install_copies
from cgf.models.replace import replace
from cgf.models.text import Maker
from cgf.softmax.base import Softmax
from cgf.types import AutoClass, HostConfig, Json, Tokenizer

UNKNOWN = "\u2603"  # a snowman: a tokenizer that cannot say that it does not know a word says so here
TEXT = ("bert", "llama")  # families whose model transformers makes
# how a host is made: its model with fresh weights, and what stands around the model
Parts = tuple[Callable[[], nn.Module], Callable[[nn.Module], Host]]


def from_checkpoint(
    checkpoint: Checkpoint, to_train: bool = False, changes: Json | None = None
) -> tuple[Host, list[Softmax]]:
    """The host of a checkpoint, with its weights and the softmax that it was trained with.

    to_train: a softmax may lack what training measures, as training will measure it. changes: settings of a timm model
    that differ from those it was trained with, img_size (pixels of a side, to which the position embeddings are
    brought) and drop_path. Needs neither the hub nor the original weights. Raises UserError where the weights are
    another model's, what is measured is not there, or the model takes no such changes.
    """
    make, around = _parts(checkpoint, changes or {})
    tensors, layers = checkpoint.weights()
    if not to_train:
        checkpoint.check_measured(layers)
    with torch.device("meta"):  # names and shapes alone: nothing is allocated for a model of another size
        check_weights(_with_parts(make(), checkpoint), tensors, checkpoint)
    model = _with_parts(make(), checkpoint)
    model.load_state_dict(tensors)
    host = around(model)  # which is measured with its weights
    softmaxes = install_copies(host.model, checkpoint.softmax)
    if len(softmaxes) != checkpoint.layers:
        raise UserError(
            f"checkpoint {checkpoint.path} has {checkpoint.layers} softmaxes, and its model {len(softmaxes)} attentions"
        )
    for softmax, kept in zip(softmaxes, layers, strict=True):
        softmax.load_tensors(kept)
    return host, softmaxes


def _with_parts(model: nn.Module, checkpoint: Checkpoint) -> nn.Module:
    """The model with the norms and activations that the checkpoint was trained with, before their tensors come."""
    parts = checkpoint.parts
    if parts.any:
        try:
            replace(model, parts.norm, parts.activation, parts.norms, parts.activations)
        except UserError as error:
            raise UserError(f"checkpoint {checkpoint.path} does not fit its model: {error}") from None
    return model


def check_weights(model: nn.Module, tensors: dict[str, Tensor], checkpoint: Checkpoint) -> None:
    """UserError unless the tensors have the names, shapes and types of numbers of the model's own."""
    own = model.state_dict()
    missing, extra = sorted(set(own) - set(tensors)), sorted(set(tensors) - set(own))
    shapes = [k for k in own if k in tensors and own[k].shape != tensors[k].shape]
    if missing or extra or shapes:
        first = (missing + extra + shapes)[0]
        raise UserError(
            f"checkpoint {checkpoint.path} is of another model ({checkpoint.run.get('model')}): "
            f"{len(missing)} keys missing, {len(extra)} unknown, {len(shapes)} of another shape, "
            f"first '{first}'"
        )
    for key, value in own.items():
        if value.dtype != tensors[key].dtype:  # load_state_dict would round without a word
            raise UserError(
                f"checkpoint {checkpoint.path} must have '{key}' in {value.dtype}, as its model has it, "
                f"and has it in {tensors[key].dtype}"
            )


def _parts(checkpoint: Checkpoint, changes: Json) -> Parts:
    """How the host of a checkpoint is made; all that the checkpoint says of it is checked here."""
    run, where = checkpoint.run, f"run.json of checkpoint {checkpoint.path}"
    family = run["family"]
    about = HostFacts(
        name=run["model"],
        num_classes=run["num_classes"],
        trained=True,
        source=run["source"],
        class_names=run.get("class_names"),
    )
    if family == "vit":
        return _vit(run, about, where, changes)
    if changes:
        raise UserError(f"model.{next(iter(changes))} is of timm's models, and checkpoint {checkpoint.path} is of none")
    if family == "hf_image":
        return _hf_image(checkpoint, about, where)
    if family not in (*TEXT, "bert_tiny"):
        raise UserError(
            f"checkpoint {checkpoint.path} is of the family '{family}', and there are bert, bert_tiny, hf_image, "
            "llama, vit"
        )
    return _bert_tiny(checkpoint, about) if family == "bert_tiny" else _text(checkpoint, about)


def _vit(run: Json, about: HostFacts, where: str, changes: Json) -> Parts:
    import timm

    from cgf.models import vit

    name, options = timm_source(run["source"], f"'source' of {where}")
    image = image_facts(run.get("image"), f"'image' of {where}")
    if "drop_path" in changes:
        options = {k: v for k, v in options.items() if k != "drop_path_rate"} | vit.dropping(changes["drop_path"])
        about = dataclasses.replace(about, source={**about.source, "options": options})

    def make() -> nn.Module:
        with with_reason(f"{where} describes no model that timm can build"):
            return timm.create_model(name, num_classes=run["num_classes"], **options)

    if "img_size" not in changes:
        return make, lambda model: vit.host(model, image, about)
    return make, lambda model: vit.resized(model, image, about, changes["img_size"])


def _hf_image(checkpoint: Checkpoint, about: HostFacts, where: str) -> Parts:
    from transformers import AutoConfig, AutoModelForImageClassification

    image = image_facts(checkpoint.run.get("image"), f"'image' of {where}")
    config = _config(checkpoint, AutoConfig)
    return _maker(checkpoint, AutoModelForImageClassification, config), lambda model: hf_image.host(model, image, about)


def _bert_tiny(checkpoint: Checkpoint, about: HostFacts) -> Parts:
    from transformers import BertConfig

    from cgf.models import bert_tiny

    config = _config(checkpoint, BertConfig)
    tokenizer = _tokenizer(checkpoint, getattr(config, "vocab_size", None))

    def make() -> nn.Module:
        with with_reason(f"{checkpoint.path / 'host'} does not describe the model"):
            return bert_tiny.MeanPooledBert(copy.deepcopy(config))

    return make, lambda model: _reader(checkpoint.run)(model, tokenizer, about)


def _reader(run: Json) -> Maker:
    """What makes a host of a model of texts; pairs are read by token types only where training read them so."""
    types = run.get("token_types") is True
    readers: dict[str, Maker] = {
        "llama": llama.host,
        "bert": partial(bert.host, token_types=types),
        "bert_tiny": partial(bert.host, token_types=types, family="bert_tiny"),
    }
    return readers[run["family"]]


def _tokenizer(checkpoint: Checkpoint, embeds: object) -> Tokenizer:
    """The tokenizer in the host folder; UserError for one that gives more ids than the model embeds."""
    from transformers import AutoTokenizer

    folder = checkpoint.path / "host"
    with with_reason(f"{folder} does not describe the model"):
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        ids = 1 + max(tokenizer.get_vocab().values(), default=-1)
        tokenizer(UNKNOWN)
    if isinstance(embeds, int) and ids > embeds:
        raise UserError(f"{folder} has a tokenizer of {ids} ids, and its model embeds {embeds}: they are no pair")
    return tokenizer


def _text(checkpoint: Checkpoint, about: HostFacts) -> Parts:
    from transformers import AutoConfig, AutoModelForSequenceClassification  # seconds: not for a ViT

    config = _config(checkpoint, AutoConfig)
    tokenizer = _tokenizer(checkpoint, getattr(config, "vocab_size", None))
    make = _maker(checkpoint, AutoModelForSequenceClassification, config)
    return make, lambda model: _reader(checkpoint.run)(model, tokenizer, about)


def _config(checkpoint: Checkpoint, kind: AutoClass) -> HostConfig:
    """transformers' configuration in the host folder; UserError where it is not there, or is another model's."""
    folder, classes = checkpoint.path / "host", checkpoint.run["num_classes"]
    if not (folder / CONFIG).is_file():  # a relative path would be asked for on the hub
        raise UserError(f"{folder} does not describe the model: it holds no config.json")
    check_folder(folder, bounded=True)
    with with_reason(f"{folder} does not describe the model"):
        config = kind.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    if config.num_labels != classes:
        raise UserError(f"{folder / CONFIG} has {config.num_labels} classes, and run.json says num_classes={classes}")
    return config


def _maker(checkpoint: Checkpoint, kind: AutoClass, config: HostConfig) -> Callable[[], nn.Module]:
    folder = checkpoint.path / "host"

    def make() -> nn.Module:
        with with_reason(f"{folder} does not describe the model"):
            return kind.from_config(copy.deepcopy(config), trust_remote_code=False)

    return make
