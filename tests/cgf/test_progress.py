"""Progress: one bar on a terminal, plain lines in a log, with rate and time left."""

import pytest

from cgf.progress import Bar, clock, duration


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.4, "0 s"), (59.6, "1 min 0 s"), (245, "4 min 5 s"), (3600, "1 h 0 min"), (7859, "2 h 10 min")],
)
def test_a_duration_names_its_units(seconds, shown):
    assert duration(seconds) == shown


@pytest.mark.parametrize("seconds, shown", [(-1, "0:00"), (59.6, "1:00"), (245, "4:05"), (3600 + 62, "1:01:02")])
def test_the_clock(seconds, shown):
    assert clock(seconds) == shown


def test_a_log_has_a_line_now_and_then(monkeypatch):
    now, lines = [0.0], []
    monkeypatch.setattr("cgf.progress.time.perf_counter", lambda: now[0])
    with Bar("calibrating", 100, say=lines.append, every_s=20.0, terminal=False) as bar:
        for _ in range(10):
            now[0] += 8.0
            bar.advance(10)
    # 10 samples in 8 s: a line each 24 s, and none at the end
    assert lines == [
        "calibrating: 30/100 samples, 1.2 samples/s, 0:56 left",
        "calibrating: 60/100 samples, 1.2 samples/s, 0:32 left",
        "calibrating: 90/100 samples, 1.2 samples/s, 0:08 left",
    ]


def test_short_work_says_nothing_in_a_log_and_given_texts_are_always_lines():
    lines = []
    with Bar("in the clear", 3, say=lines.append, terminal=False) as bar:
        bar.advance(3)
        bar.show(3, "a text of one's own [x]")
    assert lines == ["a text of one's own [x]"]


def test_a_terminal_has_a_bar(capsys):
    with Bar("under CKKS", 4, say=lambda text: pytest.fail("a line beside the bar"), terminal=True) as bar:
        bar.advance(1)
        bar.show(3, "accuracy [0.75]")
    out = capsys.readouterr().out
    assert "under CKKS" in out and "75 % accuracy [0.75]" in out


def test_a_log_is_no_terminal(capsys):
    with Bar("training", 2) as bar:
        bar.show(1, "step 1/2")
    assert capsys.readouterr().out == "step 1/2\n"
