"""OpenFHE as an engine. The only file that imports it.

A second library beside desilofhe, open source (BSD-2), so that what one gives can be held against the other.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Sequence

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.engine import Ring, is_public, ring_for
from cgf.he.engines.library import Library
from cgf.he.engines.rules import CheckedEngine, CheckedOwner, check_fits, need_pairs
from cgf.types import Operand, VendorObject

# OpenFHE's own objects, which state no types
Module = VendorObject  # the package
Context = VendorObject  # CryptoContext: parameters, and process-wide maps of keys
Ct = VendorObject  # Ciphertext
Plaintext = VendorObject  # Plaintext
Key = VendorObject  # EvalKey, or the map from an automorphism to one

VERSION = "1.6.1.0.22.4"  # the wheel carries OpenFHE itself; what is measured below was measured with it

# Levels here are towers. FIXEDMANUAL rescales when told, so a ciphertext's level is what the library itself
# counts; FLEXIBLEAUTO and FIXEDAUTO put a rescaling off to the next product, and a product would show the level
# of its factors. The price is that each tower's prime stands for 2^50: about 1e-8 relative error a product (16384
# slots, seven squarings of [-1, 1]: 5e-7). At a scale of 2^40 it is 1e-5 a product and 6e-4 after seven.
SCALE_BITS, FIRST_BITS = 50, 60
# one tower more than levels: at level 0 two are left, so that values up to 2^18, the bound that plans
# promise, survive there; one tower of 60 bits alone holds values up to 2^9 at a scale of 2^50
BASE_TOWERS = 1

# measured with GenCryptoContext for depths 2..61 at HEStd_128_classic, ternary secret, the library's own digits of
# the hybrid key switch; no level is lost to key switching
OPENFHE_RINGS = (Ring(8192, 4, 4), Ring(16384, 10, 10), Ring(32768, 23, 23), Ring(65536, 49, 49))


def _library() -> Module:
    have = f"this is {platform.python_implementation()} {platform.python_version()}"
    try:
        import openfhe
    except ImportError as error:
        why = "it is not installed" if isinstance(error, ModuleNotFoundError) else f"it cannot be loaded ({error})"
        raise UserError(
            f"he=openfhe needs the package openfhe=={VERSION}, a wheel for CPython 3.10 on Linux, and {why} ({have})"
        ) from None
    version = importlib.metadata.version("openfhe")
    if version != VERSION:
        raise UserError(f"he=openfhe needs openfhe=={VERSION}, and {version} is installed")
    return openfhe


def build_context(max_level: int) -> Context:
    """A CKKS context whose ring the library chooses itself, by its security tables, for so many levels."""
    ring = ring_for(max_level, OPENFHE_RINGS)
    library = _library()
    parameters = library.CCParamsCKKSRNS()
    parameters.SetMultiplicativeDepth(max_level + BASE_TOWERS)
    parameters.SetScalingModSize(SCALE_BITS)
    parameters.SetFirstModSize(FIRST_BITS)
    parameters.SetScalingTechnique(library.FIXEDMANUAL)
    parameters.SetSecurityLevel(library.HEStd_128_classic)
    context = library.GenCryptoContext(parameters)
    for feature in (library.PKE, library.KEYSWITCH, library.LEVELEDSHE):
        context.Enable(feature)
    slots = context.GetRingDimension() // 2
    if slots != ring.slots:
        raise UserError(f"openfhe {VERSION} must give {ring.slots} slots for {max_level} levels, and it gives {slots}")
    return context


def _encode(context: Context, values: np.ndarray, dropped: int) -> Plaintext:
    """Values as a plaintext of all slots, ``dropped`` towers below the top."""
    slots = context.GetRingDimension() // 2
    check_fits(values, slots)
    return context.MakeCKKSPackedPlaintext(np.ascontiguousarray(values, dtype=np.float64), 1, dropped, None, slots)


class OpenFHEOwner(CheckedOwner):
    """Makes and keeps the secret key; encrypts with the public key, decrypts, grants evaluation keys."""

    rings = OPENFHE_RINGS
    pairs = False
    # a square of [-1, 1] is off by 1e-8 (results/bench/noise_openfhe.json), a fifth of desilofhe's; no whole set ran
    library = Library("openfhe", encrypts=True, noise=1e-4)

    def __init__(self, max_level: int) -> None:
        self._context = build_context(max_level)
        self.max_level, self.slots = max_level, int(self._context.GetRingDimension()) // 2
        pair = self._context.KeyGen()
        self._secret, self._public = pair.secretKey, pair.publicKey
        self._relinearization = self._make_relinearization()
        self._rotations: dict[int, tuple[int, Key]] = {}
        self._check_rotation_sign()

    def _encrypt(self, values: np.ndarray, level: int) -> Ct:
        return self._context.Encrypt(self._public, _encode(self._context, values, self.max_level - level))

    def decrypt_pair(self, ct: Ct) -> tuple[np.ndarray, np.ndarray]:
        """Raises UserError: slots are real here."""
        need_pairs(OpenFHEEngine.pairs, "decryption of two numbers a slot")
        raise AssertionError("no imaginary parts")

    def decrypt(self, ct: Ct) -> np.ndarray:
        """(slots,) float64; NaN where the library finds nothing but noise (values that wrapped around)."""
        try:
            plain = self._context.Decrypt(ct, self._secret)
        except RuntimeError as error:
            if "approximation error is too high" not in str(error):
                raise
            return np.full(self.slots, np.nan)
        plain.SetLength(self.slots)
        return np.array(plain.GetRealPackedValueArray(), dtype=np.float64)

    def evaluator(self, rotations: frozenset[int], conjugation: bool = False) -> OpenFHEEngine:
        """An engine with the relinearization key and the keys of these steps. UserError for one that conjugates."""
        if conjugation:
            need_pairs(OpenFHEEngine.pairs, "a conjugation")
        keys = {step: self._rotation_key(step) for step in sorted(rotations)}
        return OpenFHEEngine(self._context, self.max_level, self._relinearization, keys)

    def _make_relinearization(self) -> Key:
        self._context.EvalMultKeyGen(self._secret)
        key = self._context.GetEvalMultKeyVector(self._secret.GetKeyTag())[0]
        self._forget_globals()
        return key

    def _rotation_key(self, step: int) -> tuple[int, Key]:
        """The automorphism of a step and the map that holds its key alone."""
        if step not in self._rotations:
            signed = step if step <= self.slots // 2 else step - self.slots
            index = self._context.FindAutomorphismIndex(signed)
            self._rotations[step] = index, self._context.EvalAutomorphismKeyGen(self._secret, [index])
            self._forget_globals()
        return self._rotations[step]

    def _forget_globals(self) -> None:
        """Takes this owner's keys out of the library's process-wide maps, which file them by the secret's tag.

        There any engine would find them, whatever it was granted; here each holds its own. The library can
        only clear a map whole, so the keys of others are put back.
        """
        library, context, tag = _library(), self._context, self._secret.GetKeyTag()
        products, turns = context.GetAllEvalMultKeys(), context.GetAllEvalAutomorphismKeys()
        library.ClearEvalMultKeys()
        context.ClearEvalAutomorphismKeys()
        for other in products.keys() - {tag}:
            context.InsertEvalMultKey(products[other], other)
        for other in turns.keys() - {tag}:
            context.InsertEvalAutomorphismKey(turns[other], other)

    def _check_rotation_sign(self) -> None:
        """One rotation by an asymmetric vector: a library that rolls the other way gives wrong row sums."""
        probe = np.arange(self.slots, dtype=np.float64) / self.slots
        turned = self.decrypt(self.evaluator(frozenset({1})).rotate(self.encrypt(probe, 0), 1))
        if not np.abs(turned - np.roll(probe, -1)).max() < 1e-3:
            raise UserError(f"rotate(ct, 1) must move slot 1 to slot 0 as in openfhe {VERSION}, and it does not")


class OpenFHEEngine(CheckedEngine):
    """Engine over OpenFHE; holds evaluation keys only, and uses none but those. Bootstrapping is not built here."""

    pairs = False  # the library takes imaginary parts for noise

    def __init__(
        self, context: Context, max_level: int, relinearization: Key, rotations: dict[int, tuple[int, Key]]
    ) -> None:
        self._context, self.max_level, self.slots = context, max_level, int(context.GetRingDimension()) // 2
        self._relinearization = relinearization
        self.rotations: dict[int, tuple[int, Key]] = rotations

    def level(self, ct: Ct) -> int:
        """The levels of the ring less those that a ciphertext has used up."""
        return self.max_level - int(ct.GetLevel())

    def polynomials(self, ct: Ct) -> int:
        """2, or 3 before relinearization, as the library counts a ciphertext's elements."""
        return int(ct.NumberCiphertextElements())

    def _operand(self, a: Ct, b: Operand) -> Operand:
        """What the library's sums and products take: a vector encoded at the level of a, a number as float."""
        if isinstance(b, np.ndarray):
            return _encode(self._context, b, int(a.GetLevel()))
        return float(b) if isinstance(b, int | float | np.number) else b

    def _add(self, a: Ct, b: Operand) -> Ct:
        return self._context.EvalAdd(a, self._operand(a, b))

    def _sub(self, a: Ct, b: Operand) -> Ct:
        return self._context.EvalSub(a, self._operand(a, b))

    def _mul(self, a: Ct, b: Operand) -> Ct:
        if isinstance(b, int):
            product = self._context.EvalMultNoCheck(a, abs(b))  # by the number itself, not by its encoding
            return product if b >= 0 else self._context.EvalNegate(product)
        if is_public(b):
            return self._context.Rescale(self._context.EvalMult(a, self._operand(a, b)))
        return self._context.Rescale(self._context.EvalMultNoRelin(a, b))

    def _square(self, a: Ct) -> Ct:
        return self._mul(a, a)

    def _dot(self, a: Sequence[Ct], b: Sequence[Ct]) -> Ct:
        """Rescaled once; the library holds ciphertexts in the form that multiplies fast as it is."""
        total = self._context.EvalMultNoRelin(a[0], b[0])
        for x, y in zip(a[1:], b[1:], strict=True):
            total = self._context.EvalAdd(total, self._context.EvalMultNoRelin(x, y))
        return self._context.Rescale(total)

    def _lower(self, a: Ct, level: int) -> Ct:
        drop = self.level(a) - level
        return self._context.LevelReduce(a, None, drop) if drop else a

    def _combine(self, cts: Sequence[Ct], weights: Sequence[float]) -> Ct:
        """Rescaled once, at the level of the lowest."""
        level = min(map(self.level, cts))
        terms = [self._context.EvalMult(self._lower(ct, level), float(w)) for ct, w in zip(cts, weights, strict=True)]
        total = terms[0]
        for term in terms[1:]:
            total = self._context.EvalAdd(total, term)
        return self._context.Rescale(total)

    def _relinearize(self, a: Ct) -> Ct:
        return self._context.KeySwitch(a, self._relinearization)

    def _rotate(self, a: Ct, step: int) -> Ct:
        return self._context.EvalAutomorphism(a, *self.rotations[step % self.slots])
