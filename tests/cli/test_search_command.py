"""scripts/search.py as users run it: what cannot be searched is refused before anything is trained."""

import pytest
from digits_checkpoint import call


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("workers=0", "workers must be a whole number of at least 1, and 0 was given"),
        ("workers=2.5", "workers"),
        ("rounds=[[2,1],[3,null]]", "no more configurations than the one before"),
        ("rounds=[[2,0]]", "rounds must be a whole number of at least 1, and 0 was given"),
        ("rounds=[[3]]", "each of rounds must be [configurations, epochs], and [3] was given"),
        ("rounds=[[3,4],[2,1]]", "no fewer epochs than the one before"),
        ("schedule=nope", "schedule nope is none of study digits, which has"),
        ("~study.schedules.teacher", "schedule teacher is none of study digits, which has"),
        ("study.name=../elsewhere", "study.name"),
    ],
)
def test_a_bad_setting_is_refused_before_a_teacher_is_trained(tmp_path, monkeypatch, argument, said):
    monkeypatch.chdir(tmp_path)
    done = call("search", "host=digits", argument, "outputs=runs", "out=found")
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not any(tmp_path.iterdir())
