"""Datasets from the Hugging Face hub, with its many failures turned into one sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cgf.checks import is_whole
from cgf.data.columns import as_text
from cgf.errors import UserError
from cgf.hub import GATED, ask, offline
from cgf.named import listed, short
from cgf.types import HubDataset, Json

# The hub's own conversion of datasets that are still a loading script, which `datasets` no longer runs.
PARQUET_BRANCH = "refs/convert/parquet"
NO_REASON = "An error occurred while generating the dataset"  # how messages of `datasets` begin, with the reason below
SAVED = ("dataset_dict.json", "state.json")  # of save_to_disk: of several splits, of one set alone


COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubData:
    """Splits as `datasets.Dataset` by the hub's names, and the commit they come from."""

    splits: dict[str, HubDataset]
    commit: str


def pinned(commits: Iterable[str]) -> Json:
    """The setting with which a checkpoint reads the same state of its one hub dataset again; none without a commit."""
    (commit,) = commits
    return {"hub_revision": commit} if COMMIT.fullmatch(commit) else {}


def load_hub(task: str, hub: str, config: str | None, splits: list[str], revision: str | None = None) -> HubData:
    """Downloads (or takes from the local cache) the named splits of a hub dataset.

    revision: a commit or branch; None takes the newest. Where the hub does not answer within seconds, the
    cache is tried without it. UserError if the hub cannot be reached, refuses, or has other splits.
    """
    data = load_all(task, hub, config, revision)
    missing = [split for split in splits if split not in data.splits]
    if missing:
        raise UserError(
            f"task {task} needs the splits {', '.join(splits)} of hub dataset {hub}, "
            f"and it has {', '.join(data.splits)}"
        )
    return HubData({split: data.splits[split] for split in splits}, data.commit)


def load_all(task: str, hub: str, config: str | None, revision: str | None = None) -> HubData:
    """Every split of a hub dataset, as `load_hub` reads it."""
    import datasets
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        info, unreachable = ask(partial(HfApi().dataset_info, hub, revision=revision))
        if info is not None:
            scripted = f"{hub.split('/')[-1]}.py" in {file.rfilename for file in info.siblings or []}
            revision = PARQUET_BRANCH if scripted and revision is None else info.sha
    except HfHubHTTPError as error:
        raise _refused(task, hub, error) from error
    try:
        # `datasets` itself would retry for half a minute a file
        with offline(datasets.config, unreachable is not None):
            data = _as_written(partial(datasets.load_dataset, hub, config, revision=revision))
    except Exception as error:
        raise _refused(task, hub, unreachable or error) from error
    return HubData(data, _commit(next(iter(data.values()), None), revision))


def load_folder(folder: Path, config: str | None, files: Sequence[Path], digest: str) -> dict[str, HubDataset]:
    """Every split of a data set in a folder on this machine, laid out as on the hub or written by ``save_to_disk``.

    digest: of the contents of ``files``. What `datasets` keeps of them is kept by it: by itself it goes by their times.
    UserError for a folder that holds none, for a configuration of one that was saved, and for one that names files
    that are none of ``files``, as in another folder or behind a link: the digest says nothing of them.
    """
    import datasets

    saved = any((folder / name).is_file() for name in SAVED)
    if saved and config is not None:
        raise UserError(f"{folder} was written by save_to_disk and has no configurations: leave task.config out")
    try:
        if saved:
            loaded = datasets.load_from_disk(str(folder))
            splits = {"train": loaded} if isinstance(loaded, datasets.Dataset) else dict(loaded)
            _check_among(folder, files, [kept["filename"] for data in splits.values() for kept in data.cache_files])
        else:
            kept = {"cache_dir": str(Path(datasets.config.HF_DATASETS_CACHE) / "by_content" / digest)}
            builder = datasets.load_dataset_builder(str(folder), config, **kept)
            _check_among(
                folder, files, [name for names in (builder.config.data_files or {}).values() for name in names]
            )
            splits = _as_written(partial(datasets.load_dataset, str(folder), config, **kept))
    except UserError:
        raise
    except Exception as error:
        first = _first_reason(error)
        raise UserError(f"{folder} needs to hold a data set, and loading it failed: {first}") from None
    return {name: data.with_format(None) for name, data in splits.items()}  # lists and numbers, of every column


