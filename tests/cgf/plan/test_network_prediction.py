"""What a whole network takes, by stage, from a table of operation times; and what one that fits no ring would take."""

from dataclasses import replace

import numpy as np
import pytest

from cgf.errors import UserError
from cgf.evaluate.plan_network import content
from cgf.he.network_needs import alone_needs, dry_run, needs_of, together_mib
from cgf.network.layers import Linear, Residual, SelfAttention
from cgf.network.program import Attend, program_of
from cgf.network.shapes import NetworkShape
from cgf.plan.network_cost import BASE_MIB, BOOTSTRAP_S, predict_network, what_fits
from cgf.plan.op_times import KINDS, OpTimes, Size

SMALL = NetworkShape(1, 8, 2, 16, 4, 2, 3, k=2)


def table(ms=1.0, **others):
    """Every operation takes ms at every level of four engines, those named so much."""
    by_kind = {kind: {0: others.get(kind, ms), 40: others.get(kind, ms)} for kind in KINDS}
    keys = {"relinearize": 2**20, "rotate": 2**21, "public": 1}
    return OpTimes(
        {top: Size(slots, keys, by_kind) for top, slots in ((7, 8192), (10, 16384), (17, 16384), (24, 32768))}
    )


def test_seconds_are_operations_times_their_times_by_stage():
    program = program_of(SMALL.network(), 4)
    needs, told = needs_of(program), predict_network(program, table())
    assert [stage.name for stage in told.stages] == [stage.name for stage in needs.stages]
    for stage, cost in zip(told.stages, needs.stages, strict=True):
        assert stage.seconds == pytest.approx(sum(cost.by_level.values()) / 1e3)
        assert (stage.level, stage.left, stage.mib) == (cost.level, cost.left, cost.most_mib)
    assert told.client_s == pytest.approx((needs.encrypted + needs.decrypted) / 1e3)
    assert told.key_mib == 1 + 2 * len(needs.rotations)
    assert told.mib == BASE_MIB + told.key_mib + needs.most_mib
    assert (told.levels, told.bootstraps, told.fits) == (9, 0, "")


def test_multiply_adds_are_the_networks_own():
    """Of a shape, counted by hand: maps of two features turned for each of 2 x 2 steps, then a map of each matrix."""
    program = program_of(SMALL.network(), 4)
    slower = predict_network(program, table(mac=2.0)).server_s - predict_network(program, table()).server_s
    # 3 operands of 8 features from 2, each turned twice; 16 features of the MLP from 2 + 8; 3 logits from 2 + 8 + 16
    assert slower == pytest.approx((3 * 8 * 2 * 2 + 16 * 10 + 3 * 26) / 1e3)


def test_a_network_of_more_levels_than_any_ring_is_told_what_would_fit():
    deep = NetworkShape(6, 8, 2, 16, 4, 2, 3, k=3)
    told = predict_network(program_of(deep.network(), 4), table(0.0))
    assert told.levels == 55
    assert told.bootstraps == 3 * 4  # (55 - 17) / 16 refreshes of 8 features, two a bootstrap
    assert told.server_s == pytest.approx(told.bootstraps * BOOTSTRAP_S)
    assert told.mib > 21.5 * 1024
    assert "no ring holds it: 12 bootstraps among that. The largest ring holds 36 levels: 3 blocks of 3 squarings" in (
        told.told()
    )


@pytest.mark.parametrize(("blocks", "k", "says"), [
    (5, 3, "3 blocks of 3 squarings or 5 blocks of 1 would fit it"),
    (4, 3, "3 blocks of 3 squarings or 4 blocks of 2 would fit it"),
    (8, 2, "4 blocks of 2 squarings would fit it"),
])  # fmt: skip
def test_what_would_fit(blocks, k, says):
    shape = NetworkShape(blocks, 4, 1, 4, 4, 2, 2, k=k)
    assert what_fits(program_of(shape.network(), 4)).endswith(says)
    deepest = program_of(NetworkShape(4, 4, 1, 4, 4, 2, 2, k=2).network(), 4)
    assert needs_of(deepest).levels == 33


def test_a_table_that_ends_below_the_network_says_so():
    """Operations at 17 levels had the seconds of 10, and nothing was said."""
    deep, whole = program_of(NetworkShape(2, 8, 2, 16, 4, 2, 3, k=2).network(), 4), table()
    short = OpTimes({top: size for top, size in whole.sizes.items() if top != 17})
    told = predict_network(deep, short)
    assert told.levels == 17 and told.short.startswith(
        "The table of operation times ends at 10 levels in this ring: an"
    )
    assert f". {told.short}" in told.told()
    for times, program in ((whole, deep), (short, program_of(SMALL.network(), 4))):
        assert predict_network(program, times).short == ""


def test_a_table_that_lacks_an_operation_is_refused():
    times = table()
    for size in times.sizes.values():
        size.ms.pop("mac", None)
    with pytest.raises(UserError, match="no 'mac'"):
        predict_network(program_of(SMALL.network(), 4), times)


