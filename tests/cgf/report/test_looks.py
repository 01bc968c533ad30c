"""Series of one figure are told apart by colour and marker."""

import pytest

from cgf.report.figure import colours_and_markers


def test_no_two_series_look_alike():
    looks = colours_and_markers([f"run {i}" for i in range(45)])
    assert len(set(looks.values())) == len(looks) == 45
    assert {marker for _, marker in list(looks.values())[:20]} == {"o"}
    with pytest.raises(ValueError, match="100 series can be told apart, and there are 101"):
        colours_and_markers([str(i) for i in range(101)])
