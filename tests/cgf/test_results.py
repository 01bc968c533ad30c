import errno
import json
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from cgf import provenance, results
from cgf.errors import UserError
from cgf.results import append_line, find_results, read_json, read_lines, run_info, write_json
from cgf.target import check_writable


def test_numpy_values_come_back_as_plain_ones(tmp_path):
    path = tmp_path / "new" / "eval" / "a.json"
    write_json(path, {"accuracy": np.float32(0.5), "n": np.int64(3), "range": np.array([1.0, 2.0]), "ok": np.True_})
    assert read_json(path) == {"accuracy": 0.5, "n": 3, "range": [1.0, 2.0], "ok": True}
    assert [entry.name for entry in path.parent.iterdir()] == ["a.json"]


@pytest.mark.parametrize("path", ["/proc/a.json", "/proc/new/a.json"])  # where not even root makes a file
def test_a_place_that_cannot_be_written_is_told(path):
    for write in (
        lambda: write_json(path, {"accuracy": 0.5}),
        lambda: append_line(path, {"accuracy": 0.5}),
        lambda: check_writable(path),
        lambda: results.check_replaceable(path, bool),
    ):
        with pytest.raises(UserError, match=rf"{path} cannot be written: "):
            write()


def test_what_the_system_refuses_while_writing_is_told_and_a_full_disk_is_not(tmp_path, monkeypatch):
    """A full disk has a sentence of its own, which needs the error."""
    path = tmp_path / "a.json"
    for number, kind in ((errno.EROFS, UserError), (errno.EIO, UserError), (errno.ENOSPC, OSError)):

        def refuse(_, number=number):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(kind, match=os.strerror(number)):
            write_json(path, {"accuracy": 0.5})
    assert not list(tmp_path.iterdir())


def test_a_place_that_can_be_written_stays_as_it_is(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "there" / "a.json")
    for name in ("a.json", "new/folders/a.json", "link"):
        check_writable(tmp_path / name)
    assert [entry.name for entry in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize("stage", ["replace", "fsync"])
def test_a_crash_while_writing_leaves_the_old_file(tmp_path, monkeypatch, stage):
    path = tmp_path / "a.json"
    write_json(path, {"accuracy": 0.5})

    def crash(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, stage, crash)
    with pytest.raises(OSError, match="no space left"):
        write_json(path, {"accuracy": 0.6})
    monkeypatch.undo()
    assert read_json(path) == {"accuracy": 0.5}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_kill_between_writing_and_renaming_leaves_the_old_file(tmp_path):
    (tmp_path / "eval").mkdir()
    path = tmp_path / "eval" / "a.json"
    write_json(path, {"accuracy": 0.5})
    code = (
        "import os, signal, cgf.results as r; os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL);"
        f"r.write_json({str(path)!r}, {{'accuracy': 0.6}})"
    )
    killed = subprocess.run([sys.executable, "-c", code], cwd=os.path.dirname(os.path.dirname(results.__file__)))
    assert killed.returncode == -9
    assert [row["accuracy"] for row in find_results(tmp_path)] == [0.5]  # what the kill left is no result
    assert len(list(path.parent.iterdir())) == 2
    write_json(path, {"accuracy": 0.7})  # whoever writes next removes it
    assert [entry.name for entry in path.parent.iterdir()] == ["a.json"] and read_json(path) == {"accuracy": 0.7}


def test_what_another_process_is_writing_is_not_removed(tmp_path, monkeypatch):
    """Nor what is of another file, or no regular file at all."""
    path, replace = tmp_path / "a[1].json", os.replace
    others = [tmp_path / ".b.json.1.tmp", tmp_path / ".a1.json.1.tmp"]
    for other in others:
        other.touch()
    os.mkfifo(tmp_path / ".a[1].json.2.tmp")
    (tmp_path / ".a[1].json.3.tmp").symlink_to("there")
    codes = []

    def meanwhile(part, target):
        child = os.fork()
        if not child:
            os.replace = replace
            write_json(path, {"by": "another"})
            os._exit(0 if part.exists() else 1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        replace(part, target)

    monkeypatch.setattr(os, "replace", meanwhile)
    write_json(path, {"by": "one"})
    assert codes == [0] and read_json(path) == {"by": "one"}
    others.append(tmp_path / ".a[1].json.2.tmp")
    assert all(other.exists() for other in others) and (tmp_path / ".a[1].json.3.tmp").is_symlink()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), np.float32("-inf"), np.array(np.nan)])
