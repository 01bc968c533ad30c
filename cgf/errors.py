"""The one exception that is meant for the person at the keyboard, and what of others is theirs to mend."""

import errno


class UserError(ValueError):
    """Bad input. The message is one sentence: what is needed, and what there is.

    Entry points print it and exit with code 2; nothing else in the package catches it.
    """


def disk_is_full(error: BaseException) -> bool:
    """Whether an error says that there was no room to write; safetensors has it in its text alone."""
    return getattr(error, "errno", None) == errno.ENOSPC or f"os error {errno.ENOSPC}" in str(error)
