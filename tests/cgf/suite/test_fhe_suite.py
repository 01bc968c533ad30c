"""The workloads stage by stage: real processes on the simulator, ciphertexts in one process, and what is refused."""

import io
import json
import pickle
import runpy
from pathlib import Path

import numpy as np
import pytest

from cgf.errors import UserError
from cgf.header import PUBLIC, RESULT, SECRET, UPLOAD
from cgf.parcel import Parcel, ParcelWriter
from cgf.suite.__main__ import main
from cgf.suite.harness import carried_out
from cgf.suite.network import NetworkSize, logits_in_the_clear, network_verdict
from cgf.suite.stages import DECRYPTED, INPUT, RESULTS, STAGES, Place
from cgf.suite.workloads import Verdict, workload_of

ROOT = Path(__file__).resolve().parents[3]


def staged(folder, name, engine, seed=42, stages=tuple(STAGES)):
    """The stages one after another in this process, each with the folders that are its own; the workload."""
    workload = workload_of(name, "toy")
    (folder / "client").mkdir(parents=True)
    np.savez(folder / "client" / INPUT, **workload.data(seed))
    for stage in stages:
        own = folder / ("server" if stage.startswith("server") else "client")
        STAGES[stage](Place(workload, engine, made(own), made(folder / "shared")))
    return workload


