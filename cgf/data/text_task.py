"""What all tasks of text classification share.

Records from files and records from the hub are (text, label name) from the first step on, and go through the same
labels, the same validation part and the same limit. Test records take no part in any of these choices.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

from cgf.checks import is_whole
from cgf.data.files import Record
from cgf.data.hub import hub_records, load_hub, pinned
from cgf.data.pairs import MARK, parted
from cgf.data.sentences import parts_of, whole_of
from cgf.data.task import SPLITS, Collate, Inputs, Task, check_apart, check_share, choose
from cgf.data.text_items import TextDataset, collate_text
from cgf.data.tokens import check_pairs, token_types, tokenized
from cgf.errors import UserError
from cgf.types import Json, Tokenizer


@dataclass(frozen=True)
class Source:
    """Records by split (val only where the source has one), what each split was read from, and its revision."""

    records: dict[str, list[Record]]
    origin: dict[str, str]
    revision: dict[str, str]


@dataclass(kw_only=True)
class TextTask(Task):
    """A text task; the subclasses (`cgf.data.text`) read one file format each.

    max_length: tokens a text is truncated to, special tokens included.
    cache: the folder in which tokenised texts are kept; null: nowhere.
    val_fraction: the share of train that becomes val where the source has no val of its own.
    test_fraction: the share of train that becomes test, before val is chosen, where the source has no test of its own.
    val_sentences: val takes whole sentences with all their phrases, so that no text of train is a part of one of val's
        or the other way round (but for short phrases that several sentences share; `whole_of`).
    test_sentences: that many whole sentences of train go to test, beside the source's own, once val is chosen. Every
        text that is a part of one of them leaves train. val stays as it is: where it is of whole sentences, only
        short phrases of it can be parts of one. 0: none.
    min_words: train and val leave texts of fewer words out (SST-2 trains on phrases and tests on sentences).
    hub, hub_config, hub_revision: the dataset on the hub, used where no data root is set.
    hub_text, hub_label: its columns. hub_splits: our split -> the hub's name for it.
    """

    kind: ClassVar[str] = "text"
    max_length: int = 128
    cache: str | None = None
    val_fraction: float = 0.1
    test_fraction: float = 0.2
    val_sentences: bool = False
    test_sentences: int = 0
    min_words: int = 0
    hub: str | None = None
    hub_config: str | None = None
    hub_revision: str | None = None
    hub_text: str = "text"
    hub_label: str = "label"
    hub_splits: Mapping[str, str] = field(default_factory=lambda: {"train": "train", "test": "test"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("val_fraction", self.val_fraction)
        check_share("test_fraction", self.test_fraction)
        if self.hub:
            check_apart(self.name, "task.hub_splits", self.hub_splits)
        if not is_whole(self.max_length) or self.max_length < 1:
            raise UserError(f"task.max_length needs a count of tokens of at least 1, and it is {self.max_length!r}")
        for name, what in (("min_words", "words"), ("test_sentences", "sentences")):
            count = getattr(self, name)
            if not is_whole(count) or count < 0:
                raise UserError(f"task.{name} needs to be a count of {what}, and it is {count!r}")

    @abstractmethod
    def read_local(self, root: Path) -> Source:
        """Records of the local files. UserError for a file that is missing or wrong."""

    @abstractmethod
    def label_names(self, train: Sequence[Record]) -> dict[str, str]:
        """Label as the source writes it -> class name; the values, in order, are the classes."""

    def of_pairs(self) -> bool:
        """Whether each text is a pair of two (``cgf.data.pairs``)."""
        return False

    @property
    def class_names(self) -> list[str]:
        """See Task."""
        return list(dict.fromkeys(self._names.values()))

    def dataset(self, split: str, inputs: Inputs) -> TextDataset:
        """Items {'input_ids': list[int], 'label': int}, tokenised at once, or read from ``cache``; those of pairs with
        'token_type_ids' where the model takes them.

        UserError without a tokenizer, for an unknown split, and for data that cannot be used.
        """
        self.check_split(split)
        tokenizer = self._tokenizer(inputs)
        texts, labels = self._splits[split]
        keep = self.limited(split, texts, labels)
        kept = [texts[i] for i in keep]
        pairs = self.has_pairs(split)
        if pairs:
            check_pairs(tokenizer, inputs.token_types)
        if self.max_length <= (own := tokenizer.num_special_tokens_to_add(pair=pairs)):
            raise UserError(
                f"task.max_length={self.max_length} leaves no place for a text beside the {own} tokens that "
                f"{type(tokenizer).__name__} adds"
            )
        ids = tokenized(kept, tokenizer, self.max_length, self.cache)
        if (bare := next((i for i, tokens in enumerate(ids) if not tokens), None)) is not None:
            raise UserError(
                f"task {self.name} needs texts of one token at least, and {kept[bare]!r} of {split} gives none with "
                f"{type(tokenizer).__name__}"
            )
        types = token_types(kept, tokenizer, self.max_length) if inputs.token_types else None
        return TextDataset(ids, [labels[i] for i in keep], types)

    def identities(self, split: str) -> list[str]:
        """See Task. The texts."""
        self.check_split(split)
        texts, labels = self._splits[split]
        return [texts[i] for i in self.limited(split, texts, labels)]

    def has_pairs(self, split: str) -> bool:
        """See Task."""
        self.check_split(split)
        return parted(self._splits[split][0])[1] is not None

    def collate(self, inputs: Inputs) -> Collate:
        """Right padding with the tokenizer's pad id; see `collate_text`. UserError if it has none."""
        pad = self._tokenizer(inputs).pad_token_id
        if pad is None:
            raise UserError(
                f"task {self.name} needs a tokenizer with a pad token to batch texts, and "
                f"{type(inputs.tokenizer).__name__} has none"
            )
        return partial(collate_text, pad_id=int(pad))

    def revision(self) -> dict[str, str]:
        """See Task."""
        return dict(self._source.revision)

    def kept(self) -> Json:
        """See Task. Of a set of the hub its commit."""
        return pinned(self._source.revision.values()) if self.data_root() is None else {}

    def read_hub(self) -> Source:
        """Records of the hub dataset. UserError if there is none, or it cannot be loaded."""
        if not self.hub:
            raise UserError(
                f"task {self.name} needs a data root (data.root or CGF_DATA_ROOT) or a hub dataset "
                "(task.hub), and there is neither"
            )
        data = load_hub(self.name, self.hub, self.hub_config, list(self.hub_splits.values()), self.hub_revision)
        records = {
            split: hub_records(self.name, self.hub, data.splits[name], self.hub_text, self.hub_label)
            for split, name in self.hub_splits.items()
        }
        origin = {split: f"hub dataset {self.hub}, split {name}" for split, name in self.hub_splits.items()}
        key = f"{self.hub}/{self.hub_config}" if self.hub_config else self.hub
        return Source(records, origin, {key: data.commit})

    def in_scope(self, label: str) -> bool:
        """Whether records of this label take part."""
        return True

    @cached_property
    def _source(self) -> Source:
        root = self.data_root()
        return self.read_hub() if root is None else self.read_local(root)

    @cached_property
    def _records(self) -> dict[str, list[Record]]:
        return {k: [r for r in records if self.in_scope(r[1])] for k, records in self._source.records.items()}

    @cached_property
    def _names(self) -> dict[str, str]:
        return self.label_names(self._records["train"])

    @cached_property
    def _splits(self) -> dict[str, tuple[list[str], list[int]]]:
        splits = {split: self._encode(split, records) for split, records in self._records.items()}
        if "test" not in splits:
            texts, labels = splits["train"]
            count = round(self.test_fraction * len(texts))
            self._part(splits, "test", set(choose(texts, labels, count, f"test {self.seed}", self.share_of_rows)))
        if "val" not in splits:
            self._part(splits, "val", self._chosen_for_val(*splits["train"]))
        if self.test_sentences:
            self._hold_out(splits)
        for split in ("train", "val"):
            texts, labels = splits[split]
            keep = [i for i, text in enumerate(texts) if len(text.split()) >= self.min_words]
            splits[split] = [texts[i] for i in keep], [labels[i] for i in keep]
        for split in SPLITS:
            if not splits[split][0]:
                raise UserError(
                    f"task {self.name} needs rows in {split}, and {self._source.origin} leaves none"
                    + (f" of at least {self.min_words} words" if self.min_words else "")
                    + _repeated(splits)
                )
        return splits

    def _part(self, splits: dict[str, tuple[list[str], list[int]]], name: str, chosen: set[int]) -> None:
        texts, labels = splits["train"]
        for split, inside in (("train", False), (name, True)):
            keep = [i for i in range(len(texts)) if (i in chosen) == inside]
            splits[split] = [texts[i] for i in keep], [labels[i] for i in keep]

    def _hold_out(self, splits: dict[str, tuple[list[str], list[int]]]) -> None:
        """Moves whole sentences of train, by class, to test; what is a part of one leaves train.

        UserError where train has no more of them than are asked for.
        """
        texts, labels = splits["train"]
        sentences = [i for i, whole in enumerate(whole_of(texts)) if i == whole]
        if self.test_sentences >= len(sentences):
            raise UserError(
                f"task.test_sentences={self.test_sentences} needs more sentences than that in train of task "
                f"{self.name}, and there are {len(sentences)}"
            )
        of_class = [labels[i] for i in sentences]
        picked = choose([texts[i] for i in sentences], of_class, self.test_sentences, f"test sentences {self.seed}")
        held = [sentences[i] for i in picked]
        parts = parts_of(texts[i] for i in held)
        keep = [i for i, text in enumerate(texts) if " ".join(text.split()) not in parts]
        splits["train"] = [texts[i] for i in keep], [labels[i] for i in keep]
        test, of_test = splits["test"]
        splits["test"] = [*test, *(texts[i] for i in held)], [*of_test, *(labels[i] for i in held)]

    def _chosen_for_val(self, texts: list[str], labels: list[int]) -> set[int]:
        keys, count = texts, len(texts)
        if self.val_sentences:
            keys = [texts[i] for i in whole_of(texts)]
            count = len(set(keys))
        of_rows = self.share_of_rows and not self.val_sentences
        return set(choose(keys, labels, round(self.val_fraction * count), self.seed, of_rows))

    def _encode(self, split: str, records: list[Record]) -> tuple[list[str], list[int]]:
        number = {name: i for i, name in enumerate(self.class_names)}
        labels = []
        for i, (text, label) in enumerate(records):
            if (MARK in text) != self.of_pairs():
                raise UserError(
                    f"task {self.name} needs texts without the control character {MARK!r}, and row {i + 1} of "
                    f"{self._source.origin[split]} has one"
                )
            index = number.get(self._names.get(label, label))
            if index is None:
                raise UserError(
                    f"{self._source.origin[split]} needs labels out of the {len(number)} classes of task "
                    f"{self.name}, and row {i + 1} has {label!r}"
                )
            labels.append(index)
        return [text for text, _ in records], labels

    def _tokenizer(self, inputs: Inputs) -> Tokenizer:
        if inputs.tokenizer is None:
            raise UserError(f"task {self.name} is text and needs a model with a tokenizer, and this model has none")
        return inputs.tokenizer


def _repeated(splits: Mapping[str, tuple[list[str], list[int]]]) -> str:
    """What rows that repeat have to do with an empty split; nothing where none does."""
    texts = [text for own, _ in splits.values() for text in own]
    if len(texts) == len(set(texts)):
        return ""
    return f": its {len(texts)} rows hold {len(set(texts))} different texts, and equal ones stay in one split"
