"""desilofhe as an engine. The only file that imports it.

This work uses the DESILO FHE library developed by DESILO Inc. (https://desilo.ai).
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from cgf.errors import UserError
from cgf.he.engine import BOOTSTRAPPABLE, check_fits, need_bootstrap, need_level, need_polynomials, ring_for
from cgf.he.memory import need_memory

VERSION = "2.0.0"  # rotation signs and engine arguments changed between versions


def _library() -> Any:
    try:
        import desilofhe
    except ImportError:
        raise UserError(f"he=desilo needs the package desilofhe=={VERSION}, and it is not installed") from None
    for name in ("desilofhe", "desilofhe-cu130", "desilofhe-cu132", "desilofhe-cu134"):
        try:
            have = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if have != VERSION:
            raise UserError(f"he=desilo needs {name}=={VERSION}, and {have} is installed")
    return desilofhe


# measured: memory of the process that makes and uses a bootstrap key of this size
BOOTSTRAP_GIB = {"small": 13.0, "medium": 21.5}


def build_engine(max_level: int, mode: str = "parallel", threads: int | None = None, device_id: int = 0,
                 bootstrap: bool = False) -> Any:
    """A desilofhe engine of so many levels; mode 'cpu', 'parallel' or 'gpu'; bootstrap: the one that can refresh."""
    if bootstrap and max_level != BOOTSTRAPPABLE.max_level:
        raise UserError(f"the engine that bootstraps has {BOOTSTRAPPABLE.max_level} levels, and max_level={max_level}")
    ring_for(max_level)
    if mode not in ("cpu", "parallel", "gpu"):
        raise UserError(f"he.mode must be cpu, parallel or gpu, and {mode!r} was given")
    options: dict[str, Any] = {"bootstrap": True} if bootstrap else {"max_level": max_level}
    options["mode"] = mode
    if mode == "parallel":
        options["thread_count"] = threads or len(os.sched_getaffinity(0))
    if mode == "gpu":
        options["device_id"] = device_id
    try:
        return _library().Engine(**options)
    except RuntimeError as error:
        raise UserError(f"desilofhe could not build an engine of {max_level} levels in mode {mode}: {error}") from None


class DesiloOwner:
    """Makes and keeps the secret key; encrypts with the public key, decrypts, grants evaluation keys.

    bootstrap  None; 'plain': the engine that could bootstrap, without the keys; 'small' (26 s for the keys,
               110 s a bootstrap, 13 GiB in all) or 'medium' (92 s, 38 s, 21.5 GiB). UserError where the
               machine has less memory than that.
    """

    def __init__(self, max_level: int, mode: str = "parallel", threads: int | None = None,
                 device_id: int = 0, bootstrap: str | None = None) -> None:
        if bootstrap not in (None, "plain", *BOOTSTRAP_GIB):
            raise UserError(f"he.owner.bootstrap must be null, plain, small or medium, and {bootstrap!r} was given")
        if bootstrap in BOOTSTRAP_GIB:
            need_memory(BOOTSTRAP_GIB[bootstrap], f"a {bootstrap} bootstrap key")
        self._engine = build_engine(max_level, mode, threads, device_id, bootstrap is not None)
        self.max_level, self.slots = max_level, int(self._engine.slot_count)
        self._secret = self._engine.create_secret_key()
        self._public = self._engine.create_public_key(self._secret)
        self._relinearization = self._engine.create_relinearization_key(self._secret)
        self._rotations: dict[int, Any] = {}
        self._bootstrap = self._bootstrap_keys(bootstrap) if bootstrap in BOOTSTRAP_GIB else None
        self._check_rotation_sign()

    def _bootstrap_keys(self, size: str) -> tuple[Any, ...]:
        """What bootstrap() takes after the ciphertexts."""
        conjugation = self._engine.create_conjugation_key(self._secret)
        if size == "medium":
            return self._relinearization, conjugation, self._engine.create_bootstrap_key(self._secret, size)
        small = self._engine.create_roll_key(self._secret), self._engine.create_small_bootstrap_key(self._secret)
        return self._relinearization, conjugation, *small

    def encrypt(self, values: np.ndarray, level: int) -> Any:
        if not 0 <= level <= self.max_level:
            raise UserError(f"encryption needs a level of 0 to {self.max_level}, and {level} was asked")
        check_fits(values, self.slots)
        return self._engine.encrypt(np.ascontiguousarray(values, dtype=np.float64), self._public, level)

    def decrypt(self, ct: Any) -> np.ndarray:
        return np.real(self._slots(ct))

    def decrypt_pair(self, ct: Any) -> tuple[np.ndarray, np.ndarray]:
        slots = self._slots(ct)
        return np.real(slots), np.imag(slots)

    def _slots(self, ct: Any) -> np.ndarray:
        if ct.polynomial_count != 2:  # decrypting three polynomials ruins them for a later relinearization
            ct = self._engine.clone(ct)
        return np.asarray(self._engine.decrypt(ct, self._secret))

    def evaluator(self, rotations: frozenset[int]) -> DesiloEngine:
        keys = {step: self._rotation_key(step) for step in sorted(rotations)}
        return DesiloEngine(self._engine, self.max_level, self._relinearization, keys, self._bootstrap)

    def key_bytes(self) -> dict[str, int]:
        """Serialized size of one key of each kind; every fixed rotation key has the same."""
        return {"relinearize": int(self._relinearization.serialized_nbytes),
                "rotate": int(self._rotation_key(1).serialized_nbytes), "public": int(self._public.serialized_nbytes)}

    def _rotation_key(self, step: int) -> Any:
        if step not in self._rotations:
            signed = step if step <= self.slots // 2 else step - self.slots
            self._rotations[step] = self._engine.create_fixed_rotation_key(self._secret, signed)
        return self._rotations[step]

    def _check_rotation_sign(self) -> None:
        """One rotation by an asymmetric vector: a library that rolls the other way gives wrong row sums."""
        probe = np.arange(self.slots, dtype=np.float64) / self.slots
        key = self._engine.create_fixed_rotation_key(self._secret, 1)
        turned = self.decrypt(self._engine.rotate(self.encrypt(probe, min(self.max_level, 1)), key))
        if np.abs(turned - np.roll(probe, -1)).max() > 1e-3:
            raise UserError(f"rotate(ct, 1) must move slot 1 to slot 0 as in desilofhe {VERSION}, and it does not")
        self._rotations[1] = key


class DesiloEngine:
    """Engine over desilofhe; holds evaluation keys only."""

    pairs = True

    def __init__(self, engine: Any, max_level: int, relinearization: Any, rotations: dict[int, Any],
                 bootstrap: tuple[Any, ...] | None = None) -> None:
        self._engine, self.max_level, self.slots = engine, max_level, int(engine.slot_count)
        self._relinearization, self._rotations, self._bootstrap = relinearization, rotations, bootstrap
        self.refreshed = None if bootstrap is None else BOOTSTRAPPABLE.max_level

    def level(self, ct: Any) -> int:
        return int(ct.level)

    def polynomials(self, ct: Any) -> int:
        return int(ct.polynomial_count)

    def add(self, a: Any, b: Any) -> Any:
        return self._engine.add(a, b)

    def sub(self, a: Any, b: Any) -> Any:
        return self._engine.subtract(a, b)

    def mul(self, a: Any, b: Any) -> Any:
        if not isinstance(b, int):
            need_level(self.level(a), self.max_level)
            if isinstance(b, float | np.floating):
                b = float(b)
            elif not isinstance(b, np.ndarray):
                need_level(self.level(b), self.max_level)
                need_polynomials(self.polynomials(a), 2, "a product")
                need_polynomials(self.polynomials(b), 2, "a product")
        return self._engine.multiply(a, b)

    def square(self, a: Any) -> Any:
        need_polynomials(self.polynomials(a), 2, "a square")
        need_level(self.level(a), self.max_level)
        return self._engine.square(a)

    def relinearize(self, a: Any) -> Any:
        need_polynomials(self.polynomials(a), 3, "a relinearization")
        return self._engine.relinearize(a, self._relinearization)

    def rotate(self, a: Any, step: int) -> Any:
        need_polynomials(self.polynomials(a), 2, "a rotation")
        key = self._rotations.get(step % self.slots)
        if key is None:
            raise UserError(f"a rotation by {step} needs its key, and the engine has {sorted(self._rotations)}")
        return self._engine.rotate(a, key)

    def times_i(self, a: Any) -> Any:
        return self._engine.multiply_imaginary_integer(a, 1)

    def bootstrap(self, cts: Sequence[Any]) -> list[Any]:
        need_bootstrap(self.refreshed)
        assert self._bootstrap is not None
        for ct in cts:
            need_polynomials(self.polynomials(ct), 2, "a bootstrap")
        fresh: list[Any] = []
        for first, *rest in (cts[i : i + 2] for i in range(0, len(cts), 2)):
            if rest:  # two real ciphertexts ride in one complex one
                fresh += self._engine.merge_bootstrap(first, rest[0], *self._bootstrap)
            else:
                fresh.append(self._engine.bootstrap(first, *self._bootstrap))
        return fresh
