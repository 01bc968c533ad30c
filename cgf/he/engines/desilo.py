"""desilofhe as an engine. The only file that imports it.

This work uses the DESILO FHE library developed by DESILO Inc. (https://desilo.ai).
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from cgf.checks import whole
from cgf.errors import UserError
from cgf.he.engines.engine import BOOTSTRAPPABLE, Library, Ring, is_public, ring_for
from cgf.he.engines.rules import CheckedEngine, CheckedOwner, need_size
from cgf.memory import need_memory

# desilofhe's own objects, which state no types
Module = Any  # the package
Vendor = Any  # desilofhe.Engine: parameters, no keys
Ct = Any  # desilofhe.Ciphertext
Plaintext = Any  # desilofhe.Plaintext
Key = Any  # desilofhe.SecretKey, PublicKey, RelinearizationKey, FixedRotationKey, ...

VERSION = "2.0.0"  # rotation signs and engine arguments changed between versions
# the largest size of a number that is encrypted, or added, at level 0 and above it: all slots alike, 2^18.75 and 2^59
# came back as they were, 2^19 and 2^60 as other numbers
HOLDS_AT_0, HOLDS_ABOVE = 2.0**18.5, 2.0**58
KEPT = 8  # vectors that stay encoded: the constants of a chain of 8 squarings, one a level
GPU_WHEELS = ("desilofhe-cu132", "desilofhe-cu134", "desilofhe-cu130")  # the last is not at 2.0.0 (yet)


def _installed() -> tuple[str, str]:
    """Name and version of the wheel that provides the module; ('', '') where none does."""
    for name in ("desilofhe", *GPU_WHEELS):
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "", ""


def build() -> str:
    """Name and version of the installed wheel: 'desilofhe 2.0.0'. UserError where it is none that this work knows."""
    vendor()
    return " ".join(_installed())


def vendor(version: str = VERSION) -> Module:
    """The package. UserError where it is missing, does not load, or is of another version."""
    try:
        import desilofhe
    except ModuleNotFoundError:
        raise UserError(f"he=desilo needs the package desilofhe=={version}, and it is not installed") from None
    except ImportError as error:
        raise UserError(f"he=desilo needs the package desilofhe=={version}, and its load failed ({error})") from None
    name, have = _installed()
    if have not in ("", version):
        raise UserError(f"he=desilo needs {name}=={version}, and {have} is installed")
    return desilofhe


# measured: memory of the process that makes and uses a bootstrap key of this size
BOOTSTRAP_GIB = {"small": 13.0, "medium": 21.5}

MOST_THREADS = 1024  # that the library is asked to start


def holds(level: int) -> float:
    """The largest size of a number at a level, if every slot holds it."""
    return HOLDS_ABOVE if level else HOLDS_AT_0


def build_engine(
    max_level: int, mode: str = "parallel", threads: int | None = None, device_id: int = 0, bootstrap: bool = False
) -> Vendor:
    """A desilofhe engine of so many levels; mode 'cpu', 'parallel' or 'gpu'; bootstrap: the one that can refresh."""
    if bootstrap and max_level != BOOTSTRAPPABLE.max_level:
        raise UserError(f"the engine that bootstraps has {BOOTSTRAPPABLE.max_level} levels, and max_level={max_level}")
    ring_for(max_level)
    if mode not in ("cpu", "parallel", "gpu"):
        raise UserError(f"he.mode must be cpu, parallel or gpu, and {mode!r} was given")
    if threads is not None:
        whole("he.owner.threads", threads, 1, MOST_THREADS)
    options: dict[str, Any] = {"bootstrap": True} if bootstrap else {"max_level": max_level}
    options["mode"] = mode
    if mode == "parallel":
        options["thread_count"] = threads or len(os.sched_getaffinity(0))
    if mode == "gpu":
        options["device_id"] = device_id
    library = vendor()
    if mode == "gpu" and (wheel := _installed()[0]) not in GPU_WHEELS:
        raise UserError(
            f"he.owner.mode=gpu needs a GPU wheel, {' or '.join(GPU_WHEELS[:2])}=={VERSION}, in place of "
            f"{wheel or 'desilofhe'}"
        )
    try:
        return library.Engine(**options)
    except RuntimeError as error:
        raise UserError(f"desilofhe could not build an engine of {max_level} levels in mode {mode}: {error}") from None


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
        return bytes(self._engine.serialize_secret_key(self._secret))

    def _holds(self, level: int) -> float:
        return holds(level)

    def _encrypt(self, values: np.ndarray, level: int) -> Ct:
        kind = np.complex128 if np.iscomplexobj(values) else np.float64
        return self._engine.encrypt(np.ascontiguousarray(values, dtype=kind), self._public, level)

    def decrypt(self, ct: Ct) -> np.ndarray:
        return np.real(self._slots(ct))

    def decrypt_pair(self, ct: Ct) -> tuple[np.ndarray, np.ndarray]:
        slots = self._slots(ct)
        return np.real(slots), np.imag(slots)

    def _slots(self, ct: Ct) -> np.ndarray:
        if ct.polynomial_count != 2:  # decrypting three polynomials ruins them for a later relinearization
            ct = self._engine.clone(ct)
        return np.asarray(self._engine.decrypt(ct, self._secret))

    def evaluator(self, rotations: frozenset[int], conjugation: bool = False) -> DesiloEngine:
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


class Desilo1Owner(DesiloOwner):
    """desilofhe 1.17.0 with use_bootstrap=True: 26 levels, 32,768 slots, and the least noise.

    The engine of the CGF-softmax paper's time, for the noise figures alone: a square of [-1, 1] is off by 7e-12 at
    most, where the engines of 2.0.0 (and all others of 1.x) are off by 2e-8 to 1e-7. Needs desilofhe==1.17.0 in an
    environment of its own (scripts/bench/noise_engines.sh). Its rotations roll to the right.
    """

    rings = (Ring(32768, 26, 25),)
    _left = -1

    def __init__(self, max_level: int) -> None:
        ring_for(max_level, self.rings)
        self._make_keys(vendor("1.17.0").Engine(use_bootstrap=True, mode="cpu"), max_level)


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

    def level(self, ct: Ct) -> int:
        return int(ct.level)

    def polynomials(self, ct: Ct) -> int:
        return int(ct.polynomial_count)

    def _add(self, a: Ct, b: Any) -> Ct:
        if is_public(b):
            need_size(b, holds(self.level(a)), f"a sum at level {self.level(a)}")
        return self._engine.add(a, self._term(b, a))

    def _sub(self, a: Ct, b: Any) -> Ct:
        if is_public(b):
            need_size(b, holds(self.level(a)), f"a difference at level {self.level(a)}")
        return self._engine.subtract(a, self._term(b, a))

    def _term(self, b: Any, a: Ct) -> Any:
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

    def _mul(self, a: Ct, b: Any) -> Ct:
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
        return self._engine.multiply_imaginary_integer(a, 1)

    def _conjugate(self, a: Ct) -> Ct:
        return self._engine.conjugate(a, self._conjugation)

    def _prepare(self, a: Ct) -> Ct:
        """Rescaled first: a product of forms that were not goes back to do it, and takes 15 times as long."""
        return self._engine.ntt(self._engine.rescale(a))

    def _dot(self, a: Sequence[Ct], b: Sequence[Ct]) -> Ct:
        total = self._engine.multiply(a[0], b[0])
        for x, y in zip(a[1:], b[1:], strict=True):
            total = self._engine.add(total, self._engine.multiply(x, y))
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
        return bytes(self._engine.serialize_ciphertext(ct))

    def load(self, data: bytes) -> Ct:
        return self._engine.deserialize_ciphertext(data)

    def _bootstrap(self, cts: Sequence[Ct]) -> list[Ct]:
        assert self._refresh_keys is not None
        fresh: list[Ct] = []
        for first, *rest in (cts[i : i + 2] for i in range(0, len(cts), 2)):
            if rest:  # two real ciphertexts ride in one complex one
                fresh += self._engine.merge_bootstrap(first, rest[0], *self._refresh_keys)
            else:
                fresh.append(self._engine.bootstrap(first, *self._refresh_keys))
        return fresh
