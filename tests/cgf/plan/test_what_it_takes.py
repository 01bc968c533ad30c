"""Networks counted by their sizes alone: the counts of whole circuits, and what no ring holds says so."""

from collections import Counter
from pathlib import Path

import pytest

from cgf.errors import UserError
from cgf.he.engines.engine import ENDLESS, RINGS, ring_for
from cgf.he.engines.sim import SimOwner
from cgf.he.network_needs import needs_of
from cgf.network.program import program_of
from cgf.network.shapes import NetworkShape
from cgf.plan.op_times import KINDS, OpTimes, Size, measure
from cgf.plan.shape_cost import counted
from cgf.plan.sizes import Sizes
from cgf.plan.what_it_takes import MODELS, row, would_fit
from cgf.report.what_it_takes import table
from cgf.results import read_json

RESULTS = Path(__file__).parents[3] / "results"


def times(ms=1.0, **others):
    """Every operation takes ms at every level, those named so much."""
    by_kind = {kind: {0: others.get(kind, ms), 40: others.get(kind, ms)} for kind in KINDS}
    keys = {"relinearize": 2**20, "rotate": 2**21, "public": 1}
    return OpTimes({top: Size(slots, keys, by_kind) for top, slots in ((7, 8192), (17, 16384), (36, 32768))})


def sizes(*numbers, **others):
    return Sizes(*numbers, name="a network", **others)


@pytest.mark.parametrize("numbers", [
    (1, 8, 2, 16, 4, 2, 3),    # features turned by the server
    (2, 8, 2, 16, 4, 2, 3),    # features sent turned, at the top level of a ring
    (2, 16, 2, 32, 6, 16, 3),  # tokens that do not divide the slots
    (2, 8, 2, 16, 6, 40, 3),   # more features than the state: a stream beside the first attention
    (3, 8, 2, 16, 8, 2, 3),
    (2, 8, 2, 70, 8, 2, 3),    # squares in three stretches
    (3, 8, 2, 64, 8, 40, 3),   # in two, behind both blocks
])  # fmt: skip
def test_counts_are_those_of_the_circuit_on_the_simulator(numbers):
    blocks, tokens = numbers[0], numbers[4]
    needs = needs_of(program_of(NetworkShape(*numbers, k=2).network(), tokens))
    got = counted(sizes(*numbers, k=2), needs.ring)
    in_circuit = Counter()
    for stage in needs.stages:
        in_circuit.update(stage.by_level)
    assert got.by_level == in_circuit
    assert got.levels == needs.levels == got.sizes.levels == 8 * blocks + 1
    assert (got.encrypted, got.decrypted, got.rotations) == (needs.encrypted, needs.decrypted, needs.rotations)
    assert got.layout.samples == needs.samples
    assert got.most_mib == pytest.approx(needs.most_mib, rel=0.1)


@pytest.mark.parametrize("flags", [
    {"causal": True}, {"rotary": True}, {"gated": True}, {"causal": True, "rotary": True, "gated": True},
])  # fmt: skip
@pytest.mark.parametrize("numbers", [(1, 8, 2, 16, 4, 2, 3), (2, 16, 2, 64, 6, 16, 3), (2, 8, 2, 16, 6, 40, 3)])
def test_counts_of_what_a_llama_has_are_those_of_the_circuit(numbers, flags):
    last = "causal" in flags
    shape = NetworkShape(*numbers, k=2, pool="last" if last else "mean", **flags)
    needs = needs_of(program_of(shape.network(), numbers[4]))
    got = counted(sizes(*numbers, k=2, mean=not last, **flags), needs.ring)
    in_circuit = Counter()
    for stage in needs.stages:
        in_circuit.update(stage.by_level)
    assert got.by_level == in_circuit
    more = 2 * flags.get("causal", False) + flags.get("rotary", False)
    assert got.levels == needs.levels == got.sizes.levels == (8 + more) * numbers[0] + 1
    assert (got.encrypted, got.decrypted, got.rotations) == (needs.encrypted, needs.decrypted, needs.rotations)
    assert got.layout.samples == needs.samples
    assert got.most_mib == pytest.approx(needs.most_mib, rel=0.1)


def macs(got):
    return sum(count for (kind, _), count in got.by_level.items() if kind == "mac")


def test_grouped_keys_gates_rotary_positions_and_masks_by_hand():
    """Of one block, its features not turned: what each changes against the plain one."""
    plain = {"blocks": 1, "width": 8, "heads": 4, "mlp": 16, "tokens": 4, "features": 16, "classes": 3, "k": 2}
    plain["mean"] = False
    base = counted(sizes(**plain), ENDLESS)
    grouped, gated = (counted(sizes(**plain, **one), ENDLESS) for one in ({"kv_heads": 2}, {"gated": True}))
    assert macs(base) - macs(grouped) == 2 * 4 * 16  # four features of keys and of values less, of 16 sources
    assert macs(gated) - macs(base) == 16 * 16  # as many maps again, of the 8 features of the state and the 8 outputs
    assert sum(n for (kind, _), n in gated.by_level.items() if kind == "cmult") == 16
    rotary, causal = (counted(sizes(**plain, **{one: True}), ENDLESS) for one in ("rotary", "causal"))
    assert macs(rotary) == macs(base)
    assert (rotary.levels, causal.levels, base.levels) == (10, 11, 9)
    vectors = [sum(n for (kind, _), n in got.by_level.items() if kind == "pmult_vector") for got in (rotary, causal)]
    assert vectors == [8 * 2 * 2, 4 * 4 * 4]  # features, of queries and of keys, two each; heads, diagonals, four each


