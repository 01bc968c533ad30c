"""The one exception that is meant for the person at the keyboard."""


class UserError(ValueError):
    """Bad input. The message is one sentence: what is needed, and what there is.

    Entry points print it and exit with code 2; nothing else in the package catches it.
    """
