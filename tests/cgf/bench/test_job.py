"""A circuit timed in worker processes, on the simulator: answers in order, and what is said where one ends early."""

import os
import signal
import time

import numpy as np
import pytest

from cgf import memory
from cgf.approx.chain import SquareChain
from cgf.bench import job, softmax_cost
from cgf.errors import UserError
from cgf.he.circuits import circuit_for
from cgf.he.engines.sim import SimOwner
from cgf.softmax.cgf import CGF


def softmax():
    result = CGF()
    result.exponential = SquareChain("chain", 0.9 / 8, 0.95, (0.05, -0.025, 0.016))
    return result


def made(rows, padded):
    return circuit_for(softmax(), rows, padded)


def killed(rows, padded):
    """The process that would have made its circuit is gone at once."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(name="timed")
def timed_fixture(monkeypatch):
    """run(make, workers, **job) of 8 rows of 4 scores."""
    monkeypatch.setattr(job, "owner_for", lambda timed: SimOwner(timed.owner["max_level"]))
    matrix = np.random.default_rng(0).standard_normal((8, 4))

    def timed(make, workers, runs=2):
        return job.run(job.Job("small", make, 5, {"max_level": 5}, np.full((8, 4), 0.25), matrix, runs), workers)

    return timed


def test_workers_share_the_rows_and_their_answers_are_put_in_order(timed):
    alone, shared = timed(made, 1), timed(made, 2)
    assert shared["workers"] == 2 and len(shared["seconds"]["runs"]) == 2
    assert shared["max_error"] == pytest.approx(alone["max_error"]) and shared["levels"] == alone["levels"] == 4
    assert shared["ops"] == {kind: 2 * count for kind, count in alone["ops"].items()}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_is_killed_is_named_and_not_waited_for(timed, monkeypatch, workers):
    monkeypatch.setattr(job, "POLL_S", 0.05)
    with pytest.raises(UserError, match=rf"small: worker \d of {workers} ended with exit code -9 before its work"):
        timed(killed, workers)


def test_one_killed_while_the_other_waits_at_the_barrier(timed, monkeypatch):
    monkeypatch.setattr(job, "POLL_S", 0.05)
    own = os.getpid()
    honest = job._work

    def work(timed, part, index, barrier):
        assert os.getpid() != own
        return killed(None, None) if index == 1 else honest(timed, part, index, barrier)

    monkeypatch.setattr(job, "_work", work)
    with pytest.raises(UserError, match="small: worker 1 of 2 ended with exit code -9"):
        timed(made, 2)


def test_a_worker_that_fails_says_why(timed):
    def refused(rows, padded):
        raise UserError("no such circuit")

    with pytest.raises(UserError, match=r"^small: no such circuit$"):
        timed(refused, 2)


def test_the_worker_that_failed_is_heard_and_not_the_one_that_waited(timed, monkeypatch):
    honest = job._work

    def work(timed, part, index, barrier):
        if index == 1:
            return honest(timed, part, index, barrier)  # waits at the barrier, which is broken under it
        time.sleep(2.0)
        raise UserError("it needs 21.5 GiB")

    monkeypatch.setattr(job, "_work", work)
    monkeypatch.setattr(job, "POLL_S", 0.05)
    with pytest.raises(UserError, match=r"^small: it needs 21.5 GiB$"):
        timed(made, 2)


def test_a_way_that_needs_more_memory_than_there_is_is_not_begun(monkeypatch, tmp_path):
    (tmp_path / "meminfo").write_text(f"MemAvailable: {2 * 2**20} kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    begun = []
    monkeypatch.setattr(job, "run", lambda timed, workers=1: begun.append(timed.name))

    class Settings:
        workers, runs, tries = 2, 1, 1

    matrix = np.zeros((256, 256))
    with pytest.raises(UserError, match=r"^paper, one_worker needs 3\.8 GiB of memory, and 2\.0 GiB are free$"):
        softmax_cost.at_its_best("paper", softmax(), "paper", owner=None, matrix=matrix, truth=matrix, cfg=Settings)
    assert begun == []
    with pytest.raises(UserError, match=r"^paper_smallest_ring, lanes needs 2\.8 GiB"):
        softmax_cost.at_its_best(
            "paper_smallest_ring", softmax(), "paper", owner=None, matrix=matrix, truth=matrix, cfg=Settings
        )
    assert begun == ["paper_smallest_ring"] * 2


def test_the_fastest_way_is_timed_anew(monkeypatch):
    spent = {(1, 1): 4.0, (2, 1): 3.0, (1, 2): 2.0}  # by workers and lanes; the library's threads are one of each
    timed = []

    def run(job, workers=1):
        timed.append((workers, job.lanes, job.owner["mode"], job.runs))
        return {"seconds": {"median": spent[workers, job.lanes] + len(timed) / 100}, "peak_mib": 1.0}

    monkeypatch.setattr(job, "run", run)
    monkeypatch.setattr(softmax_cost, "PEAK_GIB", {})

    class Settings:
        workers, runs, tries = 2, 10, 3

    matrix = np.zeros((256, 256))
    told = softmax_cost.at_its_best("ours", softmax(), "folded", owner=None, matrix=matrix, truth=matrix, cfg=Settings)
    assert timed == [(1, 1, "cpu", 3), (2, 1, "cpu", 3), (1, 2, "cpu", 3), (1, 1, "parallel", 3), (1, 2, "cpu", 10)]
    assert (told["way"], told["seconds"]["median"], told["tries"]) == ("lanes", 2.05, 3)
    assert told["ways"]["lanes"]["seconds"]["median"] == 2.03
    assert told["workers_efficiency"] == pytest.approx(4.01 / (2 * 2.03))
