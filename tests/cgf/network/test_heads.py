"""The public facts of a layer's queries, keys and values."""

import numpy as np
import pytest

from cgf.errors import UserError
from cgf.network.attention import DISTANCE, DOT, Heads, score_of
from cgf.softmax.cgf import CGF
from cgf.softmax.published.gaussian import GaussianKernel


def heads(b=3, h=4, g=2, n=5, d=6, e=7, valid=None):
    rng = np.random.default_rng(0)
    return Heads(
        rng.normal(size=(b, h, n, d)), rng.normal(size=(b, g, n, d)), rng.normal(size=(b, g, n, e)), d**-0.5, valid
    )


def test_instances_are_samples_times_heads_and_grouped_queries_share_keys():
    layer = heads()
    assert layer.instances == 12 and layer.shape == (3, 4, 5, 5)
    query, key, value = layer.flat(np.array([0, 1, 2, 3, 7]))
    np.testing.assert_array_equal(query[4], layer.query[1, 3])
    np.testing.assert_array_equal(key[0], key[1])
    np.testing.assert_array_equal(key[1], layer.key[0, 0])
    np.testing.assert_array_equal(value[2], layer.value[0, 1])
    np.testing.assert_array_equal(value[4], layer.value[1, 1])


@pytest.mark.parametrize("shape", [(3, 1, 5, 5), (1, 1, 5, 5), (3, 4, 5, 5), (5, 5)])
def test_a_part_has_its_own_samples_and_their_masks(shape):
    valid = np.random.default_rng(1).random(shape) > 0.4
    layer = heads(valid=valid)
    chosen = np.arange(5, 11)  # of samples 1 and 2
    part, own = layer.part(chosen)
    assert part.shape[0] == 2 and own[0] == 1
    for mine, theirs in zip(part.flat(own), layer.flat(chosen), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(part.mask[np.divmod(own, 4)], layer.mask[np.divmod(chosen, 4)])


def test_multiply_adds_count_what_is_attended_to():
    assert heads().macs() == 3 * 4 * 25 * (6 + 7)
    assert heads(valid=np.tril(np.ones((5, 5), dtype=bool))).macs() == 3 * 4 * 15 * 13
    assert heads(valid=np.ones((5, 5), dtype=bool)).mask is None


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match=r"H a multiple of G, and has \(3, 4, 5, 6\), \(3, 3, 5, 6\)"):
        heads(g=3)
    with pytest.raises(UserError, match=r"a mask that broadcasts to \(3, 4, 5, 5\), and has one of \(2, 5, 5\)"):
        heads(valid=np.ones((2, 5, 5), dtype=bool))


class Shifted(CGF):
    def scores(self, query, key, scaling):
        return super().scores(query, key, scaling) + 1.0


def test_scores_follow_from_the_definition():
    assert (score_of(CGF()), score_of(GaussianKernel())) == (DOT, DISTANCE)
    with pytest.raises(UserError, match="softmax 'cgf' makes its scores in a way of its own"):
        score_of(Shifted())
    changed = CGF()
    changed.scores = lambda query, key, scaling: query
    with pytest.raises(UserError, match="makes its scores in a way of its own"):
        score_of(changed)