def test_numbers_that_are_not_finite_are_refused_by_name(tmp_path, bad):
    path = tmp_path / "a.json"
    with pytest.raises(ValueError, match=r"seconds\.circuit"):
        write_json(path, {"seconds": {"circuit": bad}})
    with pytest.raises(ValueError, match=r"range\[1\]"):
        append_line(path, {"range": [0.0, bad]})
    assert not path.exists()


def test_what_json_cannot_hold_is_refused_by_name(tmp_path):
    with pytest.raises(TypeError, match=r"layers\[0\]\.names is a set"):
        write_json(tmp_path / "a.json", {"layers": [{"names": {"x"}}]})
    assert not list(tmp_path.iterdir())


def test_a_torn_last_line_is_dropped_and_cut_off_before_the_next(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_lines(path) == []
    append_line(path, {"step": 1})
    append_line(path, {"step": 2})
    with open(path, "ab") as file:
        file.write(b'{"step": 3, "lo')
    assert read_lines(path) == [{"step": 1}, {"step": 2}]
    append_line(path, {"step": 3})
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n{"step": 3}\n'


def test_a_file_that_is_one_torn_line_starts_anew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1')
    assert read_lines(path) == []
    append_line(path, {"step": 1})
    assert read_lines(path) == [{"step": 1}]


def test_a_last_line_that_is_whole_counts_without_its_line_feed(tmp_path):
    """An editor leaves one so; a register would otherwise forget an opening."""
    path = tmp_path / "opened.jsonl"
    path.write_text('{"row": "a"}\n{"row": "b"}')
    assert read_lines(path) == [{"row": "a"}, {"row": "b"}]
    append_line(path, {"row": "c"})
    assert path.read_text() == '{"row": "a"}\n{"row": "b"}\n{"row": "c"}\n'


def test_processes_that_append_to_one_file_lose_no_line(tmp_path):
    path = tmp_path / "lines.jsonl"
    code = (
        "import sys; from cgf.results import append_line\n"
        "for i in range(300): append_line(sys.argv[1], {'of': sys.argv[2], 'i': i, 'text': 'x' * 6000})"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "ab"]
    assert [process.wait(timeout=300) for process in both] == [0, 0]
    lines = read_lines(path)
    assert sorted((line["of"], line["i"]) for line in lines) == [(name, i) for name in "ab" for i in range(300)]


def test_a_private_file_is_read_by_its_owner_alone(tmp_path):
    write_json(tmp_path / "a.json", {"a": 1}, private=True)
    write_json(tmp_path / "b.json", {"a": 1})
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("a.json", "b.json")]
    assert modes[0] == 0o600 and modes[1] & 0o400 and read_json(tmp_path / "a.json") == {"a": 1}


def test_damage_elsewhere_in_a_log_is_named_by_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(UserError, match=r"metrics\.jsonl .* line 2"):
        read_lines(path)


def test_reading_what_is_missing_or_damaged_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match=r"none\.json is needed"):
        read_json(tmp_path / "none.json")
    for text in ('{"accuracy": 0.', "", '{"accuracy": NaN}', "\x00\x00"):
        (tmp_path / "half.json").write_text(text)
        with pytest.raises(UserError, match=r"half\.json should be a JSON file"):
            read_json(tmp_path / "half.json")
    with pytest.raises(UserError, match="cannot be read"):
        read_json(tmp_path)


def test_results_are_found_at_any_depth_and_only_in_eval(tmp_path):
    write_json(tmp_path / "run" / "ckpt-8" / "eval" / "b.json", {"kind": "eval_he"})
    write_json(tmp_path / "run" / "ckpt-8" / "plan.json", {"method": "chain"})
    append_line(tmp_path / "run" / "ckpt-8" / "eval" / "b.jsonl", {"sample": 0})
    write_json(tmp_path / "eval" / "a.json", {"kind": "eval_plain"})
    found = find_results(tmp_path)
    assert [(row["kind"], row["_path"]) for row in found] == [
        ("eval_plain", str(tmp_path / "eval" / "a.json")),
        ("eval_he", str(tmp_path / "run" / "ckpt-8" / "eval" / "b.json")),
    ]


