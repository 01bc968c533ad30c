"""How many tokens samples have in a network that stays encrypted, padding that is read as words among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cgf.checks import whole
from cgf.data.task import Items
from cgf.errors import UserError
from cgf.evaluate.he_batches import chosen_samples
from cgf.evaluate.open_checkpoint import OpenCheckpoint
from cgf.models.network import network_of
from cgf.network.inputs import Inputs, Patches
from cgf.types import Config, Item


@dataclass(frozen=True)
class ByTokens:
    """The samples of a data set, whose ``lengths`` are the tokens that a network sees of each; None of images."""

    samples: Items
    inputs: Inputs

    @cached_property
    def lengths(self) -> list[int] | None:
        """Tokens of each text once it is filled up."""
        own = getattr(self.samples, "lengths", None)
        if own is None or isinstance(self.inputs, Patches):
            return None
        return [self.inputs.tokens_of(words) for words in own]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Item:
        return self.samples[index]


def chosen(opened: OpenCheckpoint, he: Config, seed: int) -> tuple[list[int], dict[str, int]]:
    """Indices of ``he.samples`` samples of the split, and what a result says of how they were chosen.

    he.tokens: the first of a fixed permutation of those alone that have so many tokens; no label is looked at.
    UserError for another scope than a network's, for images, and where no sample has so many.
    """
    if he.tokens is None:
        return opened.samples(he.samples, seed), {}
    if he.scope != "network":
        raise UserError(f"he.tokens is about he.scope=network, and {he.tokens} was given with he.scope={he.scope}")
    tokens = whole("he.tokens", he.tokens, 2)
    lengths = ByTokens(opened.dataset, network_of(opened.host)[1]).lengths
    if lengths is None:
        raise UserError(f"he.tokens is about texts, and task {opened.task.name} has images")
    like = [index for index, count in enumerate(lengths) if count == tokens]
    if not like:
        known = ", ".join(map(str, sorted(set(lengths))))
        raise UserError(f"he.tokens={tokens} fits no sample of the split, whose texts have {known} tokens")
    places = chosen_samples(len(like), he.samples, seed)
    return [like[i] for i in places], {"tokens": tokens, "of_so_many": len(like), "of_split": len(lengths)}