def made(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def judged(folder, workload, seed=42):
    got = np.load(folder / "client" / RESULTS)
    return workload.verdict(got, workload.in_the_clear(workload.data(seed)))


def test_stages_are_processes_with_files_between(tmp_path):
    said = []
    row = carried_out("softmax", "toy", "sim", 42, tmp_path / "io", said.append)
    assert [stage["stage"] for stage in row["stages"]] == list(STAGES)
    assert all(stage["seconds"] > 0 and stage["peak_mib"] > 10 for stage in row["stages"])
    assert row["verdict"] == "PASS" and row["error"] < row["bound"] and row["encrypted"] is False
    assert set(row["bytes"]) == {"public and evaluation keys", "encrypted input", "encrypted results"}
    assert row["levels"] == 8 and row["shape"] == {"scores": [16, 16]}
    text = "\n".join(said)
    assert "5: server_encrypted_compute completed" in text and "[harness] PASS  (mean absolute error" in text
    assert row["latency_s"] < sum(stage["seconds"] for stage in row["stages"])  # keys and plan are made once
    with pytest.raises(UserError, match="is there already and is not overwritten"):
        carried_out("softmax", "toy", "sim", 42, tmp_path / "io", said.append)


@pytest.mark.parametrize("engine", ["sim", "desilo"])
@pytest.mark.parametrize("name", ["softmax", "attention"])
def test_what_comes_back_is_the_answer_in_the_clear(tmp_path, name, engine):
    if engine == "desilo":
        pytest.importorskip("desilofhe")
    workload = staged(tmp_path, name, engine)
    verdict = judged(tmp_path, workload)
    assert verdict.passed
    computed = json.loads((tmp_path / "server" / "computed.json").read_text())
    assert computed["levels"] == workload.levels and computed["slots"] == workload.keys.slots
    if engine == "desilo":
        assert verdict.error > 1e-11  # it did go through ciphertexts
        with Parcel(tmp_path / "shared" / "ciphertexts.upload", UPLOAD) as upload:
            assert len({data for _, data in upload.items()}) == computed["ciphertexts_in"]
    # the secret lies with the client alone, and the data in the clear do too
    assert {path.name for path in (tmp_path / "server").iterdir()} == {"plan.json", "computed.json"}
    shared = {path.name for path in (tmp_path / "shared").iterdir()}
    assert shared == {"evaluation.keys", "ciphertexts.upload", "ciphertexts.result"}
    assert (tmp_path / "client" / "secret.key").stat().st_mode & 0o077 == 0


def test_an_upload_that_ends_early_or_goes_on_is_refused(tmp_path):
    stages = list(STAGES)[:4]
    workload = staged(tmp_path, "attention", "sim", stages=stages)
    path = tmp_path / "shared" / "ciphertexts.upload"
    with Parcel(path, UPLOAD) as upload:
        header, items = upload.header, list(upload.items())
    for kept, says in ((items[:-1], "ends early"), ([*items, items[-1]], "more ciphertexts than the run takes")):
        path.unlink()
        with ParcelWriter(path, UPLOAD, header.terms, header.key) as writer:
            for item, data in kept:
                writer.add(item.name, data, item.level)
        with pytest.raises(UserError, match=says):
            STAGES["server_encrypted_compute"](Place(workload, "sim", tmp_path / "server", tmp_path / "shared"))
        assert not (tmp_path / "shared" / "ciphertexts.result").exists()


def with_items(path, kind, items):
    """The parcel with other items in place of its own."""
    with Parcel(path, kind) as parcel:
        header = parcel.header
    path.unlink()
    with ParcelWriter(path, kind, header.terms, header.key) as writer:
        for name, data, level in items:
            writer.add(name, data, level)


def zipped(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def one_array():
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


SLOTS = 16384  # of a ciphertext of the toy softmax
OTHER_BYTES = {
    "none": b"",
    "no archive": b"no archive",
    "pickled": pickle.dumps([1.0]),
    "a broken archive": b"PK\x03\x04" + bytes(40),
    "one array": one_array(),
    "no polynomials": zipped(slots=np.zeros(SLOTS)),
    "few slots": zipped(slots=np.zeros(4), polynomials=2),
    "letters": zipped(slots=np.full(SLOTS, "a"), polynomials=2),
    "a matrix": zipped(slots=np.zeros((SLOTS, 1)), polynomials=2),
    "many polynomials": zipped(slots=np.zeros(SLOTS), polynomials=7),
    "an array of polynomials": zipped(slots=np.zeros(SLOTS), polynomials=np.zeros(3)),
}


@pytest.mark.parametrize("case", OTHER_BYTES)
def test_ciphertexts_of_other_bytes_are_refused_in_words_of_ours(tmp_path, case):
    """numpy advised to load what was pickled."""
    workload = staged(tmp_path, "softmax", "sim", stages=list(STAGES)[:4])
    with Parcel(tmp_path / "shared" / "ciphertexts.upload", UPLOAD) as upload:
        items = [(item.name, OTHER_BYTES[case], item.level) for item, _ in upload.items()]
    with_items(tmp_path / "shared" / "ciphertexts.upload", UPLOAD, items)
    with pytest.raises(UserError, match="a ciphertext of the simulator cannot be read: its bytes hold no 16384 slots"):
        STAGES["server_encrypted_compute"](Place(workload, "sim", tmp_path / "server", tmp_path / "shared"))


@pytest.mark.parametrize("kind, stage", [(PUBLIC, "client_encode_encrypt_input"), (SECRET, "client_decrypt_decode")])
def test_a_key_file_without_a_key_is_refused(tmp_path, kind, stage):
    workload = staged(tmp_path, "softmax", "sim")
    with_items(tmp_path / "client" / kind.replace(" ", "."), kind, [])
    (tmp_path / "shared" / "ciphertexts.upload").unlink()
    name = kind.split()[0]
    with pytest.raises(UserError, match=rf"{name}\.key must hold '{name}' as item 1"):
        STAGES[stage](Place(workload, "sim", tmp_path / "client", tmp_path / "shared"))


def test_an_upload_without_ciphertexts_is_refused(tmp_path):
    workload = staged(tmp_path, "softmax", "sim", stages=list(STAGES)[:4])
    with_items(tmp_path / "shared" / "ciphertexts.upload", UPLOAD, [])
    with pytest.raises(UserError, match=r"\.upload must hold a ciphertext for each step of the run, and holds none"):
        STAGES["server_encrypted_compute"](Place(workload, "sim", tmp_path / "server", tmp_path / "shared"))


@pytest.mark.parametrize("plan", [{}, [], 3, {"levels": "8"}, {"levels": None}])
def test_a_plan_without_levels_is_refused(tmp_path, plan):
    workload = staged(tmp_path, "softmax", "sim", stages=list(STAGES)[:4])
    (tmp_path / "server" / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(UserError, match=r"plan\.json must have the levels of the dry run, a whole number, and has"):
        STAGES["server_encrypted_compute"](Place(workload, "sim", tmp_path / "server", tmp_path / "shared"))


@pytest.mark.parametrize("content", [None, b"", b"not one"])
def test_a_decrypted_array_that_is_none_is_refused(tmp_path, content):
    workload = staged(tmp_path, "softmax", "sim", stages=["server_preprocess_model"])
    (tmp_path / "client").mkdir(exist_ok=True)
    if content is not None:
        (tmp_path / "client" / DECRYPTED).write_bytes(content)
    with pytest.raises(
        UserError, match=r"decrypted\.npy must hold one array, that which was decrypted, and holds none"
    ):
        STAGES["client_postprocess"](Place(workload, "sim", tmp_path / "client", tmp_path / "shared"))


@pytest.mark.parametrize("content", ["half", "one array"])
def test_arrays_that_were_damaged_are_refused(tmp_path, content):
    workload = staged(tmp_path, "softmax", "sim", stages=["server_preprocess_model", "client_key_generation"])
    path = tmp_path / "client" / INPUT
    if content == "half":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    with pytest.raises(UserError, match="must hold the arrays of the workload, and cannot be read"):
        STAGES["client_preprocess_input"](Place(workload, "sim", tmp_path / "client", tmp_path / "shared"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["softmax", "network", "--engine", "sim"], "runs on desilo alone, and 'sim' was given"),
        (["softmax", "network", "--sizes", "toy", "large"], "a network of random weights has size"),
        (["softmax", "nothing"], "'nothing' was given"),
        (["network", "--bundles", "x", "--sizes", "medium"], "--sizes is of random data"),
        (["network", "--bundles", "x", "--seed", "7"], "--seed is of random data"),
    ],
)
def test_what_the_suite_cannot_run_is_refused_before_the_first_workload(tmp_path, capsys, words, said):
    """A workload refused after others took its results with it."""
    run = runpy.run_path(str(ROOT / "scripts" / "bench" / "fhe_suite.py"))["main"]
    assert run([*words, "--out", str(tmp_path / "suite.json")]) == 2
    ended = capsys.readouterr()
    assert said in ended.err and "Running" not in ended.out and list(tmp_path.iterdir()) == []


def test_a_result_that_was_changed_fails(tmp_path):
    workload = staged(tmp_path, "softmax", "sim")
    assert judged(tmp_path, workload).passed
    path = tmp_path / "shared" / "ciphertexts.result"
    with Parcel(path, RESULT) as parcel:
        header, items = parcel.header, list(parcel.items())
    path.unlink()
    from cgf.suite.sides import _read, _written

    with ParcelWriter(path, RESULT, header.terms, header.key) as writer:
        for item, data in items:
            slots, polynomials = _read(data, header.terms.slots)
            writer.add(item.name, _written(slots + 1e-4, polynomials), item.level)
    for stage in list(STAGES)[5:]:
        STAGES[stage](Place(workload, "sim", tmp_path / "client", tmp_path / "shared"))
    assert not judged(tmp_path, workload).passed
    assert not Verdict(float("nan"), 1.0, "").passed


@pytest.mark.parametrize(
    "words, says",
    [
        (["server_encrypted_compute", "softmax", "toy", "--engine", "sim"], "plan.json"),
        (["client_preprocess_input", "softmax", "toy", "--engine", "sim"], "must hold the arrays of the workload"),
    ],
)
def test_a_stage_without_what_it_needs_says_so(tmp_path, capsys, words, says):
    assert main([*words, "--own", str(tmp_path / "own"), "--shared", str(tmp_path / "shared")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and says in told and told.count("\n") == 1


def test_workloads_and_engines_that_are_not_known_are_refused(tmp_path):
    for name, size, engine, says in (
        ("convolution", "toy", "sim", "a workload is softmax, attention, network"),
        ("network", "toy", "sim", "runs on desilo alone"),
        ("network", "large", "desilo", "a network of random weights has size"),
    ):
        with pytest.raises(UserError, match=says):
            carried_out(name, size, engine, 1, tmp_path / name / size, lambda line: None)


def test_a_network_is_judged_by_all_its_logits(tmp_path):
    size = NetworkSize.of("toy")
    size.write_bundles(tmp_path, 1)
    np.save(tmp_path / "images.npy", size.pixels(3, 5))
    wanted = logits_in_the_clear(tmp_path / "client", tmp_path / "server", tmp_path / "images.npy")
    assert wanted.shape == (5, 10) and np.abs(wanted).max() > 0.01

    def verdict(logits):
        answers = [{"row": i, "logits": row} for i, row in enumerate(logits)]
        (tmp_path / "logits.json").write_text(json.dumps({"rows": answers}))
        return network_verdict(tmp_path / "logits.json", wanted)

    assert verdict((wanted + 1e-9).tolist()).passed
    assert not verdict((wanted * 1.01).tolist()).passed
    assert not verdict((wanted[:, ::-1]).tolist()).passed
    assert not verdict([*wanted[:4].tolist(), None]).passed  # a red light
