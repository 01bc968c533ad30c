import json

import numpy as np
import pytest

from cgf.approx.chain import SquareChain
from cgf.approx.exponential_json import exponential_from_json
from cgf.approx.fit import with_fit
from cgf.approx.head_chain import HeadChain
from cgf.errors import UserError

CHAINS = tuple(SquareChain("chain", 0.11, 0.9 + 0.02 * h, (0.1 * h, -0.05, 0.01 / (h + 1))) for h in range(4))
E = HeadChain("head_chain", CHAINS)


def test_each_head_has_its_own_chain():
    y = np.random.default_rng(0).uniform(-16, 1, (2, 4, 3, 5))
    for head, chain in enumerate(CHAINS):
        np.testing.assert_array_equal(E(y)[:, head], chain(y[:, head]))
    assert (E.levels, E.ct_mults, E.k) == (3, 3, 3) and E.b.shape == (4, 1, 1)


def test_json_keeps_every_bit():
    e = with_fit(E, (-16.0, 1.0))
    assert exponential_from_json(json.loads(json.dumps(e.to_json()))) == e
    assert exponential_from_json(E.to_json()) == E and hash(E) == hash(exponential_from_json(E.to_json()))


def test_error_and_guard_are_those_of_the_worst_head():
    e = with_fit(E, (-16.0, 1.0))
    alone = [with_fit(c, (-16.0, 1.0)).fit for c in CHAINS]
    assert e.fit.max_error == max(f.max_error for f in alone) > min(f.max_error for f in alone)
    assert e.fit.guard == pytest.approx((max(f.guard[0] for f in alone), min(f.guard[1] for f in alone)), rel=1e-6)


def test_a_constant_that_is_zero_everywhere_is_not_added():
    chains = tuple(SquareChain("chain", 0.1, 1.0, (0.0, 0.1 * h)) for h in range(2))
    added = []

    class Value(float):
        def square(self):
            return self

        def plus_public(self, array):
            added.append(array.ravel().tolist())
            return self

    HeadChain("head_chain", chains).core(Value(0.0))
    assert added == [[0.0, 0.1]]


@pytest.mark.parametrize(
    "broken",
    [
        {"beta": [1.0], "constants": [[0.1], [0.2]]},
        {"beta": [1.0, 1.0], "constants": [[0.1], [0.2, 0.3]]},
        {"beta": [], "constants": []},
        {"beta": [1.0], "constants": 3},
        {"beta": [1.0], "constants": [3]},
        {"beta": [float("nan")], "constants": [[1.0]]},
        {"beta": 1.0, "constants": [1.0]},
    ],
)
def test_malformed(broken):
    with pytest.raises(UserError):
        exponential_from_json({"method": "head_chain", "alpha": 1.0, **broken})


def test_chains_must_share_their_scale():
    with pytest.raises(UserError, match="one alpha"):
        HeadChain("head_chain", (CHAINS[0], SquareChain("chain", 0.2, 1.0, (0.0,) * 3)))
    with pytest.raises(UserError, match="one alpha"):
        HeadChain("head_chain", ())
