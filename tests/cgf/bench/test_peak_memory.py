"""The peak of a stretch of work: its own, whatever came before it."""

import pytest
import torch

from cgf.bench import peak_memory as memory
from cgf.bench.train_speed import steps
from cgf.softmax.bpmax import BPMax

CPU = torch.device("cpu")
permitted = pytest.mark.skipif(not memory._set_back(), reason="this system does not set its high-water mark back")


@permitted
def test_a_known_allocation_is_seen_after_a_larger_one():
    larger = torch.ones(100 * 2**20)  # 400 MiB
    del larger
    added = memory.added_mib(CPU)
    assert added() < 20
    known = torch.ones(50 * 2**20)  # 200 MiB
    del known
    assert 195 < added() < 260
    assert memory.added_mib(CPU)() < 20


def test_without_permission_the_mark_is_that_of_the_whole_process(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "CLEAR", tmp_path / "missing" / "clear_refs")
    before = torch.ones(50 * 2**20)
    del before
    added = memory.added_mib(CPU)
    again = torch.ones(25 * 2**20)
    del again
    assert -1 <= added() < 120  # never a negative peak of this work, at worst one that is hidden


@permitted
def test_every_softmax_has_a_peak_of_its_own():
    """Scores of (2, 4, 256, 256) float32 are 2 MiB a layer: BPMax keeps several of them, fused attention none."""
    shape = {"hidden": 32, "layers": 4, "heads": 4, "tokens": 256}
    peaks = [steps(softmax, shape, 2, 1)["peak_mib"] for softmax in (BPMax(), None, BPMax())]
    assert min(peaks) > 0 and peaks[1] < min(peaks[0], peaks[2])
