"""The library's matrix form beside the products of a whole attention: the same matrices, both ways."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from cgf.he.attention import complex_pairs
from cgf.he.engines.desilo_matrix import MATRICES, MatrixProducts
from cgf.he.engines.engine import Owner
from cgf.types import Json


def compared(size: int, make_owner: Callable[..., Owner], seed: int) -> Json:
    """Q K^T of 256 instances of ``size`` tokens and features, by the matrix form and by products of prepared operands.

    ``us_per_mac``: microseconds a multiply-add of the product alone, with what it needs beside: preparing,
    relinearizing and taking the real part. The prepared form leaves the slots of its ciphertexts beyond the 256
    instances empty, and takes as long with all of them filled: ``us_per_mac_full``.
    """
    rng = np.random.default_rng(seed)
    query, key = rng.normal(size=(2, MATRICES, size, size))
    wanted = query @ key.transpose(0, 2, 1)
    macs = wanted.size * size
    form = MatrixProducts(size)
    a, b = form.encrypt(query), form.encrypt(key)
    started = time.thread_time()
    product = form.times_transposed(a, b)
    matrix_s = time.thread_time() - started
    by_matrix = form.decrypt(product)
    del form, a, b, product
    owner = make_owner(max_level=2)
    by_slots, prepared_s = _prepared(owner, query, key)
    return {
        "size": size,
        "matrices": MATRICES,
        "matrix_form": {"s": matrix_s, "us_per_mac": 1e6 * matrix_s / macs, "max_error": _error(by_matrix, wanted)},
        "prepared": {
            "s": prepared_s,
            "us_per_mac": 1e6 * prepared_s / macs,
            "us_per_mac_full": 1e6 * prepared_s / macs * MATRICES / owner.slots,
            "max_error": _error(by_slots, wanted),
            "slots": owner.slots,
        },
        "difference": float(np.abs(by_matrix - by_slots).max()),
        "largest": float(np.abs(wanted).max()),
    }


def _error(product: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(product - wanted).max())


def _prepared(owner: Owner, query: np.ndarray, key: np.ndarray) -> tuple[np.ndarray, float]:
    """Scores (I, Q, K) with an instance a slot and two features a ciphertext, and the server's seconds."""
    engine, level, spent = owner.evaluator(frozenset(), conjugation=True), owner.max_level, 0.0
    sides = []
    for array, sign in ((query, -1.0), (key, 1.0)):
        pairs = complex_pairs(array, sign)
        fresh = [[owner.encrypt(row[:, x], level) for x in range(row.shape[-1])] for row in pairs.transpose(1, 0, 2)]
        started = time.thread_time()
        sides.append([[engine.prepare(ct) for ct in row] for row in fresh])
        spent += time.thread_time() - started
    queries, keys = sides
    scores = np.empty((len(query), len(queries), len(keys)))
    for i, q in enumerate(queries):
        for j, k in enumerate(keys):
            started = time.thread_time()
            score = engine.relinearize(engine.dot(q, k))
            score = engine.add(score, engine.conjugate(score))
            spent += time.thread_time() - started
            scores[:, i, j] = owner.decrypt(score)[: len(query)] / 2
    return scores, spent
