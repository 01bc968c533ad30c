"""From samples to labels through files, against the clear twin; and all that does not fit, for every file."""

import json
import pickle
import shutil

import numpy as np
import pytest

pytest.importorskip("desilofhe")
pytest.importorskip("torchvision", reason="images are prepared as the model's own")
from both_sides import call, commands, linked, replace, reseal, whole, work
from small_networks import (
    CLASSES,
    attentive,
    clear_logits,
    images,
    one_block,
    prepared,
    squares,
    write_bundles,
    write_text_bundles,
)

from cgf.bundle.traffic import SampleSet
from cgf.client.sent import _check_same
from cgf.errors import UserError
from cgf.he.engines import desilo_library
from cgf.header import RESULT
from cgf.parcel import Parcel, ParcelWriter
from cgf.target import file_hash


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return whole(tmp_path_factory.mktemp("both") / "whole")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Of another network, with other keys."""
    return whole(tmp_path_factory.mktemp("both") / "other", count=2, network=squares(seed=9))


@pytest.fixture
def copy(base, tmp_path):
    """Everything but what the last command makes."""
    return undecrypted(linked(base, tmp_path / "copy"))


def undecrypted(folder):
    for name in ("logits.json", "logits.report.json"):
        (folder / name).unlink()
    return folder


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


MADE = {"keys": "keys", "encrypt": "uploads", "run": "results", "decrypt": "logits.json"}


def refused(capsys, folder, name, *more):
    """The one sentence of a command that makes nothing."""
    made = folder / MADE[name]
    if made.is_dir() and name != "keys":
        shutil.rmtree(made)
    before = tree(folder)
    assert call(*commands(folder)[name], *more) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1, said
    assert tree(folder) == before, said
    return said


def test_logits_are_those_of_the_clear_twin(base):
    told = json.loads((base / "logits.json").read_text())
    expected = clear_logits(squares(), prepared(images(5)))
    assert np.abs(np.array([row["logits"] for row in told["rows"]]) - expected).max() < 1e-6
    assert [row["label"] for row in told["rows"]] == [CLASSES[i] for i in expected.argmax(1)]
    assert told["lights"] == 0 and [row["row"] for row in told["rows"]] == [0, 1, 2, 3, 4]


def test_an_attention_in_a_ring_without_a_level_to_spare(tmp_path):
    """The client sends turned features there."""
    network = attentive(k=2)
    whole(tmp_path / "w", network=network)
    told = json.loads((tmp_path / "w" / "logits.json").read_text())
    agreement = json.loads((tmp_path / "w" / "client" / "bundle.json").read_text())["agreement"]
    assert len(agreement["lengths"][0]["turned"]) == 3 and agreement["terms"]["max_level"] == 7
    expected = clear_logits(network, prepared(images(5)))
    assert np.abs(np.array([row["logits"] for row in told["rows"]]) - expected).max() < 1e-5


def test_processes_share_an_upload_out(tmp_path, capsys):
    """The same logits; a server that was stopped goes on behind the stages that it finished together."""
    folder = whole(tmp_path / "w", network=attentive(k=2))
    alone = json.loads((folder / "logits.json").read_text())
    shutil.rmtree(folder / "results")
    undecrypted(folder)
    assert call(*commands(folder)["run"], "--processes", 2) == 0
    assert "block 1 head 1, block 1 head 2: " in capsys.readouterr().out
    work(folder, ["decrypt"])
    told = json.loads((folder / "logits.json").read_text())
    logits = [np.array([row["logits"] for row in each["rows"]]) for each in (alone, told)]
    assert np.abs(logits[0] - logits[1]).max() < 1e-5
    report = json.loads((folder / "results" / "run.json").read_text())
    heads = [stage for stage in report["stages"] if "head 1" in stage["stage"]]
    assert len(heads) == 1 and heads[0]["level"] == heads[0]["level_planned"] and heads[0]["core_s"] > 0


@pytest.mark.parametrize(
    "more, words",
    [
        (["--processes", 2, "--mode", "parallel"], "which need --mode cpu, and parallel was given"),
        (["--processes", 0], "--processes must be a whole number"),
        (["--processes", 10**6], "--processes must be a whole number"),
    ],
)
def test_processes_that_cannot_be(copy, capsys, more, words):
    assert words in refused(capsys, copy, "run", *more)


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """Two samples, each alone in its ciphertexts."""
    return whole(tmp_path_factory.mktemp("both") / "apart", count=2, network=one_block(), alone=True)


def test_samples_alone_have_an_upload_and_a_result_of_one_ciphertext_each(apart):
    told = json.loads((apart / "logits.json").read_text())
    expected = clear_logits(one_block(), prepared(images(2)))
    assert np.abs(np.array([row["logits"] for row in told["rows"]]) - expected).max() < 1e-5
    assert [row["label"] for row in told["rows"]] == [CLASSES[i] for i in expected.argmax(1)]
    agreement = json.loads((apart / "client" / "bundle.json").read_text())["agreement"]
    (length,) = agreement["lengths"]
    assert length["samples"] == 1 and length["alone"] == {"heads": 2, "lanes": 4} and len(length["turned"]) == 2
    assert agreement["terms"]["max_level"] == 11
    for number in (1, 2):
        with Parcel(apart / "results" / f"{number:04d}.result", RESULT) as result:
            assert [item.name for item in result.header.items] == ["logits.0"]
            assert result.header.facts["rows"] == [number - 1]


def test_a_sample_alone_is_not_shared_out(apart, tmp_path, capsys):
    folder = linked(apart, tmp_path / "copy")
    assert "this bundle has samples alone: leave it out" in refused(capsys, folder, "run", "--processes", 2)


def test_a_network_of_another_shape_has_no_bundles_for_samples_alone(tmp_path):
    with pytest.raises(UserError, match=r"one attention and one square .* no --alone"):
        write_bundles(tmp_path, attentive(), alone=True)
    assert not (tmp_path / "server").exists()


def of_length(**changes):
    def change(data):
        data["agreement"]["lengths"][0].update(changes)

    return change


@pytest.mark.parametrize(
    "side, change, words",
    [
        ("client", of_length(samples=2), "must have one sample a set"),
        ("client", of_length(alone={"heads": 3, "lanes": 4}), "a power of two of at most 16384 slots"),
        ("client", of_length(alone={"heads": 2, "lanes": 4096}), "a power of two of at most 16384 slots"),
        ("client", of_length(alone={"heads": 0, "lanes": 4}), "heads of"),
        ("client", of_length(alone={"heads": 2}), "needs 'lanes'"),
        ("client", of_length(alone={"heads": 2, "lanes": 2}), "one a class at least"),
        ("server", of_length(alone={"heads": 1, "lanes": 4}), "must be of the agreement"),
        ("server", of_length(alone=None), "must be of the agreement"),
    ],
)
def test_a_bundle_with_another_layout_of_a_sample_alone_is_refused(apart, tmp_path, capsys, side, change, words):
    folder = linked(apart, tmp_path / "copy")
    (folder / "logits.json").unlink()
    reseal(folder / side, change)
    assert words in refused(capsys, folder, "encrypt" if side == "client" else "run")


@pytest.mark.parametrize(
    "sides, words",
    [(("client",), "must be of the agreement"), (("client", "server"), "in other slots or turns")],
    ids=["one side", "both sides"],
)
@pytest.mark.parametrize("alone, change", [(True, {"alone": {"heads": 1, "lanes": 8}}), (False, {"samples": 512})])
def test_an_upload_in_other_slots_than_the_circuits_is_refused(tmp_path, capsys, alone, change, sides, words):
    """Its logits would be others, and nothing would show it: a light that stays dark proves nothing."""
    write_bundles(tmp_path, one_block() if alone else squares(), alone)
    np.save(tmp_path / "images.npy", images(1))
    for side in sides:
        reseal(tmp_path / side, of_length(**change))
    work(tmp_path, ("keys", "encrypt"))
    capsys.readouterr()
    assert words in refused(capsys, tmp_path, "run")


def test_texts_of_different_lengths_come_back_in_their_order(tmp_path):
    network, table = write_text_bundles(tmp_path)
    (tmp_path / "images.npy").mkdir()  # the name of the samples in the commands here
    # with a mark of its byte order and lines that end as some systems write them, as texts to train on may be
    (tmp_path / "texts.txt").write_bytes("a b\r\nc d a b \n d\u2028d\n? a b c\n".encode("utf-8-sig"))
    given = commands(tmp_path)
    given["encrypt"][2] = tmp_path / "texts.txt"
    for name in ("keys", "encrypt", "run", "decrypt"):
        assert call(*given[name]) == 0
    told = json.loads((tmp_path / "logits.json").read_text())
    ids = [[0, 1], [2, 3, 0, 1], [3, 3], [4, 0, 1, 2]]
    for row, one in zip(told["rows"], ids, strict=True):
        expected = clear_logits(network, table.prepared(np.array([one])))[0]
        assert np.abs(np.array(row["logits"]) - expected).max() < 1e-6


def test_every_report_has_stages_sizes_and_their_sums(base):
    names = {
        "keys/keys.json": {"public and evaluation keys", "secret key"},
        "uploads/encrypt.json": {"encrypted input"},
        "results/run.json": {"evaluation keys", "encrypted input", "encrypted results"},
        "logits.report.json": {"encrypted results"},
    }
    for name, sizes in names.items():
        report = json.loads((base / name).read_text())
        assert set(report["bytes"]) == sizes and all(size > 10**5 for size in report["bytes"].values())
        assert report["stages"] and abs(report["wall_s"] - sum(s["wall_s"] for s in report["stages"])) < 1e-6
    run = json.loads((base / "results" / "run.json").read_text())
    assert run["bytes"]["encrypted input"] == (base / "uploads" / "0001.upload").stat().st_size
    levels = [stage["level"] for stage in run["stages"] if "level" in stage]
    assert levels == [1, 0]  # of three: none is left over


# -- whatever does not fit -------------------------------------------------------------------------

DAMAGES = {
    "missing": lambda path, content: path.unlink(),
    "empty": lambda path, content: replace(path, b""),
    "half": lambda path, content: replace(path, content[: len(content) // 2]),
    "longer": lambda path, content: replace(path, content + b"0"),
    "flipped": lambda path, content: replace(path, flipped(content, len(content) // 2)),
    "flipped at the start": lambda path, content: replace(path, flipped(content, 3)),
    "flipped at the end": lambda path, content: replace(path, flipped(content, len(content) - 2)),
    "folder": lambda path, content: (path.unlink(), path.mkdir()),
    "sparse": lambda path, content: (replace(path, b""), path.open("r+b").truncate(10 * 2**30)),
}
FILES = {
    "keys/secret.key": ["decrypt"],
    "keys/public.key": ["encrypt"],
    "keys/evaluation.keys": ["run"],
    "uploads/0001.upload": ["run"],
    "results/0001.result": ["decrypt"],
    "client/bundle.json": ["encrypt", "decrypt"],
    "client/inputs.json": ["encrypt", "decrypt"],
    "server/bundle.json": ["run"],
    "server/network.json": ["run"],
    "server/network.safetensors": ["run"],
}
CASES = [(file, damage, name) for file, names in FILES.items() for damage in DAMAGES for name in names]


def flipped(content, place):
    return content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]


@pytest.mark.parametrize(("file", "damage", "name"), CASES)
def test_a_damaged_file_is_refused_in_one_sentence(copy, capsys, file, damage, name):
    path = copy / file
    DAMAGES[damage](path, path.read_bytes())
    refused(capsys, copy, name)


SWAPS = [
    ("keys/secret.key", "other", "run", "keys/evaluation.keys", "must hold evaluation keys, and holds a secret key"),
    ("keys/public.key", "other", "run", "keys/evaluation.keys", "must hold evaluation keys, and holds a public key"),
    ("keys/evaluation.keys", "base", "decrypt", "keys/secret.key", "must hold a secret key"),
    ("keys/evaluation.keys", "other", "run", "keys/evaluation.keys", "must belong to the keys"),
    ("keys/secret.key", "other", "decrypt", "keys/secret.key", "must belong to the keys"),
    ("uploads/0001.upload", "other", "run", "uploads/0001.upload", "must belong to the keys"),
    ("uploads/0001.upload", "base", "decrypt", "results/0001.result", "must hold a result, and holds an upload"),
    ("results/0001.result", "base", "run", "uploads/0001.upload", "must hold an upload, and holds a result"),
    ("results/0001.result", "other", "decrypt", "results/0001.result", "must belong to the keys"),
    ("images.npy", "base", "run", "uploads/0001.upload", "does not begin as one"),
]


@pytest.mark.parametrize(("file", "of", "name", "target", "said"), SWAPS)
def test_a_file_in_the_place_of_another_is_refused(base, other, copy, capsys, file, of, name, target, said):
    replace(copy / target, ({"base": base, "other": other}[of] / file).read_bytes())
    if target.endswith("secret.key"):
        (copy / target).chmod(0o600)
    assert said in refused(capsys, copy, name)


def test_an_upload_and_a_result_of_another_network_are_refused(base, other, copy, capsys):
    """With the same keys, ring and shapes: only the network's name in the header tells them apart."""
    for side in ("client", "server"):
        for path in (copy / side).iterdir():
            path.unlink()
        for path in (other / side).iterdir():
            (copy / side / path.name).write_bytes(path.read_bytes())
    assert "must be of the agreement" in refused(capsys, copy, "decrypt")
    assert "must be of the agreement" in refused(capsys, copy, "run")


