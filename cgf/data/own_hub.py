"""Any classification set of the hub, or of a folder laid out like one: its columns are found by their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from cgf.checks import is_whole
from cgf.data.columns import as_text, check_columns_of, column_name, in_order
from cgf.data.files import check_own, sha256_of_all
from cgf.data.hub import from_csv, load_all, load_folder, pinned
from cgf.data.image_files import HubImages
from cgf.data.image_items import Images
from cgf.data.loaded import LoadedPictures, LoadedTexts
from cgf.data.own_text import names_of
from cgf.data.pairs import joined
from cgf.data.task import Collate, Inputs, LabelledItems, Task, check_apart, unused_shares
from cgf.data.text_task import Source
from cgf.errors import UserError
from cgf.named import short
from cgf.types import HubDataset, Json, Options

LABELS = ("label", "labels", "class", "category", "intent", "target")
TEXTS = ("text", "sentence")
OF_TEXTS, OF_IMAGES = ("max_length", "cache"), ("augment", "equal_together", "as_stored")  # settings of one kind alone
COMMON = ("name", "seed", "limit", "share_of_rows", "val_fraction", "test_fraction")
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
    equal_together: whether equal images go together where a split is cut off; a checkpoint of before that was so does
    not say, and they do not.
    as_stored: whether images are read as their files have them, as those of folders are. A checkpoint of before does
    not say, and they are turned by their EXIF data.
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
    equal_together: bool | None = None
    as_stored: bool | None = None
    sha256: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name:
            raise UserError("task=hub needs task.name=OWNER/NAME or a folder, and it is not given")
        if self.folder is None and (path := Path(self.name).expanduser()).is_dir():
            self.folder = str(path.absolute())
            self.name = Path(self.folder).name
        if self.folder is not None and self.hub_revision is not None:
            raise UserError(f"task.hub_revision is of a set of the hub, and {self.folder} is a folder: leave it out")
        if self.image and (self.text or self.text_pair):
            raise UserError("a sample is an image or a text, and task.image was given beside task.text: leave one out")
        for setting, value in (("equal_together", self.equal_together), ("as_stored", self.as_stored)):
            if not isinstance(value, bool | None):
                raise UserError(f"task.{setting} must be true, false or null, and {value!r} was given")
        if self.text_pair and not self.text:
            raise UserError("task.text_pair needs task.text=COLUMN beside it, and it is not given")
        if not isinstance(self.splits, Mapping | None):
            raise UserError(
                "task.splits needs a split by its part, such as 'task.splits={train: NAME}', and it is "
                f"{self.splits!r}"
            )
        for key in ("image", "text", "text_pair", "label"):
            if (name := getattr(self, key)) is not None:
                setattr(self, key, column_name(key, name))
        for split in self.splits or {}:
            self.check_split(split)
        if self.splits:
            check_apart(self.name, "task.splits", self.splits)
            if "train" not in self.splits:
                raise UserError(f"task.splits needs a split for train, and names {', '.join(self.splits)}")

    @property
    def has_images(self) -> bool:
        """See Task. Its columns say it."""
        return self._task.has_images

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

    def identities(self, split: str) -> list[str] | None:
        """See Task."""
        return self._task.identities(split)

    def kept(self) -> Json:
        """See Task."""
        read = {"as_stored": self.as_stored if self.has_images else None}  # it says nothing of texts
        if self.folder is None:
            return {**pinned([self._loaded[1]]), **read}
        return {"name": self.name, "folder": self.folder, "sha256": {"files": self._loaded[1]}, **read}

    def has_pairs(self, split: str) -> bool:
        """See Task."""
        return self._task.has_pairs(split)

    def without_effect(self) -> dict[str, str]:
        """See Task."""
        of, keys = ("images", OF_TEXTS) if self.has_images else ("texts", OF_IMAGES)
        return {**unused_shares(self._names), **dict.fromkeys(keys, f"the samples are {of}")}

    def notes(self) -> list[str]:
        """See Task."""
        samples, label = self._columns
        there = ", ".join(f"{ours} is {theirs}" for ours, theirs in self._names.items())
        have = self._loaded[0]
        left = [name for name in have if name not in self._names.values()]
        unread = [name for name in have[self._names["train"]].column_names if name not in (*samples, label)]
        return [
            f"columns {', '.join(samples)} and {label}; splits: {there}",
            *([f"columns that are not read: {', '.join(unread)}"] if unread else []),
            *([f"splits that are not read: {', '.join(left)}"] if left else []),
            *self._task.notes(),
        ]

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
        return load_folder(folder, self.config, files, digest), digest

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
        data, label = self._loaded[0][split], self._columns[1]
        return label not in data.column_names or all(value in (-1, None) for value in data[label])

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
        if len({*given, label}) <= len(given):
            raise UserError(f"the columns of {self.name} must differ, and are {', '.join([*given, label])}")
        for split in (self.splits or {"train": "train"}).values():
            if split in splits:
                self._check_columns(split, given, label)
        return given, label

    def _check_columns(self, split: str, samples: list[str], label: str) -> None:
        """UserError unless a split has the columns of a sample and of its label, each once."""
        data, where = self._loaded[0][split], f"{split} of {self.name}"
        have = list(data.column_names)
        check_columns_of(where, [*samples, label], have)
        again = next((name for name in (*samples, label) if f"{name}.1" in have), None)
        if again is not None and from_csv(data):
            raise UserError(
                f"{where} needs the column {again} once, and has {again}.1 beside it: a table's second column of one "
                "name is read so"
            )
        kind = type(data.features[samples[0]]).__name__
        if self.image and kind != "Image":
            raise UserError(f"{where} needs images in '{samples[0]}', and it is of {kind}")

    @cached_property
    def _task(self) -> Task:
        common: Options = {key: getattr(self, key) for key in COMMON}
        splits = {ours: self._loaded[0][theirs] for ours, theirs in self._names.items()}
        samples, label = self._columns
        for theirs in self._names.values():
            self._check_columns(theirs, samples, label)
        labels = {split: self._labels(split, data, label) for split, data in splits.items()}
        feature = splits["train"].features[label]
        names = [str(name) for name in getattr(feature, "names", None) or []]
        if not names or len(set(labels["train"])) < 2:
            names = in_order(set(names_of(labels["train"], f"train of {self.name}")))
        kinds = {split: type(data.features[samples[0]]).__name__ for split, data in splits.items()}
        if other := next(
            (split for split, kind in kinds.items() if (kind == "Image") != (kinds["train"] == "Image")), ""
        ):
            raise UserError(
                f"'{samples[0]}' of {self.name} is of {kinds['train']} in train and of {kinds[other]} in {other}: one "
                "kind is needed"
            )
        if kinds["train"] == "Image":
            number = {name: i for i, name in enumerate(names)}
            images = {}
            for split, data in splits.items():
                if unknown := [value for value in labels[split] if value not in number]:
                    raise UserError(f"{split} of {self.name} needs labels that train has, and has {short(unknown[0])}")
                keys = [f"{split}/{i}" for i in range(len(data))]
                own = [number[value] for value in labels[split]]
                pictures = HubImages(data, samples[0], bool(self.as_stored))
                images[split] = Images(pictures, keys, own, pictures.contents())
            together = bool(self.equal_together)
            return LoadedPictures(splits=images, names=names, augment=self.augment, together=together, **common)
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
        named = getattr(self._loaded[0][self._names["train"]].features[column], "names", None)
        labels = []
        for i, value in enumerate(data[column], 1):
            told = as_text(value)
            if names is not None and is_whole(value):
                told = str(names[value]) if 0 <= value < len(names) else None
            elif named is not None and is_whole(value):
                raise UserError(
                    f"{split} of {self.name} has numbers in '{column}', {value} for one, and train has names of "
                    "classes there: which number is which class is not said"
                )
            if not told:
                raise UserError(f"{split} of {self.name} needs a label in every row, and row {i} has {short(value)}")
            labels.append(told)
        if not labels:
            raise UserError(f"{split} of {self.name} needs rows, and it has none")
        return labels

    def _texts(self, split: str, data: HubDataset, columns: list[str]) -> list[str]:
        read = []
        for column in columns:
            given = list(data[column])
            values = [as_text(value) for value in given]
            if "" in values or None in values:
                at = next(i for i, value in enumerate(values) if not value)
                has = "none" if given[at] is None or values[at] == "" else short(given[at])
                raise UserError(
                    f"{split} of {self.name} needs a text in '{column}' of every row, and row {at + 1} has {has}"
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
