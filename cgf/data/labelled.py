"""Images in one zip archive beside a table of their labels, split by a fixed rule: Tiny ImageNet's validation set."""

import csv
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cgf.data.image_files import Archive, EncodedImages
from cgf.data.image_items import Images
from cgf.data.images import AUGMENTS, Augment, check_augment
from cgf.data.task import check_share, inside, three_parts
from cgf.data.vision_task import VisionTask
from cgf.errors import UserError


@dataclass(kw_only=True)
class LabelledArchiveTask(VisionTask):
    """<root>/<name>/<archive> holds image files, <root>/<name>/<table> a CSV row for each.

    file, label, title: the table's columns for the file's name in the archive, its class number (0 to C - 1) and
    its class's name. test_fraction of all images, by class, is test, and val_fraction val; which ones hangs
    on the files' names and `seed` alone (`cgf.data.task.choose`).
    """

    archive: str
    table: str
    file: str = "file"
    label: str = "label"
    title: str = "name"
    test_fraction: float = 0.2
    val_fraction: float = 0.1
    augment: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("test_fraction", "val_fraction"):
            check_share(name, getattr(self, name))
        check_augment(self.augment)
        for name in ("archive", "table"):
            inside(self.name, name, getattr(self, name))

    @cached_property
    def class_names(self) -> list[str]:
        """See Task."""
        names: dict[int, str] = {}
        for record in self._records:
            label = self._number(record)
            if names.setdefault(label, record[self.title]) != record[self.title]:
                raise UserError(
                    f"{self._path(self.table)} needs one name for a class, and class {label} is "
                    f"{names[label]!r} and {record[self.title]!r}"
                )
        if sorted(names) != list(range(len(names))):
            raise UserError(
                f"{self._path(self.table)} needs labels from 0 without a gap, and its {len(names)} labels "
                f"go from {min(names)} to {max(names)}"
            )
        titles = [names[label] for label in range(len(names))]
        if len(set(titles)) < len(titles):
            twice = next(title for title in titles if titles.count(title) > 1)
            raise UserError(
                f"{self._path(self.table)} needs a name of its own for each class, and has {twice!r} twice "
                "(task.title names another column)"
            )
        return titles

    def augmentation(self) -> Augment | None:
        """See VisionTask."""
        return AUGMENTS[self.augment] if self.augment else None

    def read(self, split: str) -> tuple[Images, list[int]]:
        """See VisionTask."""
        return self._images, self._parts[split]

    def revision(self) -> dict[str, str]:
        """See Task."""
        return {
            f"{self.name}/{name}": hashlib.sha256(self._path(name).read_bytes()).hexdigest()
            for name in (self.archive, self.table)
        }

    def _path(self, name: str) -> Path:
        root = self.data_root()
        if root is None:
            raise UserError(f"task {self.name} needs a data root (data.root or CGF_DATA_ROOT), and there is none")
        path = root / self.name / name
        if not path.is_file():
            raise UserError(f"task {self.name} needs {path}, and there is no such file")
        return path

    def _number(self, record: dict[str, str]) -> int:
        try:
            return int(record[self.label])
        except (TypeError, ValueError):
            raise UserError(
                f"{self._path(self.table)} needs a whole number as the label of {record[self.file]}, and "
                f"has {record[self.label]!r}"
            ) from None

    @cached_property
    def _records(self) -> list[dict[str, str]]:
        path = self._path(self.table)
        try:
            with path.open(newline="", encoding="utf-8") as table:
                reader = csv.DictReader(table)
                columns, records = reader.fieldnames or [], list(reader)
        except (UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"{path} needs to be a CSV table, and reading it failed: {error}") from None
        missing = [name for name in (self.file, self.label, self.title) if name not in columns]
        if missing or not records:
            raise UserError(
                f"{path} needs rows with the columns {self.file}, {self.label} and {self.title}, and it "
                f"has {len(records)} rows with {', '.join(columns) or 'no column'}"
            )
        return records

    @cached_property
    def _images(self) -> Images:
        _ = self.class_names  # refuses labels with a gap
        source = Archive(self._path(self.archive))
        files = [record[self.file] for record in self._records]
        absent = [name for name in files if name not in source.content]
        if absent:
            raise UserError(
                f"{source.path} needs every file of {self.table}, and lacks {len(absent)}, {absent[0]} for one"
            )
        return Images(EncodedImages(source, files), files, [self._number(record) for record in self._records])

    @cached_property
    def _parts(self) -> dict[str, list[int]]:
        return three_parts(self._images.keys, self._images.labels, self.test_fraction, self.val_fraction, self.seed)
