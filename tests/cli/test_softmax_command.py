"""One softmax of one matrix from the command line."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from cgf import cli

ROOT = Path(__file__).parents[2]


@pytest.fixture
def softmax(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["cgf", "softmax", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return SimpleNamespace(code=end.value.code, **capsys.readouterr()._asdict())

    return run


def test_what_is_given_to_the_function_and_what_is_written(softmax, monkeypatch):
    asked = []

    def apply_softmax(matrix, method, engine, *, tolerance):
        asked.append((matrix.tolist(), method, engine, tolerance))
        return SimpleNamespace(weights=matrix * 2, levels=7, seconds=1.5, error=3e-5)

    module = ModuleType("cgf.interface.matrix")
    module.apply_softmax = apply_softmax
    monkeypatch.setitem(sys.modules, "cgf.interface", ModuleType("cgf.interface"))
    monkeypatch.setitem(sys.modules, "cgf.interface.matrix", module)
    with open("scores.csv", "w") as stream:
        stream.write("1,2\n3,4\n")
    done = softmax("scores.csv", "--engine", "sim", "--out", "w.npy")
    assert done.code == 0 and asked == [([[1.0, 2.0], [3.0, 4.0]], "cgf", "sim", None)]
    assert "2 x 2, softmax cgf, engine sim: 7 levels, 1.50 s, largest error 3.00e-05" in done.out
    assert np.load("w.npy").tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_nothing_is_overwritten(softmax):
    np.save("scores.npy", np.eye(3))
    done = softmax("scores.npy", "--engine", "sim", "--out", "scores.npy")
    assert done.code == 2 and "is there already" in done.err and np.array_equal(np.load("scores.npy"), np.eye(3))


def test_a_place_that_cannot_be_written_is_told_before_the_work(softmax, monkeypatch):
    module = ModuleType("cgf.interface.matrix")  # without the function: to call it fails
    monkeypatch.setitem(sys.modules, "cgf.interface.matrix", module)
    np.save("scores.npy", np.eye(3))
    done = softmax("scores.npy", "--engine", "sim", "--out", "/proc/w.npy")
    assert done.code == 2 and done.err.startswith("error: /proc/w.npy cannot be written: ")


def test_a_full_disk_leaves_nothing_half_written(tmp_path):
    np.save(tmp_path / "scores.npy", np.zeros((32, 64)))
    command = (
        f"ulimit -f 8; exec {sys.executable} {ROOT / 'scripts' / 'softmax.py'} scores.npy --engine sim --out w.npy"
    )
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and done.stderr.startswith("error: the disk is full"), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["scores.npy"]


def test_a_matrix_through_the_simulator(softmax):
    scores = np.random.default_rng(0).normal(size=(4, 16))
    np.save("scores.npy", scores)
    done = softmax("scores.npy", "--engine", "sim", "--out", "w.npy")
    assert done.code == 0 and "4 x 16, softmax cgf, engine sim" in done.out, done.err
    y = scores - scores.mean(1, keepdims=True) - scores.var(1, keepdims=True) / 2 - np.log(16)
    assert np.abs(np.load("w.npy") - np.exp(y)).max() < 1e-3


def test_options_are_those_of_the_softmax(softmax):
    scores = np.random.default_rng(0).uniform(-6, 6, size=(4, 16))
    np.save("scores.npy", scores)
    options = [f"--option={one}" for one in ("low=-8", "high=8", "n=16", "accuracy=0.001")]
    done = softmax("scores.npy", "--method", "thor", *options, "--engine", "sim", "--out", "w.npy")
    assert done.code == 0 and "softmax thor low=-8 high=8 n=16 accuracy=0.001, engine sim" in done.out, done.err
    exact = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert np.abs(np.load("w.npy") - exact).max() < 1e-3
    done = softmax(
        "scores.npy", "--method", "thor", "--engine", "sim"
    )  # rows of 128 entries and a division of 1 in 100
    assert done.code == 2 and "are not to be believed" in done.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["low"], "--option needs NAME=VALUE, as in low=-8, and has low"),
        (["=3"], "--option needs NAME=VALUE, as in low=-8, and has =3"),
        (["variant=cgf"], "--option needs NAME=VALUE, as in low=-8, and has variant=cgf"),
        (["low=-8", "low=-9"], "--option gives 'low' twice"),
        (["low=[1"], "--option low needs a value of yaml, such as -8 or [-8.0, 1.0], and has [1"),
        (["lo=-8"], "--option's 'thor' has no setting 'lo': there are low, high,"),
        (["low=deep"], "'low' of --option's 'thor' must be float, and is 'deep'"),
        (["low=5", "high=-5"], "needs"),
    ],
)
def test_options_that_are_refused(softmax, options, says):
    np.save("scores.npy", np.eye(3))
    done = softmax("scores.npy", "--method", "thor", *(f"--option={one}" for one in options), "--engine", "sim")
    assert done.code == 2 and says in done.err, done.err


def test_a_method_that_is_none_is_refused_as_such_with_options_too(softmax):
    np.save("scores.npy", np.eye(3))
    done = softmax("scores.npy", "--method", "nonsense", "--option", "low=-8", "--engine", "sim")
    assert done.code == 2 and "softmax must be a Softmax or one of" in done.err and "--option" not in done.err


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.npy", None, "there is no file none.npy"),
        ("a.xlsx", b"", "is read from .npy, .csv, .tsv, .txt"),
        ("a.csv", b"1,2\n3\n", "needs to hold a matrix of numbers"),
        ("a.csv", b"1,x\n", "needs to hold a matrix of numbers"),
        ("a.npy", b"not one", "needs to hold a matrix of numbers"),
    ],
)
def test_what_is_no_matrix_is_refused(softmax, tmp_path, name, content, says):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = softmax(name)
    assert done.code == 2 and done.err.startswith("error: ") and says in done.err and len(done.err.splitlines()) == 1


def test_a_pickle_is_not_loaded(softmax):
    np.save("p.npy", np.array([[print]], dtype=object), allow_pickle=True)
    assert softmax("p.npy").code == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"1,2 # x\n#3,4\n5,6\n", "row 1 has '2 # x' in column 2, which is no number"),
        (b"1,2\n\n3,x\n", "row 2 has 'x' in column 2, which is no number"),
        (b"1_0,2\n", "row 1 has '1_0' in column 1, which is no number"),
        (b"1,2\n3\n", "row 2 has 1 numbers, and the first has 2"),
        (b"1,nan\n3,4\n", "row 1 has nan in column 2"),
        (b"", "holds the shape (0, 0)"),
    ],
)
def test_every_line_of_a_file_is_a_row_of_finite_numbers(softmax, content, said):
    with open("s.csv", "wb") as stream:
        stream.write(content)
    done = softmax("s.csv", "--engine", "sim", "--out", "w.npy")
    assert done.code == 2 and said in done.err and len(done.err.splitlines()) == 1


def test_a_file_of_a_spreadsheet_is_read_and_rows_that_vanished_are_told(softmax):
    with open("s.csv", "wb") as stream:
        stream.write(b"\xef\xbb\xbf1,2\r\n3,4\r\n-100,500\r\n")
    done = softmax("s.csv", "--engine", "sim", "--out", "w.npy")
    sums = np.load("w.npy").sum(axis=1)
    assert done.code == 0 and f"rows sum to {sums.min():.3g} to {sums.max():.3g}" in done.out
    assert sums.max() > 0.9 and sums.min() < 1e-6


def test_the_examples_of_the_help_run(softmax):
    np.savetxt("scores.csv", np.random.default_rng(0).normal(size=(4, 16)), delimiter=",")
    example = next(line for line in softmax("--help").out.splitlines() if "scores.csv --method" in line)
    assert softmax(*example.split()[2:]).code == 0, example
