"""Which samples share ciphertexts: every sample once, full sets first, and the rest split where that costs less."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgf.errors import UserError
from cgf.evaluate.he_batches import Batches, shard_of
from cgf.he.layout import choose_layout

HEADS, SLOTS = 12, 8192


@dataclass
class Texts:
    lengths: list[int]

    def __len__(self):
        return len(self.lengths)


def batches_of(lengths, **options):
    texts = Texts(lengths)
    return Batches(texts, lambda i: (HEADS, lengths[i], SLOTS), **options).of(list(range(len(lengths))))


def cost(count, length):
    return choose_layout(count * HEADS * length, length, SLOTS, masked=False).cost


def partitions(count, most=None):
    for first in range(min(count, most or count), 0, -1):
        for rest in partitions(count - first, first) if count > first else [[]]:
            yield [first, *rest]


@given(st.lists(st.integers(4, 90), min_size=1, max_size=60))
def test_every_sample_once_and_one_length_a_batch(lengths):
    batches = batches_of(lengths)
    assert sorted(i for b in batches for i in b) == list(range(len(lengths)))
    assert all(len({lengths[i] for i in b}) == 1 for b in batches)
    assert all(len(b) * HEADS * lengths[b[0]] <= SLOTS for b in batches)
    longest = [lengths[b[0]] for b in batches]
    assert longest == sorted(longest, reverse=True)


@given(st.integers(4, 60), st.integers(1, 9))
def test_the_rest_costs_what_the_cheapest_split_costs(length, count):
    count = min(count, SLOTS // (HEADS * length))
    sizes = [len(b) for b in batches_of([length] * count)]
    cheapest = min(sum(cost(n, length) for n in parts) for parts in partitions(count))
    assert sum(cost(n, length) for n in sizes) == pytest.approx(cheapest)


def test_rows_just_beyond_half_the_slots_are_two_sets():
    """9 texts of 38 tokens are 4,104 rows: 38 ciphertexts, where 8 of them fill 19 and the ninth 3."""
    assert [len(b) for b in batches_of([38] * 9)] == [8, 1]
    assert [len(b) for b in batches_of([38] * 26)] == [17, 8, 1]  # a full set first
    assert [len(b) for b in batches_of([38] * 9, size=9)] == [9]  # where the size is given, it stays
    assert [len(b) for b in batches_of([38] * 9, masked=True)] == [9]


def test_memory_bounds_a_batch():
    assert {len(b) for b in batches_of([16] * 40, rows_at_once=10 * HEADS * 16)} == {10}


def test_more_shards_than_batches_are_refused_for_each():
    """The first ones would evaluate, and no set of shards could be merged: the last have nothing to evaluate."""
    batches = [[0, 1], [2], [3]]
    assert [shard_of(batches, (part, 3)) for part in (1, 2, 3)] == [[[0, 1]], [[2]], [[3]]]
    for part in range(1, 10):
        with pytest.raises(
            UserError, match=f"he.shard={part}/9 needs at least 9 batches, one a shard, and there are 3"
        ):
            shard_of(batches, (part, 9))
