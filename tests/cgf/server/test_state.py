"""What a server keeps between stages: gone on with where it fits, and refused where it does not."""

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("desilofhe")
pytest.importorskip("torchvision", reason="images are prepared as the model's own")
from both_sides import call, commands, linked, replace, work
from small_networks import clear_logits, images, prepared, squares, write_bundles

from cgf.bundle.sides import ServerBundle
from cgf.header import STATE
from cgf.lock import locked
from cgf.parcel import Parcel
from cgf.server.run import Server


class Stopped(Exception):
    """Where a server is stopped, after its first stage is kept."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Everything up to a server that was stopped behind its first stage."""
    folder = tmp_path_factory.mktemp("state") / "w"
    write_bundles(folder)
    np.save(folder / "images.npy", images(5))
    work(folder, ["keys", "encrypt"])
    lines = []

    def told(line):
        lines.append(line)
        if len(lines) == 2:  # of the second stage: the first is kept
            raise Stopped

    server = Server(ServerBundle.read(folder / "server"), folder / "keys" / "evaluation.keys", folder / "state",
                    save_after=0, told=told)  # fmt: skip
    with pytest.raises(Stopped):
        server.run([folder / "uploads" / "0001.upload"], folder / "results")
    return folder


@pytest.fixture
def copy(stopped, tmp_path):
    return linked(stopped, tmp_path / "copy")


def state_of(folder):
    (path,) = (folder / "state").glob("*/state.json")
    return path


def test_the_stages_that_are_left_alone_are_run(copy, capsys):
    assert json.loads(state_of(copy).read_text())["done"] == 1
    work(copy, ["run", "decrypt"])
    assert "goes on behind stage 1" in capsys.readouterr().out
    told = json.loads((copy / "logits.json").read_text())
    expected = clear_logits(squares(), prepared(images(5)))
    assert np.abs(np.array([row["logits"] for row in told["rows"]]) - expected).max() < 1e-6
    assert not list((copy / "state").iterdir())


def test_state_names_its_files_and_holds_no_others(stopped):
    path = state_of(stopped)
    data = json.loads(path.read_text())
    assert {p.name for p in path.parent.iterdir()} == {"state.json", *data["files"].values()}
    (file,) = data["files"].values()
    with Parcel(path.parent / file, STATE) as parcel:
        assert parcel.header.facts == {"digest": data["digest"], "name": "s1"} and len(list(parcel.items())) == 3


def edited(change):
    def damage(path):
        data = json.loads(path.read_text())
        change(data)
        replace(path, json.dumps(data).encode())

    return damage


def file_of(path):
    return path.parent / next(iter(json.loads(path.read_text())["files"].values()))


def sparse(path):
    replace(path, b"")
    with path.open("r+b") as file:
        file.truncate(10 * 2**30)


DAMAGES = [
    ("half a JSON", lambda p: replace(p, p.read_bytes()[:50]), "damaged or half-written"),
    ("a list", lambda p: replace(p, b"[]"), "must be an object"),
    ("large", sparse, "may have 16777216 bytes"),
    ("no digest", edited(lambda d: d.pop("digest")), "needs 'digest'"),
    ("other digest", edited(lambda d: d.update(digest="0")), "of another run"),
    ("other schema", edited(lambda d: d.update(schema=2)), "of another run"),
    ("a path", edited(lambda d: d.update(files={"s1": "../../keys/secret.key"})), "must name files beside it"),
    ("a name", edited(lambda d: d.update(files={"s2": d["files"]["s1"]})), "must be the state s2"),
    ("many stages", edited(lambda d: d.update(done=2)), "of 2 stages"),
    ("stages before none", edited(lambda d: d.update(done=-1)), "of 2 stages"),
    ("no file", lambda p: file_of(p).unlink(), "no such file"),
    ("half a file", lambda p: replace(file_of(p), file_of(p).read_bytes()[:-100]), "cut off"),
    ("a large file", lambda p: sparse(file_of(p)), "does not begin as one"),
    ("another file", lambda p: replace(file_of(p), (p.parents[2] / "uploads/0001.upload").read_bytes()), "a state"),
]


@pytest.mark.parametrize(("damage", "said"), [d[1:] for d in DAMAGES], ids=[d[0] for d in DAMAGES])
def test_a_state_that_does_not_fit_is_refused(copy, capsys, damage, said):
    damage(state_of(copy))
    assert call(*commands(copy)["run"]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not list((copy / "results").glob("*.result"))


def test_a_new_upload_does_not_go_on_from_the_state_of_another(copy, capsys):
    shutil.rmtree(copy / "uploads")
    work(copy, ["encrypt", "run"])
    assert "goes on" not in capsys.readouterr().out
    assert len(list((copy / "state").iterdir())) == 1  # what is left of the other


def test_two_servers_do_not_share_a_state(copy, capsys):
    with locked(copy / "state" / "lock", "in use"):
        assert call(*commands(copy)["run"]) == 2
    assert "in use by another server" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--save-after", "nan"], ["--save-after", "-1"], ["--threads", "0"],
                                  ["--mode", "magic"], ["--mode", "gpu"]])  # fmt: skip
def test_settings_that_make_no_sense_are_refused(copy, capsys, more):
    assert call(*commands(copy)["run"], *more) == 2
    assert capsys.readouterr().err.startswith("error: ")
