"""Products of encrypted matrices by desilofhe's matrix form: an oracle for the products of a whole attention.

A ciphertext of this form holds 256 square matrices, and one call multiplies them all, at one level. It has no sum of
entries and no prepared operands, and its keys take up to gigabytes: whole attentions run in the vector form.
"""

from __future__ import annotations

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.desilo import Ct
from cgf.he.engines.desilo_library import vendor

MATRICES = 256  # that a ciphertext holds
SIZES = (16, 32, 64)  # of a matrix; desilofhe 2.0.0 has 2, 7 and 17 levels for them


class MatrixProducts:
    """An owner and evaluator in one process, of the matrix form for matrices of ``size`` x ``size``.

    The library multiplies a by the conjugate transpose of b, so queries meet keys as they stand, and values transposed.
    Memory: the product's key takes 48 MiB for 16, 1.1 GiB for 32 and more for 64.
    """

    def __init__(self, size: int) -> None:
        if size not in SIZES:
            raise UserError(
                f"the matrix form takes matrices of {', '.join(map(str, SIZES))} rows, and {size} were asked"
            )
        self.size = size
        self._engine = vendor().Engine(shape=(MATRICES, size, size))
        self._secret = self._engine.create_secret_key()
        self._public = self._engine.create_public_key(self._secret)
        self._product = self._engine.create_matrix_multiplication_key(self._secret)
        self.levels = int(self._engine.max_level)

    @property
    def key_mib(self) -> float:
        """Of the key of a product, in memory."""
        return float(self._product.nbytes) / 2**20

    def encrypt(self, matrices: np.ndarray) -> Ct:
        """(256, size, size) real matrices. UserError for another shape."""
        wanted = (MATRICES, self.size, self.size)
        if matrices.shape != wanted:
            raise UserError(f"the matrix form takes an array of {wanted}, and {matrices.shape} was given")
        return self._engine.encrypt(np.ascontiguousarray(matrices), self._public)

    def times_transposed(self, a: Ct, b: Ct) -> Ct:
        """a b^T of each pair of matrices; one level."""
        return self._engine.matrix_multiply(a, b, self._product)

    def decrypt(self, ct: Ct) -> np.ndarray:
        """(256, size, size)."""
        return np.real(np.asarray(self._engine.decrypt(ct, self._secret))).reshape(MATRICES, self.size, self.size)
