"""Ring, moduli and secret of each engine of desilofhe, derived from its serialized keys, beside a published bound.

The library states neither its moduli nor its secret's distribution. A serialized key is rows of N words of 8 bytes, a
row a prime of the modulus. Residues of a key are uniform below their prime, so the largest of N residues tells the
prime's bits; that half of them lie above half of the largest is checked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.desilo_library import VERSION, build_engine
from cgf.published import LOG_Q_BOUND_128
from cgf.types import Json

LEVELS = (1, 2, 3, 4, 7, 8, 12, 13, 14, 17, 18, 30, 31, 36)  # ends of each ring, and where the verdict changes
WIDEST_PRIME = 62  # bits: rows beyond are the other half of a key, raw random words
EVEN = 0.03  # how far the share of residues in the upper half may lie from one half: 5 deviations of 8,192


def measure(levels: Sequence[int] = LEVELS) -> Json:
    """A row for each ``max_level``. UserError for keys that are not made as said."""
    return {
        "library": f"desilofhe {VERSION}",
        "how": "rows of serialized keys; bits of a row from its largest residue; secret: last N bytes",
        "bound": {str(n): bound for n, bound in LOG_Q_BOUND_128.items()},
        "engines": [engine_row(level) for level in levels],
    }


def engine_row(max_level: int) -> Json:
    """What one engine's keys say.

    1. log Q: bits of the public key's rows, under which fresh ciphertexts are made.
    2. log QP: bits of the rows of one digit of the relinearization key; digits: how many it has.
    3. log P stays unknown: which rows of a digit are the special primes does not show.
    4. The verdict is that of the largest modulus under which a key is given out.
    """
    engine = build_engine(max_level, "cpu")
    n = 2 * int(engine.slot_count)
    secret = engine.create_secret_key()
    public = prime_bits(bytes(engine.serialize_public_key(engine.create_public_key(secret))), n)
    relinearization = bytes(engine.serialize_relinearization_key(engine.create_relinearization_key(secret)))
    switching = prime_bits(relinearization, n)
    return {
        "max_level": max_level,
        "n": n,
        "slots": n // 2,
        "log_q": sum(public),
        "primes_q": len(public),
        "log_qp": sum(switching),
        "primes_qp": len(switching),
        "digits": len(relinearization) // (8 * n * 2 * len(switching)),
        "log_p": None,
        "secret": secret_shares(bytes(engine.serialize_secret_key(secret)), n),
        "bound_128": LOG_Q_BOUND_128[n],
        "met": max(sum(public), sum(switching)) <= LOG_Q_BOUND_128[n],
    }


def prime_bits(data: bytes, n: int) -> list[int]:
    """Bits of the primes of a serialized key's last block of reduced residues, the last row first.

    UserError where there is none, or where residues are not uniform below a prime.
    """
    words, bits = np.frombuffer(data[len(data) % 8 :], dtype="<u8"), []
    for row in range(len(words) // n):
        residues = words[len(words) - (row + 1) * n : len(words) - row * n]
        largest = int(residues.max())
        if largest.bit_length() > WIDEST_PRIME:
            break
        upper = float((residues > largest // 2).mean())
        if abs(upper - 0.5) > EVEN:
            raise UserError(f"residues of a key must be uniform below a prime, and {upper:.3f} lie in the upper half")
        bits.append(round(float(np.log2(largest))))
    if not bits:
        raise UserError("a serialized key must end in rows of residues, and does not: its moduli are unknown")
    return bits


def secret_shares(data: bytes, n: int) -> dict[str, float] | None:
    """Shares of -1, 0 and 1 among the secret's coefficients; None where its last N bytes are not ternary."""
    values, counts = np.unique(np.frombuffer(data[-n:], dtype=np.int8), return_counts=True)
    if not set(values.tolist()) <= {-1, 0, 1}:
        return None
    return {str(int(value)): float(count / n) for value, count in zip(values, counts, strict=True)}
