"""What a value in the clear has and ciphertexts do not, each refused with what to do instead."""

from __future__ import annotations

from typing import NoReturn

from cgf.errors import UserError


class NotOnCiphertexts:
    """Operations of cgf.softmax.value.Value and ClearValue that no circuit has."""

    def reciprocal(self) -> NoReturn:
        """Raises UserError: no circuit has it."""
        raise UserError("a ciphertext has no reciprocal: give the softmax an inverse")

    def clamp(self, low: float, high: float) -> NoReturn:
        """Raises UserError: no circuit has it."""
        raise UserError("a ciphertext cannot be cut off: give the softmax a formula without clamp in an evaluation")

    def exp(self) -> NoReturn:
        """Raises UserError: no circuit has it."""
        raise UserError("a ciphertext has no exponential: name a polynomial by approx=plan|chebyshev|limit|chain")
