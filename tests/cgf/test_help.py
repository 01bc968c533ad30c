"""--help of every entry point: what it does, examples, choices and keys with their comments, in about a second."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from cgf.help import CONFIGS, choices, chosen, examples, explained, groups, header, keys, known, nearest, one_line, text

ROOT = Path(__file__).parents[2]
MAIN = ("train", "eval_plain", "eval_he", "plan", "friendly", "merge_shards")


@pytest.mark.parametrize("name", MAIN)
def test_the_file_of_every_entry_point_has_three_examples(name):
    shown = examples(name)
    assert len(shown) >= 3 and all(line.startswith("python ") for line in shown)


def test_every_choice_says_what_it_is():
    for group in {group for name in MAIN for group in groups(name)}:
        assert all(choices(group).values()), group


def test_groups_and_their_defaults():
    assert groups("train") == {
        "model": "vit_digits",
        "task": "digits",
        "softmax": "cgf",
        "norm": "exact",
        "activation": "exact",
        "distill": "none",
        "tune": "full",
        "experiment": "null",
    }
    assert groups("eval_he")["softmax"] == "null"
    assert chosen("train", ["task=csv", "train.lr=1"])["task"] == "csv"


def test_keys_have_their_names_values_and_comments(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(
        "# What it is.\ndefaults:\n  - _self_\n\nckpt: null   # a folder\nlist: [1, 2]\ntrain:  # all of it\n"
        '  lr: 1.0e-4\n  named: "a # b"   # kept\n  deep:\n    low: 0.5  # first\n              # second\n'
        "hydra:\n  run: {}\n"
    )
    assert [(key.name, key.value, key.comment) for key in keys(path)] == [
        ("ckpt", "null", "a folder"),
        ("list", "[1, 2]", ""),
        ("train", "", "all of it"),
        ("train.lr", "1.0e-4", ""),
        ("train.named", '"a # b"', "kept"),
        ("train.deep", "", ""),
        ("train.deep.low", "0.5", "first second"),
    ]
    assert one_line(path) == "What it is." and header(path) == ["What it is."]


def test_every_key_of_every_file_is_explained():
    """By its own comment, by a note of the header for keys that stand there many times, or where it is set first."""
    silent = []
    for path in sorted(CONFIGS.rglob("*.yaml")):
        if path.name == "paper.yaml":  # rows of tables, which are no keys
            continue
        group = ".".join(path.relative_to(CONFIGS).parts[:-1])
        shown = explained(path, group)
        names = [key.name for key in shown]
        silent += [
            f"{path.name}: {key.name}"
            for key in shown
            if not key.comment and (key.value or not any(name.startswith(f"{key.name}.") for name in names))
        ]
    assert not silent


def test_a_key_without_a_comment_takes_the_one_of_another_place(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text("# What it is.\n#   runs.*.after: the run before\nruns:\n  a:\n    after: b\n    other: c\n")
    said = {key.name: key.comment for key in explained(path)}
    assert said["runs.a.after"] == "the run before" and said["runs.a.other"] == ""
    said = {key.name: key.comment for key in explained(CONFIGS / "experiment" / "llama_lora.yaml", "experiment")}
    assert said["train.lr"] == "learning rate of AdamW at its peak" and said["tune.rank"] == "of the adapters"
    said = {key.name: key.comment for key in explained(CONFIGS / "host" / "minilm.yaml", "host")}
    assert said["runs.lora.options"] == "overrides of train.py"
    assert said["runs.lora_tempered"].startswith("queries of the base model")  # its own


@pytest.mark.parametrize("name", MAIN)
def test_no_key_is_left_out(name):
    """Every key that Hydra composes from the entry point's own file is shown."""
    from omegaconf import OmegaConf

    def flat(node, prefix=""):
        for key, value in node.items():
            yield prefix + key
            if isinstance(value, dict):
                yield from flat(value, f"{prefix}{key}.")

    config = OmegaConf.to_container(OmegaConf.load(CONFIGS / f"{name}.yaml"), resolve=False)
    own = {key: value for key, value in config.items() if key not in ("defaults", "hydra")}
    assert set(flat(own)) == {key.name for key in keys(CONFIGS / f"{name}.yaml")}


