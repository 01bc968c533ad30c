"""How a command of a client or a server ends where a library or the system fails."""

import argparse
import errno

import pytest

from cgf.bundle.command import ended_well


def raising(error):
    def run(given):
        raise error

    return argparse.Namespace(run=run)


@pytest.mark.parametrize(
    "error, says",
    [
        (MemoryError(), "memory ran out"),
        (RuntimeError("std::bad_alloc"), "memory ran out"),
        (ImportError("a.so: failed to map segment from shared object"), "memory ran out"),
        (OSError(errno.ENOSPC, "No space left on device", "a"), "a: the disk is full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "a"), "a: the disk is full"),
        (PermissionError(errno.EACCES, "Permission denied", "a"), "a: Permission denied"),
    ],
)
def test_what_the_machine_lacks_is_one_sentence(error, says, capsys):
    assert ended_well(raising(error)) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {says}") and said.count("\n") == 1 and "what was finished before is whole" in said


def test_a_mistake_of_ours_is_not_hidden():
    with pytest.raises(RuntimeError, match="ours"):
        ended_well(raising(RuntimeError("ours")))
