"""What a scope that plans no polynomial advises where one is asked for."""

import pytest

from cgf.errors import UserError
from cgf.plan.scopes import check_scope


@pytest.mark.parametrize("method", ["exact", "chebyshev"])
def test_a_scope_without_a_polynomial_says_that_approx_is_left_out(method):
    config = {"scope": "network", "shape": None, "approx": {"method": method}}
    with pytest.raises(UserError, match=f"approx={method} was given: leave it out"):
        check_scope(config, [])
