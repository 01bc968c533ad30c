"""A user's own data through every command: trained, planned, evaluated in the clear and encrypted, looked at."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from conftest_models import tokenizer
from digits_checkpoint import call
from PIL import Image
from transformers import BertConfig, BertForSequenceClassification

SMALL = ["train.epochs=2", "train.batch_size=16", "train.lr=2e-3"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def done(script, *arguments):
    result = call(script, *arguments)
    assert result.returncode == 0, result.stderr
    return result


def through(ckpt):
    """Plan and both evaluations of a run; gives back the two results and what was printed."""
    done("plan", f"ckpt={ckpt}", "samples=20", "approx=limit", "approx.k=10", "pareto=false", "cache=null")
    plain = done("eval_plain", f"ckpt={ckpt}", "approx=plan", "out=plain.json")
    done("eval_he", f"ckpt={ckpt}", "he=sim", "he.samples=2", "out=he.json")
    return *(json.loads(Path(name).read_text()) for name in ("plain.json", "he.json")), plain.stdout


def test_an_image_folder_through_every_command(place, monkeypatch):
    draw = np.random.default_rng(0)
    for split, count in (("train", 30), ("test", 6)):
        for label, name in enumerate(("dark", "bright")):
            folder = place / "shots" / split / name
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = draw.integers(0, 90, (12, 10), dtype=np.uint8) + np.uint8(150 * label)
                Image.fromarray(pixels).save(folder / f"{split}{i}.png")
    trained = done("train", "task=image_folder", "task.root=shots", "run=own", *SMALL)
    assert "image_folder train: 54 samples: bright 27, dark 27" in trained.stdout
    assert "image_folder val: 6 samples: bright 3, dark 3" in trained.stdout
    assert "no val split" in trained.stdout and trained.stdout.index("train: 54") < trained.stdout.index(
        "best validation"
    )
    best = place / "outputs" / "own" / json.loads((place / "outputs/own/best.json").read_text())["checkpoint"]
    run = json.loads((best / "run.json").read_text())
    assert run["class_names"] == ["bright", "dark"]
    assert run["config"]["task"]["root"] == str(place / "shots") and len(run["config"]["task"]["sha256"]["test"]) == 64
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")  # the checkpoint knows where the images lie
    plain, encrypted, printed = through(place / "outputs" / "own")
    assert plain["samples"] == 12 and plain["task"] == "image_folder" and encrypted["samples"] == 2
    assert plain["by_class"].keys() == {"bright", "dark"}
    assert [each["samples"] for each in plain["by_class"].values()] == [6, 6]
    assert sum(each["correct"] for each in plain["by_class"].values()) == plain["correct"]
    assert f"bright {plain['by_class']['bright']['correct']} of 6" in printed
    assert sum(each["samples"] for each in encrypted["by_class"].values()) == 2
    done("friendly", f"ckpt={place / 'outputs' / 'own'}", "samples=20", "out=friendly")
    again = done(
        "train", "task=image_folder", f"task.root={place / 'shots'}", "run=own", f"outputs={place}/outputs", *SMALL
    )
    assert "is finished already" in again.stdout


def test_a_csv_through_every_command(place, data_root):
    with open("mail.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["subject", "kind"])
        for i in range(40):
            writer.writerow([f"win money now, {i}" if i % 2 else f"see you at {i}", ["ham", "spam"][i % 2]])
    files = ["task=csv", "task.train=mail.csv", "task.text=subject", "task.label=kind"]
    root = f"model.data_root={data_root}"
    files.append("task.max_length=12")
    trained = done("train", *files, "model=stories260k", root, "run=mail", *SMALL)
    assert "csv train: 29 samples: ham 15, spam 14" in trained.stdout or "csv train: 29" in trained.stdout
    assert "tokens" in trained.stdout and "no test split: 20% of train" in trained.stdout
    plain, encrypted, printed = through("outputs/mail")
    assert plain["samples"] == 8 and plain["by_class"].keys() == {"ham", "spam"} and encrypted["samples"] == 2
    assert "ham" in printed
    with open("mail.csv", "a") as stream:
        stream.write("another,ham\n")
    changed = call("eval_plain", "ckpt=outputs/mail")
    assert changed.returncode == 2 and "is not what the checkpoint was trained with" in changed.stderr


def test_texts_longer_than_the_models_positions_are_refused_before_anything_is_trained(place):
    config = {"vocab_size": 50, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    config |= {"num_attention_heads": 2, "max_position_embeddings": 16}
    BertForSequenceClassification(BertConfig(**config)).save_pretrained("own")
    tokenizer("pad", pad_token="pad").save_pretrained("own")
    rows = [f"{'w1 ' * (3 + i)},{i % 2}" for i in range(20)]  # of 3 to 22 tokens
    (place / "long.csv").write_text("\n".join(["text,label", *rows]))
    model = ["model=hf", "model.path=own", "task=csv", "task.train=long.csv"]
    refused = call("train", *model)
    told = refused.stderr.splitlines()[-1]  # behind transformers' bars
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert told.startswith("error: model hf cannot read the longest text of train, of 22 tokens: cut texts by a")
    assert not (place / "outputs").exists() or not list((place / "outputs").rglob("ckpt-*"))
    done("train", *model, "task.max_length=16", "train.epochs=1", "run=own")
    ckpt = next((place / "outputs" / "own").glob("ckpt-*"))
    assert json.loads((ckpt / "host" / "config.json").read_text())["id2label"] == {"0": "0", "1": "1"}


def test_bad_data_is_one_sentence_and_code_2(place):
    (place / "a.csv").write_text("text,label\nhello,1\nbye,0\n")
    for arguments, says in (
        (["task=csv"], "task=csv needs task.train=FILE"),
        (["task=csv", "task.train=b.csv"], "needs a file, and there is none at"),
        (["task=csv", "task.train=a.csv", "task.label=kind"], "needs the column kind, and it has text, label"),
        (["task=image_folder"], "needs task.root=FOLDER"),
        (["task=hub"], "task=hub needs task.name"),
    ):
        refused = call("train", *arguments)
        assert refused.returncode == 2 and refused.stderr.startswith("error: "), refused.stderr
        assert says in refused.stderr and len(refused.stderr.splitlines()) == 1
    assert not (place / "outputs").exists()
