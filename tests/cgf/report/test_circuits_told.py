"""What the terminal says of circuits of softmaxes that have one of their own."""

import pytest

from cgf.report.encrypted import circuits


@pytest.mark.parametrize("circuit", ["formula", "plain", "rooted"])
@pytest.mark.parametrize(
    ("asked", "told"),
    [("abreast", "; he.circuit=abreast was asked for, and softmax 'bpmax' has no such circuit"), ("folded", "")],
)
def test_abreast_is_missed_where_a_softmax_has_none(circuit, asked, told):
    ran = {"softmax": "bpmax", "circuit_asked": asked, "circuit": circuit, "circuits": {circuit: 8}, "entries": 8}
    assert circuits(ran) == f"circuits: {circuit} (8 entries){told}"
