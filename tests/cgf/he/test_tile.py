"""Where numbers lie in the layouts of whole attentions, and which of them is chosen."""

from itertools import pairwise

import numpy as np
import pytest

from cgf.errors import UserError
from cgf.he.tile import Pattern, Tile, memory_mib, price, tiles


@pytest.mark.parametrize("instances, a, b", [(3, 1, 1), (3, 4, 1), (2, 3, 8), (1, 64, 1), (1, 1, 64), (5, 2, 4)])
def test_a_score_lies_where_the_layout_of_its_rows_says(instances, a, b):
    """The product of packed queries and keys is the packed matrix of their products."""
    tile, rng = Tile(instances, 64, a, b), np.random.default_rng(0)
    queries, keys = rng.normal(size=(instances, a)), rng.normal(size=(instances, 2 * b))
    columns = [tile.pack_queries(queries) * tile.pack_keys(keys[:, c * b : (c + 1) * b]) for c in range(2)]
    rows = tile.layout(2).unpack(columns)
    np.testing.assert_allclose(rows, (queries[:, :, None] * keys[:, None]).reshape(instances * a, 2 * b))


def test_absent_keys_are_zero_and_complex_numbers_stay():
    packed = Tile(2, 64, 3, 4).pack_keys(np.array([[1 + 2j, 3.0], [4.0, 5j]]))
    assert packed.dtype == np.complex128 and packed[0] == packed[2] == 1 + 2j and packed[19] == 5j
    assert not packed[32:].any()


def test_slots_beyond_the_instances_hold_the_last_one():
    tile, rng = Tile(2, 64, 3, 4), np.random.default_rng(0)
    keys, mask = rng.normal(size=(2, 4)), rng.random((2, 3, 4)) < 0.5
    for packed in (tile.pack_keys(keys, mask), tile.pack_queries(rng.normal(size=(2, 3)))):
        parts = packed.reshape(tile.b, tile.gap)
        np.testing.assert_array_equal(parts, parts[:, np.minimum(np.arange(tile.gap), 5)])
        assert parts.any()


def test_blocks_of_queries_repeat_the_last_one():
    tile = Tile(2, 64, 3)
    assert tile.blocks(7) == 3 and tile.block(2, 7).tolist() == [6, 6, 6] and tile.block(1, 7).tolist() == [3, 4, 5]
    packed = tile.pack_queries(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(tile.unpack(packed), np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("instances, a, b", [(9, 8, 1), (3, 8, 4), (1, 1, 3), (0, 1, 1), (1, 0, 1)])
def test_what_does_not_fit_is_refused(instances, a, b):
    with pytest.raises(UserError, match=r"a tile needs .* at most 64 slots, and has"):
        Tile(instances, 64, a, b)


def test_instances_fill_the_slots_first():
    best = tiles(8192, 12, 12, 32, slots=8192, pairs=True, pattern=None)[0][1]
    assert (best.a, best.b, best.instances) == (1, 1, 8192)
    few = tiles(12, 16, 16, 32, slots=8192, pairs=True, pattern=None)[0][1]
    assert few.a * few.b * 12 > 2048 and 16 % few.b == 0  # full rows: no absent keys
    some = tiles(1000, 12, 12, 32, slots=8192, pairs=True, pattern=None)[0][1]
    assert 2 <= some.a * some.b <= 8


def test_full_rows_take_absent_keys_only_to_keep_to_the_memory():
    for _, tile in tiles(30, 197, 197, 64, slots=8192, pairs=True, pattern=None):
        assert tile.b == 1
    assert tiles(30, 197, 197, 64, slots=8192, pairs=True, pattern=None, most_mib=2000.0) == []
    best = tiles(30, 197, 197, 64, slots=8192, pairs=True, pattern=None, most_mib=2000.0, absent=True)[0][1]
    assert best.b > 1 and memory_mib(best, 197, 64, True, best.columns(197)) <= 2000.0


def test_no_tile_is_listed_that_takes_more_memory():
    assert tiles(30, 197, 197, 64, slots=8192, pairs=True, pattern=None, most_mib=1.0) == []


def test_causal_rows_meet_half_of_the_keys_and_need_no_mask_one_query_at_a_time():
    pattern = Pattern.of(np.tril(np.ones((8, 8), dtype=bool))[None, None])
    assert pattern.met(Tile(4, 64)) == (36, 0, 8, 0)
    assert pattern.met(Tile(4, 64, 4, 2)) == (6, 4, 2, 2)  # (block, column): 2 and 4 are met, two of each are cut
    assert pattern.met(Tile(4, 64, 8)) == (8, 7, 1, 7)
    assert price(Tile(4, 64), 8, 8, 4, True, pattern) < price(Tile(4, 64), 8, 8, 4, True)


def test_instances_of_different_masks_need_masks_unless_a_key_is_missing_altogether():
    mask = np.ones((2, 1, 4, 4), dtype=bool)
    mask[1, :, :, 3] = False
    assert Pattern.of(mask).met(Tile(2, 64)) == (16, 0, 4, 0)
    mask[1, :, 3, 3] = True
    assert Pattern.of(mask).met(Tile(2, 64)) == (16, 3, 4, 1)
    assert Pattern.of(None) is None


def test_a_ring_that_no_price_was_measured_in_is_dearer_than_the_next_smaller_one():
    """OpenFHE's largest ring was once priced as a small one: whole attentions of 6 levels were planned with 24."""
    costs = [price(Tile(4, slots, 5, 1), 5, 5, 4, False) for slots in (8192, 16384, 32768, 65536, 131072)]
    assert all(3 < later / before < 5 for before, later in pairwise(costs))
