"""Client and server as processes of their own: what the server never sees, and what is left when it is killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("desilofhe")
pytest.importorskip("torchvision", reason="images are prepared as the model's own")
from both_sides import work
from small_networks import attentive, clear_logits, images, prepared, write_bundles

from cgf.header import RESULT, SECRET
from cgf.parcel import Parcel

ROOT = Path(__file__).parents[3]
NETWORK = attentive(k=1)  # five stages
WAITS = """
import sys
from cgf.he.engines import desilo_files
kept = []
for side in (desilo_files.Decryptor, desilo_files.Evaluator):
    def made(self, *args, made=side.__init__, **options):
        made(self, *args, **options)
        kept.append(self)  # the library's objects stay for as long as the process is looked at
    side.__init__ = made
from cgf.{side}.__main__ import main
code = main(sys.argv[1:])
print("ended with", code, flush=True)
sys.stdin.readline()
"""


def start(folder, *command, waits=None):
    """A process in a folder; waits: the side that, once it is done, stays until its input is closed."""
    code = ["-c", WAITS.format(side=waits)] if waits else ["-m", command[0]]
    return subprocess.Popen(
        [sys.executable, *code, *map(str, command[1:])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder, *command):
    process = start(folder, *command)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


SERVE = ("cgf.server", "run", "uploads", "--bundle", "server", "--keys", "evaluation.keys", "--out", "results",
         "--save-after", "0")  # fmt: skip


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """The client's folder with keys and uploads, and a server's with its bundle, the uploads and what may be sent."""
    client, server = tmp_path_factory.mktemp("client"), tmp_path_factory.mktemp("server")
    write_bundles(client, NETWORK)
    shutil.move(client / "server", server / "server")
    np.save(client / "images.npy", images(5))
    work(client, ["keys", "encrypt"])
    (server / "uploads").mkdir()
    shutil.copy(client / "uploads" / "0001.upload", server / "uploads")
    shutil.copy(client / "keys" / "evaluation.keys", server)
    return client, server


@pytest.fixture(scope="module")
def needles(sides):
    """What a secret key may look like: parts of its serialized form, and its coefficients as numbers of other sizes."""
    with Parcel(sides[0] / "keys" / "secret.key", SECRET) as parcel:
        ((_, data),) = parcel.items()
    forms = {}
    for place in np.linspace(300, len(data) - 64, 12, dtype=int):
        part = data[place : place + 64]
        if len(set(part)) > 20:  # residues; the coefficients as the library spreads them are mostly zeros
            forms[f"residues at {place}"] = part
    tail = np.frombuffer(data[-8192:], np.int8)  # a byte a coefficient
    assert set(np.unique(tail)) == {-1, 0, 1} and len(forms) > 5
    for kind in (np.int8, np.int16, np.int32, np.int64, np.float32, np.float64):
        forms[f"coefficients, {kind.__name__}"] = tail[1000:1064].astype(kind).tobytes()
    return forms


def in_bytes(data, needles):
    return {name for name, needle in needles.items() if needle in data}


def in_memory(pid, needles):
    """Which needles the memory of a process holds, in all that it can read."""
    found = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps.read().splitlines():
            span, mode, *_ = line.split()
            low, high = (int(end, 16) for end in span.split("-"))
            if "r" not in mode or line.endswith(("[vvar]", "[vsyscall]", "[vvar_vclock]")):
                continue
            rest = b""
            for at in range(low, high, 2**24):
                try:
                    memory.seek(at)
                    part = memory.read(min(2**24, high - at))
                except (OSError, ValueError, OverflowError):
                    break  # pages that are gone, or of a file that has none there
                found |= in_bytes(rest + part, needles)
                rest = part[-1024:]
    return found


def in_files(folder, needles):
    return set().union(*(in_bytes(path.read_bytes(), needles) for path in folder.rglob("*") if path.is_file()))


def until(condition, process, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None and time.monotonic() < end, process.stderr.read()
        time.sleep(0.002)


def finished_stages(server):
    """Of the state that is kept; 0 without one, and where the server removes it at this moment."""
    states = list((server / "state").glob("*/state.json"))
    try:
        return json.loads(states[0].read_text())["done"] if states else 0
    except FileNotFoundError:
        return 0


def test_a_server_that_is_killed_goes_on_behind_the_last_stage(sides, needles, tmp_path):
    """Killed behind each stage, and the secret is sought in all that it wrote until then."""
    server = shutil.copytree(sides[1], tmp_path / "server")
    done = 0
    for _ in range(20):
        process = start(server, *SERVE)
        until(lambda last=done, p=process: finished_stages(server) > last or p.poll() is not None, process)
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, err
        if done:
            assert f"goes on behind stage {done}" in out
        done = finished_stages(server)
        assert not list((server / "results").glob("*.result"))
        assert not in_files(server, needles)
        if done == 4:  # the logits alone are left
            break
    assert done >= 3
    out = run(server, *SERVE)
    report = json.loads((server / "results" / "run.json").read_text())
    computed = [stage for stage in report["stages"] if "level" in stage]
    assert len(computed) == 5 and sum(stage.get("resumed", False) for stage in computed) == done
    assert not list((server / "state").glob("*")) and not in_files(server, needles)
    with Parcel(server / "results" / "0001.result", RESULT) as parcel:
        assert len(list(parcel.items())) == 3
    check_logits(sides[0], server, tmp_path / "logits.json")


def check_logits(client, server, out):
    run(client, "cgf.client", "decrypt", server / "results", "--bundle", "client", "--keys", "keys", "--out", out)
    told = json.loads(out.read_text())
    expected = clear_logits(NETWORK, prepared(images(5)))
    assert np.abs(np.array([row["logits"] for row in told["rows"]]) - expected).max() < 1e-5


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="memory of a process is read from /proc")
def test_the_secret_is_nowhere_at_the_server_and_the_same_search_finds_it_at_the_client(sides, needles, tmp_path):
    client, server = sides[0], shutil.copytree(sides[1], tmp_path / "server")
    process = start(server, *SERVE, waits="server")
    until(lambda: finished_stages(server) > 0, process)
    process.send_signal(signal.SIGSTOP)  # while it computes; its files stay as they are meanwhile
    seen = in_memory(process.pid, needles) | in_files(server, needles)
    process.send_signal(signal.SIGCONT)
    told = ""
    while not told.startswith("ended with"):
        told = process.stdout.readline()
    seen |= in_memory(process.pid, needles) | in_files(server, needles)
    process.communicate("\n")
    assert told == "ended with 0\n" and not seen
    assert {path.suffix for path in server.rglob("*.key*")} == {".keys"}  # no other key ever came there

    given = ("decrypt", server / "results", "--bundle", "client", "--keys", "keys", "--out", tmp_path / "logits.json")
    process = start(client, "cgf.client", *given, waits="client")
    told = ""
    while not told.startswith("ended with"):
        told = process.stdout.readline()
    found = in_memory(process.pid, needles)
    process.communicate("\n")
    assert told == "ended with 0\n"
    assert {name for name in needles if name.startswith("residues")} <= found  # as serialized
    assert "coefficients, int8" in found  # as held
    assert in_files(client, needles) >= found - {name for name in found if "int8" not in name and "coeff" in name}


LOADED = """
import sys
from cgf.{side}.__main__ import main
code = main(sys.argv[1:])
print(sorted({{"torch", "transformers", "timm", "hydra"}} & set(sys.modules)))
sys.exit(code)
"""


def test_neither_side_loads_torch_or_models(sides, tmp_path):
    """A server starts with its own folder alone; a client's images have the model's size already."""
    client, server = sides[0], shutil.copytree(sides[1], tmp_path / "server")
    encrypt = ("encrypt", "images.npy", "--bundle", "client", "--keys", "keys", "--out", tmp_path / "uploads")
    for side, folder, given in (("server", server, SERVE[1:]), ("client", client, encrypt)):
        command = [sys.executable, "-c", LOADED.format(side=side), *map(str, given)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "[]"