def _check_among(folder: Path, files: Sequence[Path], named: Iterable[str]) -> None:
    """UserError where one of the files ``named`` by a data set in a folder is none of its ``files``."""
    own = {os.path.abspath(file) for file in files}
    for name in named:
        if os.path.abspath(name) not in own:
            raise UserError(f"{folder} needs to hold its data itself, and names {name}: put the file into the folder")


def _first_reason(error: BaseException | None) -> str:
    """What an error says, or the first behind it that says more than that there was one: 160 letters of it."""
    while error is not None:
        if told := " ".join(str(error).split()).removeprefix(NO_REASON).strip():
            return told[:160]
        error = error.__cause__
    return "no message"


def _as_written(load: Callable[..., Mapping[str, HubDataset]]) -> dict[str, HubDataset]:
    """The splits that ``load`` gives; those of CSV files with each value as it is written.

    pandas, which `datasets` reads CSV with, makes numbers of columns (01 becomes 1) and nothing of words such as NA.
    """
    import datasets

    splits = dict(load())
    first = next(iter(splits.values()), None)
    if first is None or not from_csv(first):
        return splits
    if any(type(feature).__name__ != "Value" for feature in first.features.values()):
        return splits  # the set says itself what its columns hold
    written = datasets.Features({name: datasets.Value("string") for name in first.features})
    return dict(load(features=written, keep_default_na=False))


def from_csv(data: HubDataset) -> bool:
    """Whether pandas read it from CSV files; it calls a second column of one name NAME.1."""
    return getattr(data.info, "builder_name", None) == "csv"


def stored_images(data: HubDataset, column: str) -> HubDataset:
    """A dataset whose column of images gives {'bytes', 'path'} as they are stored, undecoded."""
    import datasets

    return data.cast_column(column, datasets.Image(decode=False))


def hub_records(task: str, hub: str, data: HubDataset, text: str, label: str) -> list[tuple[str, str]]:
    """(text, label name) of every record; a numbered label goes by its name where the dataset gives one.

    UserError for a missing column, and for a row whose text or label is missing, empty or no single value.
    """
    check_columns(task, hub, data, (text, label))
    names = getattr(data.features[label], "names", None)
    records = []
    for i, (sentence, value) in enumerate(zip(data[text], data[label], strict=True)):
        if names is not None and (not is_whole(value) or not 0 <= value < len(names)):
            raise UserError(f"hub dataset {hub} needs labels 0 to {len(names) - 1}, and row {i} has {value!r}")
        named = value if names is None else names[value]
        own = None if named is None or isinstance(named, list | dict) else str(named).strip()
        for column, given, found in ((text, sentence, as_text(sentence)), (label, value, own)):
            if not found:
                what = "none" if given is None or found == "" else short(given)
                raise UserError(
                    f"hub dataset {hub} needs a value of '{column}', a text or a number, in every row, and row {i} has "
                    f"{what}"
                )
        records.append((str(as_text(sentence)), str(own)))
    return records


def check_columns(task: str, hub: str, data: HubDataset, needed: tuple[str, ...]) -> None:
    """UserError unless the dataset has all of the columns."""
    if not set(needed) <= set(data.column_names):
        raise UserError(
            f"task {task} needs the columns {', '.join(needed)} of hub dataset {hub}, "
            f"and it has {listed(data.column_names)}"
        )


def _refused(task: str, hub: str, error: Exception) -> UserError:
    first = str(error).strip().splitlines()
    return UserError(
        f"task {task} needs the hub dataset {hub}, and loading it failed "
        f"({type(error).__name__}: {first[0] if first else 'no message'}); either set data.root "
        f"or CGF_DATA_ROOT to a local folder with the data, or restore access to the hub (for a gated dataset: {GATED})"
    )


def _commit(data: HubDataset, revision: str | None) -> str:
    # The cache folder of a hub dataset is named after the commit; it holds for branches and offline use too.
    files = getattr(data, "cache_files", None)
    return Path(files[0]["filename"]).parent.name if files else str(revision)
