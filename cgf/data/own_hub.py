"""Any classification set of the hub, or of a folder laid out like one: its columns are found by their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from cgf.checks import is_whole
from cgf.data.columns import as_text, check_columns_of, in_order
from cgf.data.files import check_own, sha256_of_all
from cgf.data.hub import load_all, load_folder, pinned
from cgf.data.image_files import HubImages
from cgf.data.image_items import Images
from cgf.data.loaded import LoadedPictures, LoadedTexts
from cgf.data.own_text import names_of
from cgf.data.pairs import joined
from cgf.data.task import Collate, Inputs, LabelledItems, Task, check_apart
from cgf.data.text_task import Source
from cgf.errors import UserError
from cgf.types import HubDataset, Json, Options

LABELS = ("label", "labels", "class", "category", "intent", "target")
TEXTS = ("text", "sentence")
COMMON = ("name", "seed", "limit", "val_fraction", "test_fraction")
SPLITS = {"train": ("train",), "val": ("validation", "val", "valid", "dev"), "test": ("test",)}


@dataclass(kw_only=True)
class HubTask(Task):
    """A classification set of the hub, or of a folder on this machine; task=hub.

    name: OWNER/NAME on the hub, or a folder. Of a folder the last part becomes the name, and ``folder`` is all of it.
    config, hub_revision: which of its configurations, and which commit.
    text, text_pair, image, label: its columns. Without them the label is the one column of class labels, or one named
    as labels usually are. The samples are the one column of images, else the one column of text, or the one named
    ``text`` or ``sentence``.
    splits: train, val, test -> the set's name for it. Without it the usual names are taken. A test split without labels
    is left out, and where there is no other the validation split is test. What is still missing is a fixed part of
    train, as in `cgf.data.own_text.FileTask` and `cgf.data.own_images.OwnImages`.
    sha256: {files: the hash of the names and contents of its files}, which a checkpoint keeps of a folder. Of a set of
    the hub it keeps the commit as ``hub_revision``, so that evaluations read the very rows that training read.
    """

    kind: ClassVar[str] = "hub"
    name: str
    folder: str | None = None
    config: str | None = None
    hub_revision: str | None = None
    text: str | None = None
    text_pair: str | None = None
    image: str | None = None
    label: str | None = None
    splits: Mapping[str, str] | None = None
    max_length: int = 128
    cache: str | None = None
    val_fraction: float = 0.1
    test_fraction: float = 0.2
    augment: str | None = None
    sha256: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name:
            raise UserError("task=hub needs task.name=OWNER/NAME or a folder, and it is not given")
        if self.folder is None and (path := Path(self.name).expanduser()).is_dir():
            self.folder = str(path.absolute())
            self.name = Path(self.folder).name
        if self.text_pair and not self.text:
            raise UserError("task.text_pair needs task.text=COLUMN beside it, and it is not given")
        for split in self.splits or {}:
            self.check_split(split)
        if self.splits:
            check_apart(self.name, "task.splits", self.splits)
            if "train" not in self.splits:
                raise UserError(f"task.splits needs a split for train, and names {', '.join(self.splits)}")

    @property
    def class_names(self) -> list[str]:
        """See Task."""
        return self._task.class_names

    def dataset(self, split: str, inputs: Inputs) -> LabelledItems:
        """See Task."""
        return self._task.dataset(split, inputs)

    def collate(self, inputs: Inputs) -> Collate:
        """See Task."""
        return self._task.collate(inputs)

    def revision(self) -> dict[str, str]:
        """See Task."""
        return {self.name: self._loaded[1]}

    def kept(self) -> Json:
        """See Task."""
        if self.folder is None:
            return pinned([self._loaded[1]])
        return {"name": self.name, "folder": self.folder, "sha256": {"files": self._loaded[1]}}

    def has_pairs(self, split: str) -> bool:
        """See Task."""
        return self._task.has_pairs(split)

    def notes(self) -> list[str]:
        """See Task."""
        samples, label = self._columns
        there = ", ".join(f"{ours} is {theirs}" for ours, theirs in self._names.items())
        return [f"columns {', '.join(samples)} and {label}; splits: {there}", *self._task.notes()]

    @cached_property
    def _loaded(self) -> tuple[dict[str, HubDataset], str]:
        """Its splits, and what names this state of them: a commit, or a hash of a folder's files."""
        if self.folder is None:
            data = load_all(self.name, self.name, self.config, self.hub_revision)
            return data.splits, data.commit
        folder = Path(self.folder)
        if not folder.is_dir():
            raise UserError(f"task {self.name} needs the folder {folder}, and there is none")
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        digest = sha256_of_all((str(file.relative_to(folder)), file) for file in files)
        check_own({"files": folder}, {"files": digest}, self.sha256)
        return load_folder(folder, self.config), digest

    @cached_property
    def _names(self) -> dict[str, str]:
        have = self._loaded[0]
        if self.splits:
            if missing := [theirs for theirs in self.splits.values() if theirs not in have]:
                raise UserError(
                    f"{self.name} needs the splits of task.splits, and {missing[0]} is not in {', '.join(have)}"
                )
            return dict(self.splits)
        names = {ours: next((n for n in usual if n in have), None) for ours, usual in SPLITS.items()}
        ours_to_theirs = {ours: name for ours, name in names.items() if name is not None}
        if "train" not in ours_to_theirs:
            raise UserError(
                f"{self.name} needs a split train or task.splits={{train: NAME}}, and it has {', '.join(have)}"
            )
        if "test" in ours_to_theirs and self._unlabelled(ours_to_theirs["test"]):
            del ours_to_theirs["test"]
        if "test" not in ours_to_theirs and "val" in ours_to_theirs:
            ours_to_theirs = {"train": ours_to_theirs["train"], "test": ours_to_theirs["val"]}
        return ours_to_theirs

    def _unlabelled(self, split: str) -> bool:
        return all(value in (-1, None) for value in self._loaded[0][split][self._columns[1]])

    @cached_property
    def _columns(self) -> tuple[list[str], str]:
        """The columns of a sample (two of a pair of texts), and that of the labels."""
        splits = self._loaded[0]
        train = (self.splits or {}).get("train", "train")
        features = splits[train if train in splits else next(iter(splits))].features
        kinds = {name: type(feature).__name__ for name, feature in features.items()}
        label = self.label or _only(
            "label", [n for n, kind in kinds.items() if kind == "ClassLabel"], LABELS, list(kinds), self.name
        )
        given = [self.image] if self.image else [name for name in (self.text, self.text_pair) if name]
        if not given:
            pictures = [name for name, kind in kinds.items() if kind == "Image"]
            strings = [
                n for n, f in features.items() if getattr(f, "dtype", "") in ("string", "large_string") and n != label
            ]
            key, usual = ("image", ()) if pictures else ("text", TEXTS)
            given = [_only(key, pictures or strings, usual, pictures or strings, self.name)]
        for split in (self.splits or {"train": "train"}).values():
            if split in splits:
                check_columns_of(f"{split} of {self.name}", [*given, label], list(splits[split].column_names))
        return given, label

    @cached_property
    def _task(self) -> Task:
        common: Options = {key: getattr(self, key) for key in COMMON}
        splits = {ours: self._loaded[0][theirs] for ours, theirs in self._names.items()}
        samples, label = self._columns
        labels = {split: self._labels(split, data, label) for split, data in splits.items()}
        feature = splits["train"].features[label]
        names = [str(name) for name in getattr(feature, "names", None) or []]
        if not names or len(set(labels["train"])) < 2:
            names = in_order(set(names_of(labels["train"], f"train of {self.name}")))
        if type(splits["train"].features[samples[0]]).__name__ == "Image":
            number = {name: i for i, name in enumerate(names)}
            images = {}
            for split, data in splits.items():
                if unknown := [value for value in labels[split] if value not in number]:
                    raise UserError(f"{split} of {self.name} needs labels that train has, and has {unknown[0]!r}")
                keys = [f"{split}/{i}" for i in range(len(data))]
                images[split] = Images(HubImages(data, samples[0]), keys, [number[value] for value in labels[split]])
            return LoadedPictures(splits=images, names=names, augment=self.augment, **common)
        records = {s: list(zip(self._texts(s, d, samples), labels[s], strict=True)) for s, d in splits.items()}
        source = Source(records, {s: f"{self.name}, split {n}" for s, n in self._names.items()}, self.revision())
        return LoadedTexts(
            source=source,
            names={name: name for name in names},
            paired=len(samples) > 1,
            max_length=self.max_length,
            cache=self.cache,
            **common,
        )

    def _labels(self, split: str, data: HubDataset, column: str) -> list[str]:
        names = getattr(data.features[column], "names", None)
        labels = []
        for i, value in enumerate(data[column]):
            told = as_text(value)
            if names is not None and is_whole(value):
                told = str(names[value]) if 0 <= value < len(names) else None
            if not told:
                raise UserError(f"{split} of {self.name} needs a label in every row, and row {i} has {value!r}")
            labels.append(told)
        if not labels:
            raise UserError(f"{split} of {self.name} needs rows, and it has none")
        return labels

    def _texts(self, split: str, data: HubDataset, columns: list[str]) -> list[str]:
        read = []
        for column in columns:
            values = [as_text(value) for value in data[column]]
            if "" in values or None in values:
                at = next(i for i, value in enumerate(values) if not value)
                raise UserError(
                    f"{split} of {self.name} needs a text in '{column}' of every row, and row {at} has none"
                )
            read.append([str(value) for value in values])
        return read[0] if len(read) == 1 else [joined(*pair) for pair in zip(*read, strict=True)]


def _only(key: str, columns: list[str], usual: Sequence[str], all_of: list[str], name: str) -> str:
    """The one column that was found, or the first usual name among them; UserError where that leaves a choice."""
    if len(columns) == 1:
        return columns[0]
    for each in usual:
        if each in (columns or all_of):
            return each
    raise UserError(f"{name} needs task.{key}=COLUMN, one of {', '.join(columns or all_of) or 'none that would do'}")