def test_a_network_in_the_place_of_another_is_refused(other, copy, capsys):
    """Resealed, its files fit one another, but not the agreement's name of the network."""
    for name in ("network.json", "network.safetensors"):
        replace(copy / "server" / name, (other / "server" / name).read_bytes())

    def hashed(data):
        paths = {name: copy / "server" / name for name in data["files"]}
        data["files"] = {n: {"bytes": p.stat().st_size, "sha256": file_hash(p)} for n, p in paths.items()}

    reseal(copy / "server", hashed)
    assert "another network" in refused(capsys, copy, "run")


FORGED = [
    ("client", lambda d: d.update(kind="server bundle"), "must be a client bundle"),
    ("client", lambda d: d.update(schema=2), "must be a client bundle of schema 1"),
    ("client", lambda d: d.update(more=1), "must have"),
    ("client", lambda d: d.pop("limit"), "must have"),
    ("client", lambda d: d.update(agreement=[]), "must have"),
    ("client", lambda d: d["agreement"].update(classes=[]), "needs classes"),
    ("client", lambda d: d["agreement"].update(rotations=[0]), "rotations from 1 to 8191"),
    ("client", lambda d: d["agreement"].update(rotations=["1"]), "must be list[int]"),
    ("client", lambda d: d["agreement"].update(features=3), "inputs of 3 features"),
    ("client", lambda d: d["agreement"].update(lengths=[]), "lengths"),
    ("client", lambda d: d["agreement"]["terms"].update(max_level=99), "99 levels"),
    ("client", lambda d: d["agreement"]["terms"].update(slots=16384), "8192 slots"),
    ("client", lambda d: d["agreement"]["terms"].update(engine="sim"), "must be of engine desilo"),
    ("client", lambda d: d["agreement"]["lengths"][0].update(samples=5000), "samples"),
    ("client", lambda d: d["agreement"]["lengths"][0].update(turned=[["x"]]), "'turned' must hold"),
    ("client", lambda d: d["agreement"]["lengths"][0].update(turned=[[1, "x"]]), "'turned' must hold"),
    ("client", lambda d: d["limit"].update(largest=-1.0), "must be positive"),
    ("client", lambda d: d["limit"].update(samples=0), "samples of a limit"),
    ("client", lambda d: d["prepare"].update(_target_="os.system"), "names code to run"),
    ("client", lambda d: d["prepare"].pop("crop"), "needs 'crop'"),
    ("client", lambda d: d["prepare"]["image"].update(std=[0.0]), "deviations"),
    ("client", lambda d: d["prepare"]["image"].update(size=[1, 4]), "size (C, H, W)"),
    ("client", lambda d: d["prepare"]["image"].update(interpolation="magic"), "interpolation must be one of"),
    ("client", lambda d: d["prepare"]["image"].update(crop_pct=0), "crop_pct must be positive"),
    ("client", lambda d: d["prepare"]["image"].update(size=[1, 8, 8]), "takes images of 1 x 4 x 4"),
    ("server", lambda d: d["agreement"].update(classes=["a", "b"]), "another network"),
    ("server", lambda d: d["agreement"].update(network="0" * 64), "another network"),
    ("server", lambda d: d["agreement"]["lengths"][0].update(tokens=5, samples=1), "tokens"),
    ("server", lambda d: d["agreement"]["lengths"][0].update(samples=7), "must be of the agreement"),
    (
        "server",
        lambda d: d["agreement"]["lengths"][0].update(turned=[["x", 0], ["x@1", 1]]),
        "must be of the agreement",
    ),
    ("server", lambda d: d.update(plan={}), "must be a list"),
    ("server", lambda d: d.update(plan=[]), "an entry for each"),
    ("server", lambda d: d["plan"][0].update(levels=4), "no more levels than the ring"),
    ("server", lambda d: d["plan"][0].update(stages=[]), "must have stages"),
    ("server", lambda d: d["plan"][0]["stages"].pop(), "make the bundles anew"),
    ("server", lambda d: d["plan"][0]["stages"][1].update(name="block 9"), "its stage 2 is 'block 9' in place of"),
    ("server", lambda d: d["plan"][0]["stages"][0].pop("ops"), "needs 'ops'"),
    ("server", lambda d: d["plan"][0]["stages"][0].update(most_mib=1e9), "GiB of memory"),
    ("server", lambda d: d["agreement"]["terms"].update(build="desilofhe 1.17.0"), "library"),
    ("server", lambda d: d["agreement"].update(rotations=[2048]), "must hold 2 items, and holds 3"),
]


