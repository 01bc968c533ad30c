"""Every script of examples/ runs, on sizes smaller than its own, and shows what it says."""

import runpy
from pathlib import Path

from examples import bert, csv_file, gpt2, llama, one_softmax, own_softmax, trainer, vit

FOLDER = Path(__file__).parents[1] / "examples"


def test_every_example_is_run_here_and_is_short():
    assert {path.stem for path in FOLDER.iterdir() if path.suffix == ".py"} == {
        module.__name__.rpartition(".")[2]
        for module in (bert, csv_file, gpt2, llama, one_softmax, own_softmax, trainer, vit)
    }
    assert all(len(path.read_text().splitlines()) < 60 for path in FOLDER.glob("*.py"))


def test_one_softmax():
    result = one_softmax.run(rows=8, columns=16, engine="sim")
    assert result.weights.shape == (8, 16) and result.error < 1e-3 and result.levels > 0


def test_own_softmax():
    result = own_softmax.run(rows=4, columns=8, engine="sim")
    assert result.error < 1e-9 and result.levels == 2


def test_bert():
    result = bert.run(hidden=16, layers=1, length=8, epochs=0, samples=4)
    assert result.samples == 4 and result.agreement == 1.0 and not result.red and not result.encrypted


def test_gpt2(capsys):
    result = gpt2.run(width=16, layers=1, length=8, epochs=0, samples=4)
    assert result.samples == 4 and result.agreement == 1.0 and not result.red and not result.encrypted
    assert "layer" in capsys.readouterr().out  # the friendliness report


def test_llama():
    result = llama.run(width=16, layers=1, length=8, epochs=0, samples=4)
    assert result.samples == 4 and result.agreement == 1.0 and not result.red and not result.encrypted


def test_csv_file(tmp_path, monkeypatch, capsys):
    path = tmp_path / "own.csv"
    path.write_text("words,class\n" + "so good,yes\nso bad,no\n" * 20)
    monkeypatch.setattr(csv_file.sys, "argv", ["csv_file.py", str(path), "words", "class"])
    runpy.run_path(str(FOLDER / "csv_file.py"), run_name="__main__")
    assert "accuracy 1.0000 on 12 samples" in capsys.readouterr().out


def test_vit():
    result = vit.run(width=16, depth=1, epochs=0, samples=4)
    assert result.samples == 4 and result.agreement == 1.0 and not result.red and not result.encrypted


def test_trainer(capsys):
    trainer.run(hidden=16, layers=1, steps=2)
    assert "the same logits: True" in capsys.readouterr().out
