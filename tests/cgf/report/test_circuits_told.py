"""What the terminal says of circuits of softmaxes that have one of their own."""

import pytest

from cgf.report.encrypted import circuits
from cgf.report.red import polynomial_told


@pytest.mark.parametrize("circuit", ["formula", "plain", "rooted"])
@pytest.mark.parametrize(
    ("asked", "told"),
    [("abreast", "; he.circuit=abreast was asked for, and softmax 'bpmax' has no such circuit"), ("folded", "")],
)
def test_abreast_is_missed_where_a_softmax_has_none(circuit, asked, told):
    ran = {"softmax": "bpmax", "circuit_asked": asked, "circuit": circuit, "circuits": {circuit: 8}, "entries": 8}
    assert circuits(ran) == f"circuits: {circuit} (8 entries){told}"


def test_the_polynomials_error_is_told_with_its_interval():
    one = {"max_error": 0.0241, "domain": [-32.0, 0.5]}
    assert polynomial_told({"polynomial": one}) == ", largest error 2.4e-02 on [-32, 0.5]"
    layers = [one, {"max_error": 0.5, "domain": [-30.0, 1.0]}]  # of every layer its own: what holds for all
    assert polynomial_told({"polynomial": layers}) == ", largest error 5.0e-01 on [-30, 0.5]"
    assert (
        polynomial_told({"polynomial": {"k": 3}}) == polynomial_told({"polynomial": None}) == polynomial_told({}) == ""
    )