@pytest.mark.parametrize(("side", "change", "said"), FORGED)
def test_a_bundle_of_anothers_making_is_refused(copy, capsys, side, change, said):
    reseal(copy / side, lambda data: change(data) and None)
    assert said in refused(capsys, copy, "run" if side == "server" else "encrypt")


def array(change):
    return lambda path: np.save(path, change(images(2)))


class Marks:
    """Pickled: leaves a folder where it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        import os

        return os.mkdir, (str(self.mark),)


SAMPLES = {
    "a row": (array(lambda a: a[0]), "needs images (N, C, H, W)"),
    "no image": (array(lambda a: a[:0]), "needs images (N, C, H, W)"),
    "two channels": (array(lambda a: np.repeat(a, 2, 1)), "1 or 3 channels"),
    "NaN": (array(lambda a: a * np.nan), "pixels in [0, 1]"),
    "bright": (array(lambda a: a + 1), "pixels in [0, 1]"),
    "counts": (array(lambda a: a.astype(np.int64)), "pixels in [0, 1]"),
    "pickled": (lambda path: path.write_bytes(pickle.dumps(Marks(path.parent / "mark"))), "reading it failed"),
    "torn": (lambda path: path.write_bytes(b"\x93NUMPY\x01\x00v"), "reading it failed"),
    "nothing": (lambda path: None, "reading it failed"),
    "folder": (lambda path: path.mkdir(), "must hold images"),
}


@pytest.mark.parametrize("case", SAMPLES)
def test_samples_that_are_none_are_refused(copy, capsys, case):
    make, said = SAMPLES[case]
    (copy / "images.npy").unlink()
    make(copy / "images.npy")
    assert said in refused(capsys, copy, "encrypt")
    assert not (copy / "mark").exists()


def test_images_are_read_from_their_files_too(copy):
    from PIL import Image

    pixels = (images(2)[:, 0] * 255).astype(np.uint8)
    (copy / "images.npy").unlink()
    (copy / "images.npy").mkdir()
    for i, one in enumerate(pixels):
        Image.fromarray(one).save(copy / "images.npy" / f"{i}.png")
    for name in ("uploads", "results"):
        for path in (copy / name).iterdir():
            path.unlink()
        (copy / name).rmdir()
    work(copy, ["encrypt", "run", "decrypt"])
    told = json.loads((copy / "logits.json").read_text())
    expected = clear_logits(squares(), prepared(pixels[:, None] / 255))
    assert np.abs(np.array([row["logits"] for row in told["rows"]]) - expected).max() < 1e-6


TEXTS = {
    "empty": (b"", "is empty"),
    "no text": (b"\xff\xfe\xfd", "needs to be UTF-8 text"),
    "long": (b"a b\na b c\n", "sample 2: network 'squares' takes samples of 2, 4 tokens here, and one has 3"),
    "blank line": (b"a b\n \na b\n", "line 2 is empty"),
}


def test_texts_that_do_not_fit_are_refused(tmp_path, capsys):
    write_text_bundles(tmp_path)
    given = commands(tmp_path)
    assert call(*given["keys"]) == 0
    given["encrypt"][2] = path = tmp_path / "texts.txt"
    for content, said in TEXTS.values():
        path.write_bytes(content)
        assert call(*given["encrypt"]) == 2 and said in capsys.readouterr().err
    given["encrypt"][2] = tmp_path / "texts.npy"
    assert call(*given["encrypt"]) == 2 and "texts are read from .txt" in capsys.readouterr().err
    path.write_bytes(b"a b\n")
    given["encrypt"][2] = path
    replace(tmp_path / "client" / "tokenizer.json", b"{}")
    assert call(*given["encrypt"]) == 2 and "was changed after the bundle was made" in capsys.readouterr().err


def test_nothing_is_overwritten(base, tmp_path, capsys):
    copy = linked(base, tmp_path / "copy")
    for name in ("keys", "encrypt", "decrypt"):
        assert call(*commands(copy)[name]) == 2 and "not overwritten" in capsys.readouterr().err
    report = (copy / "results" / "run.json").read_bytes()
    assert call(*commands(copy)["run"]) == 0 and "there already" in capsys.readouterr().out
    assert (copy / "results" / "run.json").read_bytes() == report
    with pytest.raises(ValueError, match="not overwritten"):
        write_bundles(copy)


def test_results_made_later_have_a_report_of_their_own(base, tmp_path):
    """The report of the results before was overwritten, and counted the bytes of uploads that it did not compute."""
    copy = linked(base, tmp_path / "copy")
    first = (copy / "results" / "run.json").read_bytes()
    for result in (copy / "results").glob("*.result"):
        result.unlink()
    assert call(*commands(copy)["run"]) == 0
    again = json.loads((copy / "results" / "run-2.json").read_text())
    assert (copy / "results" / "run.json").read_bytes() == first
    assert again["bytes"] == json.loads(first)["bytes"] and again["stages"]


@pytest.mark.parametrize("name", ["keys", "encrypt", "run", "decrypt"])
def test_files_of_another_library_than_the_installed_one_are_refused(base, tmp_path, capsys, monkeypatch, name):
    """Both sides copied the library of their bundle, and nothing asked which one is installed."""
    copy = linked(base, tmp_path / "copy")
    made = copy / MADE[name]
    shutil.rmtree(made) if made.is_dir() else made.unlink()
    monkeypatch.setattr(desilo_library, "_installed", lambda: ("desilofhe-cu132", "2.0.0"))
    said = refused(capsys, copy, name)
    assert "are of library desilofhe 2.0.0, and desilofhe-cu132 2.0.0 is installed here" in said


def test_a_result_of_another_upload_is_refused(copy, capsys):
    work_of = commands(copy)
    for path in (copy / "uploads").iterdir():
        path.unlink()
    (copy / "uploads").rmdir()
    work(copy, ["encrypt"])  # the same samples, encrypted anew
    assert call(*work_of["run"]) == 2 and "is the result of another upload" in capsys.readouterr().err


def test_a_secret_key_that_others_may_read_is_refused(copy, capsys):
    content = (copy / "keys" / "secret.key").read_bytes()
    replace(copy / "keys" / "secret.key", content)
    (copy / "keys" / "secret.key").chmod(0o640)
    assert "by its owner alone" in refused(capsys, copy, "decrypt")


def test_decrypted_logits_do_not_go_where_results_are(copy, capsys):
    for place in ("logits.json", "below/logits.json"):
        given = [*commands(copy)["decrypt"][:-1], copy / "results" / place]
        assert call(*given) == 2 and "stays with the client" in capsys.readouterr().err


def test_decrypted_logits_are_read_by_their_owner_alone(copy):
    assert call(*commands(copy)["decrypt"][:-1], copy / "mine.json") == 0
    assert (copy / "mine.json").stat().st_mode & 0o777 == 0o600


def test_logits_that_are_named_as_a_report_are_not_overwritten(base, copy, capsys):
    given = commands(copy)["decrypt"][:-1]
    assert call(*given, copy / "l.report.json") == 0
    logits = (copy / "l.report.json").read_bytes()
    capsys.readouterr()
    assert call(*given, copy / "l.json") == 2
    assert "l.report.json is there already" in capsys.readouterr().err
    assert (copy / "l.report.json").read_bytes() == logits and not (copy / "l.json").exists()


def test_results_are_held_against_what_was_encrypted(base, copy, capsys):
    """One that is missing is told, and one of other samples refused; keys without the file cannot tell, and say so."""
    sent = copy / "keys" / "encrypted.jsonl"
    line, *_ = [
        json.loads(line) for line in sent.read_text().splitlines()
    ]  # others' copies add theirs to the same file
    assert line["samples"] == 5 and len(line["uploads"]) == 1
    given = commands(copy)["decrypt"]
    replace(sent, (json.dumps({**line, "samples": 7}) + "\n").encode())  # as if two more were in another upload
    assert call(*given) == 0
    assert "5 of the 7 samples encrypted have a result here" in capsys.readouterr().err
    told = json.loads((copy / "logits.json").read_text())
    assert told["encrypted"] == 7 and len(told["rows"]) == 5
    undecrypted(copy)
    replace(sent, (json.dumps({"uploads": ["f" * 64], "samples": 5}) + "\n").encode())
    assert "must be of an upload that" in refused(capsys, copy, "decrypt")
    sent.unlink()
    sent.mkdir()
    assert "encrypted.jsonl" in refused(capsys, copy, "decrypt")
    sent.rmdir()
    assert call(*given) == 0 and "does not say what was encrypted" in capsys.readouterr().err
    assert json.loads((copy / "logits.json").read_text())["encrypted"] is None


def renamed(copy, **facts):
    """The result with other facts in its header, as whoever holds it can write them."""
    path = copy / "results" / "0001.result"
    with Parcel(path, RESULT) as parcel:
        header, items = parcel.header, list(parcel.items())
    path.unlink()
    with ParcelWriter(path, RESULT, header.terms, header.key, {**header.facts, **facts}) as writer:
        for item, data in items:
            writer.add(item.name, data, item.level)


@pytest.mark.parametrize("rows", [[4, 3, 2, 1, 0], [0, 1, 2], [0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5]])
def test_a_result_that_names_other_samples_than_its_upload_is_refused(copy, capsys, rows):
    """The header is the server's: labels went to the samples that it named."""
    renamed(copy, rows=rows)
    said = refused(capsys, copy, "decrypt")
    assert "0001.result must name the samples of its upload in their order, and names others" in said


