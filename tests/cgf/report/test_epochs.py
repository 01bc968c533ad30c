"""The figure of validation by epoch shows each epoch's mean over the seeds that reached it."""

from cgf.report import epochs
from cgf.report.figure import is_current


def row(run, seed, curve, host="digits"):
    return {"host": host, "task": "digits", "run": run, "seed": seed, "validation_by_epoch": curve}


def test_seeds_are_meant_at_the_epochs_that_they_reached(tmp_path, monkeypatch):
    rows = [row("cgf", 42, [[1.0, 0.5], [2.0, 0.75]]), row("cgf", 43, [[1.0, 0.75]]), row("taylor", 42, [[1.0, 0.1]])]
    rows += [
        row("exact", 42, [[1.0, 1.0]]),
        row("bpmax", 42, None),
        {"host": "x", "task": "y", "run": "cgf", "seed": 1},
    ]
    figure = epochs.curves(rows)
    assert [(p["host"], p["task"]) for p in figure["panels"]] == [("digits", "digits")]
    exact, cgf = figure["panels"][0]["curves"]
    assert (exact["run"], cgf["run"], cgf["seeds"]) == ("exact", "cgf", [42, 43])
    assert cgf["points"] == [
        {"epoch": 1.0, "seeds": 2, "mean": 0.625, "least": 0.5, "most": 0.75},
        {"epoch": 2.0, "seeds": 1, "mean": 0.75, "least": 0.75, "most": 0.75},
    ]
    drawn = []
    monkeypatch.setattr(epochs, "png", lambda drawing, shown: drawn.append(drawing))
    epochs.plot(figure)
    ends = {len(line.get_xdata()) for line in drawn[0].axes[0].lines}
    assert ends == {1}  # the curve of CGF-softmax ends where the first of its seeds did
    monkeypatch.undo()
    path = tmp_path / "epochs.png"
    path.write_bytes(epochs.plot(figure))
    assert path.read_bytes().startswith(b"\x89PNG") and is_current(path, epochs.shown(figure))


def test_rows_of_before_draw_nothing():
    assert epochs.curves([{"host": "digits", "task": "digits", "run": "cgf", "seed": 42}])["panels"] == []
