"""Files between a client and a server: what comes back, and every way in which a file may not fit."""

import hashlib
import json
import os
import struct
from dataclasses import replace

import pytest

from cgf.errors import UserError
from cgf.header import EVALUATION, RESULT, SECRET, START, UPLOAD, Terms, key_id
from cgf.parcel import Parcel, ParcelWriter

TERMS = Terms("desilo", "desilofhe 2.0.0", 8192, 3)
DATA = [("x.0", bytes(range(256)) * 8), ("x.1", b"second")]


def write(path, kind=UPLOAD, terms=TERMS, key="key", facts=None, level=3):
    with ParcelWriter(path, kind, terms, key, facts or {"tokens": 4}) as parcel:
        for name, data in DATA:
            parcel.add(name, data, level)
    return path


def refused(path, kind=UPLOAD, terms=TERMS, key="key", names=("x.0", "x.1"), level=3, most=10_000):
    """The one sentence that refuses a file, read as it is meant to be."""
    with pytest.raises(UserError) as error, Parcel(path, kind) as parcel:
        parcel.check(terms, key)
        parcel.check_items(list(names), level, most)
        list(parcel.items())
    assert "\n" not in str(error.value)
    return str(error.value)


PAYLOAD = b"".join(data for _, data in DATA)


def forged(header, payload=PAYLOAD, version=1):
    """A file of a header of one's own making, with a sha256 that fits."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    start = START.pack(b"CGF-CKKS", version, len(text), len(payload), bytes(32))[:-32]
    return start + hashlib.sha256(start + text).digest() + payload + text


def own_header(tmp_path):
    content = write(tmp_path / "own").read_bytes()
    length = struct.unpack_from("<I", content, 12)[0]
    return json.loads(content[-length:])


def test_what_is_written_comes_back(tmp_path):
    path = write(tmp_path / "a.upload")
    with Parcel(path, UPLOAD) as parcel:
        parcel.check(TERMS, "key")
        parcel.check_items(["x.0", "x.1"], 3, 2048)
        assert parcel.header.facts == {"tokens": 4} and parcel.header.terms == TERMS
        assert [(item.name, item.level, data) for item, data in parcel.items()] == [(n, 3, d) for n, d in DATA]
        digest = parcel.header.digest()
    with Parcel(write(tmp_path / "b.upload"), UPLOAD) as again:
        assert again.header.digest() == digest
    with Parcel(write(tmp_path / "c.upload", key="other"), UPLOAD) as other:
        assert other.header.digest() != digest
    assert key_id(b"a") != key_id(b"b") and len(key_id(b"a")) == 32


def test_every_flipped_bit_is_found(tmp_path):
    path = write(tmp_path / "a.upload")
    content = bytearray(path.read_bytes())
    for place in [*range(START.size), 60, 1000, START.size + 2048, *range(len(content) - 40, len(content))]:
        for bit in (0, 7):
            content[place] ^= 1 << bit
            path.write_bytes(content)
            refused(path)
            content[place] ^= 1 << bit
    path.write_bytes(content)
    with Parcel(path, UPLOAD) as parcel:
        assert len(list(parcel.items())) == 2  # the bits are back


def test_every_length_but_its_own_is_refused_before_its_items_are_read(tmp_path):
    path = write(tmp_path / "a.upload")
    content = path.read_bytes()
    for length in [0, 1, 8, START.size - 1, START.size, 500, len(content) - 1]:
        path.write_bytes(content[:length])
        refused(path)
    path.write_bytes(content + b"\0")
    assert "cut off" in refused(path)
    with open(path, "r+b") as file:  # 10 GB that take no room on the disk, and none in memory
        file.truncate(10 * 2**30)
    assert "cut off" in refused(path)
    with open(tmp_path / "zeros", "wb") as file:
        file.truncate(10 * 2**30)
    assert "does not begin as one" in refused(tmp_path / "zeros")


@pytest.mark.parametrize(("terms", "said"), [
    (replace(TERMS, engine="openfhe"), "engine desilo, and is of openfhe"),
    (replace(TERMS, build="desilofhe 1.17.0"), "library desilofhe 2.0.0, and is of desilofhe 1.17.0"),
    (replace(TERMS, slots=16384), "slots 8192, and is of 16384"),
    (replace(TERMS, max_level=5), "levels 3, and is of 5"),
])  # fmt: skip
def test_a_file_of_other_terms_is_refused_by_the_first_that_differs(tmp_path, terms, said):
    assert said in refused(write(tmp_path / "a.upload", terms=terms))


@pytest.mark.parametrize(("how", "said"), [
    ({"kind": RESULT}, "must hold a result, and holds an upload"),
    ({"kind": EVALUATION}, "must hold evaluation keys, and holds an upload"),
    ({"key": "other"}, "must belong to the keys other, and belongs to key"),
    ({"names": ["x.0"]}, "must hold 1 items, and holds 2"),
    ({"names": ["x.0", "x.1", "x.2"]}, "must hold 'x.2' as item 3, and holds 'no more'"),
    ({"names": ["x.1", "x.0"]}, "must hold 'x.1' as item 1, and holds 'x.0'"),
    ({"level": 2}, "x.0 at level 2, and holds it at 3"),
    ({"most": 2047}, "may hold 2047 bytes of x.0, and holds 2048"),
])  # fmt: skip
def test_a_file_of_another_kind_key_content_or_level_is_refused(tmp_path, how, said):
    assert said in refused(write(tmp_path / "a.upload"), **how)


HUGE = 10 * 2**30


@pytest.mark.parametrize("change", [
    lambda h: b"no JSON",
    lambda h: b"[]",
    lambda h: b"[" * 100_000,
    lambda h: b"\xff\xfe",
    lambda h: {**h, "facts": {"_target_": "os.system"}},
    lambda h: {**h, "more": 1},
    lambda h: {k: v for k, v in h.items() if k != "slots"},
    lambda h: {**h, "slots": "8192"},
    lambda h: {**h, "slots": True},
    lambda h: {**h, "items": [["x.0", 3, 2048]]},
    lambda h: {**h, "items": [["x.0", 3, HUGE, "0"], ["x.1", 3, 2054 - HUGE, "0"]]},
    lambda h: {**h, "items": [["x.0", 3, HUGE, "0"]]},
    lambda h: {**h, "items": [[["x.0"], 3, 2048, "0"], ["x.1", 3, 6, "0"]]},
    lambda h: {**h, "items": 7},
    lambda h: {**h, "kind": 7},
    lambda h: {**h, "key": None},
])  # fmt: skip
def test_a_header_of_anothers_making_is_refused(tmp_path, change):
    path = tmp_path / "forged"
    path.write_bytes(forged(own := own_header(tmp_path)))
    with Parcel(path, UPLOAD) as parcel:
        assert len(list(parcel.items())) == 2  # unchanged it is one
    path.write_bytes(forged(change(own)))
    refused(path)


def test_another_format_is_refused_by_its_number(tmp_path):
    path = tmp_path / "forged"
    path.write_bytes(forged(own_header(tmp_path), version=2))
    assert "must be of format 1, and is of format 2" in refused(path)


def test_what_is_no_file_is_refused(tmp_path):
    assert "no such file" in refused(tmp_path / "nothing")
    assert "is a folder" in refused(tmp_path)
    os.mkfifo(tmp_path / "fifo")  # which would wait for a writer
    assert "regular file" in refused(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(tmp_path / "loop")
    path = write(tmp_path / "a.upload")
    (tmp_path / "link").symlink_to(path)
    with Parcel(tmp_path / "link", UPLOAD) as parcel:
        assert parcel.header.kind == UPLOAD


def test_nothing_is_half_written_or_overwritten(tmp_path):
    path = tmp_path / "a.upload"
    with pytest.raises(RuntimeError), ParcelWriter(path, UPLOAD, TERMS, "key") as parcel:
        parcel.add("x.0", b"some")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".a.upload.part").write_bytes(b"left by a writer that was killed")
    before = write(path).read_bytes()
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(UserError, match="not overwritten"):
        write(path)
    assert path.read_bytes() == before


def test_two_writers_of_one_file_are_told_apart(tmp_path):
    """The first ends with its own file, whole; the second is refused at once, and takes nothing of the first's."""
    path = tmp_path / "a.upload"
    with ParcelWriter(path, UPLOAD, TERMS, "key") as first:
        first.add("x.0", b"some")
        with pytest.raises(UserError, match="another process writes"):
            ParcelWriter(path, UPLOAD, TERMS, "key")
    with Parcel(path, UPLOAD) as parcel:
        assert [item.name for item in parcel.header.items] == ["x.0"]
    assert list(tmp_path.iterdir()) == [path]


def test_keys_and_ciphertexts_are_their_owners_alone(tmp_path):
    old = os.umask(0)
    try:
        for kind in (SECRET, EVALUATION, UPLOAD, RESULT):
            assert write(tmp_path / kind, kind=kind).stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old)