def test_the_text_in_both_forms():
    shown = text("train", "Trains a model: python train.py model=x\n\nMore.", "python train.py", ["task=csv"])
    assert shown.startswith("Trains a model.\n\nusage: python train.py [GROUP=CHOICE ...]")
    assert "  cgf                      CGF-softmax with the first two cumulants (the paper's choice)." in shown
    assert "  train.epochs=3           0: the model is validated and saved as it stands" in shown
    assert "keys of task=csv:\n  task.name=csv" in shown and "More." not in shown
    assert "\n  cgf train softmax=cgf distill=kd" in text("train", "Trains.", "cgf train", [])
    assert all(len(line) <= 120 for line in shown.splitlines())


def test_a_command_shows_those_of_others_under_their_own_names():
    shown = text("merge_shards", "Merges.", "cgf merge-shards", [])
    assert "\n  cgf merge-shards shards='[a-shard1of2.json,a-shard2of2.json]' out=a.json\n" in shown
    assert "\n  python eval_he.py ckpt=outputs/RUN he.shard=1/2 out=a-shard1of2.json\n" in shown


def test_the_line_of_a_choice_is_a_whole_sentence():
    assert choices("model")["hf"].endswith("attention interface: model=hf model.path=FOLDER or a hub id (owner/name).")
    cut = [f"{g}={name}" for g in groups("train") for name, said in choices(g).items() if not said.endswith((".", ")"))]
    assert not cut


def test_the_nearest_name():
    assert nearest("clinc15", list(choices("task"))) == "; did you mean 'clinc150'?"
    assert nearest("train.lrr", known("train", [])) == "; did you mean 'train.lr'?"
    assert nearest("task.lable", known("train", ["task=csv"])) == "; did you mean 'task.label'?"
    assert nearest("nothing_like_it", known("train", [])) == ""


@pytest.mark.parametrize(
    "script", ["train.py", "eval_he.py", "scripts/friendly.py", "scripts/report.py", "scripts/push.py", "-m cgf.cli"]
)
def test_help_comes_without_what_takes_long_to_load(script):
    code = (
        "import runpy, sys\n"
        f"sys.argv = [{script.split()[-1]!r}, '--help']\n"
        "try:\n"
        + (
            f"    runpy.run_path({script!r}, run_name='__main__')\n"
            if script.endswith(".py")
            else "    import cgf.cli; cgf.cli.main()\n"
        )
        + "except SystemExit as end:\n    assert not end.code\n"
        "heavy = {'torch', 'transformers', 'timm', 'datasets', 'matplotlib', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "examples:" in done.stdout and time.monotonic() - start < 10  # 0.3 s on a quiet machine


def test_the_console_command(capsys, monkeypatch):
    from cgf import cli

    monkeypatch.setattr(sys, "argv", ["cgf", "trian"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2 and "did you mean 'train'?" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["cgf", "eval-plain", "--help"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    shown = capsys.readouterr().out
    assert not end.value.code and "usage: cgf eval-plain" in shown and "cgf eval-plain ckpt=outputs/RUN" in shown


def test_a_misspelled_name_is_told_with_the_nearest():
    from cgf.config import check_overrides
    from cgf.errors import UserError

    for given, meant in (("softmax=cfg", "'cgf'"), ("train.epoch=1", "'train.epochs'"), ("modle=llama", "'model'")):
        with pytest.raises(UserError, match=f"did you mean {meant}"):
            check_overrides("train", [given])


def test_a_group_that_is_given_a_setting_it_lacks_says_how_one_is_added():
    from cgf.errors import UserError
    from cgf.overrides import check_overrides

    with pytest.raises(UserError, match=r"model\.options takes further settings one by one: \+model\.options\.NAME="):
        check_overrides("train", ["model=timm", "model.options={depth: 2}"])
    check_overrides("train", ["model=timm", "+model.options.depth=2", "model.img_size=64"])
