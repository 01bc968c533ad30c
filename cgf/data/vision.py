"""Image classification: scikit-learn's digits, and folders of images (plain, zipped, or on the hub)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch

from cgf.checks import whole
from cgf.data.hub import HubData, check_columns, load_hub, pinned
from cgf.data.image_files import Archive, EncodedImages, Folder, HubImages, check_places
from cgf.data.image_items import Images
from cgf.data.images import AUGMENTS, Augment, check_augment, small_affine
from cgf.data.task import check_apart, check_share, choose, inside, three_parts, with_fold
from cgf.data.vision_task import VisionTask
from cgf.errors import UserError
from cgf.types import Json


@dataclass(kw_only=True)
class DigitsTask(VisionTask):
    """scikit-learn's 1797 handwritten digits, (1, 8, 8) in [0, 1]: 70 / 10 / 20 %, stratified.

    augment: a small random rotation, shift and scale in training. fold: the test set is this part, counted from 0, of
    the ``folds`` into which all but the validation images are cut, and the others train; None: the split above.
    The validation images are the same in both, so that what was chosen on them was chosen on no test image.
    UserError for a fold that is none of ``folds``, of which there are two at least.
    """

    name: str = "digits"
    augment: bool = True
    fold: int | None = None
    folds: int = 5
    crops: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("task.folds", self.folds, 2)
        if self.fold is not None and whole("task.fold", self.fold, 0) >= self.folds:
            raise UserError(f"task.fold counts from 0, is below the {self.folds} of task.folds, and {self.fold} is not")

    @property
    def class_names(self) -> list[str]:
        """See Task."""
        return [str(digit) for digit in range(10)]

    def augmentation(self) -> Augment | None:
        """See VisionTask."""
        return small_affine if self.augment else None

    def read(self, split: str) -> tuple[Images, list[int]]:
        """See VisionTask."""
        return self._digits, self._parts[split]

    def revision(self) -> dict[str, str]:
        """See Task."""
        pixels = self._digits.images.numpy().tobytes() + bytes(self._digits.labels)
        return {"sklearn.datasets.load_digits": hashlib.sha256(pixels).hexdigest()}

    @cached_property
    def _digits(self) -> Images[torch.Tensor]:
        from sklearn.datasets import load_digits

        data = load_digits()
        pixels = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
        return Images(pixels, [str(i) for i in range(len(pixels))], [int(label) for label in data.target])

    @cached_property
    def _parts(self) -> dict[str, list[int]]:
        keys, labels = self._digits.keys, self._digits.labels
        parts = three_parts(keys, labels, test=0.2, val=0.1, salt=self.seed)
        return parts if self.fold is None else with_fold(keys, labels, parts, self.fold, self.folds, self.seed)


@dataclass(kw_only=True)
class ImageFolderTask(VisionTask):
    """Images as <root>/<name>/<folder>/<class>/<file>, or the same inside one zip archive, or on the hub.

    archive: the zip file under <root>/<name>/; null for plain folders. folders: split -> folder, for train
    and test, and val where there is one; else `val_fraction` of train, stratified, becomes val. Labels follow
    the sorted class folders. classes: the number of classes there must be, or null.
    augment: resized_crop, pad_crop, small_affine or null. hub*: as for text, with an image column.
    """

    folders: Mapping[str, str] = field(default_factory=lambda: {"train": "train", "test": "test"})
    archive: str | None = None
    classes: int | None = None
    val_fraction: float = 0.1
    augment: str | None = None
    hub: str | None = None
    hub_config: str | None = None
    hub_revision: str | None = None
    hub_image: str = "image"
    hub_label: str = "label"
    hub_splits: Mapping[str, str] = field(default_factory=lambda: {"train": "train", "test": "test"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("val_fraction", self.val_fraction)
        check_augment(self.augment)
        self._check_named("folders", self.folders)
        for split, folder in self.folders.items():
            inside(self.name, f"folders.{split}", folder)
        if self.archive:
            inside(self.name, "archive", self.archive)
        if self.hub:
            self._check_named("hub_splits", self.hub_splits)
            check_apart(self.name, "task.hub_splits", self.hub_splits)
        self._read: dict[str, Images] = {}

    def _check_named(self, setting: str, names: Mapping[str, str]) -> None:
        """UserError unless train and test are named, and what is named is a split: test is never a part of train."""
        for split in names:
            self.check_split(split)
        given = {split: name for split, name in names.items() if isinstance(name, str) and name}
        if missing := [split for split in ("train", "test", *names) if split not in given]:
            raise UserError(f"task {self.name} needs a name for {missing[0]} in task.{setting}, and there is none")

    @cached_property
    def class_names(self) -> list[str]:
        """See Task."""
        if self._local is None:
            feature = self._hub.splits[self.hub_splits["train"]].features.get(self.hub_label)
            names = list(getattr(feature, "names", None) or [])
        else:
            names = self._folder_names()
        if not names:
            raise UserError(f"task {self.name} needs class names, and {self._where} has none")
        if self.classes is not None and len(names) != self.classes:
            raise UserError(f"task {self.name} needs {self.classes} classes, and {self._where} has {len(names)}")
        return names

    def augmentation(self) -> Augment | None:
        """See VisionTask."""
        return AUGMENTS[self.augment] if self.augment else None

    def read(self, split: str) -> tuple[Images, list[int]]:
        """See VisionTask."""
        if split in self._parts_of:
            images = self._load(split)
            return images, list(range(len(images.keys)))
        images = self._load("train")
        val = self._val
        return images, [i for i in range(len(images.keys)) if (i in val) == (split == "val")]

    def revision(self) -> dict[str, str]:
        """See Task."""
        if self._local is None:
            return {str(self.hub): self._hub.commit}
        if self.archive:
            return {f"{self.name}/{self.archive}": self._local.revision("")}
        return {
            f"{self.name}/{folder} (names and sizes)": self._local.revision(folder) for folder in self.folders.values()
        }

    def kept(self) -> Json:
        """See Task. Of a set of the hub its commit."""
        return pinned([self._hub.commit]) if self._local is None else {}

    @property
    def _where(self) -> str:
        return f"hub dataset {self.hub}" if self._local is None else str(self._local.path)

    @property
    def _parts_of(self) -> set[str]:
        # Splits that the source gives whole: all that have a folder, but train only where val has its own.
        have = set(self.hub_splits if self._local is None else self.folders)
        return have if "val" in have else have - {"train"}

    @cached_property
    def _local(self) -> Folder | None:
        root = self.data_root()
        if root is None:
            if self.hub is None:
                raise UserError(f"task {self.name} needs a data root (data.root or CGF_DATA_ROOT), and there is none")
            return None
        path: Path = root / self.name / (self.archive or "")
        if not (path.is_file() if self.archive else path.is_dir()):
            raise UserError(
                f"task {self.name} needs {path}, and there is no such {'file' if self.archive else 'folder'}"
            )
        source = Archive(path) if self.archive else Folder(path)
        check_places(self.name, source, self.folders)
        return source

    @cached_property
    def _hub(self) -> HubData:
        data = load_hub(self.name, str(self.hub), self.hub_config, list(self.hub_splits.values()), self.hub_revision)
        for split in data.splits.values():
            check_columns(self.name, str(self.hub), split, (self.hub_image, self.hub_label))
        return data

    def _folder_names(self) -> list[str]:
        assert self._local is not None
        names: list[str] = []
        for folder in self.folders.values():
            there = self._local.classes(folder)
            if not there:
                raise UserError(f"task {self.name} needs class folders in {self._where}/{folder}, and there are none")
            if names and there != names:
                odd = sorted(set(there) ^ set(names))
                raise UserError(
                    f"task {self.name} needs the same classes in every folder of {self._where}, and "
                    f"{folder} differs in {len(odd)}, {odd[0]} for one"
                )
            names = there
        return names

    @cached_property
    def _val(self) -> set[int]:
        train = self._load("train")
        return set(choose(train.keys, train.labels, round(self.val_fraction * len(train.keys)), self.seed))

    def _load(self, split: str) -> Images:
        if split not in self._read:
            self._read[split] = self._load_hub(split) if self._local is None else self._load_local(split)
        return self._read[split]

    def _load_local(self, split: str) -> Images:
        assert self._local is not None
        number = {name: i for i, name in enumerate(self.class_names)}
        names = self._local.names(self.folders[split])
        labels = [number[name.split("/")[-2]] for name in names]
        empty = sorted(set(number) - {self.class_names[label] for label in set(labels)})
        if empty:
            raise UserError(f"{self._where}/{self.folders[split]} needs images in every class, and {empty[0]} has none")
        return Images(EncodedImages(self._local, names), names, labels)

    def _load_hub(self, split: str) -> Images:
        data = self._hub.splits[self.hub_splits[split]]
        labels = [int(label) for label in data[self.hub_label]]
        wrong = [label for label in labels if not 0 <= label < self.num_classes]
        if wrong:
            raise UserError(f"{self._where} needs labels 0 to {self.num_classes - 1}, and {split} has {wrong[0]}")
        return Images(HubImages(data, self.hub_image, as_stored=False), [str(i) for i in range(len(labels))], labels)
