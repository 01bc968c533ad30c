"""Text classification: one class a file format, one yaml a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from cgf.data.columns import read_columns
from cgf.data.files import MOST_TEXT, Record, find_file, read_data_json, read_intents
from cgf.data.task import inside
from cgf.data.text_task import Source, TextTask
from cgf.errors import UserError
from cgf.target import file_hash


@dataclass(kw_only=True)
class IntentsTask(TextTask):
    """CLINC150's layout: one JSON file with train, val, test and out-of-scope rows.

    variant: full, small, oos_plus or imbalanced (the file data_<variant>.json). oos: out-of-scope rows form
    one more class, the last, named `oos_name`; without it they are left out. The hub has no 'full': its
    'plus' holds the same in-scope rows, so it serves where oos is false.
    """

    variant: str = "full"
    oos: bool = False
    oos_name: str = "oos"
    hub_splits: Mapping[str, str] = field(
        default_factory=lambda: {"train": "train", "val": "validation", "test": "test"}
    )

    VARIANTS: ClassVar[dict[str, str]] = {
        "full": "plus",
        "oos_plus": "plus",
        "small": "small",
        "imbalanced": "imbalanced",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant not in self.VARIANTS:
            raise UserError(f"task.variant needs to be one of {', '.join(self.VARIANTS)}, and it is {self.variant!r}")

    def read_local(self, root: Path) -> Source:
        """See TextTask."""
        name = f"{self.name}/data_{self.variant}.json"
        path = find_file(root, name, self.name)
        records = read_intents(path, self.oos_name)
        return Source(
            records,
            {split: f"{path} ({split})" for split in records},
            {f"{self.name}/{path.name}": file_hash(path, MOST_TEXT)},
        )

    def read_hub(self) -> Source:
        """See TextTask."""
        if self.variant == "full" and self.oos:
            raise UserError(
                "task.oos=true needs task.variant=oos_plus, small or imbalanced from the hub, and it is "
                "'full', whose out-of-scope rows the hub does not have"
            )
        if self.hub_config is None:
            self.hub_config = self.VARIANTS[self.variant]
        return super().read_hub()

    def in_scope(self, label: str) -> bool:
        """See TextTask."""
        return self.oos or label != self.oos_name

    def label_names(self, train: Sequence[Record]) -> dict[str, str]:
        """See TextTask."""
        names = sorted({label for _, label in train} - {self.oos_name}) + ([self.oos_name] if self.oos else [])
        return {name: name for name in names}


@dataclass(kw_only=True)
class TableTask(TextTask):
    """One .csv or .tsv file a split, each with a text and a label column.

    files: split -> file under <root>/<name>/ (train and test; val is optional), also found with .gz.
    text, label: the columns. classes: label as written -> class name, in order; null takes the sorted list
    in `class_file` if that exists, else the sorted labels of train.
    """

    files: Mapping[str, str]
    text: str
    label: str
    classes: Mapping[int | str, str] | None = None
    class_file: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for split, file in self.files.items():
            inside(self.name, f"files.{split}", file)
        if self.class_file:
            inside(self.name, "class_file", self.class_file)

    def read_local(self, root: Path) -> Source:
        """See TextTask."""
        paths = {split: find_file(root, f"{self.name}/{file}", self.name) for split, file in self.files.items()}
        for split, path in paths.items():
            other = next(s for s in paths if paths[s].samefile(path))  # a link to a file is that file
            if other != split:
                raise UserError(
                    f"task {self.name} needs a source of its own for each split, and {paths[other]} for {other} "
                    f"and {paths[split]} for {split} are the same"
                )
        records: dict[str, list[Record]] = {}
        for split, path in paths.items():
            suffix = ".tsv" if ".tsv" in path.suffixes else ".csv"
            records[split] = [(text, label) for text, label in read_columns(path, [self.text, self.label], suffix)]
        revision = {f"{self.name}/{path.name}": file_hash(path, MOST_TEXT) for path in paths.values()}
        return Source(records, {split: str(path) for split, path in paths.items()}, revision)

    def label_names(self, train: Sequence[Record]) -> dict[str, str]:
        """See TextTask."""
        if self.classes:
            return {str(raw): str(name) for raw, name in self.classes.items()}
        names = self._class_file() or {label for _, label in train}
        return {name: name for name in sorted(names)}

    def _class_file(self) -> list[str] | None:
        root = self.data_root()
        path = root / self.name / self.class_file if root and self.class_file else None
        if path is None or not path.is_file():
            return None
        names = read_data_json(path)
        if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
            raise UserError(f"{path} needs to be a list of class names, and it is not")
        return names
