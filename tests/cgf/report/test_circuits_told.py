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
    assert polynomial_told({"max_error_exponential": 0.0241, "domain": [-32.0, 0.5]}) == (
        ", largest error 2.4e-02 on [-32, 0.5]"
    )
    assert polynomial_told({"max_error_exponential": None, "domain": None}) == polynomial_told({}) == ""
