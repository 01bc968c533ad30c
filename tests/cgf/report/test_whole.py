"""The table and figure of whole test sets: lines from result files, published times beside."""

import json

import pytest

from cgf.errors import UserError
from cgf.predictions import EncryptedPredictions, write
from cgf.published import RUNTIMES
from cgf.report.blocks import whole_sets
from cgf.report.figure import is_current
from cgf.report.trace import draw as trace
from cgf.report.whole import TITLES, draw, exponential, lines, shown

HEADS = {"max_error": [1e-6, 2e-6], "outside": [0, 3], "beyond": [0, 1]}
RESULT = {
    "model": "minilm",
    "task": "clinc150",
    "softmax": "cgf_chain",
    "approx": "chain",
    "samples": 4500,
    "accuracy": 0.9551,
    "accuracy_plain": 0.9553,
    "accuracy_exact": 0.956,
    "agreement": 0.9998,
    "levels": 5,
    "max_error": 2e-6,
    "beyond_guard": 1192,
    "seconds": {"total": 300.0, "model": 9.0, "encrypt": 90.0, "circuit": 300.0, "cmult": 100.0},
    "samples_per_s": 15.0,
    "us_per_entry": 7.125,
    "workers": 2,
    "peak_mib": 3000.4,
    "polynomial": {"method": "chain", "k": 3},
    "layers": [{"layer": 0, "heads": HEADS}],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "he").mkdir()
    (tmp_path / "he" / "minilm.json").write_text(json.dumps(RESULT))
    (tmp_path / "he" / "bpmax.json").write_text(json.dumps({**RESULT, "softmax": "bpmax", "polynomial": None}))
    (tmp_path / "he" / "exact").mkdir()
    (tmp_path / "he" / "exact" / "minilm.json").write_text(json.dumps({"accuracy": 0.9582}))
    return tmp_path


def test_a_line_a_result_and_the_published_times(folder):
    bpmax, chain, *published = lines(folder)
    assert dict(zip(TITLES, chain, strict=True)) == {
        "host": "minilm",
        "task": "clinc150",
        "softmax": "cgf_chain",
        "exponential": "chain, k=3",
        "samples": "4,500",
        "under CKKS": "95.51 % [94.87, 96.08]",
        "in the clear": "95.53 %",
        "as trained": "95.60 %",
        "exact": "95.82 %",
        "against exact": "-0.31, undecided: 1 seed",
        "agreement": "0.9998",
        "levels": "5",
        "128 bits": "–",
        "max error": "2.0e-06",
        "beyond guard": "1,192",
        "minutes": "5.0",
        "samples/s": "15.00",
        "µs an entry": "7.1",
        "workers": "2",
        "peak MiB": "3,000",
    }
    (folder / "he" / "exact" / "minilm.json").unlink()
    assert lines(folder)[0][TITLES.index("exact")] == "–"
    assert bpmax[TITLES.index("exponential")] == "–" and len(published) == len(RUNTIMES)
    assert published[0][TITLES.index("µs an entry")] == "49.6"  # 3.25 s for 65,536 entries
    assert whole_sets(folder).count("\n") == 1 + 2 + len(RUNTIMES)


def kept(folder, name, samples, exact):
    """A result with predictions, beside an exact one with its own."""
    told = write(folder / "he", name, EncryptedPredictions.of(samples))
    right = sum(row["prediction"] == row["label"] for row in samples)
    as_plain = sum(row["prediction"] == row["plain"] for row in samples)
    facts = {"samples": len(samples), "accuracy": right / len(samples), "predictions": told}
    facts |= {"accuracy_plain": 1.0, "accuracy_exact": 1.0, "agreement": as_plain / len(samples)}
    (folder / "he" / f"{name}.json").write_text(json.dumps({**RESULT, **facts}))
    labels = [row["label"] for row in samples]
    correct = sum(a == b for a, b in zip(labels, exact, strict=True))
    theirs = {"accuracy": correct / len(labels), "labels": labels, "predictions": exact}
    (folder / "he" / "exact" / f"{name}.json").write_text(json.dumps(theirs))


