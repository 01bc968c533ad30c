"""docs/reference/ is what the configurations and docstrings say, and a stale page is noticed."""

import re

import pytest
from omegaconf import OmegaConf

import cgf
from cgf.report.settings_table import value as shown_value
from scripts.repo import reference


def flat(node, prefix=""):
    for key, value in node.items():
        yield prefix + str(key)
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")


def test_both_pages_are_as_they_would_be_made_now(capsys):
    assert reference.main(["--check"]) == 0, "python scripts/repo/reference.py"
    assert "have no comment" not in capsys.readouterr().err


def test_a_key_without_a_comment_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(reference.shown, "notes", lambda path: {})
    assert reference.main(["--check"]) == 1
    assert re.search(r"error: \d{2,} keys of configs/ have no comment", capsys.readouterr().err)


def test_a_stale_page_is_refused_and_written_anew(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reference, "PAGES", tmp_path / "reference")
    assert reference.main(["--check"]) == 1 and not (tmp_path / "reference").exists()
    assert "settings.md is stale" in capsys.readouterr().err
    assert reference.main([]) == 0 and reference.main(["--check"]) == 0
    (tmp_path / "reference" / "python.md").write_text("old")
    assert reference.main(["--check"]) == 1 and "python.md is stale" in capsys.readouterr().err


def test_every_leaf_of_every_configuration_is_on_the_page():
    page, silent = reference.settings()
    named = set(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE))
    on_one_line = re.findall(r"^\| `([^`]+)` \| `{", page, re.MULTILINE)  # {a: 1} is the value of its key
    assert silent == len(re.findall(r"^\| `[^`]+` \| [^\n]* \|  \|$", page, re.MULTILINE))
    for name in reference.entry_points():
        config = OmegaConf.to_container(OmegaConf.load(reference.CONFIGS / f"{name}.yaml"), resolve=False)
        own = {key: value for key, value in config.items() if key not in reference.shown.HIDDEN}
        every, below = set(flat(own)), tuple(f"{key}." for key in on_one_line)
        leaves = {key for key in every if not any(other.startswith(f"{key}.") for other in every)}
        assert {key for key in leaves if not key.startswith(below)} <= named, name


@pytest.mark.parametrize("name", sorted(cgf._MODULES))
def test_every_name_of_the_package_is_on_the_page(name):
    page = (reference.ROOT / "docs" / "reference" / "python.md").read_text()
    assert f"### cgf.{name}\n```python\n{name}(" in page


def test_keys_of_a_choice_have_the_names_that_a_command_line_gives_them():
    assert "hydra.launcher.n_jobs" in [key.name for key in reference.keys_of("hydra/launcher", "parallel")]
    assert "train.lr" in [key.name for key in reference.keys_of("experiment", "digits_student")]
    assert shown_value("[a, b,") == "[a, b, …" and shown_value("[a]") == "[a]"
