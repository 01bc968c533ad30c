"""Tasks of samples that were loaded already, whatever they were loaded from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cgf.data.files import Record
from cgf.data.image_items import Images
from cgf.data.own_images import OwnImages
from cgf.data.own_text import text_notes
from cgf.data.text_task import Source, TextTask


@dataclass(kw_only=True)
class LoadedTexts(TextTask):
    """The texts of a data set that was loaded already."""

    source: Source
    names: dict[str, str]
    paired: bool

    @property
    def _source(self) -> Source:  # type: ignore[override]  # narrower than the base's
        return self.source

    def read_local(self, root: Path) -> Source:
        """See TextTask."""
        return self.source

    def of_pairs(self) -> bool:
        """See TextTask."""
        return self.paired

    def label_names(self, train: Sequence[Record]) -> dict[str, str]:
        """See TextTask."""
        return self.names

    def notes(self) -> list[str]:
        """See Task."""
        return text_notes(self, self.source.records)


@dataclass(kw_only=True)
class LoadedPictures(OwnImages):
    """The images of a data set that was loaded already."""

    crops: ClassVar[bool] = True
    splits: dict[str, Images]
    names: list[str]
    together: bool = True  # equal images, where a split is cut off

    @property
    def class_names(self) -> list[str]:
        """See Task."""
        return self.names

    def by_split(self) -> dict[str, Images]:
        """See OwnImages."""
        return self.splits

    def revision(self) -> dict[str, str]:
        """See Task."""
        raise AssertionError("HubTask knows it")

    def _keys(self, images: Images) -> list[str]:
        return images.alike if self.together else images.keys
