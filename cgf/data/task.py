"""What every task offers, and the choice of rows that all tasks share.

A task hides where its rows come from. It gives datasets for train, val and test, a collate function, its
class names, and the revision of the data it read. Choices of rows hang on hashes of the rows themselves,
never on a random generator: they survive library upgrades and a source that lists its rows in another order.
"""

import hashlib
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from torch import Tensor

from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.types import Item, Json, Tokenizer

Label = TypeVar("Label", int, str)
Collate = Callable[[Sequence[Item]], dict[str, Tensor]]  # items of a dataset, to one batch
SPLITS = ("train", "val", "test")
ROOT_VARIABLE = "CGF_DATA_ROOT"


class Items(Protocol):
    """A dataset of a task, or a part of one. Texts have ``lengths`` too: the tokens of each."""

    def __len__(self) -> int:
        """How many items there are."""

    def __getitem__(self, index: int, /) -> Item:
        """One item, as the task's ``collate`` takes it."""


class LabelledItems(Items, Protocol):
    """The items of a split, and the class of each."""

    labels: list[int]


@dataclass(frozen=True)
class ImageInput:
    """The images a model takes: size (C, H, W), channel mean and std on a [0, 1] scale, how to resize.

    crop_pct: at evaluation the image is resized to size / crop_pct and its centre is cropped.
    stretch: whether that resizing gives up the image's shape; else the shorter side decides.
    """

    size: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str = "bicubic"
    crop_pct: float = 1.0
    stretch: bool = False


@dataclass(frozen=True)
class Inputs:
    """What a host model takes: a Hugging Face tokenizer, or images of one kind.

    token_types: whether it tells the second text of a pair from the first by types 0 and 1, where the tokenizer gives
    them.
    """

    tokenizer: Tokenizer = None
    image: ImageInput | None = None
    token_types: bool = False


@dataclass(kw_only=True)
class Task(ABC):
    """A classification task.

    name: also the folder under the data root.
    root: the data root; null falls back to the environment variable CGF_DATA_ROOT, then to the hub.
    seed: fixes the validation part, `limit` and augmentation. It is not the training seed: runs that differ
        in their training seed share their splits.
    limit: rows to keep by split ({train: 300, val: 60}), chosen by class shares and fixed by `seed`.
    share_of_rows: whether a share, and a limit, is one of the rows where rows repeat, and not of the different ones
        (`choose`). Checkpoints of before, which do not say, and the public sets take it of the different ones.

    Raises UserError for a `limit` that is not a positive count of a known split.
    """

    kind: ClassVar[str]
    name: str
    root: str | None = None
    seed: int = 42
    limit: Mapping[str, int | None] | None = None
    share_of_rows: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.share_of_rows, bool):
            raise UserError(f"task.share_of_rows must be true or false, and {self.share_of_rows!r} was given")
        if self.limit is not None and not isinstance(self.limit, Mapping):
            raise UserError(
                f"task.limit needs a count by split, such as 'task.limit={{train: 300}}', and it is {self.limit!r}"
            )
        for split, count in (self.limit or {}).items():
            self.check_split(split)
            if count is not None and (not is_whole(count) or count < 1):
                raise UserError(f"task.limit.{split} needs a count of at least 1, and it is {count!r}")

    @property
    @abstractmethod
    def class_names(self) -> list[str]:
        """The classes, in the order of their labels. Reads the data on first use."""

    @property
    def num_classes(self) -> int:
        """Number of classes; labels are 0 .. num_classes - 1."""
        return len(self.class_names)

    @property
    def has_images(self) -> bool:
        """Whether its samples are images, not texts."""
        return self.kind == "vision"

    @abstractmethod
    def dataset(self, split: str, inputs: Inputs) -> LabelledItems:
        """The items of 'train', 'val' or 'test', with `__len__`, `__getitem__(i) -> dict`, `set_epoch`.

        Raises UserError for an unknown split, inputs of the wrong kind, and data that cannot be used.
        """

    @abstractmethod
    def collate(self, inputs: Inputs) -> Collate:
        """A function from a list of items to one batch (a dict of tensors); it can be pickled."""

    @abstractmethod
    def revision(self) -> dict[str, str]:
        """What was read: data file -> sha256, or hub dataset -> commit."""

    def identities(self, split: str) -> list[str] | None:
        """What tells the samples of a split from others, whichever file they lie in: a text, a hash of an image's
        file. None where a task does not tell it."""
        self.check_split(split)
        return None

    def kept(self) -> Json:
        """Settings that a checkpoint keeps in the place of those given, so that it reads the same data again."""
        return {}

    def has_pairs(self, split: str) -> bool:
        """Whether the samples of a split are pairs of texts."""
        self.check_split(split)
        return False

    def without_effect(self) -> dict[str, str]:
        """Settings that the data leave without effect, with the reason."""
        return {}

    def notes(self) -> list[str]:
        """Sentences on the data that a user should read before training starts."""
        return []

    def data_root(self) -> Path | None:
        """The folder that holds `<name>/`, or None where the hub is meant. UserError if it does not exist."""
        value = self.root or os.environ.get(ROOT_VARIABLE)
        if not value:
            return None
        path = Path(value).expanduser()
        if not path.is_dir():
            origin = "data.root" if self.root else ROOT_VARIABLE
            raise UserError(f"task {self.name} needs its data under {origin}={value}, and there is no such folder")
        return path

    def check_split(self, split: str) -> None:
        """UserError unless `split` is one of train, val, test."""
        if split not in SPLITS:
            raise UserError(f"task {self.name} has the splits {', '.join(SPLITS)}, and {split!r} was asked for")

    def limited(self, split: str, keys: Sequence[str], labels: Sequence[int]) -> list[int]:
        """Indices of the rows that `limit` keeps of a split, in their order; all of them without a limit."""
        count = (self.limit or {}).get(split)
        if count is None or count >= len(keys):
            return list(range(len(keys)))
        if self.share_of_rows:  # equal texts may part here, where nothing is tested on what another part was trained on
            keys = _each_its_own(keys)
        # Another salt than the validation cut: the two choices must not follow the same order.
        return choose(keys, labels, count, f"limit {self.seed}")


