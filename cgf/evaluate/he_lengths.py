"""Which lengths of text share ciphertexts where rows are full: sets of few texts leave most slots empty."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from cgf.data.task import Collate, Items
from cgf.errors import UserError
from cgf.evaluate.he_probe import AttentionProbe, probed
from cgf.evaluate.loop import batches_of_one_length, evaluate
from cgf.he.attention_needs import AttentionCost
from cgf.he.circuits import takes_means
from cgf.he.party import Party
from cgf.he.tile import tiles
from cgf.models.host import Host
from cgf.network.attention import DOT, score_of
from cgf.softmax.base import Softmax

SHORTEST = 0.5  # a text in a padded set is at least so long, as a share of the longest; less fills no slot cheaper
A_LEVEL = 1.2  # what a set costs that takes a level more, in multiples of what it costs without
SAME = 1e-3  # padding changes no logit by more than so much of the largest: float32 rounds differently by the shape

Price = Callable[[int, int, int], float]  # shortest, longest, samples -> milliseconds of one thread


def runs_of_lengths(counts: dict[int, int], price: Price) -> list[tuple[int, int]]:
    """The lengths of texts cut into runs (shortest, longest), each one set, so that all sets together cost least.

    counts   samples of each length.  A run of one length is not padded.
    1. best[j]: the least price of the j shortest lengths; best[0] = 0.
    2. best[j] = min over i of best[i] + the price of the lengths i + 1 to j in one set.
    3. The runs are read off backwards.
    """
    lengths = sorted(counts)
    best, first = [0.0], [0]
    for j in range(1, len(lengths) + 1):
        options = []
        for i in range(j - 1, -1, -1):
            if lengths[i] < SHORTEST * lengths[j - 1]:
                break
            samples = sum(counts[n] for n in lengths[i:j])
            options.append((best[i] + price(lengths[i], lengths[j - 1], samples), i))
        cost, i = min(options, key=lambda option: (option[0], -option[1]))
        best.append(cost)
        first.append(i)
    runs, j = [], len(lengths)
    while j:
        runs.append((lengths[first[j]], lengths[j - 1]))
        j = first[j]
    return runs[::-1]


@dataclass(frozen=True)
class SetKind:
    """What a price of a set hangs on beside its size.

    means   absent keys take no level (cgf.he.attention_blocks);  even: nor do rows of different lengths, if any
    """

    slots: int
    pairs: bool
    most_mib: float
    means: bool
    even: bool

    @classmethod
    def of(cls, needs: AttentionCost, party: Party) -> SetKind:
        """Of sets as these needs are of."""
        even = all(full for _, full, _, _ in needs.circuits)
        return cls(needs.tile.slots, needs.pairs, party.most_mib, needs.means, even)


@dataclass(frozen=True)
class Joint:
    """Texts of near lengths in the same sets, the cheapest way: batches of whole attentions on full rows."""

    price: Price

    def groups(self, dataset: Items, indices: Sequence[int]) -> list[list[int]]:
        """Every index once, in groups that share sets of ciphertexts, each sorted by length; the shortest first."""
        by_length = batches_of_one_length(dataset, max(1, len(indices)), indices)
        own = {tokens_of(dataset, group)[0]: group for group in by_length}
        runs = runs_of_lengths({n: len(group) for n, group in own.items()}, self.price)
        return [[i for n in sorted(own) if low <= n <= high for i in own[n]] for low, high in runs]


def tokens_of(dataset: Items, indices: Sequence[int]) -> list[int]:
    """The tokens of each of these texts."""
    lengths: Sequence[int] = getattr(dataset, "lengths", ())
    return [lengths[i] for i in indices]


def joint_lengths(
    host: Host,
    softmaxes: list[Softmax],
    samples: tuple[Items, Collate, list[int]],
    party: Party,
    as_trained: Callable[[], AbstractContextManager[None]],
) -> Joint | None:
    """How texts of several lengths share sets; None where they must not, so that each length has sets of its own.

    samples      dataset, collate and the chosen indices;  as_trained: puts the checkpoint's own exponentials in place
    They may where the host has full rows, every layer a query and a key a token, and padding changes no logit. The last
    is tried, on the shortest text beside the longest.
    """
    dataset, collate, indices = samples
    if host.row_kind != "full" or getattr(dataset, "lengths", None) is None:
        return None
    by_length = sorted((tokens, i) for tokens, i in zip(tokens_of(dataset, indices), indices, strict=True))
    (least, short), (most, long) = by_length[0], by_length[-1]
    if least == most or not _padding_changes_nothing(host, (dataset, collate), short, long, as_trained):
        return None
    layers = probed(host, softmaxes, dataset, collate, long)
    if any(layer.tokens != most for layer in layers):
        return None
    kinds = Counter((layer.heads, layer.features) for layer in layers)
    softmax = layers[0].softmax
    grown = takes_means(softmax, party.style) if score_of(softmax) == DOT else 0.0
    try:
        needs = [[_needs(layer, party, tokens) for tokens in ([most], [most, 1])] for layer in layers]
    except UserError:  # the levels that there are take full rows at most, or not even those, which is told elsewhere
        return None
    full, masked = (SetKind.of(one, party) for one in needs[0])

    def price(shortest: int, longest: int, count: int) -> float:
        even = longest == shortest or longest <= grown * shortest
        kind, total = full if even else masked, 0.0
        for (heads, features), times in kinds.items():
            whole, rest = divmod(count * heads, kind.slots)
            for sets, instances in ((whole, kind.slots), (1, rest)):
                if sets and instances:
                    total += times * sets * cheapest_price(instances, longest, features, kind)
        return total

    return Joint(price)


def _needs(probe: AttentionProbe, party: Party, tokens: Sequence[int]) -> AttentionCost:
    """Of samples of so many tokens each, as the probe's."""
    heads = probe.lengths(tokens)
    return party.attention_needs(probe.softmax, heads, np.arange(heads.instances))


def _padding_changes_nothing(
    host: Host,
    data: tuple[Items, Collate],
    short: int,
    long: int,
    as_trained: Callable[[], AbstractContextManager[None]],
) -> bool:
    """Whether the logits of a text are those that it has beside a longer one, in the clear, as trained."""
    with as_trained():
        alone = evaluate(host.model, host.logits, *data, [[short]]).logits[0]
        pair = evaluate(host.model, host.logits, *data, [[short, long]])
    beside = pair.logits[pair.index.tolist().index(short)]
    largest = float(alone.abs().max())
    return bool((alone - beside).abs().max() <= SAME * max(largest, 1e-6))


def cheapest_price(instances: int, tokens: int, features: int, kind: SetKind) -> float:
    """Milliseconds of one thread for rows of so many tokens in the cheapest tile; infinite where none fits."""

    def least(absent: bool) -> float:
        listed = tiles(
            instances,
            tokens,
            tokens,
            features,
            slots=kind.slots,
            pairs=kind.pairs,
            pattern=None,
            most_mib=kind.most_mib,
            absent=absent,
            means=kind.means,
        )
        return listed[0][0] if listed else math.inf

    return min(least(False) * (1.0 if kind.even else A_LEVEL), least(True) * (1.0 if kind.means else A_LEVEL))