def test_a_result_of_other_tokens_than_its_upload_is_refused():
    told, run = SampleSet(4, (0, 1)), {"uploads": ["d"], "samples": 2, "tokens": [2], "indices": [[0, 1]]}
    with pytest.raises(UserError, match="r must be of samples of 2 tokens, as its upload is, and says 4"):
        _check_same("r", told, run, 0)


def test_a_line_of_before_samples_were_kept_refuses_more_than_were_encrypted(copy, capsys):
    sent = copy / "keys" / "encrypted.jsonl"
    line = json.loads(sent.read_text().splitlines()[0])
    assert line["indices"] == [[0, 1, 2, 3, 4]] and len(line["tokens"]) == 1
    replace(sent, (json.dumps({key: line[key] for key in ("uploads", "samples")}) + "\n").encode())
    renamed(copy, rows=[0, 1, 2, 3, 5])
    assert "must be of 5 samples at most, which were encrypted, and names sample 6" in refused(capsys, copy, "decrypt")
    renamed(copy, rows=[0, 1, 2, 3, 4])
    replace(sent, (json.dumps({**line, "indices": []}) + "\n").encode())
    assert "must have tokens and indices for each of its uploads" in refused(capsys, copy, "decrypt")
    replace(sent, (json.dumps({key: line[key] for key in ("uploads", "samples")}) + "\n").encode())
    assert call(*commands(copy)["decrypt"]) == 0


