"""Checkpoints pushed to a hub: what goes there and what stays; the network is replaced, all else is real."""

import sys

import pytest
from digits_checkpoint import checkpoint_fixture, trained_run_fixture  # noqa: F401
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

import cgf
from cgf.cli import COMMANDS
from cgf.distill.wandb_log import ARTIFACTS
from cgf.errors import UserError
from cgf.interface.publish import files_of
from cgf.seal import sealed
from scripts import push


@pytest.fixture
def hub(monkeypatch):
    """Questions to the hub, in their order; ``hub.fails`` is raised by the one of that name."""

    class Hub(list):
        fails = ("", None)

    calls = Hub()

    def answer(name, given):
        def asked(self, *args, **options):
            calls.append((name, args, options))
            if calls.fails[0] == name:
                raise calls.fails[1]
            return given

        return asked

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    for name, given in (("whoami", {}), ("create_repo", "https://hub/me/small"), ("upload_folder", None)):
        monkeypatch.setattr(f"huggingface_hub.HfApi.{name}", answer(name, given))
    return calls


@pytest.fixture
def folder(checkpoint):
    """A checkpoint with its plan, a result with its lines and trace, and a state to resume."""
    own = checkpoint
    for name in (
        "eval/he.json",
        "eval/he.jsonl",
        "eval/predictions/he.npz",
        "eval/he.png",
        "state/x.safetensors",
        "notes.txt",
    ):
        (own / name).parent.mkdir(exist_ok=True)
        (own / name).write_text("{}")
    return own


def test_card_weights_descriptions_plan_and_results_are_pushed_and_nothing_else(folder, hub):
    pushed = cgf.push_to_hub(folder, "me/small")
    whoami, create, upload = hub
    assert whoami[0] == "whoami" and create[1:] == (("me/small",), {"private": True, "exist_ok": True})
    files = {
        "README.md",
        "run.json",
        "model.safetensors",
        "softmax.json",
        "plan.json",
        "eval/he.json",
        "eval/predictions/he.npz",
    }
    assert set(pushed.files) == files
    assert upload[2]["repo_id"] == "me/small" and upload[2]["folder_path"] == folder
    assert upload[2]["allow_patterns"] == list(pushed.files) and pushed.address == "https://hub/me/small"
    assert cgf.push_to_hub(folder, "me/small", public=True) == pushed and hub[4][2]["private"] is False


def test_what_a_text_host_is_read_from_goes_along(tmp_path):
    adapters = ("host/adapters/adapter_config.json", "host/adapters/adapter_model.safetensors")  # of tune.keep=true
    needed = (*adapters, "host/config.json", "host/tokenizer.json", "model.safetensors", "softmax.json")
    for name in (*needed, "pareto.png", "state/optimizer.pt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert files_of(tmp_path) == needed
    hashed = sealed({}, tmp_path)["files"]  # which whoever reads the checkpoint asks for
    assert set(hashed) == set(needed)
    in_artifact = {path for pattern in ARTIFACTS["checkpoint"] for path in tmp_path.glob(pattern) if path.is_file()}
    assert {path.relative_to(tmp_path).as_posix() for path in in_artifact} == set(needed)


@pytest.mark.parametrize("name", ["small", "me/", "me/small/x", "https://hub/me/small", ""])
def test_another_name_is_refused(folder, hub, name):
    with pytest.raises(UserError, match="is named OWNER/NAME"):
        cgf.push_to_hub(folder, name)
    assert not hub


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: (f / "README.md").unlink(), "has no model card"),
        (lambda f: (f / "model.safetensors").write_bytes(b"0"), "was changed or damaged"),
        (lambda f: (f / "run.json").unlink(), "holds no complete checkpoint"),
        (lambda f: (f / "eval" / "more.json").symlink_to("/etc/hostname"), "holds links"),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_refused_before_the_hub_is_asked(folder, hub, spoil, said):
    spoil(folder)
    with pytest.raises(UserError, match=said):
        cgf.push_to_hub(folder, "me/small")
    assert not hub


class Refused(HfHubHTTPError):
    def __init__(self):
        Exception.__init__(self, "403 Forbidden\nmore")


@pytest.mark.parametrize(
    ("step", "error", "said"),
    [
        ("whoami", LocalTokenNotFoundError("no token"), "without a login: run `hf auth login`"),
        ("create_repo", Refused(), r"the hub refuses to take me/small: 403 Forbidden$"),
        ("upload_folder", ConnectionError("no route"), r"could not be pushed \(ConnectionError: no route\)"),
    ],
)
def test_a_hub_that_refuses_or_does_not_answer_is_one_sentence(folder, hub, step, error, said):
    hub.fails = (step, error)
    with pytest.raises(UserError, match=said):
        cgf.push_to_hub(folder, "me/small")
    assert hub[-1][0] == step


def test_offline_nothing_is_asked(folder, hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        cgf.push_to_hub(folder, "me/small")
    assert not hub


def test_the_command(folder, hub, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["push.py", str(folder), "me/small"])
    assert push.main() == 0 and "push" in COMMANDS
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "README.md" and shown[-1] == "https://hub/me/small"
    monkeypatch.setattr(sys, "argv", ["push.py", str(folder), "small"])
    assert push.main() == 2 and capsys.readouterr().err.startswith("error: a repository of the hub")
    monkeypatch.setattr(sys, "argv", ["push.py", "no\x1b]0;x\x07where", "me/small"])
    assert push.main() == 2 and "\\x1b" in (said := capsys.readouterr().err) and "\x1b" not in said