def test_kept_predictions_are_paired_with_those_of_exact_softmax(folder):
    samples = [{"index": i, "label": i % 3, "prediction": i % 3, "plain": i % 3, "exact": i % 3} for i in range(200)]
    samples[7]["prediction"] = None  # ruined
    samples[8]["prediction"] = 0
    exact = [i % 3 for i in range(200)]
    exact[9] = 1
    kept(folder, "minilm", samples, exact)
    line = dict(zip(TITLES, lines(folder)[1], strict=True))
    assert line["under CKKS"].startswith("99.00 % [") and line["exact"] == "99.50 %"
    # two samples that exact softmax alone has right, one the other way round: McNemar's exact test says 1
    assert line["against exact"].startswith("-0.50 [-2.") and line["against exact"].endswith("undecided: 1 seed; p 1")
    path = folder / "he" / "minilm.json"
    result = json.loads(path.read_text())
    path.write_text(json.dumps({**result, "accuracy": 0.98}))
    with pytest.raises(UserError, match=r"its predictions have 0\.99"):
        lines(folder)
    path.write_text(json.dumps(result))
    other = folder / "he" / "exact" / "minilm.json"
    theirs = json.loads(other.read_text())
    shifted = {key: [(i + 1) % 3 for i in theirs[key]] for key in ("labels", "predictions")}
    other.write_text(json.dumps({**theirs, **shifted}))
    with pytest.raises(UserError, match="the same samples in one order"):
        lines(folder)


def test_layers_with_polynomials_of_their_own_say_so():
    assert exponential({**RESULT, "polynomial": [{"k": 3}, {"k": 3}]}) == "chain, k=3, a layer"
    assert exponential({**RESULT, "polynomial": [{"k": 6}, {"k": 10}, {"k": 7}]}) == "chain, k=6 to 10, a layer"


def test_exact_softmax_is_that_of_the_result_and_no_other_of_its_host_and_task(folder):
    (folder / "he" / "exact" / "minilm-clinc150.json").write_text(json.dumps({"accuracy": 0.9}))
    bpmax, chain, *_ = lines(folder)
    assert (bpmax[TITLES.index("exact")], chain[TITLES.index("exact")]) == ("–", "95.82 %")


def test_a_file_may_say_more_of_its_softmax_than_the_name_of_it(folder):
    path = folder / "he" / "minilm.json"
    for file, name in (
        ("minilm-clinc150-cgf_chain_more", "cgf_chain_more"),
        ("minilm-clinc150-cgf", "cgf_chain"),
        ("minilm-clinc150-cgf_chained", "cgf_chain"),
    ):
        path = path.rename(folder / "he" / f"{file}.json")
        assert lines(folder)[1][TITLES.index("softmax")] == name


def test_a_figure_of_other_results_is_noticed(folder):
    path = folder / "he" / "cost_accuracy.png"
    assert not is_current(path, shown(folder))
    path.write_bytes(draw(folder))
    assert is_current(path, shown(folder))
    (folder / "he" / "minilm.json").write_text(json.dumps({**RESULT, "accuracy": 0.9552}))
    assert not is_current(path, shown(folder))
    path.write_bytes(draw(folder))
    (folder / "he" / "exact" / "minilm.json").write_text(json.dumps({"accuracy": 0.9583}))
    assert not is_current(path, shown(folder))  # its line too
    path.write_bytes(draw(folder))
    (folder / "he" / "bpmax.json").write_text(
        json.dumps({**RESULT, "softmax": "bpmax", "polynomial": None, "kind": "eval_he", "red": ["a weight is wrong"]})
    )
    assert not is_current(path, shown(folder))  # and that it is red


def test_figures(folder):
    assert draw(folder).startswith(b"\x89PNG") and trace(RESULT).startswith(b"\x89PNG")


def test_no_results_is_one_sentence(tmp_path):
    (tmp_path / "he").mkdir()
    with pytest.raises(UserError, match=r"holds no evaluations: python eval_he\.py"):
        whole_sets(tmp_path)
