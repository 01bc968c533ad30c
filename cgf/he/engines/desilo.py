"""desilofhe as an engine: the party with the secret key, and the one that computes.

This work uses the DESILO FHE library developed by DESILO Inc. (https://desilo.ai).
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.desilo_library import BOOTSTRAP_GIB, HOLDS_ABOVE, VERSION, Vendor, build_engine, holds
from cgf.he.engines.engine import BOOTSTRAPPABLE, is_public
from cgf.he.engines.library import Library
from cgf.he.engines.rules import CheckedEngine, CheckedOwner, need_size
from cgf.memory import need_memory
from cgf.types import Operand, VendorObject

# desilofhe's own objects, which state no types
Ct = VendorObject  # desilofhe.Ciphertext
Plaintext = VendorObject  # desilofhe.Plaintext
Key = VendorObject  # desilofhe.SecretKey, PublicKey, RelinearizationKey, FixedRotationKey, ...

SUMMED = 8  # products in each of two unrescaled sums that the library adds wrongly (see DesiloEngine._add_products)
KEPT = 8  # vectors that stay encoded: the constants of a chain of 8 squarings, one a level


class DesiloOwner(CheckedOwner):
    """Makes and keeps the secret key; encrypts with the public key, decrypts, grants evaluation keys.

    bootstrap  None; 'plain': the engine that could bootstrap, without the keys; 'small' (26 s for the keys,
               110 s a bootstrap, 13 GiB in all) or 'medium' (92 s, 38 s, 21.5 GiB). UserError where the
               machine has less memory than that.
    secret     of another owner of the same size (dump_secret), to share its ciphertexts; None: a new one
    """

    # a square of [-1, 1] is off by 2e-8 to 1e-7; whole test sets end at 3.5e-7 to 9.5e-5 (results/he/*.json)
    library = Library("desilo", encrypts=True, noise=1e-4)
    _left = 1  # sign of the step that moves slot 1 to slot 0
    _bootstrap: tuple[Key, ...] | None
    _conjugation: Key | None

    def __init__(
        self,
        max_level: int,
        mode: str = "parallel",
        threads: int | None = None,
        device_id: int = 0,
        bootstrap: str | None = None,
        secret: bytes | None = None,
    ) -> None:
        if bootstrap not in (None, "plain", *BOOTSTRAP_GIB):
            raise UserError(f"he.owner.bootstrap must be null, plain, small or medium, and {bootstrap!r} was given")
        if bootstrap in BOOTSTRAP_GIB:
            need_memory(BOOTSTRAP_GIB[bootstrap], f"a {bootstrap} bootstrap key")
        self._make_keys(build_engine(max_level, mode, threads, device_id, bootstrap is not None), max_level, secret)
        if bootstrap in BOOTSTRAP_GIB:
            self._bootstrap = self._bootstrap_keys(bootstrap)

    def _make_keys(self, engine: Vendor, max_level: int, secret: bytes | None = None) -> None:
        self._engine, self.max_level, self.slots = engine, max_level, int(engine.slot_count)
        self._secret = engine.create_secret_key() if secret is None else engine.deserialize_secret_key(secret)
        self._public = self._engine.create_public_key(self._secret)
        self._relinearization = self._engine.create_relinearization_key(self._secret)
        self._rotations: dict[int, Key] = {}
        self._bootstrap, self._conjugation = None, None
        self._check_rotation_sign()

    def _bootstrap_keys(self, size: str) -> tuple[Key, ...]:
        """What bootstrap() takes after the ciphertexts."""
        conjugation = self._engine.create_conjugation_key(self._secret)
        if size == "medium":
            return self._relinearization, conjugation, self._engine.create_bootstrap_key(self._secret, size)
        small = self._engine.create_roll_key(self._secret), self._engine.create_small_bootstrap_key(self._secret)
        return self._relinearization, conjugation, *small

    def dump_secret(self) -> bytes:
        """The secret key as the library serializes it: for processes of one evaluation alone."""
        return bytes(self._engine.serialize_secret_key(self._secret))

    def _holds(self, level: int) -> float:
        return holds(level)

    def _encrypt(self, values: np.ndarray, level: int) -> Ct:
        kind = np.complex128 if np.iscomplexobj(values) else np.float64
        return self._engine.encrypt(np.ascontiguousarray(values, dtype=kind), self._public, level)

    def decrypt(self, ct: Ct) -> np.ndarray:
        """The real parts (slots,) of two or three polynomials, which stay as they are."""
        return np.real(self._slots(ct))

    def decrypt_pair(self, ct: Ct) -> tuple[np.ndarray, np.ndarray]:
        """Real and imaginary parts (slots,) of two or three polynomials, which stay as they are."""
        slots = self._slots(ct)
        return np.real(slots), np.imag(slots)

    def _slots(self, ct: Ct) -> np.ndarray:
        if ct.polynomial_count != 2:  # decrypting three polynomials ruins them for a later relinearization
            ct = self._engine.clone(ct)
        return np.asarray(self._engine.decrypt(ct, self._secret))

    def evaluator(self, rotations: frozenset[int], conjugation: bool = False) -> DesiloEngine:
        """An engine with the keys of exactly these steps, made where they were not yet, and one to conjugate."""
        keys = {step: self._rotation_key(step) for step in sorted(rotations)}
        if conjugation and self._conjugation is None:
            self._conjugation = self._engine.create_conjugation_key(self._secret)
        mirror = self._conjugation if conjugation else None
        return DesiloEngine(self._engine, self.max_level, self._relinearization, keys, self._bootstrap, mirror)

    def key_bytes(self) -> dict[str, int]:
        """Serialized size of one key of each kind; every fixed rotation key has the same."""
        return {
            "relinearize": int(self._relinearization.serialized_nbytes),
            "rotate": int(self._rotation_key(1).serialized_nbytes),
            "public": int(self._public.serialized_nbytes),
        }

    def _rotation_key(self, step: int) -> Key:
        if step not in self._rotations:
            signed = step if step <= self.slots // 2 else step - self.slots
            self._rotations[step] = self._engine.create_fixed_rotation_key(self._secret, self._left * signed)
        return self._rotations[step]

    def _check_rotation_sign(self) -> None:
        """One rotation by an asymmetric vector: a library that rolls the other way gives wrong row sums."""
        probe = np.arange(self.slots, dtype=np.float64) / self.slots
        turned = self.decrypt(self._engine.rotate(self.encrypt(probe, min(self.max_level, 1)), self._rotation_key(1)))
        if not np.abs(turned - np.roll(probe, -1)).max() < 1e-3:
            raise UserError(f"rotate(ct, 1) must move slot 1 to slot 0 as in desilofhe {VERSION}, and it does not")


class Products(WeakKeyDictionary[Ct, int]):
    """How many products an unrescaled sum holds, by its ciphertext; one that is not listed holds one.

    Written out it is empty: ciphertexts are written by themselves, and ``load`` counts them anew.
    """

    def __reduce__(self) -> tuple[type[Products], tuple[()]]:
        return Products, ()


class DesiloEngine(CheckedEngine):
    """Engine over desilofhe; holds evaluation keys only."""

    pairs = True

    def __init__(
        self,
        engine: Vendor,
        max_level: int,
        relinearization: Key,
        rotations: dict[int, Key],
        bootstrap: tuple[Key, ...] | None = None,
        conjugation: Key | None = None,
    ) -> None:
        self._engine, self.max_level, self.slots = engine, max_level, int(engine.slot_count)
        self._relinearization, self._refresh_keys = relinearization, bootstrap
        self._conjugation, self.conjugates = conjugation, conjugation is not None
        self.rotations: dict[int, Key] = rotations
        self.refreshed = None if bootstrap is None else BOOTSTRAPPABLE.max_level
        self._terms: dict[tuple[int, bytes], Plaintext] = {}
        self._products = Products()

    def level(self, ct: Ct) -> int:
        """The level that the library says a ciphertext has."""
        return int(ct.level)

    def polynomials(self, ct: Ct) -> int:
        """The count of polynomials that the library says a ciphertext has: 2, or 3 before relinearization."""
        return int(ct.polynomial_count)

    def _add(self, a: Ct, b: Operand) -> Ct:
        if is_public(b):
            need_size(b, holds(self.level(a)), f"a sum at level {self.level(a)}")
        elif self.polynomials(a) == self.polynomials(b) == 3:
            return self._add_products(a, b)
        return self._engine.add(a, self._term(b, a))

    def _add_products(self, a: Ct, b: Ct) -> Ct:
        """a + b, sums of products that are not rescaled yet.

        desilofhe 2.0.0 reduces such a sum after eight products and adds two of eight unreduced: in the ring of 32,768
        slots 16 residues then pass 2^64 at some levels, by chance, and every slot is ruined without an error. A
        product with the integer 1 reduces one of them; it takes no level, and 2 to 7 times as long as the addition.
        """
        counts = [self._products.get(ct, 1) for ct in (a, b)]
        if min(counts) >= SUMMED:
            a = self._engine.multiply(a, 1)
        total = self._engine.add(a, b)
        self._products[total] = sum(counts)
        return total

    def _sub(self, a: Ct, b: Operand) -> Ct:
        if is_public(b):
            need_size(b, holds(self.level(a)), f"a difference at level {self.level(a)}")
        return self._engine.subtract(a, self._term(b, a))

    def _term(self, b: Operand, a: Ct) -> Ct | Plaintext:
        """What is added to a ciphertext: a public vector encoded at its level, anything else as it is.

        A circuit adds the same few vectors to every column, and to encode one takes 40 times as long as to add it.
        """
        if not isinstance(b, np.ndarray):
            return b
        vector = np.ascontiguousarray(b, dtype=np.float64)
        key = self.level(a), vector.tobytes()
        term = self._terms.pop(key, None)
        if term is None:
            term = self._engine.encode(vector, key[0])
        while len(self._terms) >= KEPT:
            del self._terms[next(iter(self._terms))]
        self._terms[key] = term  # the one used last comes last
        return term

    def _mul(self, a: Ct, b: Operand) -> Ct:
        if is_public(b):
            need_size(b, HOLDS_ABOVE, "a product")
            if isinstance(b, float | np.number):
                b = float(b)
        return self._engine.multiply(a, b)

    def _square(self, a: Ct) -> Ct:
        return self._engine.square(a)

    def _relinearize(self, a: Ct) -> Ct:
        return self._engine.relinearize(a, self._relinearization)

    def _rotate(self, a: Ct, step: int) -> Ct:
        return self._engine.rotate(a, self.rotations[step % self.slots])

    def _times_i(self, a: Ct) -> Ct:
        turned = self._engine.multiply_imaginary_integer(a, 1)
        self._products[turned] = self._products.get(a, 1)
        return turned

    def _conjugate(self, a: Ct) -> Ct:
        return self._engine.conjugate(a, self._conjugation)

    def _prepare(self, a: Ct) -> Ct:
        """Rescaled first: a product of forms that were not goes back to do it, and takes 15 times as long."""
        return self._engine.ntt(self._engine.rescale(a))

    def _dot(self, a: Sequence[Ct], b: Sequence[Ct]) -> Ct:
        total = self._engine.multiply(a[0], b[0])
        for x, y in zip(a[1:], b[1:], strict=True):
            total = self._engine.add(total, self._engine.multiply(x, y))
        self._products[total] = len(a)
        return total

    def _lower(self, a: Ct, level: int) -> Ct:
        """Rescaled once here: a product with a number that has to do it takes 3 times as long."""
        return self._engine.rescale(a if self.level(a) == level else self._engine.level_down(a, level))

    def _combine(self, cts: Sequence[Ct], weights: Sequence[float]) -> Ct:
        engine = self._engine
        total = engine.multiply(cts[0], float(weights[0]))
        for ct, weight in zip(cts[1:], weights[1:], strict=True):
            total = engine.add(total, engine.multiply(ct, float(weight)))
        return total

    def dump(self, ct: Ct) -> bytes:
        """A ciphertext as the library serializes it."""
        return bytes(self._engine.serialize_ciphertext(ct))

    def load(self, data: bytes) -> Ct:
        """The ciphertext that the library reads off such bytes."""
        ct = self._engine.deserialize_ciphertext(data)
        self._products[ct] = SUMMED  # whoever wrote it may have summed as many
        return ct

    def _bootstrap(self, cts: Sequence[Ct]) -> list[Ct]:
        assert self._refresh_keys is not None
        fresh: list[Ct] = []
        for first, *rest in (cts[i : i + 2] for i in range(0, len(cts), 2)):
            if rest:  # two real ciphertexts ride in one complex one
                fresh += self._engine.merge_bootstrap(first, rest[0], *self._refresh_keys)
            else:
                fresh.append(self._engine.bootstrap(first, *self._refresh_keys))
        return fresh