def _each_its_own(keys: Sequence[str]) -> list[str]:
    """The keys, each copy of one with its number behind it, so that every row has a key of its own."""
    seen: Counter[str] = Counter()
    told = list[str]()
    for key in keys:
        told.append(f"{key}\0{seen[key]}" if seen[key] else key)
        seen[key] += 1
    return told


def unused_shares(given: Collection[str]) -> dict[str, str]:
    """Of the shares of train that val and test are cut off as, those of splits that are given."""
    return {f"{split}_fraction": f"{split} is given, and not cut off" for split in ("val", "test") if split in given}


def check_apart(task: str, setting: str, names: Mapping[str, str]) -> None:
    """UserError where two splits have one source: what is trained on must not be tested on."""
    seen: dict[str, str] = {}
    for split, name in names.items():
        if name in seen:
            raise UserError(
                f"task {task} needs a source of its own for each split, and {setting} names {name} for "
                f"{seen[name]} and {split}"
            )
        seen[name] = split


def inside(task: str, setting: str, name: str) -> str:
    """A path below the task's folder as a setting gives it, without . and ..; UserError where it leads out of it."""
    plain = os.path.normpath(name)
    if os.path.isabs(plain) or plain.split(os.sep)[0] == "..":
        raise UserError(f"task.{setting} needs a path inside the folder of task {task}, and it is {name!r}")
    return plain


