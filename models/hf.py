"""Any classifier of transformers as a host: of texts or images, decoder or encoder, by structure."""

from __future__ import annotations

from collections.abc import Sequence

from cgf.errors import UserError
from cgf.hub import fetching
from cgf.models import bert, hf_image, llama, text
from cgf.models.host import Host, HostFacts
from cgf.models.pretrained import at, check_named, check_revision, locate
from cgf.types import HostModule, Tokenizer


def text_host(model: HostModule, tokenizer: Tokenizer, about: HostFacts) -> Host:
    """A model with a linear head ``score`` as a decoder, any other as an encoder; each measures which it is."""
    adapter = llama if llama.has_head(model) else bert
    return adapter.host(model, tokenizer, about)


def load(
    name: str,
    num_classes: int,
    *,
    path: str | None = None,
    hub_revision: str | None = None,
    class_names: Sequence[str] | None = None,
) -> Host:
    """The sequence or image classifier of a folder or a hub id (owner/name), with a head of num_classes.

    hub_revision: a commit or a branch of a hub id; None: the newest. run.json names the commit that was loaded.

    Raises UserError without a path, for a model that is neither, and for one that fails its self-check
    (cgf.models.self_check), with what failed.
    """
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING,
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    )

    if path is None:
        raise UserError(f"model={name} needs model.path=FOLDER or a hub id (owner/name)")
    where = locate(name, path)
    check_revision(where, hub_revision)
    with fetching(where, "model.path=FOLDER with its files", hub_revision):
        revision = check_named(where, hub_revision) or hub_revision  # one commit for all that follows
        config = AutoConfig.from_pretrained(where, trust_remote_code=False, **at(revision))
    if type(config) in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
        return text.load(
            text_host,
            name,
            num_classes,
            path=path,
            package=None,
            subfolder="",
            data_root=None,
            class_names=class_names,
            hub_revision=revision,
        )
    if type(config) in MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING:
        return hf_image.load(name, where, num_classes, class_names, revision)
    raise UserError(f"model={name} needs a sequence or image classifier, and {where} is {type(config).__name__}'s")