def test_a_damaged_result_is_named(tmp_path):
    write_json(tmp_path / "eval" / "good.json", {"kind": "eval_plain"})
    (tmp_path / "eval" / "torn.json").write_text('{"kind": "ev')
    with pytest.raises(UserError, match=r"torn\.json"):
        find_results(tmp_path)
    write_json(tmp_path / "eval" / "torn.json", [1])
    with pytest.raises(UserError, match=r"torn\.json should hold one JSON object"):
        find_results(tmp_path)
    with pytest.raises(UserError, match="nowhere"):
        find_results(tmp_path / "nowhere")


def test_run_info_says_where_a_number_comes_from(tmp_path):
    config = {"softmax": {"order": 2}}
    info = run_info(config, seed=42, data={"digits": "1.9"}, model={"vit": None})
    assert (info["config"], info["seed"], info["data"], info["model"]) == (config, 42, {"digits": "1.9"}, {"vit": None})
    assert info["versions"]["numpy"] == np.__version__
    assert info["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert info["hardware"]["cores"] > 0
    assert info["hardware"]["memory_gib"] > 0
    assert info["time_utc"].endswith("+00:00")
    write_json(tmp_path / "run.json", info)
    assert read_json(tmp_path / "run.json") == info


def test_run_info_cuts_home_and_working_directory(tmp_path, monkeypatch):
    work = tmp_path / "me" / "work"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    home = str(tmp_path / "me")
    monkeypatch.setattr(sys, "argv", [f"{work}/train.py", f"ckpt={work}/out", f"data.root={home}/data", f"a={work}"])
    info = run_info(config={"root": [f"{home}/data", f"{home}2/data", f"/mnt{home}/x"]})
    assert info["command"] == ["train.py", "ckpt=out", "data.root=~/data", "a=."]
    assert info["config"] == {"root": ["~/data", f"{home}2/data", f"/mnt{home}/x"]}


def test_git_reads_commit_and_dirty_flag(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance._git(tmp_path) == {"commit": None, "dirty": None}

    def git(*args):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=t", "-c", "user.email=t@t", *args], check=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    clean = provenance._git(tmp_path)
    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False
    (tmp_path / "results" / "train").mkdir(parents=True)
    (tmp_path / "results" / "train" / "row.json").touch()
    assert provenance._git(tmp_path) == clean  # a new row of results leaves the next one's tree as it was
    (tmp_path / "new.py").touch()
    assert provenance._git(tmp_path) == {"commit": clean["commit"], "dirty": True}
    (tmp_path / "new.py").unlink()
    git("add", "results")
    git("commit", "-q", "-m", "row")
    (tmp_path / "results" / "train" / "row.json").write_text("{}")
    assert provenance._git(tmp_path)["dirty"] is True  # one that is changed may be read by what runs next


def test_importing_results_and_report_loads_no_model_library():
    code = (
        "import sys, cgf.results, cgf.report.page; cgf.results.run_info();"
        "print([m for m in ('torch', 'hydra', 'transformers', 'timm', 'desilofhe') if m in sys.modules])"
    )
    root = os.path.dirname(os.path.dirname(results.__file__))
    out = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert json.loads(out.stdout.replace("'", '"')) == []


def test_only_regular_files_are_written(tmp_path):
    """Neither a fifo nor a device nor a folder is replaced; a link stays a link, and is judged by its target."""
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("real.json")
    (tmp_path / "new.json").symlink_to("there/made.json")
    (tmp_path / "device.json").symlink_to("/dev/full")
    for name, what in (("fifo.json", "a fifo"), ("folder.json", "a folder"), ("device.json", "a device")):
        for write in (write_json, append_line):
            with pytest.raises(UserError, match=f"{name} must be a regular file to be written to, and is {what}"):
                write(tmp_path / name, {"a": 1})
    with pytest.raises(UserError, match=r"file/a.json cannot be written"):
        write_json(tmp_path / "file" / "a.json", {})
    for name, target in (("link.json", "real.json"), ("new.json", "there/made.json")):
        write_json(tmp_path / name, {"a": 1})
        append_line(tmp_path / name, {"b": 2})
        assert (tmp_path / name).is_symlink() and (tmp_path / target).read_text().endswith('{"b": 2}\n')
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode) and stat.S_ISFIFO(os.stat(tmp_path / "fifo.json").st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_not_replaced(tmp_path):
    device = tmp_path / "full.json"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
    except OSError:
        pytest.skip("no device can be made here")
    with pytest.raises(UserError, match="is a device"):
        write_json(device, {"a": 1})
    assert stat.S_ISCHR(device.stat().st_mode) and [p.name for p in tmp_path.iterdir()] == ["full.json"]
