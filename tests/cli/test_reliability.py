"""The commands that count what was survived, in a short form: their parts really run, and their sums are right."""

import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "repo"))

import fault_cases  # noqa: E402
import faults  # noqa: E402
import given  # noqa: E402
import long_runs  # noqa: E402
import reliability  # noqa: E402

sys.path.remove(str(ROOT / "scripts" / "repo"))  # its names are those of commands: none may stand before another module
from fault_cases import Case  # noqa: E402
from fault_processes import ended, start  # noqa: E402
from fault_targets import TARGETS, Target, digest, same, served, without  # noqa: E402

from cgf.errors import UserError  # noqa: E402
from cgf.results import append_lines, read_json, write_json  # noqa: E402


@pytest.fixture(autouse=True)
def signals_as_from_a_shell():
    """Whoever runs the tests may ignore some, and processes that are started ignore the same."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    faults.signals_as_from_a_shell()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """What the commands read."""
    base = tmp_path_factory.mktemp("faults") / "base"
    making = start(["tests/cli/fault_bases.py", base], base.parent)
    assert ended(making) == 0, making.stderr
    return base


@pytest.fixture(scope="module")
def references(base, tmp_path_factory):
    """An undisturbed run of a target, made when it is first asked for."""
    made = {}

    def reference(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("whole") / "here"
            made[name] = fault_cases.undisturbed(TARGETS[name], base, folder)
        return made[name]

    return reference


@pytest.mark.parametrize(
    "case",
    [Case("training", "HUP", share=0.5), Case("training", "full disk", share=0.6), Case("server", "TERM", share=0.5)],
    ids=lambda case: f"{case.target}, {case.fault}",
)
def test_a_fault_is_survived(case, base, references, tmp_path):
    if not (base / "server").is_dir() and case.target == "server":
        pytest.skip("the library of ciphertexts is not there")
    row = fault_cases.run(case, base, tmp_path / "case", references(case.target))
    assert row.verdict == "survived", row


SPOILING = """
import os, signal, subprocess, sys, time
from pathlib import Path
kind, first = sys.argv[1], not Path("results").exists()
Path("results").mkdir(exist_ok=True)
def stop(number, frame):
    if kind == "late":
        time.sleep(0.5)
    if kind == "traceback":
        raise RuntimeError("stopped")
    if kind == "orphan":
        subprocess.Popen(["sleep", "60"])
    told = "stopped by SIGTERM: " + ("two\\nlines" if kind == "two lines" else "whole")
    print(told, file=sys.stderr, flush=True)
    os._exit(143 if kind != "code" else 0)
signal.signal(signal.SIGTERM, stop)
if kind == "litter" and first:
    Path("results/.a.json.1.tmp").touch()
Path("results/ready").touch()
while first and Path("fault").exists():
    time.sleep(0.01)
if kind == "restart" and not first:
    sys.exit("no")