def test_results_of_two_encryptions_are_not_mixed(tmp_path, capsys):
    folder = whole(tmp_path, count=2)
    np.save(folder / "images.npy", images(4)[2:])
    (folder / "uploads").rename(folder / "first")
    shutil.move(folder / "results" / "0001.result", folder / "kept.result")
    shutil.rmtree(folder / "results")
    work(undecrypted(folder), ["encrypt", "run"])
    shutil.move(folder / "kept.result", folder / "results" / "0002.result")
    said = refused(capsys, folder, "decrypt")
    assert "are of two runs of encrypt" in said and "0001.result" in said and "0002.result" in said


def test_a_place_for_results_that_is_no_folder_is_refused_before_any_work(copy, capsys):
    shutil.rmtree(copy / "results")
    (copy / "results").write_text("")
    assert call(*commands(copy)["run"]) == 2
    done = capsys.readouterr()
    assert "--out needs a folder that can be written to" in done.err and done.out == ""


def test_a_sample_in_two_results_is_refused(copy, capsys):
    (copy / "results" / "0002.result").write_bytes((copy / "results" / "0001.result").read_bytes())
    assert "another result holds it too" in refused_after(capsys, copy)


def refused_after(capsys, folder):
    assert call(*commands(folder)["decrypt"]) == 2 and not (folder / "logits.json").exists()
    return capsys.readouterr().err


