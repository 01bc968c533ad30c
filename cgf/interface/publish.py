"""A checkpoint pushed to a model hub with its card, its plan and the results of its evaluations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cgf.checkpoint import read, resolve
from cgf.errors import UserError
from cgf.hub import pushing

CARD = "README.md"
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
# what a checkpoint is read from, what says what it is, and what was found out about it; state/ (to resume) stays here
FILES = (
    CARD,
    "run.json",
    "model.safetensors",
    "softmax.json",
    "norm.json",
    "activation.json",
    "plan.json",
    "host/**/*",
    "eval/*.json",
    "eval/predictions/*.npz",
)


@dataclass(frozen=True)
class Publication:
    """Where a checkpoint went: address of the repository, and the files, as paths in it."""

    address: str
    files: tuple[str, ...]


def files_of(folder: Path) -> tuple[str, ...]:
    """The files of a checkpoint folder that are pushed, as paths in it, sorted."""
    paths = {path for pattern in FILES for path in folder.glob(pattern) if path.is_file()}
    return tuple(sorted(path.relative_to(folder).as_posix() for path in paths))


def push_to_hub(checkpoint: str | Path, repository: str, *, public: bool = False) -> Publication:
    """Pushes a checkpoint, or the best one of a run, to a model repository of the hub, which is made where it is not.

    checkpoint: folder of a checkpoint or a run. repository: OWNER/NAME. public: whether a repository that is made here
    is one; one that is there keeps what it is. The training state is not pushed. run.json and the results name paths
    of this machine, as they were given on command lines. Raises UserError for a checkpoint that is not whole or has no
    card, another name, no login, and a hub that refuses or does not answer; nothing is pushed then.
    """
    if not REPOSITORY.fullmatch(repository):
        raise UserError(f"a repository of the hub is named OWNER/NAME, and {repository!r} was given")
    folder = resolve(checkpoint)
    _ = read(folder).digest  # every file is there, and the weights are those that run.json names
    if not (folder / CARD).is_file():
        raise UserError(f"{folder} has no model card {CARD}: a checkpoint that train.py writes now has one")
    if links := sorted(path.name for path in folder.rglob("*") if path.is_symlink()):
        raise UserError(f"{folder} holds links, which are not pushed ({links[0]}): put the files in their place")
    files = files_of(folder)
    with pushing(repository) as hub:
        hub.whoami()
        made = hub.create_repo(repository, private=not public, exist_ok=True)
        message = f"Checkpoint {folder.name} with its card"
        hub.upload_folder(repo_id=repository, folder_path=folder, allow_patterns=list(files), commit_message=message)
    return Publication(str(made), files)
