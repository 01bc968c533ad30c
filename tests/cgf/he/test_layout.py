"""Packing: every place against the paper's formula, and the choice of a layout against its promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgf.errors import UserError
from cgf.he.layout import Layout, choose_layout, row_blocks

SLOTS = 64


@st.composite
def layouts(draw):
    gap = 2 ** draw(st.integers(0, 6))
    return Layout(draw(st.integers(1, gap)), draw(st.integers(1, 150)), SLOTS, gap)


def numbered(layout):
    return np.arange(1.0, layout.rows * layout.columns + 1).reshape(layout.rows, layout.columns)


@given(layouts())
def test_pack_and_unpack_are_inverse(layout):
    matrix = numbered(layout)
    vectors = layout.pack(matrix)
    assert len(vectors) == layout.ciphertexts == -(-layout.columns * layout.gap // SLOTS)
    assert all(v.shape == (SLOTS,) and v.dtype == np.float64 for v in vectors)
    np.testing.assert_array_equal(layout.unpack(vectors), matrix)


@given(layouts())
def test_the_last_row_repeats_up_to_the_gap_and_padding_columns_are_zero(layout):
    """No slot holds what no row holds: polynomials that are made for the rows explode elsewhere."""
    columns = np.concatenate(layout.pack(numbered(layout))).reshape(-1, layout.gap)
    wanted = numbered(layout).T[:, np.minimum(np.arange(layout.gap), layout.rows - 1)]
    np.testing.assert_array_equal(columns[: layout.columns], wanted)
    assert not columns[layout.columns :].any()
    assert layout.padding_columns == layout.ciphertexts * SLOTS // layout.gap - layout.columns


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 4))
def test_places_are_those_of_the_paper(log_rows, log_columns, log_ciphertexts):
    """N1 x N2 in t ciphertexts of s slots: i = floor(n2 g / s), j = n1 + (n2 g mod s), g = t s / N2."""
    n1s, n2s, t, s = 2**log_rows, 2**log_columns, 2**log_ciphertexts, SLOTS
    if n1s * n2s > t * s or t > n2s:
        return  # does not fit, or a ciphertext would hold less than a column
    g = t * s // n2s
    vectors = Layout(n1s, n2s, s, g).pack(numbered(Layout(n1s, n2s, s, g)))
    assert len(vectors) == t
    for n1 in range(n1s):
        for n2 in range(n2s):
            i, j = n2 * g // s, n1 + n2 * g % s
            assert vectors[i][j] == 1 + n1 * n2s + n2


@given(layouts())
def test_spread_stands_at_every_entry_of_its_row(layout):
    numbers = np.arange(1.0, layout.rows + 1)
    spread = layout.spread(numbers)
    for vector in layout.pack(np.ones((layout.rows, layout.columns))):
        there = vector == 1
        rows = layout.pack(np.repeat(numbers[:, None], layout.columns, 1))
        assert any(np.array_equal(spread * there, r) for r in rows)
    assert spread.shape == (SLOTS,)
    assert set(spread) == set(numbers)


@given(layouts())
def test_rotations_sum_a_row_within_a_ciphertext(layout):
    matrix = numbered(layout)
    total = np.sum(layout.pack(matrix), axis=0)
    for step in layout.rotations:
        total = total + np.roll(total, -step)
    np.testing.assert_allclose(total, layout.spread(matrix.sum(1)))
    assert len(layout.rotations) == (SLOTS // layout.gap).bit_length() - 1


@settings(max_examples=200)
@given(st.integers(1, SLOTS), st.integers(1, 200), st.booleans())
def test_choice_of_a_layout(rows, columns, masked):
    layout = choose_layout(rows, columns, SLOTS, masked)
    possible = [Layout(rows, columns, SLOTS, 2**j) for j in range(7) if 2**j >= rows]
    fewest = min(p.ciphertexts for p in possible)
    assert (layout.rows, layout.columns, layout.slots) == (rows, columns, SLOTS)
    if masked:
        assert layout.ciphertexts == fewest
        return
    assert layout.cost == min(p.cost for p in possible)
    assert layout.padding_columns == 0 or 5 + 1.1 * fewest < 2 + columns


def test_a_column_a_ciphertext_needs_no_rotation():
    layout = choose_layout(SLOTS, 17, SLOTS, masked=False)
    assert (layout.gap, layout.ciphertexts, layout.rotations, layout.padding_columns) == (SLOTS, 17, [], 0)


@pytest.mark.parametrize(
    "rows, columns, gap, match",
    [
        (5, 3, 4, "5 rows and a gap of 4"),
        (2, 3, 3, "gap of 3"),
        (0, 3, 4, "0 rows"),
        (2, 0, 4, "has 0"),
        (2, 3, 128, "gap of 128"),
    ],
)
def test_a_layout_that_cannot_be(rows, columns, gap, match):
    with pytest.raises(UserError, match=match):
        Layout(rows, columns, SLOTS, gap)
    with pytest.raises(UserError, match="at most 64 rows, and 65"):
        choose_layout(SLOTS + 1, 3, SLOTS, masked=False)


@given(st.integers(1, 500), st.integers(1, 64))
def test_row_blocks_cover_all_rows_once(rows, slots):
    blocks = row_blocks(rows, slots)
    assert [r for block in blocks for r in range(rows)[block]] == list(range(rows))
    assert all(block.stop - block.start == slots for block in blocks[:-1])
    assert len(blocks) == -(-rows // slots)
