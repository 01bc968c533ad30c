"""Each field of an encrypted evaluation's result is that of its name, read off lines of which no two fields agree."""

from cgf.evaluate.he_lines import FinishedSamples
from cgf.evaluate.he_summary import summary
from cgf.he.layer_record import LayerRecord


def test_every_accuracy_and_error_is_that_of_its_name():
    classes = [(0, 0, 0, 0), (1, 1, 1, 1), (2, 9, 2, 2), (3, 8, 3, 3), (4, 9, 9, 4), (5, 7, 6, 5), (6, None, 5, 0)]
    keys = ("label", "prediction", "plain", "exact")
    samples = {i: dict(zip(keys, row, strict=True)) for i, row in enumerate(classes)}
    layers = [
        LayerRecord(entries=20, lost=4, sum_error=0.8, levels=5, levels_counted=6),
        LayerRecord(entries=20, lost=0, sum_error=1.0, levels=4, levels_counted=4),
    ]
    batch = {
        "batch": list(samples),
        "layers": [layer.to_json() for layer in layers],
        "seconds": 8.0,
        "model_s": 1.0,
        "peak_mib": 3.0,
    }
    found = summary(FinishedSamples(samples, [batch]))
    wanted = {
        "accuracy": 2 / 7,
        "accuracy_plain": 4 / 7,
        "accuracy_exact": 6 / 7,
        "agreement": 3 / 7,
        "ruined": 1,
        "mean_error": 1.8 / 36,
        "levels": 5,
        "levels_counted": 6,
        "entries": 40,
    }
    assert {key: found[key] for key in wanted} == wanted
    assert [layer["mean_error"] for layer in found["layers"]] == [0.8 / 16, 1.0 / 20]
