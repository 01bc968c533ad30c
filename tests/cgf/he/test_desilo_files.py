"""desilofhe's keys and ciphertexts as bytes: each side's part alone, and no memory of the process in what leaves."""

import numpy as np
import pytest

pytest.importorskip("desilofhe")
from cgf.errors import UserError
from cgf.he.engines import desilo_files
from cgf.he.engines.desilo_files import (
    CHECKSUM,
    Decryptor,
    Encryptor,
    Evaluator,
    KeyMaker,
    evaluation_names,
    exported,
    most_bytes,
)

LEVEL = 5
ROTATIONS = frozenset({3, 8190})


@pytest.fixture(scope="module")
def keys():
    maker = KeyMaker(LEVEL, "cpu")
    return maker.public(), maker.dump_secret(), list(maker.evaluation(ROTATIONS, conjugation=True))


@pytest.fixture(scope="module")
def sides(keys):
    public, secret, evaluation = keys
    return Encryptor(LEVEL, public), Evaluator.of(LEVEL, evaluation), Decryptor(LEVEL, secret)


def test_three_sides_with_their_own_keys_compute_one_thing(keys, sides):
    encryptor, evaluator, decryptor = sides
    assert [name for name, _ in keys[2]] == evaluation_names(ROTATIONS, conjugation=True)
    x = np.random.default_rng(0).uniform(-1, 1, encryptor.slots)
    data = encryptor.encrypt(x, LEVEL)
    ct = evaluator.rotate(evaluator.rotate(evaluator.read(data, LEVEL), 3), -2)
    ct = evaluator.conjugate(evaluator.relinearize(evaluator.square(ct)))
    out = decryptor.decrypt(evaluator.export(ct), LEVEL - 1)
    assert np.abs(out - np.roll(x, -1) ** 2).max() < 1e-6


def test_complex_slots_arrive_whole(sides):
    """Their imaginary parts were once left out without a word."""
    encryptor, _, decryptor = sides
    z = np.exp(1j * np.linspace(0, 6, encryptor.slots))
    assert np.abs(decryptor.decrypt(encryptor.encrypt(z, 2), 2) - z).max() < 1e-7


def test_no_side_holds_what_is_not_its_own(sides):
    encryptor, evaluator, _ = sides
    held = [type(value).__name__ for side in (encryptor, evaluator) for value in vars(side).values()]
    assert "PublicKey" in held and "RelinearizationKey" in held and "SecretKey" not in held


def raw(engine, ct):
    return np.frombuffer(bytes(engine.serialize_ciphertext(ct)), np.uint8)


def test_ciphertexts_leave_without_memory_of_the_process(sides):
    """As the library serializes them some rows differ between copies of one ciphertext: these leave as zeros."""
    _, evaluator, decryptor = sides
    engine, public = evaluator._engine, sides[0]._public
    rng = np.random.default_rng(1)
    dirty = 0
    for level in range(LEVEL + 1):
        slots = rng.uniform(-1, 1, evaluator.slots)
        ct = engine.encrypt(slots, public, level)
        data = exported(engine, ct)
        assert data == exported(engine, ct) == exported(engine, engine.clone(ct))
        left = np.frombuffer(data, np.uint8)[CHECKSUM:]
        as_is, copy = raw(engine, ct)[CHECKSUM:], raw(engine, engine.clone(ct))[CHECKSUM:]
        assert not left[as_is != copy].any()
        dirty += int((as_is != left).sum())
        assert np.abs(decryptor.decrypt(data, level) - slots).max() < 1e-9
        assert len(data) <= most_bytes(LEVEL, level)
    assert dirty > 10_000  # bytes of memory that would have left


def test_what_a_computation_leaves_is_clean_too(sides):
    encryptor, evaluator, _ = sides
    ct = evaluator.read(encryptor.encrypt(np.ones(evaluator.slots), LEVEL), LEVEL)
    squared = evaluator.relinearize(evaluator.square(ct))
    for one in (evaluator.mul(ct, 0.5), squared, evaluator.prepare(squared), evaluator.square(ct)):
        data = evaluator.export(one)
        assert data == evaluator.export(one)
        left, as_is = np.frombuffer(data, np.uint8)[CHECKSUM:], raw(evaluator._engine, one)[CHECKSUM:]
        differ = left != as_is
        assert not left[differ].any()


def test_a_ciphertext_that_cannot_be_cleared_is_not_given_out(sides, monkeypatch):
    """Where clones are not made in memory that was filled, what differs between them is not what filled it."""
    encryptor, evaluator, _ = sides
    engine = evaluator._engine
    ct = engine.encrypt(np.ones(8), encryptor._public, 3)

    class Random:
        def clone(self, ct):
            return ct

        def serialize_ciphertext(self, ct):
            return np.random.default_rng().bytes(1000)

    with pytest.raises(UserError, match="not given out"):
        exported(Random(), ct)
    monkeypatch.setattr(desilo_files, "filled_memory", None)
    with pytest.raises(TypeError):
        exported(engine, ct)


@pytest.mark.parametrize("data", [b"", b"nothing", bytes(10_000)])
def test_bytes_that_are_none_are_refused(sides, keys, data):
    _, evaluator, decryptor = sides
    for reader in (
        lambda: evaluator.read(data, 3),
        lambda: decryptor.decrypt(data, 3),
        lambda: Encryptor(LEVEL, data),
        lambda: Decryptor(LEVEL, data),
        lambda: Evaluator.of(LEVEL, [("relinearization", data)]),
        lambda: Evaluator.of(LEVEL, [keys[2][0], ("rotation 3", data)]),
    ):
        with pytest.raises(UserError, match="cannot be read by desilofhe"):
            reader()


def test_a_ciphertext_of_another_level_is_refused(sides):
    encryptor, evaluator, _ = sides
    with pytest.raises(UserError, match="of level 4 is needed, and its bytes hold one of level 2"):
        evaluator.read(encryptor.encrypt(np.ones(8), 2), 4)


def test_bounds_hold_for_every_key(keys):
    public, secret, evaluation = keys
    assert max(map(len, [public, secret, *(data for _, data in evaluation)])) <= most_bytes(LEVEL)
    assert most_bytes(LEVEL) < 8 * len(evaluation[0][1])  # and are no invitation
