"""docs/ pages that are made from the source: none is stale, and what they must hold is there."""

import ast
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
import yaml

from cgf.help import CONFIGS
from scripts.repo import drawings, errors, methods, paper_page


@pytest.mark.parametrize("maker", [errors, methods, drawings, paper_page])
def test_no_page_is_stale(maker, capsys):
    assert maker.main(["--check"]) == 0, capsys.readouterr().err


def test_every_error_message_of_the_project_is_found_in_troubleshooting():
    """Against a grep of its own: every line with ``UserError(`` and a text after it has that text on the page."""
    page = errors.PAGE.read_text().replace("\\", "").replace("&lt;", "<").replace("&amp;", "&")
    missing, count = [], 0
    for path in errors.files():
        for match in re.finditer(r"raise UserError\(\s*f?\"((?:[^\"\\{}]){12,})", path.read_text()):
            count += 1
            if match[1].strip() not in page:
                missing.append(f"{path.name}: {match[1]}")
    assert count > 150 and not missing


def test_templates_of_messages():
    def template(source):
        return errors.template(ast.parse(source, mode="eval").body)

    assert template("f'{a} needs ' + f'one of {b!r}' + c") == "… needs one of ……"
    assert errors.escaped("a|b [c] <d> x_y") == r"a\|b \[c\] &lt;d> x\_y"


def test_messages_that_are_passed_on_are_found():
    texts = {message.text for message in errors.messages()}
    assert any("another process evaluates into" in text for text in texts)  # what cgf.lock raises, given by two calls
    assert "…" not in texts


def test_a_message_without_advice_and_idle_advice_are_refused(monkeypatch, capsys):
    made = errors.messages()
    monkeypatch.setattr(errors, "messages", lambda: [*made, errors.Message("new", "nowhere/new.py")])
    assert errors.main(["--check"]) == 1 and "needs a part for nowhere/new.py" in capsys.readouterr().err
    monkeypatch.setattr(errors, "messages", lambda: made[:5])
    assert errors.main(["--check"]) == 1 and "patterns that no message takes" in capsys.readouterr().err


def test_stale_pages_are_refused_and_written_anew(tmp_path, monkeypatch, capsys):
    page = tmp_path / "troubleshooting.md"
    page.write_text(f"# By hand\n{errors.BEGIN}\nold\n{errors.END}\nafter\n")
    for module, name, value in (
        (errors, "PAGE", page),
        (methods, "PAGES", tmp_path / "methods"),
        (drawings, "FOLDER", tmp_path / "drawings"),
        (paper_page, "PAGE", tmp_path / "paper.md"),
    ):
        monkeypatch.setattr(module, name, value)
        assert module.main(["--check"]) == 1 and "is stale" in capsys.readouterr().err
        assert module.main([]) == 0 and module.main(["--check"]) == 0
    assert page.read_text().startswith("# By hand\n") and page.read_text().endswith("after\n")


def test_every_softmax_has_a_page_and_every_row_of_the_paper_its_command(monkeypatch):
    shown = "".join(methods.pages().values())
    for path in (CONFIGS / "softmax").glob("*.yaml"):
        assert f"`softmax={path.stem}`" in shown
    for commands in yaml.safe_load((CONFIGS / "paper.yaml").read_text()).values():
        assert all(command.replace("|", "\\|") in paper_page.page() for command in commands.values())
    words = methods.yaml.safe_load(methods.WORDS.read_text())
    del words["quad"]
    monkeypatch.setattr(methods.yaml, "safe_load", lambda text: words)
    with pytest.raises(LookupError, match="needs a page for softmax quad"):
        methods.pages()


@pytest.mark.parametrize("name", drawings.DRAWINGS)
def test_drawings_are_well_formed_and_stay_inside_their_frame(name):
    root = ElementTree.fromstring(drawings.DRAWINGS[name]())
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert "prefers-color-scheme:dark" in drawings.STYLE and root.find("{*}title").text
    for node in root.iter():
        if node.tag.endswith("rect"):
            x, y, w, h = (float(node.attrib[key]) for key in ("x", "y", "width", "height"))
            assert x >= 0 and x + w <= width and y >= 0 and y + h <= height
        if node.tag.rpartition("}")[2] == "text":
            length = (5.6 if node.get("class") == "s" else 7) * len(node.text)
            start = (
                float(node.attrib["x"]) - {"start": 0, "middle": length / 2, "end": length}[node.attrib["text-anchor"]]
            )
            assert start >= 0 and start + length <= width and float(node.attrib["y"]) <= height


def test_a_maker_runs_as_a_script():
    command = [sys.executable, "scripts/repo/errors.py", "--check"]
    done = subprocess.run(command, cwd=errors.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
