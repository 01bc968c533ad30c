"""Predicted seconds and keys, against counts made by hand from the circuit on paper and a made-up table."""

from pathlib import Path

import numpy as np
import pytest

from cgf.approx import fit
from cgf.approx.chain import SquareChain
from cgf.errors import UserError
from cgf.he.engines.count import Counting
from cgf.he.engines.sim import SimEngine, SimOwner
from cgf.he.folding import fold_integers
from cgf.plan.cost import mask_rows, needs_of, predict
from cgf.plan.op_times import KINDS, OpTimes, levels_to_measure, measure
from cgf.results import read_json

CHAIN = SquareChain("chain", 0.2, 1.1, (-0.2, 0.05))
KEYS = {"relinearize": 3 << 20, "rotate": 2 << 20, "public": 1 << 20}


def table(ms=lambda kind, max_level, level: 1.0, sizes=((3, 8192), (7, 8192))):
    return OpTimes.from_json(
        {
            "sizes": {
                str(m): {
                    "slots": slots,
                    "key_bytes": KEYS,
                    "ms": {kind: {str(x): ms(kind, m, x) for x in range(m + 1)} for kind in KINDS},
                }
                for m, slots in sizes
            }
        }
    )


def by_hand(rotations=5, cts=8):
    """Operations of the folded circuit on 256 x 256 full rows, 8 ciphertexts of 32 columns, by (detail, level)."""
    return {
        ("imult", 3): cts + 1 + cts,
        ("add", 3): cts - 1 + rotations + cts,
        ("rotate", 3): rotations,
        ("square", 3): cts,
        ("add", 2): cts - 1 + rotations,
        ("relinearize", 2): 1,
        ("rotate", 2): rotations,
        ("imult", 2): 1,
        ("add_levels", 2): 1 + cts,
        ("add_float", 2): 1,
        ("square", 2): cts,
        ("add_float", 1): cts,
        ("relinearize", 1): cts,
        ("square", 1): cts,  # the last square is decrypted as it is, its constant added then
    }


def test_operations_by_kind_and_level_are_those_of_the_circuit():
    assert 1 not in fold_integers(CHAIN, 256)[:2]  # a product with 1 would not be made
    (needs,) = needs_of(CHAIN, "full", 256, 256)
    assert needs.max_level == needs.levels == needs.polynomials == 3 and needs.layout.ciphertexts == 8
    assert needs.by_level == by_hand()
    kinds = {"square": "cmult", "add_float": "add", "add_levels": "add"}
    totals = dict.fromkeys(needs.ops, 0)
    for (detail, _), n in needs.by_level.items():
        totals[kinds.get(detail, detail)] += n
    assert totals == needs.ops


def test_seconds_are_counts_times_the_table():
    price = {kind: 2.0**i for i, kind in enumerate(KINDS)}

    def ms(kind, max_level, level):
        return price[kind] * (1 + level)

    told = predict(needs_of(CHAIN, "full", 256, 256), table(ms))
    expected = sum(n * ms(kind, 3, level) for (kind, level), n in by_hand().items())
    assert told.circuit_s == pytest.approx(expected / 1e3, rel=1e-12)
    assert told.encrypt_s == pytest.approx(8 * ms("encrypt", 3, 3) / 1e3)
    assert told.decrypt_s == pytest.approx(4 * (ms("decrypt", 3, 0) + ms("relinearize", 3, 0)) / 1e3)
    assert told.total_s == pytest.approx(told.circuit_s + told.encrypt_s + told.decrypt_s)
    assert told.key_mib == 3 + 5 * 2  # one relinearization key and five rotations: 256 .. 4096


def test_between_levels_and_between_sizes_of_a_ring():
    size = {"slots": 8192, "key_bytes": KEYS, "ms": {kind: {"0": 1.0, "4": 5.0} for kind in KINDS}}
    seven = {
        "slots": 8192,
        "key_bytes": {**KEYS, "rotate": 4 << 20},
        "ms": {kind: {"0": 11.0, "4": 15.0, "7": 18.0} for kind in KINDS},
    }
    times = OpTimes.from_json({"sizes": {"4": size, "7": seven}})
    assert times.ms("add", 4, 3) == 4.0 and times.ms("add", 7, 5) == 16.0  # between levels
    assert times.ms("add", 5, 3) == pytest.approx(4.0 + 10 / 3)  # a third of the way from 4 to 7
    assert times.ms("add", 6, 5) == 16.0  # the smaller size has no level 5
    assert times.ms("add", 3, 1) == 2.0  # below the smallest: the nearest
    assert times.key_bytes("rotate", 5) == pytest.approx((2 + 2 / 3) * 2**20)
    with pytest.raises(UserError, match=r"no engine of 16384 slots.*op_times.py"):
        times.ms("add", 10, 2)
    with pytest.raises(UserError, match="no 'boot'"):
        times.ms("boot", 4, 2)


