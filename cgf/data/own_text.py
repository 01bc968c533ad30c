"""A user's own texts: one table a split, with a column for the text and one for the label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cgf.data.columns import column_name, in_order, read_columns, suffix_of
from cgf.data.files import MOST_TEXT, Record, check_own
from cgf.data.pairs import joined
from cgf.data.task import unused_shares
from cgf.data.text_task import Source, TextTask
from cgf.errors import UserError
from cgf.target import file_hash
from cgf.types import Json

MANY = 20  # classes from which on a label column is suspected to hold something else


def names_of(labels: Sequence[str], where: str) -> dict[str, str]:
    """The classes of the labels that training records have, in order.

    UserError for one class alone, and for labels that nearly all differ: those are no classes.
    """
    names = in_order(set(labels))
    if len(names) < 2:
        raise UserError(f"{where} needs at least two classes, and every row has the label {names[0]!r}")
    if len(names) > MANY and 2 * len(names) > len(labels):
        raise UserError(
            f"{where} needs labels that repeat, and {len(labels)} rows have {len(names)} different ones, "
            f"{names[0]!r} for one: is task.label the right column?"
        )
    return {name: name for name in names}


@dataclass(kw_only=True)
class FileTask(TextTask):
    """Rows of .csv, .tsv, .jsonl, .json or .parquet files (``cgf.data.columns``); task=csv.

    train, test, validation: the files. A relative path is below ``root`` where that is given and holds it, else below
    the working directory. Without ``test`` the share ``test_fraction`` of train is the test split, and without
    ``validation`` the share ``val_fraction`` of what is left is val. Both are chosen by class, by hashes of the texts
    and of ``seed`` (`cgf.data.task.choose`): equal texts go together, and the order of the rows has no say.
    text, label, text_pair: the columns; text_pair holds the second text of a pair.
    sha256: split -> the hash that its file must have. A checkpoint keeps it, so that it is evaluated on the very files
    that it was trained on, and so that it cannot have any other file read.
    """

    name: str = "csv"
    train: str | None = None
    test: str | None = None
    validation: str | None = None
    text: str = "text"
    label: str = "label"
    text_pair: str | None = None
    sha256: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.train:
            raise UserError(f"task={self.name} needs task.train=FILE, and it is not given")
        for key in ("train", "test", "validation"):
            if not isinstance(name := getattr(self, key), str | None):
                raise UserError(f"task.{key} must be the name of one file, and {name!r} was given")
        self.text, self.label = column_name("text", self.text), column_name("label", self.label)
        self.text_pair = None if self.text_pair is None else column_name("text_pair", self.text_pair)
        if len(set(self._columns)) < len(self._columns):
            raise UserError(f"task.text, task.text_pair and task.label must differ, and are {', '.join(self._columns)}")

    def data_root(self) -> Path:
        """See Task; the working directory without a root, since CGF_DATA_ROOT holds the public sets."""
        return super().data_root() or Path() if self.root else Path()

    def read_local(self, root: Path) -> Source:
        """See TextTask."""
        paths = {split: self._path(root, split, name) for split, name in self._files.items()}
        hashes = self._hashes
        check_own(paths, hashes, self.sha256)
        records = {
            split: [self._record(values) for values in read_columns(path, self._columns)]
            for split, path in paths.items()
        }
        return Source(
            records, {s: str(p) for s, p in paths.items()}, {f"{p.name} ({s})": hashes[s] for s, p in paths.items()}
        )

    def of_pairs(self) -> bool:
        """See TextTask."""
        return self.text_pair is not None

    def label_names(self, train: Sequence[Record]) -> dict[str, str]:
        """See TextTask."""
        return names_of([label for _, label in train], str(self._source.origin["train"]))

    def kept(self) -> Json:
        """See Task."""
        paths = {split: str(self._path(self.data_root(), split, name)) for split, name in self._files.items()}
        of = {split: self._hashes[split] for split in paths}
        return {{"val": "validation"}.get(split, split): path for split, path in paths.items()} | {"sha256": of}

    def without_effect(self) -> dict[str, str]:
        """See Task."""
        return unused_shares(self._files)

    def notes(self) -> list[str]:
        """See Task."""
        return text_notes(self, self._source.records)

    @cached_property
    def _hashes(self) -> dict[str, str]:
        return {s: file_hash(self._path(self.data_root(), s, name), MOST_TEXT) for s, name in self._files.items()}

    @property
    def _columns(self) -> list[str]:
        return [self.text, *([self.text_pair] if self.text_pair else []), self.label]

    @property
    def _files(self) -> dict[str, str]:
        given = {"train": self.train, "val": self.validation, "test": self.test}
        return {split: name for split, name in given.items() if name}

    def _path(self, root: Path, split: str, name: str) -> Path:
        given = Path(name).expanduser()
        path = (root / given).absolute()
        if not path.is_file() and given.is_file():  # the root is that of the model's weights
            path = given.absolute()
        setting = "validation" if split == "val" else split
        if not path.is_file():
            raise UserError(f"task.{setting} needs a file, and there is none at {path}")
        suffix_of(path)
        return path

    def _record(self, values: tuple[str, ...]) -> Record:
        return (joined(values[0], values[1]) if self.text_pair else values[0]), values[-1]


def text_notes(task: TextTask, records: Mapping[str, Sequence[Record]]) -> list[str]:
    """What a user should know of texts before training: what was cut off from train, and what is in two splits."""
    notes = []
    if "test" not in records:
        notes.append(f"no test split: {task.test_fraction:.0%} of train, by class and fixed by task.seed, is test")
    if "val" not in records:
        notes.append(f"no validation split: {task.val_fraction:.0%} of train, by class and fixed by task.seed, is val")
    seen = {text for text, _ in records["train"]}
    for split in ("val", "test"):
        if both := sum(text in seen for text, _ in records.get(split, ())):
            notes.append(f"{both} of {len(records[split])} texts of {split} are in train too, word for word")
    chosen_by = {text for text, _ in records.get("val", ())}
    if both := sum(text in chosen_by for text, _ in records.get("test", ())):
        notes.append(f"{both} of {len(records['test'])} texts of test are in val too, word for word")
    return notes
