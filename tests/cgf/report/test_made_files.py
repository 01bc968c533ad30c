"""Files that commands of the repository make: written where they differ, named where a check finds them stale."""

import pytest

from cgf.report.made_files import maker, write_or_check


def test_a_check_names_each_stale_file_and_writes_none(tmp_path, capsys):
    fresh, stale, absent = (tmp_path / name for name in ("fresh.md", "stale.md", "sub/absent.md"))
    fresh.write_text("new")
    stale.write_text("old")
    made = dict.fromkeys((fresh, stale, absent), "new")
    assert write_or_check(made, "scripts/repo/x.py", check=True) == 1
    said = capsys.readouterr().err.splitlines()
    assert said == [f"error: {path} is stale: python scripts/repo/x.py" for path in (stale, absent)]
    assert stale.read_text() == "old" and not absent.parent.exists()
    assert write_or_check(made, "scripts/repo/x.py", check=False) == 0
    assert capsys.readouterr().out.split() == [str(stale), str(absent)]  # the fresh one is left as it is
    assert [path.read_text() for path in made] == ["new"] * 3
    assert write_or_check(made, "scripts/repo/x.py", check=True) == 0


@pytest.mark.parametrize("arguments", [[], ["--check"]])
def test_what_the_files_are_made_of_and_is_missing_ends_with_a_sentence(tmp_path, arguments, capsys):
    def make():
        raise LookupError("words.yaml needs a page")

    assert maker(make, "About.", "scripts/repo/x.py", arguments) == 1
    assert capsys.readouterr().err == "error: words.yaml needs a page\n"
