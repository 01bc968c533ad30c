"""timm's models on the hub: which commit of theirs is loaded is known, and what has no commit is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import timm
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import RemoteEntryNotFoundError

from cgf.errors import UserError
from cgf.hub import fetching
from cgf.models.described import CONFIG
from cgf.models.timm_folder import WEIGHTS

OWN_FILES = "model.path=FOLDER that timm wrote"
INSTEAD = f"{OWN_FILES}, model.pretrained=false, or ckpt=PATH of a trained checkpoint"


def repository(timm_name: str) -> str:
    """The hub id of the weights that timm has for a registered name.

    UserError where timm has none, or has them at an address without commits, so that nobody could name them again.
    """
    stated = timm.get_pretrained_cfg(timm_name)
    where: str | None = getattr(stated, "hf_hub_id", None)
    if where:
        return where
    address = getattr(stated, "url", None)
    if not address:
        raise UserError(f"timm has no weights of {timm_name}: take {OWN_FILES}, or model.pretrained=false")
    raise UserError(
        f"the weights of {timm_name} lie at {address}, which has no commits as the hub has, so that results could not "
        f"name them: take {OWN_FILES}, or model.pretrained=false"
    )


def commit_of_weights(where: str, revision: str | None) -> str:
    """The commit of a hub id at a commit or a branch (None: the newest), its safetensors fetched.

    To be called within ``cgf.hub.fetching``. UserError for a repository that has its weights as pickles alone.
    """
    return _fetched(where, revision, (WEIGHTS,))[1]


def folder_of(where: str, revision: str | None) -> tuple[Path, str]:
    """(folder with config.json and model.safetensors of a hub id, their commit), at a commit or a branch (None: the
    newest). UserError where they cannot be fetched."""
    with fetching(where, OWN_FILES, revision):
        return _fetched(where, revision, (CONFIG, WEIGHTS))


def _fetched(where: str, revision: str | None, files: Sequence[str]) -> tuple[Path, str]:
    folder, commit = Path(), revision
    for name in files:
        try:
            folder = Path(hf_hub_download(where, name, revision=commit)).parent
        except RemoteEntryNotFoundError:
            raise UserError(
                f"{where} has no {name} on the hub, as a model of timm's needs it: take {OWN_FILES}"
            ) from None
        commit = folder.name  # a snapshot is named by its commit, and the files that follow are of the same
    return folder, folder.name
