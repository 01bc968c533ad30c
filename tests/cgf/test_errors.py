"""What of other errors is the user's to mend, by whatever name the system has for it."""

import errno
import os

import pytest
from safetensors import SafetensorError

from cgf.errors import UserError, shortage, with_reason

TORN = "Error while serializing: I/O error: {} (os error {})"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_is_a_sentence_by_any_name(number):
    told = os.strerror(number)
    for error in (OSError(number, told), SafetensorError(TORN.format(told, number))):
        assert str(shortage(error)).startswith(f"the disk is full ({error}); what was finished before is whole")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[enforce fail] can't allocate memory"),
        RuntimeError("could not create a primitive"),
        ImportError("a.so: failed to map segment from shared object"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_no_memory_is_a_sentence_by_any_name(error):
    assert str(shortage(error)).startswith(f"memory ran out ({error}); what was finished before is whole")


def test_an_error_without_a_text_is_told_by_its_kind():
    assert str(shortage(MemoryError())).startswith("memory ran out (MemoryError); ")


def test_other_errors_are_left_alone():
    for error in (OSError(errno.EIO, "x"), SafetensorError(TORN.format("x", 2)), ValueError("os error 2")):
        assert shortage(error) is None


def test_what_a_library_raises_is_a_sentence_and_memory_that_runs_out_is_not():
    """A shortage has a sentence of its own, which says what to lower."""
    for error, says in ((Exception("no\n  field"), "a.json: no field"), (KeyError(), "a.json: KeyError")):
        with pytest.raises(UserError) as told, with_reason("a.json"):
            raise error
        assert str(told.value) == says
    for error in (MemoryError(), RuntimeError("could not create a primitive"), UserError("said already")):
        with pytest.raises(type(error)) as passed, with_reason("a.json", named=True):
            raise error
        assert passed.value is error
