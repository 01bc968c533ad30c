"""Rows shared out over worker processes: the same weights, records summed, and what happens when one ends."""

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cgf.approx.chain import SquareChain
from cgf.errors import UserError
from cgf.he.engines.sim import SimOwner
from cgf.softmax.cgf import CGF

pytest.importorskip("torch", reason="a session keeps softmaxes that may hold tensors")
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.layer_record import LayerRecord
from cgf.he.session import Session
from cgf.he.workers import owner_settings, whole_workers

SHAPE = (4, 2, 16, 16)


class Dying(SimOwner):
    """An owner whose process ends while it encrypts."""

    def encrypt(self, values, level):
        os._exit(1)


class DyingOnce(SimOwner):
    """An owner whose process is killed while it encrypts for the first time of all."""

    def __init__(self, max_level, mark):
        super().__init__(max_level)
        self.mark = mark

    def encrypt(self, values, level):
        try:
            open(self.mark, "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            pass
        return super().encrypt(values, level)


class Full(SimOwner):
    def encrypt(self, values, level):
        raise MemoryError


class Refusing(SimOwner):
    def encrypt(self, values, level):
        raise UserError("no more ciphertexts")


def softmax():
    result = CGF()
    result.exponential = SquareChain("chain", 0.9 / 8, 0.95, (0.05, -0.025, 0.016))
    return result


def scores(masked):
    x = np.random.default_rng(0).normal(size=(128, 16))
    mask = np.arange(16) < (np.arange(128) % 16 + 1)[:, None] if masked else None
    counts = np.full(128, 16.0) if mask is None else mask.sum(1).astype(float)
    return (x if mask is None else np.where(mask, x, 0.0)), mask, counts


def run(make_owner, workers, masked, times=1):
    session = Session(make_owner, workers=workers)
    try:
        record = LayerRecord()
        for _ in range(times):
            weights = session.evaluate(softmax(), *scores(masked), SHAPE, record)
    finally:
        session.close()
    return weights, record


@pytest.mark.parametrize("masked", [False, True])
def test_two_workers_give_what_one_gives(masked):
    one, alone = run(SimOwner, 1, masked)
    two, shared = run(SimOwner, 2, masked, times=2)
    np.testing.assert_allclose(two, one, atol=1e-12)
    assert (shared.levels, shared.levels_counted, shared.slots) == (alone.levels, alone.levels_counted, alone.slots)
    assert shared.ops["cmult"] >= 2 * alone.ops["cmult"] and shared.seconds["circuit"] > 0


def test_two_workers_with_keys_of_their_own():
    one, _ = run(SimOwner, 1, True)
    two, record = run(functools.partial(DesiloOwner, mode="cpu"), 2, True)
    np.testing.assert_allclose(two, one, atol=1e-5)
    assert np.abs(two - one).max() > 0 and record.levels == 5


def test_a_worker_that_always_ends_is_one_sentence(capsys):
    with pytest.raises(UserError, match="worker process of 2 ended before its work was done, 3 times"):
        run(Dying, 2, False)
    assert capsys.readouterr().out.count("workers start anew") == 2
    with pytest.raises(UserError, match="has no memory left: he"):
        run(Full, 2, False)
    with pytest.raises(UserError, match="no more ciphertexts"):
        run(Refusing, 2, False)


def test_a_killed_workers_work_is_done_again(tmp_path, capsys):
    whole, _ = run(SimOwner, 2, True)
    again, _ = run(functools.partial(DyingOnce, mark=str(tmp_path / "mark")), 2, True)
    assert (again == whole).all()
    assert capsys.readouterr().out.count("workers start anew, and it is done again") == 1


def test_settings_of_workers(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert whole_workers(8) == 8
    for wrong in (0, 9, True, 1.5, None):
        with pytest.raises(UserError, match="from 1 to the 8 cores"):
            whole_workers(wrong)

    class He:
        workers, processes, owner = 4, 1, {"_target_": "x", "threads": None}

    assert owner_settings(He)["threads"] == 2
    He.owner = {"_target_": "x", "threads": 3}
    assert owner_settings(He)["threads"] == 3
    He.owner = {"_target_": "x", "mode": "parallel", "threads": None}
    assert owner_settings(He)["threads"] == 2
    He.workers = 8  # one core each: the library's own threads only cost time
    assert owner_settings(He) == {"_target_": "x", "mode": "cpu", "threads": None}
    He.owner = {"_target_": "x"}
    assert "threads" not in owner_settings(He)
    He.workers, He.processes = 1, 2  # a fork has none of a library's threads
    for mode in ("cpu", "parallel"):
        He.owner = {"_target_": "x", "mode": mode, "threads": None}
        assert owner_settings(He) == {"_target_": "x", "mode": "cpu", "threads": None}
    for owner in ({"_target_": "x"}, {"mode": "gpu", "threads": None}, {"mode": "parallel", "threads": 2}):
        He.owner = owner
        with pytest.raises(UserError, match=r"^he.processes needs he=desilo on a processor without he.owner.threads"):
            owner_settings(He)
    He.processes, He.workers = 1, 8
    He.owner = {"_target_": "x", "bootstrap": "small"}
    with pytest.raises(UserError, match=r"^he.owner.bootstrap=small needs he.workers=1, .*he.workers=8 was given$"):
        owner_settings(He)
    He.workers = 1
    assert owner_settings(He)["bootstrap"] == "small"
    He.workers, He.owner = 8, {"_target_": "x", "bootstrap": "plain"}  # without the keys
    assert owner_settings(He)["bootstrap"] == "plain"


class Noting(SimOwner):
    """An owner that appends to a file what it makes, one line an engine or evaluator."""

    def __init__(self, max_level, notes):
        super().__init__(max_level)
        self.notes = notes
        self.note(f"engine {max_level}")

    def note(self, text):
        with open(self.notes, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {text}\n")

    def evaluator(self, rotations):
        self.note(f"keys {sorted(rotations)}")
        return super().evaluator(rotations)


@pytest.mark.parametrize("workers", [1, 2])
def test_engines_and_keys_are_made_ahead(tmp_path, workers):
    notes = tmp_path / "notes"
    session = Session(functools.partial(Noting, notes=str(notes)), workers=workers)
    try:
        session.make({4: frozenset(), 7: frozenset([16, 32])})()
        made = [line.split(maxsplit=1) for line in notes.read_text().splitlines()]
        assert sorted({text for _, text in made}) == ["engine 4", "engine 7", "keys [16, 32]", "keys []"]
        assert (str(os.getpid()) in {process for process, _ in made}) == (workers == 1)
        session.evaluate(softmax(), *scores(False), SHAPE, LayerRecord())
        again = [line.split(maxsplit=1) for line in notes.read_text().splitlines()]
        assert [text for _, text in again].count("engine 4") <= workers
    finally:
        session.close()


STOPPED = """
import functools, os, signal, sys
sys.path[:0] = sys.argv[2:]
from cgf.stopping import ends_at_once
if __name__ == "__main__":
    from test_workers import SHAPE, LayerRecord, Session, SimOwner, scores, softmax
    number = getattr(signal, sys.argv[1])
    signal.signal(number, signal.SIG_DFL)  # whoever runs the tests may ignore it
    with ends_at_once():
        Session(SimOwner, workers=2).evaluate(softmax(), *scores(False), SHAPE, LayerRecord())
        assert "PYTHONWARNINGS" not in os.environ
        os.killpg(0, number)  # as a terminal does
        signal.pause()
"""


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT"])
def test_a_stop_is_one_line_with_workers_too(name, tmp_path):
    """None of CPython's own about semaphores, none of a worker, and no process is left."""
    (tmp_path / "stopped.py").write_text(STOPPED)
    folders = [str(Path(__file__).parents[3]), str(Path(__file__).parent)]
    line = ["env", "-u", "PYTHONWARNINGS", sys.executable, str(tmp_path / "stopped.py"), name, *folders]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        told = process.stderr.read()  # to its end, which is when the last process that has it is gone
    assert process.returncode == 128 + getattr(signal, name), told
    assert told.startswith(f"stopped by {name}: ") and told.count("\n") == 1
