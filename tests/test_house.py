"""scripts/repo/house.py: what is counted in a tree, and that a commit has the numbers that it had."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

from cgf.errors import UserError

FOLDER = Path(__file__).parents[1] / "scripts" / "repo"
LONG = "def long():\n" + "    pass\n" * 50
SOURCE = f'''"""A module."""
from typing import Any, overload


class Public:
    def method(self, a, b, c, d, e, f, g, *, h):
        """Seven may be given by place."""

    def _own(self, a, b, c, d, e, f): ...

    @overload
    def either(self): ...

    def bare(self, x: Any) -> dict[str, Any]:
        import json

        return json.loads(x)  # type: ignore
        # not a comment of that kind: "type: ignored"


{LONG}'''


@pytest.fixture
def house(tmp_path, monkeypatch):
    """The script as a module, on a repository of one commit."""
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("house", FOLDER / "house.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    for path, text in (("a.py", SOURCE), ("tests/b.py", SOURCE), ("c.txt", SOURCE)):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    return module


def test_numbers_of_a_tree_and_of_its_commit(house, tmp_path):
    numbers = house.measured(None)
    assert numbers == house.measured("HEAD")
    assert numbers["files"] == 1 and numbers["files over 250 lines"] == []
    assert numbers["functions over 50 lines"] == ["a.py: long 51"]
    assert numbers["functions of 7 or more positional parameters"] == ["a.py: method 7"]
    assert numbers["Any"] == ["a.py: 2"] * 2 and len(numbers["type: ignore"]) == 1
    documented = numbers["public definitions without a docstring"]
    assert [each.split()[1] for each in documented] == ["Public", "bare", "long"]
    assert numbers["imports within functions"] == numbers["  no reason"] == 1
    (tmp_path / "a.py").write_text(SOURCE + "\n" * 250)
    assert house.measured("HEAD") == numbers and len(house.measured(None)["files over 250 lines"]) == 1


def test_a_commit_that_is_none_is_refused(house):
    with pytest.raises(UserError, match="git archive did not end well"):
        house.measured("nothing")


def mutations():
    spec = importlib.util.spec_from_file_location("mutations", FOLDER / "mutations.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("expected", [1, 3])
def test_a_mutation_counts_as_found_only_where_its_tests_pass_without_it(monkeypatch, capsys, expected):
    def copy_to(folder):
        (folder / "m.py").write_text("x = 1\n")
        (folder / "test_m.py").write_text(f"from m import x\n\n\ndef test_m():\n    assert x == {expected}\n")
        return folder

    module = mutations()
    monkeypatch.setattr(module, "MUTATIONS", {"another x": ("m.py", "x = 1", "x = 2", "test_m.py")})
    monkeypatch.setattr(module, "copy_to", copy_to)
    monkeypatch.setattr("sys.argv", ["mutations.py"])
    if expected == 1:
        assert module.main() == 0 and "1 of 1 were found" in capsys.readouterr().out
        return
    with pytest.raises(
        SystemExit, match=r"test_m\.py must pass on the unedited copy to find an edit, and does not: FA"
    ):
        module.main()
    assert "found" not in capsys.readouterr().out


def test_every_mutation_has_one_place_in_the_source():
    module = mutations()
    counts = {name: (FOLDER.parents[1] / row[0]).read_text().count(row[1]) for name, row in module.MUTATIONS.items()}
    assert counts and set(counts.values()) == {1}, {name: count for name, count in counts.items() if count != 1}
