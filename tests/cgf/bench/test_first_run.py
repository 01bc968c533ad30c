"""What a command takes, measured on one whose memory, time, files and exit code are known."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.bench import first_run

HOLDS = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "b = bytearray(60 * 2**20); import time; time.sleep(1.5)"])
block = bytearray(60 * 2**20)
pathlib.Path("outputs").mkdir()
pathlib.Path("outputs/x").write_bytes(bytes(3 * 2**20))
end = time.process_time() + 0.3
while time.process_time() < end: pass
child.wait()
sys.exit(1)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_of_children_time_disk_and_exit_code(tmp_path, monkeypatch):
    monkeypatch.setattr(first_run, "EVERY_S", 0.05)
    told = first_run.measured([sys.executable, "-c", HOLDS], tmp_path)
    assert 120 < told["peak_mib"] < 250 and told["exit_code"] == 1
    assert told["seconds"] >= 1.5 and told["processor_seconds"] >= 0.3
    assert 3 <= told["disk_mib"]["outputs"] < 3.1 and told["disk_mib_before"]["outputs"] == 0
    assert {"cpu_model", "cpu_flags", "cores"} <= set(told["hardware"])


def test_the_command_writes_a_file_and_refuses_another_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(first_run, "measured", lambda command: {"command": " ".join(command), "exit_code": 2})
    out = tmp_path / "new" / "demo.json"
    assert first_run.main([str(out), "bash", "x.sh", "--fast"]) == 1
    assert json.loads(out.read_text()) == {"kind": "first_run", "command": "bash x.sh --fast", "exit_code": 2}
    assert first_run.main([str(tmp_path / "demo.txt"), "bash"]) == 2 and first_run.main([str(out)]) == 2
    assert "ends in .json" in capsys.readouterr().err


def test_it_starts_where_nothing_is_installed(tmp_path):
    script = Path(__file__).parents[3] / "scripts" / "bench" / "first_run.py"
    bare = [sys.executable, "-I", "-S", script, "x.json"]  # without PYTHONPATH and without any package
    done = subprocess.run(bare, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith("error: a result file that ends in .json"), done.stderr
