"""Predictions beside a row: small, the same bytes each time, and refused where they are not the row's."""

import numpy as np
import pytest

from cgf.errors import UserError
from cgf.predictions import EncryptedPredictions, Predictions, packed, read, read_encrypted, write


def made(samples=4500, classes=150, planned=False):
    rng = np.random.default_rng(0)
    arrays = [packed("x", rng.integers(0, classes, samples).tolist()) for _ in range(3 + planned)]
    return Predictions(*arrays)


def test_they_come_back_as_they_were_and_are_small(tmp_path):
    kept = made(planned=True)
    told = write(tmp_path, "toy-t-cgf-42", kept)
    path = tmp_path / told["path"]
    assert told["path"] == "predictions/toy-t-cgf-42.npz" and path.stat().st_size < 20_000
    back = read(tmp_path, "toy-t-cgf-42", told)
    assert all(np.array_equal(vars(back)[name], vars(kept)[name]) for name in vars(kept))
    assert back.labels.dtype == np.uint8 and packed("x", [0, 300]).dtype == np.uint16
    assert (back.right("against") == (kept.against == kept.labels)).all()
    before = path.read_bytes()
    assert write(tmp_path, "toy-t-cgf-42", kept) == told and path.read_bytes() == before
    assert read(tmp_path, "toy-t-bare-42", write(tmp_path, "toy-t-bare-42", made())).planned is None


def test_what_is_not_the_rows_is_refused(tmp_path):
    told = write(tmp_path, "a", made())
    with pytest.raises(UserError, match=r"must name its predictions as predictions/b\.npz"):
        read(tmp_path, "b", told)
    with pytest.raises(UserError, match="must name its predictions"):
        read(tmp_path, "a", {**told, "path": "../a.npz"})
    path = tmp_path / told["path"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match="was changed after its row was written"):
        read(tmp_path, "a", told)
    path.unlink()
    with pytest.raises(UserError, match="there is no such file"):
        read(tmp_path, "a", told)
    one, two = packed("x", [1, 2]), packed("x", [1, 2, 3])
    with pytest.raises(UserError, match="one class number a sample"):
        read(tmp_path, "c", write(tmp_path, "c", Predictions(one, one, two)))
    with pytest.raises(UserError, match="one class number a sample"):
        read(tmp_path, "c", write(tmp_path, "c", Predictions(*[np.array([0.5])] * 3)))
    for wrong in ([-1], [], [0.5]):
        with pytest.raises(UserError, match="class numbers of at least 0"):
            packed("labels", wrong)


def test_a_file_that_holds_far_more_than_it_weighs_is_refused(tmp_path):
    told = write(tmp_path, "a", Predictions(*[np.zeros(30_000_000, np.uint8)] * 3))
    assert (tmp_path / told["path"]).stat().st_size < 2**17
    with pytest.raises(UserError, match=r"a\.npz may hold 67108864 bytes when unpacked, and holds 9000"):
        read(tmp_path, "a", told)


def test_predictions_under_ckks_are_in_the_order_of_their_samples_and_a_ruined_one_is_wrong(tmp_path):
    samples = [
        {"index": 300, "label": 2, "prediction": 2, "plain": 2, "exact": 0},
        {"index": 5, "label": 0, "prediction": None, "plain": 0, "exact": 0},
        {"index": 7, "label": 1, "prediction": 0, "plain": 1, "exact": 1},
    ]
    told = write(tmp_path, "a", EncryptedPredictions.of(samples))
    back = read_encrypted(tmp_path, "a", told)
    assert back.index.tolist() == [5, 7, 300] and back.labels.tolist() == [0, 1, 2]
    assert back.ruined.tolist() == [1, 0, 0]  # its class would be the right one
    assert back.right().tolist() == [False, False, True]
    assert back.plain.tolist() == [0, 1, 2] and back.exact.tolist() == [0, 1, 0]
    with pytest.raises(UserError, match="must hold against, labels, this, and holds encrypted, exact, index"):
        read(tmp_path, "a", told)  # no row of training
    with pytest.raises(UserError, match="must hold encrypted, exact"):
        read_encrypted(tmp_path, "b", write(tmp_path, "b", made()))
    with pytest.raises(UserError, match="indices must be class numbers"):
        EncryptedPredictions.of([])
