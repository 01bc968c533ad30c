"""The simulator: float64 slots with the levels, polynomials and key switching of the real thing."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.engine import BOOTSTRAPPABLE, RINGS, Public, Ring, ring_for
from cgf.he.engines.library import Library
from cgf.he.engines.rules import CheckedEngine, CheckedOwner, need_level, need_polynomials

ABOVE = 2.0**40  # a level is a prime of 40 bits more


@dataclass(frozen=True)
class SimCiphertext:
    """What a ciphertext holds, in the clear, with its level and polynomials."""

    values: np.ndarray  # (slots,) float64, or complex128 after a product with i
    level: int
    polynomials: int = 2


class SimEngine(CheckedEngine):
    """Engine on float64 slots, complex ones after a product with i.

    bound    largest absolute slot value that a real ciphertext survives at level 0; ABOVE times that above it
             (measured with desilofhe 2.0.0: 2^18.5 in every slot at level 0, 2^58 at level 1)
    outside  'raise': UserError at the first slot beyond it; 'record': count them in ``beyond``
    rings    of the library that is simulated; (BOOTSTRAPPABLE,) can refresh its ciphertexts
    """

    def __init__(
        self,
        max_level: int,
        bound: float = 2.0**18,
        outside: str = "record",
        rotations: frozenset[int] | None = None,
        rings: tuple[Ring, ...] = RINGS,
        conjugation: bool = True,
    ) -> None:
        if outside not in ("raise", "record"):
            raise UserError(f"outside must be 'raise' or 'record', and {outside!r} was given")
        ring = ring_for(max_level, rings)
        self.slots, self.max_level, self.key_switch_level = ring.slots, max_level, ring.key_switch_level
        self.refreshed = ring.max_level if ring == BOOTSTRAPPABLE else None
        self.bound, self.outside, self.beyond = bound, outside, 0
        self.rotations, self.conjugates = rotations, conjugation

    pairs = True

    def level(self, ct: SimCiphertext) -> int:
        """The level that a ciphertext carries."""
        return ct.level

    def polynomials(self, ct: SimCiphertext) -> int:
        """The count of polynomials that a ciphertext carries."""
        return ct.polynomials

    def _result(self, values: np.ndarray, level: int, polynomials: int) -> SimCiphertext:
        bound = self.bound if level == 0 else ABOVE * self.bound
        beyond = int((np.abs(values) > bound).sum() + np.isnan(values).sum())
        if beyond:
            self._beyond(beyond, float(np.nanmax(np.abs(values))), f"a ciphertext holds at most {bound:.3g}")
        return SimCiphertext(values, level, polynomials)

    def _beyond(self, slots: int, worst: float, most: str) -> None:
        if self.outside == "raise":
            raise UserError(f"{slots} slots reach {worst:.3g}, and {most}")
        self.beyond += slots

    def _plain(self, a: SimCiphertext, b: Public, sign: int) -> SimCiphertext:
        return self._result(a.values + sign * np.asarray(b, dtype=np.float64), a.level, a.polynomials)

    def _add(self, a: SimCiphertext, b: SimCiphertext | Public) -> SimCiphertext:
        if not isinstance(b, SimCiphertext):
            return self._plain(a, b, 1)
        return self._result(a.values + b.values, min(a.level, b.level), max(a.polynomials, b.polynomials))

    def _sub(self, a: SimCiphertext, b: SimCiphertext | Public) -> SimCiphertext:
        if not isinstance(b, SimCiphertext):
            return self._plain(a, b, -1)
        return self._result(a.values - b.values, min(a.level, b.level), max(a.polynomials, b.polynomials))

    def _mul(self, a: SimCiphertext, b: SimCiphertext | Public) -> SimCiphertext:
        if isinstance(b, SimCiphertext):
            return self._result(a.values * b.values, min(a.level, b.level) - 1, 3)
        if isinstance(b, int):
            return self._result(a.values * b, a.level, a.polynomials)
        return self._result(a.values * np.asarray(b, dtype=np.float64), a.level - 1, a.polynomials)

    def _square(self, a: SimCiphertext) -> SimCiphertext:
        return self._result(a.values * a.values, a.level - 1, 3)

    def _relinearize(self, a: SimCiphertext) -> SimCiphertext:
        return SimCiphertext(a.values, min(a.level, self.key_switch_level), 2)

    def _rotate(self, a: SimCiphertext, step: int) -> SimCiphertext:
        return SimCiphertext(np.roll(a.values, -step), min(a.level, self.key_switch_level), 2)

    def _times_i(self, a: SimCiphertext) -> SimCiphertext:
        return SimCiphertext(a.values * 1j, a.level, a.polynomials)

    def _conjugate(self, a: SimCiphertext) -> SimCiphertext:
        return SimCiphertext(np.conj(a.values), min(a.level, self.key_switch_level), 2)

    def _dot(self, a: Sequence[SimCiphertext], b: Sequence[SimCiphertext]) -> SimCiphertext:
        total = a[0].values * b[0].values
        for x, y in zip(a[1:], b[1:], strict=True):
            total = total + x.values * y.values
        return self._result(total, min(ct.level for ct in (*a, *b)) - 1, 3)

    def _lower(self, a: SimCiphertext, level: int) -> SimCiphertext:
        return self._result(a.values, level, 2)

    def _combine(self, cts: Sequence[SimCiphertext], weights: Sequence[float]) -> SimCiphertext:
        total = cts[0].values * weights[0]
        for ct, weight in zip(cts[1:], weights[1:], strict=True):
            total = total + ct.values * weight
        return self._result(total, min(map(self.level, cts)) - 1, 2)

    def _bootstrap(self, cts: Sequence[SimCiphertext]) -> list[SimCiphertext]:
        assert self.refreshed is not None
        for ct in cts:
            if (worst := float(np.abs(ct.values).max())) > 1.0 + 1e-9:
                self._beyond(int((np.abs(ct.values) > 1.0).sum()), worst, "a bootstrap takes slots of at most 1")
        return [SimCiphertext(ct.values, self.refreshed) for ct in cts]

    def dump(self, ct: SimCiphertext) -> bytes:
        """A ciphertext as bytes, by pickle: for processes of one evaluation, never for files."""
        return pickle.dumps(ct)

    def load(self, data: bytes) -> SimCiphertext:
        """The ciphertext of ``dump``; bytes of anyone else must not come here."""
        ct: SimCiphertext = pickle.loads(data)
        return ct


class OneSlot(SimEngine):
    """The simulator on ciphertexts of one slot, which stands for them all; a public vector is zero there.

    For levels, polynomials and operations alone: they do not depend on the data.
    """

    def _plain(self, a: SimCiphertext, b: Public, sign: int) -> SimCiphertext:
        return super()._plain(a, 0.0 if isinstance(b, np.ndarray) else b, sign)

    def _mul(self, a: SimCiphertext, b: SimCiphertext | Public) -> SimCiphertext:
        return super()._mul(a, 0.0 if isinstance(b, np.ndarray) else b)

    def combine(self, cts: Sequence[SimCiphertext], weights: Sequence[float]) -> SimCiphertext:
        """Zero, and checked as one: a network has millions of such products."""
        level = min(ct.level for ct in cts)
        need_polynomials(max(ct.polynomials for ct in cts), 2, "a product")
        need_level(level, self.max_level)
        return SimCiphertext(np.zeros(1), level - 1)


class SimOwner(CheckedOwner):
    """Owner of the simulator: there is no secret, but the interface is the same.

    bootstrap   as of DesiloOwner: any but None simulates the one ring that can refresh its ciphertexts
    """

    # float64: 1e-16 a product, and squarings, differences of squares and iterations multiply it
    library = Library("sim", encrypts=False, noise=1e-9)

    def __init__(
        self,
        max_level: int,
        bound: float = 2.0**18,
        outside: str = "record",
        rings: tuple[Ring, ...] = RINGS,
        secret: bytes | None = None,
        bootstrap: str | None = None,
    ) -> None:
        if bootstrap not in (None, "plain", "small", "medium"):
            raise UserError(f"he.owner.bootstrap must be null, plain, small or medium, and {bootstrap!r} was given")
        rings = rings if bootstrap is None else (BOOTSTRAPPABLE,)
        self.max_level, self.slots, self.rings = max_level, ring_for(max_level, rings).slots, rings
        self._settings = (bound, outside)

    def dump_secret(self) -> bytes:
        """No bytes: the simulator has no secret, and every owner of one size shares its ciphertexts."""
        return b""

    def _encrypt(self, values: np.ndarray, level: int) -> SimCiphertext:
        slots = np.zeros(self.slots, dtype=np.complex128 if np.iscomplexobj(values) else np.float64)
        slots[: len(values)] = values
        return SimCiphertext(slots, level)

    def decrypt(self, ct: SimCiphertext) -> np.ndarray:
        """A copy of the real parts (slots,)."""
        return np.real(ct.values).copy()

    def decrypt_pair(self, ct: SimCiphertext) -> tuple[np.ndarray, np.ndarray]:
        """Copies of the real and imaginary parts (slots,)."""
        return np.real(ct.values).copy(), np.imag(ct.values).copy()

    def evaluator(self, rotations: frozenset[int], conjugation: bool = False) -> SimEngine:
        """An engine that knows these rotation steps alone, and conjugates where that is asked for."""
        return SimEngine(self.max_level, *self._settings, rotations, self.rings, conjugation)
