"""The list of candidates, and the bound that leaves fits in vain unmade."""

import pytest

from cgf.approx import fit
from cgf.errors import UserError
from cgf.plan.candidates import METHODS, least_error, specs
from cgf.plan.choose import cheapest, choose
from cgf.plan.request import Request


@pytest.mark.parametrize("domain", [(-12.0, 0.0), (-20.0, -2.0), (-6.0, 1.5), (0.0, 2.0)])
def test_no_polynomial_beats_its_bound_and_the_best_comes_near(domain):
    for degree in (3, 5, 7):
        bound, best = least_error(domain, degree), fit.fitted(*domain, degree, 0).fit.max_error
        assert bound <= best and (domain[1] > 0 or best <= 3 * bound)
    for spec in (s for s in specs(domain, ("limit", "chebyshev", "taylor")) if s.whole_degree <= 32):
        assert least_error(domain, spec.whole_degree) <= spec.make().fit.max_error


def test_fits_stop_at_the_first_levels_that_serve(monkeypatch):
    made = []
    listed = specs((-10.0, 0.0), tolerance=1e-3)
    request = Request((-10.0, 0.0), (-10.0, 0.0), 1e-3)
    found = cheapest(request, listed, lambda spec: made.append(spec) or spec.make())
    assert found == choose(request)
    cost = found.exponential.levels, found.ct_mults
    assert made and all((spec.levels, spec.ct_mults) <= cost for spec in made)
    assert all(least_error((-10.0, 0.0), spec.whole_degree) <= 1e-3 for spec in made)
    assert len(made) < sum((spec.levels, spec.ct_mults) <= cost for spec in listed)


def test_a_taylor_polynomial_is_a_candidate_about_the_middle():
    found = specs((-3.0, 1.0), ("taylor",), degree=3)
    assert [(s.k, s.levels, s.ct_mults) for s in found] == [(0, 2, 2)]
    assert found[0].make() == fit.taylor(3, -1.0, -3.0, 1.0)
    assert choose(Request(None, (-1.0, 0.0), 0.1), method="taylor").exponential.degree == 1
    with pytest.raises(UserError, match="not squared"):
        specs((-3.0, 1.0), ("taylor",), k=2)


def test_of_several_methods_those_that_take_the_numbers_are_listed():
    assert {s.method for s in specs((-64.0, 0.0))} == set(METHODS)
    assert {s.method for s in specs((-64.0, 0.0), degree=40)} == set(METHODS) - {"fitted"}
    assert {s.method for s in specs((-64.0, 0.0), k=0)} == {"chebyshev", "fitted", "taylor"}
    assert {s.method for s in specs((-64.0, 0.0), k=15)} == {"chebyshev", "limit"}
    assert {s.degree for s in specs((-64.0, 0.0), ("chebyshev", "fitted"))} == {3, 5, 7, 15, 31}


@pytest.mark.parametrize(
    "options, says",
    [
        ({"methods": ("spline",)}, "auto or one of .*spline"),
        ({"degree": 0}, "from 1 to 63, and 0 was given"),
        ({"degree": 2.5}, "whole number"),
        ({"k": "x"}, "k must be a whole number"),
        ({"k": 30}, "no method takes"),
    ],
)
def test_bad_lists_are_refused(options, says):
    with pytest.raises(UserError, match=says):
        specs((-8.0, 0.0), **options)
