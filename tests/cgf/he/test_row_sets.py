"""Which rows share ciphertexts: every entry that counts in exactly one block, causal rows in about half of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgf.he.layout import choose_layout
from cgf.he.row_sets import Block, blocks_of, cost


def causal(rows, columns):
    return np.arange(columns) < (np.arange(rows) % columns + 1)[:, None]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 300), st.integers(1, 20), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_blocks_hold_every_valid_entry_once(rows, columns, parts, seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((rows, columns)) < rng.uniform(0, 1)
    for given_mask in (mask, None):
        blocks = blocks_of(rows, columns, 64, given_mask, parts)
        assert sorted(np.concatenate([b.order for b in blocks])) == list(range(rows))
        assert all(1 <= b.columns <= columns and len(b.order) <= 64 for b in blocks)
        assert len(blocks) >= min(parts, rows) or len(blocks) * parts >= rows
        if given_mask is not None:
            assert sum(int(mask[b.order, : b.columns].sum()) for b in blocks) == mask.sum()


def test_full_rows_stay_in_their_order_and_are_shared_out_evenly():
    assert [b.order.tolist() for b in blocks_of(5, 3, 2)] == [[0, 1], [2, 3], [4]]
    assert [len(b.order) for b in blocks_of(8192, 3, 8192, parts=2)] == [4096, 4096]
    assert [len(b.order) for b in blocks_of(9000, 3, 8192, parts=2)] == [4500, 4500]
    assert [len(b.order) for b in blocks_of(17000, 3, 8192, parts=2)] == [4250] * 4


@pytest.mark.parametrize("rows, columns", [(8192, 128), (16384, 44), (6000, 64)])
def test_causal_rows_leave_out_the_columns_that_they_do_not_have(rows, columns):
    mask = causal(rows, columns)
    blocks, whole = blocks_of(rows, columns, 8192, mask), choose_layout(min(rows, 8192), columns, 8192, masked=True)
    layouts = [choose_layout(len(b.order), b.columns, 8192, masked=True) for b in blocks]
    assert sum(layout.ciphertexts for layout in layouts) <= 0.7 * -(-rows // 8192) * whole.ciphertexts
    in_order = -(-rows // 8192) * cost(Block(np.arange(min(rows, 8192)), columns), 8192)
    assert sum(cost(b, 8192) for b in blocks) < in_order


def test_rows_without_a_valid_entry_take_one_column():
    mask = np.zeros((4, 6), dtype=bool)
    mask[2, :3] = True
    assert [b.columns for b in blocks_of(4, 6, 2, mask)][-1] == 3
    assert blocks_of(4, 6, 4, mask & False)[0].columns == 1
