"""The red light, on logits of known values."""

import numpy as np
import pytest

from cgf.bundle.limit import Limit
from cgf.errors import UserError


def test_the_bound_is_a_multiple_of_what_training_data_show():
    limit = Limit.of(np.array([[1.0, -3.0], [2.0, 0.5]]))
    assert (limit.largest, limit.samples, limit.bound) == (3.0, 2, 6.0)
    with pytest.raises(UserError, match="must be finite"):
        Limit.of(np.array([[np.nan]]))


@pytest.mark.parametrize(("value", "light"), [
    (5.99, None),
    (-5.99, None),
    (6.01, "lies beyond"),
    (-1e300, "lies beyond"),
    (np.nan, "no finite"),
    (np.inf, "no finite"),
    (1 + 1e-6j, None),
    (1 + 0.07j, "more than noise"),
    (complex(0, np.nan), "no finite"),
])  # fmt: skip
def test_a_light_says_why(value, light):
    said = Limit(3.0, 2.0, 10).lights(np.array([[0.0, value], [1.0, 2.0]], dtype=complex))
    assert said[1] is None
    assert said[0] is None if light is None else light in said[0]