# -- red light ---------------------------------------------------------------------------------------


def test_a_sample_outside_the_domain_has_a_red_light_and_no_answer(base, tmp_path, capsys):
    """A bound from smaller logits than these samples have: the farthest sample goes beyond it."""
    copy = undecrypted(linked(base, tmp_path / "copy"))
    logits = np.abs(clear_logits(squares(), prepared(images(5)))).max(1)
    bound = float(np.sort(logits)[-2:].mean())
    reseal(copy / "client", lambda data: data["limit"].update(largest=bound / 2))
    assert call(*commands(copy)["decrypt"]) == 0
    assert "red light: 1 samples" in capsys.readouterr().err
    told = json.loads((copy / "logits.json").read_text())
    assert told["lights"] == 1
    for row, worst in zip(told["rows"], logits, strict=True):
        if worst > bound:
            assert row["label"] is None and row["logits"] is None and "lies beyond" in row["light"]
        else:
            assert row["label"] in CLASSES and row["light"] is None


def test_results_hold_no_more_ciphertexts_than_classes(copy):
    with Parcel(copy / "results" / "0001.result", RESULT) as parcel:
        assert [item.name for item in parcel.header.items] == ["logits.0", "logits.1", "logits.2"]
        assert {item.level for item in parcel.header.items} == {0}


def test_a_result_at_a_level_that_no_ring_has_is_refused(copy, capsys):
    path = copy / "results" / "0001.result"
    with Parcel(path, RESULT) as parcel:
        header, items = parcel.header, list(parcel.items())
    for level, said in ((9, "a level from 0 to 3"), (None, "a level from 0 to 3"), (1, "of level 1 is needed")):
        path.unlink()
        with ParcelWriter(path, RESULT, header.terms, header.key, header.facts) as parcel:
            for item, data in items:
                parcel.add(item.name, data, level)
        assert said in refused_after(capsys, copy)
