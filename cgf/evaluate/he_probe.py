"""What the layers of a model were given, for whoever decides which samples go together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cgf.data.task import Collate, Items
from cgf.evaluate.loop import evaluate
from cgf.he.party import Party
from cgf.models.host import Host
from cgf.models.install import installed
from cgf.network.attention import Heads
from cgf.softmax.attend import Dropout
from cgf.softmax.base import Softmax
from cgf.softmax.slot import Around


class ShapeProbe(Around):
    """Keeps the scores that a softmax was given last, and their mask."""

    given: tuple[Tensor, Tensor | None]

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """The inner slot's weights; scores and mask are kept as ``given``."""
        self.given = scores, valid
        return super().weights(scores, valid)


class AttentionProbe(Around):
    """Keeps the shapes of the queries, keys and values that an attention was given last, and its mask."""

    given: tuple[torch.Size, torch.Size, torch.Size, Tensor | None]

    def attention(
        self, query: Tensor, key: Tensor, value: Tensor, scaling: float, valid: Tensor | None, drop: Dropout
    ) -> tuple[Tensor, Tensor | None]:
        """The inner slot's outputs and weights; shapes and mask are kept as ``given``."""
        self.given = query.shape, key.shape, value.shape, valid
        return super().attention(query, key, value, scaling, valid, drop)

    @property
    def heads(self) -> int:
        """Heads of the queries."""
        return int(self.given[0][1])

    @property
    def features(self) -> int:
        """The more of a key's and a value's."""
        return max(self.given[1][3], self.given[2][3])

    @property
    def tokens(self) -> int | None:
        """How many queries and keys there were; None where they differ in number, or a mask was given."""
        queries, keys, valid = self.given[0][2], self.given[1][2], self.given[3]
        return queries if queries == keys and (valid is None or bool(valid.all())) else None

    def capacity(self, party: Party) -> tuple[int, int, int]:
        """(heads, 1, instances of one set of ciphertexts) where there are as many samples like this as it takes."""
        heads = self.many(party.rings[-1].slots)
        needs = party.attention_needs(self.softmax, heads, np.arange(heads.instances))
        return self.heads, 1, max(self.heads, needs.tile.instances)

    def many(self, instances: int) -> Heads:
        """So many instances of what was given, as views of zeros."""
        samples = max(1, instances // self.given[0][1])
        query, key, value = (np.broadcast_to(0.0, (samples, *shape[1:])) for shape in self.given[:3])
        valid = self.given[3]
        return Heads(query, key, value, 1.0, None if valid is None or bool(valid.all()) else own(valid))

    def lengths(self, tokens: Sequence[int]) -> Heads:
        """Samples of so many tokens each, padded to the longest, as views of zeros."""
        longest = max(tokens)
        query, key, value = (
            np.broadcast_to(0.0, (len(tokens), shape[1], longest, shape[3])) for shape in self.given[:3]
        )
        valid = (np.arange(longest) < np.array(tokens)[:, None])[:, None, None, :]
        return Heads(query, key, value, 1.0, None if bool(valid.all()) else valid)


def own(valid: Tensor) -> np.ndarray:
    """The mask of the first sample, of one that broadcasts to (B, H, Q, K)."""
    return (valid[:1] if valid.dim() == 4 else valid).cpu().numpy()


def probed(host: Host, softmaxes: list[Softmax], dataset: Items, collate: Collate, index: int) -> list[AttentionProbe]:
    """Of each layer what its attention was given in one pass in the clear over one sample."""
    probes: list[AttentionProbe] = []

    def make(layer: int) -> AttentionProbe:
        probes.append(AttentionProbe(softmaxes[layer]))
        return probes[-1]

    with installed(host.model, make):
        evaluate(host.model, host.logits, dataset, collate, [[index]])
    return probes
