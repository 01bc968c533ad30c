"""A user's own images: a folder of class folders for each split."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cgf.data.files import MOST_TEXT, check_own, sha256_of_hashes
from cgf.data.image_files import SUFFIXES, EncodedImages, Folder, check_places, is_so, is_transparent, is_turned
from cgf.data.image_items import Images
from cgf.data.images import AUGMENTS, Augment, check_augment
from cgf.data.task import SPLITS, check_share, choose, unused_shares
from cgf.data.vision_task import VisionTask
from cgf.errors import UserError
from cgf.target import file_hash
from cgf.types import Json

FOLDERS = {"train": ("train",), "val": ("val", "validation", "valid", "dev"), "test": ("test",)}


@dataclass(kw_only=True)
class OwnImages(VisionTask):
    """Images by split, with what is missing cut off from train by a fixed rule.

    Without a test split the share ``test_fraction`` of train is test, and without a validation split the share
    ``val_fraction`` of what is left is val. Both are chosen by class, by hashes of the images' names and of ``seed``
    (`cgf.data.task.choose`). Images that are known to be equal byte for byte go together.
    augment: resized_crop, pad_crop, small_affine or null.
    """

    val_fraction: float = 0.1
    test_fraction: float = 0.2
    augment: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("val_fraction", self.val_fraction)
        check_share("test_fraction", self.test_fraction)
        check_augment(self.augment)

    @abstractmethod
    def by_split(self) -> dict[str, Images]:
        """The images of train, and of val and test where the source has them."""

    def augmentation(self) -> Augment | None:
        """See VisionTask."""
        return AUGMENTS[self.augment] if self.augment else None

    def without_effect(self) -> dict[str, str]:
        """See Task."""
        return unused_shares(self._given)

    def read(self, split: str) -> tuple[Images, list[int]]:
        """See VisionTask."""
        return self._given.get(split, self._given["train"]), self._parts[split]

    def identities(self, split: str) -> list[str] | None:
        """See Task. The hashes of the files, where they were worked out."""
        self.check_split(split)
        images, part = self.read(split)
        if images.contents is None:
            return None
        keep = self.limited(split, [images.keys[i] for i in part], [images.labels[i] for i in part])
        return [images.contents[part[i]] for i in keep]

    def notes(self) -> list[str]:
        """See Task."""
        told = {
            "test": f"{self.test_fraction:.0%} of train",
            "val": f"{self.val_fraction:.0%} of what is left of train",
        }
        cut = [
            f"no {name} split: {part}, by class and fixed by task.seed, is {name}"
            for name, part in told.items()
            if name not in self._given
        ]
        return [*cut, *self._in_two()]

    def _in_two(self) -> list[str]:
        """A sentence for each two splits with equal images, where that is known."""
        contents = {}
        for split in SPLITS:
            images, part = self.read(split)
            contents[split] = [] if images.contents is None else [images.contents[i] for i in part]
        notes = []
        for one, other in (("val", "train"), ("test", "train"), ("test", "val")):
            there = set(contents[other])
            if both := sum(content in there for content in contents[one]):
                notes.append(f"{both} of {len(contents[one])} images of {one} are in {other} too, byte for byte")
        return notes

    def _keys(self, images: Images) -> list[str]:
        """What names each image where splits are cut off: those of equal images are one."""
        return images.alike

    @cached_property
    def _given(self) -> dict[str, Images]:
        return self.by_split()

    @cached_property
    def _parts(self) -> dict[str, list[int]]:
        parts = {split: list(range(len(images.keys))) for split, images in self._given.items()}
        whole = self._given["train"]
        names = self._keys(whole)
        for split, share, salt in (
            ("test", self.test_fraction, f"test {self.seed}"),
            ("val", self.val_fraction, str(self.seed)),
        ):
            if split not in parts:
                rest = parts["train"]
                keys, labels = [names[i] for i in rest], [whole.labels[i] for i in rest]
                parts[split] = [
                    rest[i] for i in choose(keys, labels, round(share * len(rest)), salt, self.share_of_rows)
                ]
                parts["train"] = sorted(set(rest) - set(parts[split]))
        return parts


@dataclass(kw_only=True)
class OwnFolderTask(OwnImages):
    """Images as <root>/train/<class>/<file>, and val (or validation, valid, dev) and test, where they are there;
    task=image_folder.

    The classes are the sorted folders of train. sha256: split -> the hash of its files' names and contents. A
    checkpoint keeps it, so that it is evaluated on the very images that it was trained on. equal_together: whether
    equal images go together where a split is cut off; a checkpoint of before that was so keeps neither.
    """

    name: str = "image_folder"
    sha256: Mapping[str, str] | None = None
    equal_together: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.root:
            raise UserError(f"task={self.name} needs task.root=FOLDER, and it is not given")
        if not isinstance(self.equal_together, bool | None):
            raise UserError(f"task.equal_together must be true, false or null, and {self.equal_together!r} was given")

    @cached_property
    def class_names(self) -> list[str]:
        """See Task."""
        names = self._folder.classes(self._places["train"])
        if len(names) < 2:
            raise UserError(
                f"{self._folder.path / self._places['train']} needs a folder for each of at least two "
                f"classes, and it has {', '.join(names) or 'none'}"
            )
        return names

    def by_split(self) -> dict[str, Images]:
        """See OwnImages."""
        return {split: self._images(place) for split, place in self._places.items()}

    def revision(self) -> dict[str, str]:
        """See Task."""
        return {f"{self._places[split]}/": digest for split, digest in self._hashes.items()}

    def kept(self) -> Json:
        """See Task."""
        return {"root": str(self._folder.path), "sha256": self._hashes, "equal_together": self._equal_together}

    def notes(self) -> list[str]:
        """See Task."""
        notes = super().notes()
        beside = sorted(path.name for path in self._folder.path.glob("[!.]*") if path.is_dir())
        if unread := [name for name in beside if name not in self._places.values()]:
            notes.append(f"folders that are not read: {', '.join(unread)}")
        for place in self._places.values():
            top, read = self._folder.path / place, set(self._folder.names(place))
            files = sorted(p.relative_to(self._folder.path) for p in top.rglob("[!.]*") if p.is_file())
            for said, told in (
                (is_turned, "are to be turned by their EXIF data, {}: they are read as they are stored"),
                (
                    is_transparent,
                    "say how transparent pixels are, {}: that is left out, and what it alone draws is not seen",
                ),
            ):
                if odd := sorted(name for name in read if is_so(self._folder.path / name, said)):
                    notes.append(f"{len(odd)} images of {place}/ " + told.format(f"{odd[0]} for one"))
            if other := [str(file) for file in files if str(file) not in read]:
                notes.append(
                    f"{len(other)} files of {place}/ are not read, {other[0]} for one: images are "
                    f"{place}/CLASS/FILE with the suffix {', '.join(sorted(SUFFIXES))}"
                )
        return notes

    @cached_property
    def _folder(self) -> Folder:
        path = Path(str(self.root)).expanduser().absolute()
        if not path.is_dir():
            raise UserError(f"task.root needs a folder, and there is none at {path}")
        return Folder(path)

    @cached_property
    def _there(self) -> dict[str, str]:
        places = {}
        for split, names in FOLDERS.items():
            if self.sha256 is not None and split not in self.sha256:
                continue  # the checkpoint was trained without it
            there = [name for name in names if (self._folder.path / name).is_dir()]
            if there[1:]:
                raise UserError(f"{self._folder.path} needs one folder for {split}, and it has {' and '.join(there)}")
            if there:
                places[split] = there[0]
        if "train" not in places:
            have = sorted(path.name for path in self._folder.path.iterdir())[:5]
            raise UserError(
                f"{self._folder.path} needs a folder train/ with a folder for each class, and it has "
                f"{', '.join(have) or 'nothing'}"
            )
        return places

    @cached_property
    def _places(self) -> dict[str, str]:
        """The folder of each split, once it is known to hold what it should."""
        check_places(self.name, self._folder, self._there)
        where = {split: self._folder.path / place for split, place in self._there.items()}
        check_own(where, self._hashes, self.sha256)
        return self._there

    @property
    def _equal_together(self) -> bool:
        return self.sha256 is None if self.equal_together is None else self.equal_together

    def _keys(self, images: Images) -> list[str]:
        return images.alike if self._equal_together else images.keys

    @cached_property
    def _contents(self) -> dict[str, str]:
        """Image file -> its hash."""
        names = (name for place in self._there.values() for name in self._folder.names(place))
        return {name: file_hash(self._folder.path / name, MOST_TEXT) for name in names}

    @cached_property
    def _hashes(self) -> dict[str, str]:
        return {
            split: sha256_of_hashes(
                (name.partition("/")[2], self._contents[name]) for name in self._folder.names(place)
            )
            for split, place in self._there.items()
        }

    def _images(self, place: str) -> Images:
        where, number = self._folder.path / place, {name: i for i, name in enumerate(self.class_names)}
        if unknown := [name for name in self._folder.classes(place) if name not in number]:
            raise UserError(
                f"{where} needs the classes of train ({', '.join(self.class_names[:5])}"
                f"{', ...' if len(number) > 5 else ''}), and it has {unknown[0]} too"
            )
        names = self._folder.names(place)
        labels = [number[name.split("/")[-2]] for name in names]
        if not names:
            raise UserError(
                f"{where} needs images as CLASS/FILE with the suffix {', '.join(sorted(SUFFIXES))}, and it has none"
            )
        if place == self._places["train"] and (empty := set(number.values()) - set(labels)):
            raise UserError(f"{where} needs images in every class, and {self.class_names[min(empty)]} has none")
        return Images(EncodedImages(self._folder, names), names, labels, [self._contents[name] for name in names])