def test_a_model_that_fits_has_no_bootstraps_and_needs_no_advice():
    told = row(sizes(2, 8, 2, 16, 4, 2, 3, k=2), times())
    assert (told["fits"], told["bootstraps"], told["would_fit"], told["levels"]) == (True, 0, "", 17)
    assert told["core_s"] == pytest.approx((sum(told["ops"].values()) + 3 * 2 + 3) / 1e3)  # 3 turns of 2, 3 logits
    assert told["core_s_per_sample"] == pytest.approx(told["core_s"] / 4096)
    slower = row(sizes(2, 8, 2, 16, 4, 2, 3, k=2), times(mac=3.0))
    assert slower["core_s"] - told["core_s"] == pytest.approx(2 * told["ops"]["mac"] / 1e3)
    assert told["key_gib"] == pytest.approx((1 + 2 * 2) / 1024)


def test_a_model_that_fits_no_ring_says_so_and_what_would():
    told = row(sizes(6, 8, 2, 16, 4, 2, 3, k=3), times(1e-9))
    assert (told["levels"], told["fits"], told["refreshes"], told["bootstraps"]) == (55, False, 3, 3 * 4)
    assert (
        told["core_s"] == pytest.approx(told["bootstrap_s"])
        and told["bootstrap_s"] == 12 * 38.0
        and told["key_gib"] > 21.5
    )
    assert told["would_fit"] == "3 blocks of k = 3 or 4 blocks of k = 2 or 5 blocks of k = 1"
    text = table({"models": [told]})
    assert "no: 3 blocks of k = 3 or 4 blocks of k = 2 or 5 blocks of k = 1 would" in text and "12 (3 x 4)" in text
    for blocks, k in ((3, 3), (4, 2), (5, 1)):  # which is so, by the circuits' own count
        shape = NetworkShape(blocks, 4, 1, 4, 4, 2, 2, k=k)
        assert needs_of(program_of(shape.network(), 4)).levels <= RINGS[-1].max_level
        assert program_of(NetworkShape(blocks + 1, 4, 1, 4, 4, 2, 2, k=k).network(), 4).depth() > RINGS[-1].max_level


def test_the_network_that_was_run_took_the_operations_of_its_row():
    told = next(r for r in read_json(RESULTS / "bench/what_it_takes.json")["models"] if r["name"] == MODELS[0].name)
    run = read_json(RESULTS / "he/network/vit_digits-digits-2_blocks.json")
    ops = dict(told["ops"])
    assert run["ops"]["pmult"] == ops["mac"] and run["ops"]["cmult"] == ops["prepared"] + ops["square"]
    for kind in ("imult", "rotate", "relinearize", "lower", "prepare"):
        assert run["ops"][kind] == ops[kind], kind
    assert (run["levels"], run["ring_slots"], run["bootstraps"]) == (told["levels"], told["ring_slots"], 0)


def test_the_bert_that_was_run_took_what_its_row_says():
    """But for its norms, which stand behind the sums: fewer multiply-adds.

    The run is of two processes, on a processor of other times than the row's: seconds are no part of this.
    """
    told = next(r for r in read_json(RESULTS / "bench/what_it_takes.json")["models"] if r["name"] == "BERT-tiny")
    run = read_json(RESULTS / "he/network/bert_tiny-clinc150.json")
    for kind in ("imult", "rotate", "relinearize", "prepare", "lower"):
        assert run["ops"][kind] == told["ops"][kind], kind
    assert 0.97 < run["ops"]["pmult"] / told["ops"]["mac"] < 1.0
    assert (run["levels"], run["ring_slots"], run["samples"]) == (told["levels"], told["ring_slots"], told["samples"])
    assert run["processes"] == 2 and told["process_gib"] < run["peak_mib"] / 1024 < 1.3 * told["process_gib"]


def test_the_models_sizes():
    told = {one.name: one for one in MODELS}
    levels = {name: one.levels for name, one in told.items()}
    assert levels["MiniLM"] == 6 * 9 + 1 and levels["DeiT-Tiny"] == 12 * 9 + 1
    assert levels["LLaMA-3.2-1B"] == 16 * (9 + 3) + 1  # two for masks, one for rotary positions
    assert ring_for(levels["digits ViT of 4 blocks"]).slots == 32768
    assert would_fit(told["LLaMA-3.2-1B"]) == "2 blocks of k = 3 or 3 blocks of k = 2"


@pytest.mark.parametrize(("change", "message"), [
    ({"width": 9}, r"sizes\.width must be a multiple of sizes\.heads=2"),
    ({"kv_heads": 3}, r"sizes\.heads must be a multiple of sizes\.kv_heads=3"),
    ({"blocks": 0}, r"sizes\.blocks must be a whole number of at least 1"),
    ({"tokens": 1}, r"sizes\.tokens must be a whole number of at least 2"),
])  # fmt: skip
def test_sizes_that_are_none(change, message):
    numbers = {"blocks": 1, "width": 8, "heads": 2, "mlp": 16, "tokens": 4, "features": 2, "classes": 3}
    with pytest.raises(UserError, match=message):
        sizes(**{**numbers, **change})


def test_a_sample_that_fits_no_ciphertext_is_refused():
    with pytest.raises(UserError, match="needs 40000 slots for a sample, and a ciphertext has 32768"):
        counted(sizes(1, 8, 2, 16, 40000, 2, 3, mean=False), RINGS[-1])


def test_operations_can_be_timed_in_seconds_of_cores():
    owner = SimOwner(max_level=2)
    size = measure(owner, {"relinearize": 1, "rotate": 1}, [2], repeats=3, budget_s=0.0, clock="cpu")
    assert size.ms["rotate"][2] > 0
    with pytest.raises(UserError, match="clock must be one of cpu, wall, and 'sun' was given"):
        measure(owner, {}, [2], clock="sun")