@pytest.mark.parametrize("broken", [None, {}, {"sizes": {"4": {}}}, {"sizes": {"x": {"slots": 1}}}, {"sizes": []}])
def test_a_broken_table_is_refused(broken):
    with pytest.raises(UserError, match=r"op_times\.py"):
        OpTimes.from_json(broken)


def test_many_rows_are_so_many_sets_of_ciphertexts():
    times = table()
    one, two = (needs_of(CHAIN, "full", rows, 16) for rows in (8192, 12288))
    assert len(one) == 1 and [n.layout.rows for n in two] == [8192, 4096]
    assert one[0].layout.rotations == [] and one[0].layout.ciphertexts == 16
    assert predict(two, times).circuit_s > predict(one, times).circuit_s
    assert predict(two, times).key_mib == 3 + 2 * len(two[1].rotations)


def test_masks_cost_a_level_and_vector_products():
    full, causal, padding = (needs_of(CHAIN, mask, 64, 64)[0] for mask in ("full", "causal", "padding"))
    assert full.levels + 1 == causal.levels == padding.levels == 4
    assert causal.by_level == padding.by_level
    vectors = sum(n for (kind, _), n in causal.by_level.items() if kind == "pmult_vector")
    assert vectors == 4 * causal.layout.ciphertexts  # the scores' own scale by row, and a mask for each of three terms
    assert not any(kind.endswith("vector") for kind, _ in full.by_level)


def test_only_ciphertexts_with_invalid_entries_take_vectors_of_their_own():
    """8192 causal rows of 128, sorted: blocks whose columns are nearly all filled, and most ciphertexts wholly."""
    blocks, times = needs_of(CHAIN, "causal", 8192, 128), table()
    ciphertexts = sum(n.layout.ciphertexts for n in blocks)
    vectors = sum(count for n in blocks for (kind, _), count in n.by_level.items() if kind == "pmult_vector")
    assert ciphertexts <= 80 and vectors <= ciphertexts + 3 * (ciphertexts // 2 + len(blocks))
    assert predict(blocks, times).encrypt_s == ciphertexts / 1e3


def test_rows_of_the_masks():
    causal, padding = mask_rows("causal", 8, 4), mask_rows("padding", 8, 100, 2, 4)
    assert causal.counts.tolist() == [1, 2, 3, 4, 1, 2, 3, 4] and causal.valid[1].tolist() == [True, True, False, False]
    assert padding.first == 2 and padding.counts.tolist() == [85, 88]
    assert (padding.valid.sum(1) == padding.counts).all() and mask_rows("padding", 8, 100).counts.max() == 100
    for wrong in (("half", 4, 4), ("full", 0, 4), ("full", 4, 1.5), ("full", True, 4)):
        with pytest.raises(UserError):
            mask_rows(*wrong)


def test_details_tell_operands_apart():
    engine, owner = Counting(SimEngine(3)), SimOwner(3)
    a, b = owner.encrypt(np.ones(4), 3), owner.encrypt(np.ones(4), 2)
    engine.add(a, a), engine.sub(a, b), engine.add(a, 1.0), engine.add(b, np.ones(8192)), engine.mul(a, 2)
    engine.mul(b, 2.0), engine.mul(a, np.ones(8192)), engine.mul(a, b), engine.square(b), engine.rotate(b, 1)
    assert engine.by_level == {
        ("add", 3): 1,
        ("add_levels", 2): 1,
        ("add_float", 3): 1,
        ("add_vector", 2): 1,
        ("imult", 3): 1,
        ("pmult_float", 2): 1,
        ("pmult_vector", 3): 1,
        ("cmult", 2): 1,
        ("square", 2): 1,
        ("rotate", 2): 1,
    }


def test_a_measured_table_has_what_a_prediction_asks():
    sizes = {str(m): measure(SimOwner(m), KEYS, levels_to_measure(m), repeats=3).to_json() for m in (3, 7)}
    times = OpTimes.from_json({"sizes": sizes})
    assert set(times.sizes[3].ms) == set(KINDS) and all(
        ms > 0 for row in times.sizes[3].ms.values() for ms in row.values()
    )
    assert 0 not in times.sizes[7].ms["square"] and 7 not in times.sizes[7].ms["relinearize"]
    assert predict(needs_of(CHAIN, "causal", 64, 64), times).total_s > 0
    assert levels_to_measure(4) == [0, 1, 2, 3, 4] and {0, 17} < set(levels_to_measure(17))


def test_a_prediction_that_was_checked_is_still_that_of_the_code_and_near_the_measurement():
    data = read_json(Path(__file__).resolve().parents[3] / "results" / "bench" / "op_times.json")
    (row,) = (row for row in data["check"] if row["method"] == "chebyshev")  # whose fit takes no search
    exponential = fit.chebyshev(*row["domain"], row["degree"], row["k"])
    told = predict(needs_of(exponential, row["mask"], row["rows"], row["columns"]), OpTimes.from_json(data))
    assert told.total_s == pytest.approx(row["predicted_s"]["total"], rel=0.05)
    assert 0.7 <= told.total_s / row["measured_s"]["total"] <= 1.3