Path("results/1.result").write_text("another" if kind == "differs" and not first else "whole")
"""


@pytest.mark.parametrize(
    "kind, verdict",
    [
        ("well", "survived"),
        ("late", "hang"),
        ("traceback", "traceback"),
        ("orphan", "orphan"),
        ("two lines", "unclear"),
        ("code", "code"),
        ("litter", "litter"),
        ("restart", "restart"),
        ("differs", "differs"),
    ],
)
def test_a_fault_that_is_not_survived_is_seen(kind, verdict, tmp_path, monkeypatch):
    """A command that fails in one way, and one that does not."""
    monkeypatch.setattr(fault_cases, "AT_ONCE", 0.3)
    monkeypatch.setattr(fault_cases, "LINGER", 0.5)
    base = tmp_path / "base"
    base.mkdir()
    (base / "spoiling.py").write_text(SPOILING)
    (base / "fault").touch()
    target = Target("spoiling", ("-m", "spoiling", kind), ("results",), ("spoiling.py", "fault"), served)
    monkeypatch.setitem(TARGETS, "spoiling", target)
    monkeypatch.setattr(fault_cases, "_moment", lambda case, target, process, here, reference: ready(here))
    facts, names = {"1.result": digest_of_whole(tmp_path)}, ["results/1.result", "results/ready"]
    reference = fault_cases.Reference(facts, names, 5, 1.0)
    row = fault_cases.run(Case("spoiling", "TERM"), base, tmp_path / "case", reference)
    assert row.verdict == verdict, row


def ready(here):
    until = time.monotonic() + 60
    while not (here / "results" / "ready").exists() and time.monotonic() < until:
        time.sleep(0.005)
    return True


def digest_of_whole(folder):
    (folder / "whole").write_text("whole")
    return digest(folder / "whole")


def test_facts_are_compared_field_by_field():
    told = {"a": [1.0, {"b": "x"}], "train_s": 3, "run": {}, "peak_mib": 2, "git": {"commit": "c"}}
    assert without(told) == {"a": [1.0, {"b": "x"}]}
    assert same({"a": [1.0]}, {"a": [1.0]}, 0) == "" == same({"a": [1.0]}, {"a": [1.0005]}, 1e-3)
    assert same({"a": [1.0]}, {"a": [1.0005]}, 0) and same({"a": 1}, {"b": 1}, 1) and same([1], [1, 2], 1)
    assert same({"a": "x"}, {"a": "y"}, 1).startswith("a: ") and same({"a": 1}, {"a": 2}, 1.5)


def test_cases_are_drawn_by_their_number_alone():
    cases = [fault_cases.drawn(3, number) for number in range(400)]
    assert (
        cases
        == [fault_cases.drawn(3, number) for number in range(400)]
        != [fault_cases.drawn(4, number) for number in range(400)]
    )
    assert {case.target for case in cases} == set(TARGETS) and {case.fault for case in cases} == set(fault_cases.FAULTS)
    assert {(case.to, case.when) for case in cases} >= {("worker", "time"), ("group", "time"), ("parent", "write")}
    assert all(case.target == "training" for case in (fault_cases.drawn(3, n, ["training"]) for n in range(20)))


def test_counts_of_faults_leave_out_what_missed():
    def row(number, verdict, by=None):
        more = {} if by is None else {"by": by}
        case = {"fault": "full disk" if by else "KILL", "target": "plan", "when": "time", "to": "parent"}
        return {"number": number, "verdict": verdict, "end_s": None, "case": case, "more": more}

    records = [row(2, "differs"), row(0, "survived", "tmpfs"), row(1, "missed"), row(3, "survived")]
    counts = faults.counted(records, 2)
    assert (counts["faults_injected"], counts["faults_survived"]) == (2, 1)
    assert counts["verdicts"] == {"differs": 1, "survived": 1} and counts["full_disks_by"] == {"tmpfs": 1}


def test_a_process_that_grows_is_told_from_one_that_does_not(tmp_path):
    with long_runs.watched(0.002) as readings:
        kept = []
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            kept.append(mmap.mmap(-1, 2**18))  # pages of its own: an allocator may hold freed ones already
            kept[-1].write(bytes(2**18))
            time.sleep(0.002)
    told = readings.told(len(kept))
    assert told["mib_per_hour_95"][0] > 0 and told["mib_per_1000"] == pytest.approx(250, rel=0.3)
    assert told["files_at_the_end"] == len(os.listdir("/proc/self/fd")) and told["threads_per_hour"] == 0


def test_readings_take_no_memory_of_their_own():
    readings = long_runs.Readings(most=100)
    for _ in range(1000):
        readings.read()
    hours = readings.table[: readings.count, 0]
    assert 50 <= readings.count <= 100 and (np.diff(hours) > 0).all() and readings.told(10)["readings"] <= 100


def test_both_long_runs_in_a_short_form(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["", "evaluations=150", "steps=300", "engine=sim", f"out={tmp_path}"])
    ran = []

    def here(part, arguments):
        ran.append(part)
        monkeypatch.setattr(sys, "argv", ["", *arguments, f"alone={part}"])
        code = long_runs.main()
        monkeypatch.setattr(sys, "argv", ["", *arguments])
        return code

    assert long_runs.main(here) in (0, 1)  # so few say nothing of growth
    found = read_json(tmp_path / "long_runs.json")
    assert ran == ["evaluations", "training"] and found["evaluations"]["wrong"] == 0
    assert (found["evaluations"]["evaluations"], found["training"]["steps"]) == (150, 300)
    assert long_runs.main(here) in (0, 1) and len(ran) == 2  # done already
    assert "150 in" in capsys.readouterr().out


def test_counts_of_all_parts(tmp_path):
    """None where a part has no file; sums where two parts count the same."""
    assert set(reliability.counted(tmp_path).values()) == {None} and not reliability.faults_of(
        reliability.counted(tmp_path)
    )
    for name, data in {
        "payloads": {"payloads_tried": 9, "payloads_run": 0},
        "bad_inputs": {"bad_inputs": 7, "bad_inputs_refused": 6, "tracebacks": 1, "hangs": 0},
        "fuzz": {"fuzz_cases": 8, "fuzz_findings_open": 1},
        "faults": {"faults_injected": 5, "faults_survived": 3, "verdicts": {"survived": 3, "traceback": 1, "hang": 1}},
        "long_runs": {"evaluations": {"mib_per_hour": -0.5}, "training": {"mib_per_hour": 0.25}},
        "slurm": {"slurm_jobs": 4},
    }.items():
        write_json(tmp_path / f"{name}.json", data)
    counts = reliability.counted(tmp_path)
    assert list(counts.values()) == [9, 0, 7, 6, 2, 1, 5, 3, 8, 1, 0.25, 4, None]
    assert [line.partition(" ")[0] for line in reliability.faults_of(counts)] == [
        "tracebacks", "hangs", "fuzz_findings_open", "bad_inputs_refused", "faults_survived"
    ]  # fmt: skip


def test_a_finding_of_another_commit_is_run_again(tmp_path):
    """And its last row counts; rows of another draw are not its own."""
    told = [(0, 3, "fine", "a"), (1, 3, "hang", "a"), (2, 3, "hang", "b"), (0, 4, "hang", "a"), (1, 3, "hang", "c")]
    append_lines(
        tmp_path / "lines.jsonl", [dict(zip(("number", "seed", "verdict", "commit"), row, strict=True)) for row in told]
    )
    records = given.kept(tmp_path / "lines.jsonl", {"seed": 3})
    assert [records[number]["commit"] for number in (0, 1, 2)] == ["a", "c", "b"]
    assert given.commits(list(records.values())) == {"a": 1, "b": 1, "c": 1}
    assert [given.done(records, lambda row: row["verdict"] == "fine", commit) for commit in ("a", "b", "c")] == [
        {0}, {0, 2}, {0, 1}
    ]  # fmt: skip
    assert not given.kept(tmp_path / "lines.jsonl", {"seed": 3, "cases": 6})
    assert not given.kept(tmp_path / "none.jsonl", {"seed": 3})


def refusing():
    raise UserError("a thing is needed, and \x1b[2J was given")


def stopping():
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "main, code, says",
    [
        (lambda: 1, 1, ""),
        (refusing, 2, "error: a thing is needed, and \\x1b[2J was given\n"),
        (stopping, 130, "stopped: "),
    ],
)
def test_a_command_ends_in_a_code_and_at_most_a_line(main, code, says, monkeypatch, capfd):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("cgf.ending._no_more_output", lambda: None)  # it would close the stdout of the tests
    with pytest.raises(SystemExit) as end:
        given.ends(main)
    assert end.value.code == code and capfd.readouterr().err.startswith(says)


def test_payloads_are_counted_from_the_tests_own_report(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('ran', [False, True, False])\n"
        "def test_payload(ran, record_property):\n    record_property('payload_ran', ran)\n    assert not ran\n"
        "def test_other(): pass\n"
    )
    page = tmp_path / "page.xml"
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={page}", str(tmp_path)]
    assert subprocess.run(line, cwd=tmp_path, capture_output=True).returncode == 1
    counts = reliability.payloads_of(page.read_text())
    assert counts == {"payloads_tried": 3, "payloads_run": 1, "tests_failed": 1}


@pytest.mark.parametrize(
    "text, says", [("faults", "settings are"), ("faults=0", "faults must be"), ("x=1", "settings are")]
)
def test_settings_are_checked(text, says):
    with pytest.raises(UserError, match=says):
        given.given([text], faults.DEFAULTS)


@pytest.mark.parametrize("asked", ["--help", "-h"])
def test_a_command_that_counts_says_what_it_does_and_takes(asked, capsys):
    with pytest.raises(SystemExit) as ended:
        given.given([asked], faults.DEFAULTS)
    assert ended.value.code == 0 and "settings: seed=" in capsys.readouterr().out