def choose(keys: Sequence[str], labels: Sequence[Label], count: int, salt: object, of_rows: bool = False) -> list[int]:
    """Indices, ascending, of a fixed stratified choice of about `count` rows.

    keys: (N,) text that names a row. Rows of equal key go together (so that no sentence ends up on both
    sides), which is why the count may be passed by the rows that repeat a chosen key.
    labels: (N,) the strata. Each gets its share of the distinct keys by largest remainder. With ``of_rows`` each gets
    its share of the rows, as near as keys with all their rows come to it: the same where no key repeats.
    """
    stratum: dict[str, Label] = {}
    for key, label in zip(keys, labels, strict=True):
        stratum.setdefault(key, label)
    members: dict[Label, list[str]] = {}
    for key, label in stratum.items():
        members.setdefault(label, []).append(key)
    if of_rows:
        chosen = _chosen_by_rows(Counter(keys), members, count, salt)
    else:
        quota = _quotas({label: len(keys_of_label) for label, keys_of_label in members.items()}, count, salt)
        chosen = set()
        for label, keys_of_label in members.items():
            chosen.update(sorted(keys_of_label, key=lambda key: _hash(salt, key))[: quota[label]])
    return [i for i, key in enumerate(keys) if key in chosen]


def _chosen_by_rows(
    copies: Mapping[str, int], members: Mapping[Label, list[str]], count: int, salt: object
) -> set[str]:
    """Keys whose rows are about ``count``, by strata: in the order of their hash, as far as a key brings it nearer.

    A stratum of several keys that has a share has one of them at least: where none brings it nearer, the one that
    repeats least. One whose only key repeats has none, so that all of it is left.
    """
    sizes = {label: sum(copies[key] for key in keys) for label, keys in members.items()}
    quota, chosen = _quotas(sizes, count, salt), set[str]()
    for label, keys in members.items():
        taken = 0
        if len(keys) == 1 < copies[keys[0]]:
            continue
        ordered = sorted(keys, key=lambda key: _hash(salt, key))
        for key in ordered:
            if taken + copies[key] / 2 <= quota[label]:
                chosen.add(key)
                taken += copies[key]
        if taken == 0 < quota[label] and len(keys) > 1:
            chosen.add(min(ordered, key=lambda key: copies[key]))
    return chosen


def check_share(setting: str, value: float) -> None:
    """UserError unless a setting of a task lies between 0 and 1."""
    if not isinstance(value, int | float) or not 0 < value < 1:
        raise UserError(f"task.{setting} needs to lie between 0 and 1, and it is {value!r}")


def three_parts(
    keys: Sequence[str], labels: Sequence[Label], test: float, val: float, salt: object
) -> dict[str, list[int]]:
    """A set without splits in three, by class: the shares ``test`` and ``val`` of its rows, the rest to train on."""
    tested = choose(keys, labels, round(test * len(keys)), salt)
    rest = sorted(set(range(len(keys))) - set(tested))
    picked = choose([keys[i] for i in rest], [labels[i] for i in rest], round(val * len(keys)), salt)
    validated = [rest[i] for i in picked]
    return {"train": sorted(set(rest) - set(validated)), "val": validated, "test": tested}


def with_fold(
    keys: Sequence[str], labels: Sequence[Label], parts: Mapping[str, list[int]], fold: int, folds: int, salt: object
) -> dict[str, list[int]]:
    """Parts of a set with the same ``val``; ``test`` is one fold of all other rows, ``train`` the rest of them.

    Each class is dealt out in the order of a hash, row by row, so that every fold has its share and every row of the
    others is in the test set of one fold. keys name a row each.
    """
    others = sorted({*parts["train"], *parts["test"]}, key=lambda i: (str(labels[i]), _hash((salt, "fold"), keys[i])))
    tested = sorted(others[fold::folds])
    return {"train": sorted(set(others) - set(tested)), "val": parts["val"], "test": tested}


def _quotas(sizes: dict[Label, int], count: int, salt: object) -> dict[Label, int]:
    total = sum(sizes.values())
    count = min(count, total)
    quota = {label: size * count // total for label, size in sizes.items()}
    # Ties go by hash: by name, a small choice would always hold the first classes of the alphabet.
    order = sorted(sizes, key=lambda label: (-(sizes[label] * count % total), _hash(salt, str(label))))
    for label in order[: count - sum(quota.values())]:
        quota[label] += 1
    return quota


def _hash(salt: object, key: str) -> bytes:
    return hashlib.sha256(f"{salt}\0{key}".encode()).digest()