@pytest.mark.parametrize(("change", "message"), [
    ({"width": 9}, r"shape\.width must be a multiple"),
    ({"blocks": 0}, r"shape\.blocks must be a whole number of at least 1"),
    ({"tokens": 1}, r"shape\.tokens must be a whole number of at least 2"),
    ({"pool": "max"}, r"shape\.pool must be one of mean, first"),
])  # fmt: skip
def test_shapes_that_are_none(change, message):
    with pytest.raises(UserError, match=message):
        NetworkShape(**{**vars(SMALL), **change})


def test_memory_of_a_stage_is_of_what_is_held():
    """More features, more ciphertexts: by the count of the sources that wait for the next block."""
    small, large = (needs_of(program_of(NetworkShape(2, 8, 2, mlp, 4, 2, 3, k=2).network(), 4)) for mlp in (16, 32))
    assert small.levels == large.levels == 17
    kept = [next(stage.kept_mib for stage in n.stages if stage.name == "block 1 s1") for n in (small, large)]
    level = 9
    assert kept[1] - kept[0] == pytest.approx(16 * 16384 * (90 + 24 * level) / 2**20)
    assert np.all([stage.most_mib >= stage.kept_mib for stage in large.stages])


def test_squares_in_stretches_hold_less():
    """The squares of a block are four times its operands, and a quarter of them is there at once."""
    needs = needs_of(program_of(NetworkShape(2, 8, 2, 128, 4, 2, 3, k=2).network(), 4))
    whole = dry_run(replace(needs.circuit, at_once=128), needs.max_level, needs.ring)
    assert needs.most_mib < 0.6 * whole.most_mib and needs.levels == whole.levels


def test_a_sample_alone_has_its_own_circuit():
    shape = NetworkShape(1, 8, 2, 16, 4, 2, 3, k=2)
    program = program_of(shape.network(), 4, streams=False)
    needs, told = alone_needs(program), predict_network(program, table(), alone=True)
    assert (told.samples, told.levels) == (1, needs.levels) and needs.levels == program.depth() + 2
    assert [stage.seconds for stage in told.stages] == pytest.approx(
        [sum(cost.by_level.values()) / 1e3 for cost in needs.stages]
    )
    assert told.client_s == pytest.approx((needs.encrypted + needs.decrypted) / 1e3)
    assert told.key_mib == 1 + 2 * len(needs.rotations)


def test_processes_share_the_servers_part_alone():
    told = predict_network(program_of(SMALL.network(), 4), table())
    plan = content({4: (3, 3000)}, [told], 1, 2)
    assert plan["wall_s"] == pytest.approx(3 * (told.client_s + told.server_s / 2)) and plan["processes"] == 2
    assert plan["core_s"] == content({4: (3, 3000)}, [told], 1)["core_s"] == pytest.approx(3 * told.total_s)


def test_a_set_is_never_divided_among_workers():
    """One set with four workers was told to take a quarter of its time."""
    told = predict_network(program_of(SMALL.network(), 4), table())
    slower = replace(told, tokens=5, server_s=10 * told.server_s)
    assert content({4: (1, 1)}, [told], 4)["wall_s"] == pytest.approx(told.total_s)
    assert content({4: (8, 1)}, [told], 4)["wall_s"] == pytest.approx(2 * told.total_s)
    assert content({4: (2, 1), 5: (1, 1)}, [told, slower], 4)["wall_s"] == pytest.approx(slower.total_s)
    alone = content({4: (1, 1)}, [told], 4, 2)["wall_s"]
    assert alone == pytest.approx(told.client_s + told.server_s / 2)


@pytest.mark.parametrize("heads", [1, 4])
def test_what_is_refreshed_is_the_state_and_not_the_queries(heads):
    """Queries of fewer or more features than the state, each head of 4: the state has 8."""
    network = NetworkShape(6, 8, 2, 16, 4, 2, 3, k=3).network()

    def other(layer):
        if isinstance(layer, Residual):
            return replace(layer, layers=tuple(map(other, layer.layers)))
        if isinstance(layer, SelfAttention):
            query, key, value = (Linear(np.full((4 * heads, 8), 0.1), np.zeros(4 * heads)) for _ in range(3))
            return replace(layer, query=query, key=key, value=value, heads=heads)
        mixes = isinstance(layer, Linear) and layer.weight.shape == (8, 8)  # behind an attention
        return Linear(np.full((8, 4 * heads), 0.1), layer.bias) if mixes else layer

    program = program_of(replace(network, layers=tuple(map(other, network.layers))), 4)
    assert {step.query.width for step in program.steps if isinstance(step, Attend)} == {4 * heads}
    assert predict_network(program, table(0.0)).bootstraps == 3 * 4  # 8 features, two a bootstrap


def test_memory_of_processes_is_what_is_there_and_what_each_makes():
    """No less than what the dry run of one process holds, and each more process adds less than all of it."""
    program = program_of(NetworkShape(2, 8, 2, 128, 4, 2, 3, k=2).network(), 4)
    needs = needs_of(program)
    alone, two = together_mib(needs, 1), together_mib(needs, 2)
    assert needs.most_mib <= alone < 1.5 * needs.most_mib  # nothing that is there goes before its round ends
    assert alone < two < 2 * alone
    told = predict_network(program, table(), processes=2)
    assert told.mib == BASE_MIB + told.key_mib + two and told.server_s == predict_network(program, table()).server_s
