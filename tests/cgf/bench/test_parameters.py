"""Moduli out of serialized keys: of made-up keys, whose primes are known, and of the library's smallest engine."""

import numpy as np
import pytest

from cgf.bench.parameters import engine_row, prime_bits, secret_shares
from cgf.errors import UserError
from cgf.report.parameters import FILE, TITLES, lines, met
from cgf.results import write_json

N = 8192


def key(*primes, raw=2):
    """Bytes as a serialized key has them: a head, raw random words, residues below each prime."""
    rng = np.random.default_rng(0)
    words = [rng.integers(0, 2**64 - 1, N, dtype=np.uint64) for _ in range(raw)]
    words += [rng.integers(0, prime, N, dtype=np.uint64) for prime in primes]
    return b"head" + np.concatenate(words).tobytes()


def test_bits_of_known_primes():
    assert prime_bits(key(2**41, 2**61, 2**50 - 27), N) == [50, 61, 41]


def test_keys_that_tell_nothing_are_refused():
    with pytest.raises(UserError, match="must end in rows of residues"):
        prime_bits(key(), N)
    skewed = np.concatenate([np.ones(N - 1), [2.0**40]]).astype(np.uint64).tobytes()
    with pytest.raises(UserError, match="uniform below a prime"):
        prime_bits(skewed, N)


def test_a_secret_is_ternary_or_unknown():
    coefficients = np.array([-1, 0, 1, 1] * (N // 4), dtype=np.int8).tobytes()
    assert secret_shares(b"keys" + coefficients, N) == {"-1": 0.25, "0": 0.25, "1": 0.5}
    assert secret_shares(bytes([7] * N), N) is None


def test_the_smallest_engine_meets_the_bound():
    row = engine_row(1)
    assert (row["n"], row["log_q"], row["log_qp"], row["met"]) == (8192, 143, 204, True)
    assert all(abs(share - 1 / 3) < 0.03 for share in row["secret"].values()) and len(row["secret"]) == 3
    other = {**row, "log_qp": 300, "met": False, "secret": None}
    cells = lines({"engines": [row, other]})
    assert [len(line) for line in cells] == [len(TITLES)] * 2
    assert [line[-1] for line in cells] == ["met", "not met"] and cells[1][TITLES.index("secret")] == "unknown"


def test_a_larger_modulus_than_the_bound_is_not_met():
    row = engine_row(4)  # that of the keys for evaluation alone is larger
    assert row["log_q"] <= row["bound_128"] < row["log_qp"] and not row["met"]


@pytest.mark.parametrize(
    "slots, levels, word",
    [
        (8192, 3, "met"),  # measured
        (8192, 2, "met"),  # a smaller modulus than one that is
        (8192, 4, "not met"),
        (8192, 5, "not met"),  # a larger one than one that is not
        (8192, 9, "not met"),  # more than the ring has, which another ring held
        (16384, 9, "met"),
        (16384, 12, "unknown"),  # between the two
        ([8192, 16384], 9, "not met"),  # the smaller ring's
        (32768, 9, "unknown"),  # no size of that ring was measured
    ],
)
def test_a_result_meets_the_bound_where_the_sizes_that_it_ran_in_do(tmp_path, slots, levels, word):
    sizes = [(8192, 3, True), (8192, 4, False), (8192, 7, False), (16384, 10, True), (16384, 14, False)]
    engines = [{"slots": n, "max_level": level, "met": there} for n, level, there in sizes]
    result = {"engine": "desilo", "ring_slots": slots, "levels": levels}
    assert met(tmp_path, result) == "–"  # nothing is known of the sizes
    write_json(tmp_path / FILE, {"engines": engines})
    assert met(tmp_path, result) == word
    assert met(tmp_path, {**result, "engine": "openfhe"}) == "–"
    larger = {**result, "ring_slots": 8192, "levels": 2}
    for asked, told in ((None, "met"), (3, "met"), (7, "not met")):  # an engine of more levels than the circuit takes
        run = {"config": {"he": {"max_level": asked}}}
        assert met(tmp_path, {**larger, "run": run}) == told
        merged = {"config": {"shards": ["a", "b"]}, "shards": [run, run]}  # the command that merged asked for no levels
        assert met(tmp_path, {**larger, "run": merged}) == told
