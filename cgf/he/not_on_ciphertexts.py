"""What a value in the clear has and ciphertexts do not, each refused with what to do instead."""

from __future__ import annotations

from typing import NoReturn

from cgf.errors import UserError


class MissingOperation(UserError):
    """An operation of a formula that no circuit has."""


class NotOnCiphertexts:
    """Operations of cgf.softmax.value.Value and ClearValue that no circuit has."""

    def reciprocal(self) -> NoReturn:
        """Raises MissingOperation: no circuit has it."""
        raise MissingOperation("a ciphertext has no reciprocal: give the softmax an inverse")

    def clamp(self, low: float, high: float) -> NoReturn:
        """Raises MissingOperation: no circuit has it."""
        raise MissingOperation(
            "a ciphertext cannot be cut off: give the softmax a formula without clamp in an evaluation"
        )

    def exp(self) -> NoReturn:
        """Raises MissingOperation: no circuit has it."""
        raise MissingOperation(
            "a ciphertext has no exponential: derive the softmax from ExponentialSoftmax, whose exp may be a polynomial"
        )
