"""Records of several batches, layers and sets become one result: sums where they count, extremes where they bound."""

import numpy as np
import pytest

from cgf.evaluate.he_lines import FinishedSamples
from cgf.evaluate.he_summary import summary
from cgf.evaluate.network_summary import network_summary
from cgf.he.layer_record import HeadErrors, LayerRecord


def test_records_of_a_layer_join_to_sums_and_extremes_whichever_comes_last():
    def record(error, levels, low, high):
        heads = HeadErrors.of(2)
        heads.max_error, heads.beyond = np.array([error, 2 * error]), np.array([1, 0])
        return LayerRecord(levels=levels, levels_counted=levels, low=low, high=high, heads=heads)

    records = [record(3e-6, 6, -9.0, 1.0), record(1e-6, 5, -4.0, 2.0)]
    for order in (records, records[::-1]):
        whole = LayerRecord()
        for each in order:
            whole.join(LayerRecord.from_json(each.to_json()))
        assert (whole.levels, whole.levels_counted, whole.low, whole.high) == (6, 6, -9.0, 2.0)
        assert whole.heads.max_error.tolist() == [3e-6, 6e-6] and whole.heads.beyond.tolist() == [2, 0]


def network_batch(number, scale):
    stages = [["encrypt", 1.0 * scale, 1.0 * scale], ["logits", 2.0 * scale, 3.0 * scale]]
    sizes = {"bytes_up": 10 * scale, "bytes_down": scale, "key_bytes": 5 * scale}
    record = {"stages": stages, "ops": {"boot": scale}, "slots": 8, "levels": scale, "counted": scale, **sizes}
    errors = {"max_error": scale, "sum_error": 4 * scale, "logits": 2, "largest": scale, "unfolded": scale}
    return {
        "batch": [number],
        "network": {**record, "overflow": scale},
        "errors": {**errors, "wrong": scale, "beyond": [[0, 1, scale]]},
        "seconds": 7 * scale,
        "set_s": scale,
        "peak_mib": scale,
    }


def test_a_network_of_several_sets_is_told_by_the_worst_and_the_sum_of_them():
    samples = {i: {"index": i, "label": 0, "prediction": 0, "plain": 0, "exact": 0} for i in (0, 1)}
    for first, second in ((1, 2), (2, 1)):
        found = network_summary(FinishedSamples(samples, [network_batch(0, first), network_batch(1, second)]), True)
        worst = ("max_error", "largest_logit", "unfolded_error", "levels", "levels_counted", "latency_s", "peak_mib")
        assert {key: found[key] for key in worst} == dict.fromkeys(worst, 2)
        assert (found["wrong"], found["overflow"], found["beyond_guard"], found["bootstraps"]) == (3, 3, 3, 3)
        assert (found["mean_error"], found["core_s"], found["client_s"], found["wall_s"]) == (3.0, 12.0, 3.0, 21)
        assert (found["bytes_up"], found["bytes_down"], found["key_bytes"]) == (30, 3, 10)


@pytest.mark.parametrize("key, told", [("unfolded", "unfolded_error"), ("max_error", "max_error")])
def test_an_error_that_is_no_number_is_not_lost_among_those_that_are(key, told):
    """Python's max of 1 and NaN is 1."""
    lost = network_batch(1, 1)
    lost["errors"][key] = float("nan")
    samples = {i: {"index": i, "label": 0, "prediction": 0, "plain": 0, "exact": 0} for i in (0, 1)}
    for batches in ([network_batch(0, 1), lost], [lost, network_batch(0, 1)]):
        assert np.isnan(network_summary(FinishedSamples(samples, batches), True)[told])


def test_a_result_is_told_by_the_worst_and_the_sum_of_its_layers():
    def layer(wrong, error):
        heads = HeadErrors.of(1)
        heads.wrong, heads.inexact, heads.max_error = np.array([wrong]), np.array([wrong]), np.array([error])
        return LayerRecord(entries=4, heads=heads, overflow=wrong).to_json()

    samples = {0: {"index": 0, "label": 0, "prediction": 0, "plain": 0, "exact": 0}}
    layers = [layer(0, 3e-6), layer(2, 1e-6)]
    for order in (layers, layers[::-1]):
        batch = {"batch": [0], "layers": order, "seconds": 1.0, "model_s": 1.0, "peak_mib": 1.0}
        found = summary(FinishedSamples(samples, [batch]))
        assert (found["max_error"], found["wrong"], found["inexact"], found["overflow"]) == (3e-6, 2, 2, 2)
