"""The one exception that is meant for the person at the keyboard, and what of others is theirs to mend."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager


class UserError(ValueError):
    """Bad input. The message is one sentence: what is needed, and what there is.

    Entry points print it and exit with code 2; nothing else in the package catches it.
    """


def sentence(error: BaseException) -> str:
    """The line that an error is told by. Names and values in it may come out of files: what a terminal would obey or
    break the line at is written as an escape."""
    return f"error: {inert(str(error))}"


def inert(text: str) -> str:
    """The text with every letter that is not printable as an escape, as ``\\x1b``; a terminal obeys none of it."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, a quota, a limit of a file's size

NO_MEMORY = (
    "can't allocate memory",  # torch
    "std::bad_alloc",  # desilofhe
    "could not create a primitive",  # oneDNN, which torch computes with and which does not say what it lacked
    "failed to map segment from shared object",  # a library that is loaded only now
)


def disk_is_full(error: BaseException) -> bool:
    """Whether an error says that there was no room to write; safetensors has it in its text alone."""
    return getattr(error, "errno", None) in NO_ROOM or any(f"os error {number})" in str(error) for number in NO_ROOM)


def memory_is_out(error: BaseException) -> bool:
    """Whether an error says that there was no memory to take; libraries have it in its text alone (see NO_MEMORY)."""
    out = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
    return out or any(text in str(error) for text in NO_MEMORY)


def reason(error: BaseException) -> str:
    """What an error says, on one line of at most 160 letters; its class where it says nothing."""
    return " ".join(str(error).split())[:160] or type(error).__name__


@contextmanager
def with_reason(what: str, named: bool = False) -> Iterator[None]:
    """For code of other libraries that reads what a user gave, whatever it raises: UserError with its reason.

    what: begins the sentence, which ends in the reason; named: the error's class is said, too. Memory that runs out,
    and a UserError, pass as they are.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if memory_is_out(error):
            raise
        told = f" ({type(error).__name__}: {reason(error)})" if named else f": {reason(error)}"
        raise UserError(f"{what}{told}") from None


def shortage(error: BaseException) -> UserError | None:
    """One sentence for a disk or a memory that is full, with what to lower; None for any other error."""
    if disk_is_full(error):
        return UserError(
            f"the disk is full ({error}); what was finished before is whole: make room, and run the same command again"
        )
    if memory_is_out(error):
        told = str(error) or type(error).__name__
        return UserError(
            f"memory ran out ({told}); what was finished before is whole: lower what is held at once "
            "(train.batch_size; he.rows_at_once, he.workers or he.memory_mib), and run the same command again"
        )
    return None
