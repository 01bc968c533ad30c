"""What all hosts of texts have in common: a transformers classifier that is found, loaded and made a host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cgf.models.host import Host, HostFacts, listed
from cgf.models.pretrained import check_revision, classifier, locate, whence
from cgf.types import HostModule, Json, Tokenizer

Maker = Callable[[HostModule, Tokenizer, HostFacts], Host]  # an adapter's ``host``


def load(
    host: Maker,
    name: str,
    num_classes: int,
    *,
    path: str | None,
    package: str | None,
    subfolder: str,
    data_root: str | None,
    class_names: Sequence[str] | None,
    gguf_file: str | None = None,
    source: Json | None = None,
    hub_revision: str | None = None,
) -> Host:
    """A classifier of texts, made a host by an adapter's ``host``.

    path, package, subfolder, data_root  see cgf.models.pretrained.locate
    class_names  the task's, in its order; a head that came with the weights is put into it, see cgf.models.pretrained
    source       what run.json is to say of the weights, beside where they are from
    hub_revision a commit or a branch of a hub id; None: the newest. run.json names the commit that was loaded

    Raises UserError where the weights are not there, or are of a model that the adapter does not read.
    """
    where = locate(name, path, package, subfolder, data_root)
    check_revision(where, hub_revision)
    model, tokenizer, trained, commit = classifier(
        where, num_classes, gguf_file, "model.path=FOLDER with its files", listed(class_names), hub_revision
    )
    about = HostFacts(
        name=name,
        num_classes=num_classes,
        trained=trained,
        source={**whence(path or package or subfolder, commit), **(source or {})},
        class_names=class_names,
    )
    return host(model, tokenizer, about)
