"""Bad input by table: exit code 2, one sentence, nothing written and nothing changed, for every row; counted below.

Settings are every key of the composed configurations times values of a wrong kind. Files are those of checkpoints, data
sets, shards and bundles, each spoilt in every way. What would start work runs in a fork with limits of time and memory
(tests/cli/isolated.py); some thirty are real processes. scripts/repo/bad_inputs.py draws further ones.
"""

import gzip
import json
import os
import struct
import subprocess
import sys
import zipfile
import zlib

import bad_bases
import bad_cases
import composed
import numpy as np
import pytest
import readers
import spoilt
from digits_checkpoint import ROOT, call

from cgf.errors import UserError, inert

COUNTED: dict[str, int] = {}


def count(kind, number=1):
    COUNTED[kind] = COUNTED.get(kind, 0) + number


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return bad_bases.make(tmp_path_factory.mktemp("bad") / "base")


def refused(function, folder, *says):
    """The sentence of a command in a fork, which changes nothing in a folder."""
    ended, changed = bad_cases._watched(function, folder)
    row = bad_cases._judged({}, ended, changed)
    assert row is not None and row.verdict == "refused", (row or ended, ended.err[-2000:])
    for text in says:
        assert text in row.said, row.said
    return row.said


# -- settings -------------------------------------------------------------------------------------------

WRONG = (
    "nan",
    "inf",
    "-inf",
    "{a: 1}",
    "[x]",
    "true",
    "''",
    "x",
    "1.5",
    "1000000000000000000000000000000000000",
    "null",
)


@pytest.mark.parametrize(
    ("command", "least"),
    [("train", 500), ("plan", 100), ("eval_he", 100), ("eval_plain", 40), ("friendly", 70), ("merge_shards", 1)],
)
def test_every_setting_refuses_what_is_of_another_kind(command, least):
    """The checks that the command line makes before any work; values of the right kind are left to the commands."""
    defaults = composed.own_part(composed.composed(command, bad_cases.COMMANDS[command]))
    values, accepted, tried = {text: composed.value_of(text) for text in WRONG}, [], 0
    for key, kind in bad_cases.own_keys_of(command):
        default = composed.selected(defaults, key)
        for text, value in values.items():
            if not bad_cases.is_sure(key, kind, value):
                continue
            tried += 1
            try:
                composed.check(key, text, default, value)
            except UserError as error:
                assert "\n" not in str(error) and key in str(error)
            else:
                accepted.append((key, text))
    assert not accepted and tried >= least
    count("settings", tried)


SETTINGS = [
    ("eval_plain", "seed", "-1", "seed must be a whole number from 0 to 4294967295"),
    ("eval_plain", "seed", "4294967296", "seed must be a whole number from 0 to 4294967295"),
    ("eval_plain", "samples", "[3]", "samples"),
    ("eval_plain", "ckpt", "null", "ckpt needs a checkpoint or run folder, and None was given"),
    ("train", "model.options.global_pool", "''", "needs one vector an image"),
    ("train", "outputs", "null", "outputs must be a name"),
    ("friendly", "levels", "null", "levels"),
    ("train", "seed", "null", "seed must be a whole number"),
    ("train", "train.order", "true", "train.order must be a list"),
    ("eval_plain", "samples", "-3", "samples"),
    ("eval_plain", "batch_size", "-1", "a batch must hold a whole number"),
    ("eval_plain", "domain", "[1,2,3]", "domain"),
    ("eval_plain", "domain", "[2,1]", "domain"),
    ("eval_plain", "domain", "x", "domain"),
    ("eval_plain", "split", "''", "split"),
    ("eval_plain", "split", "[test]", "split"),
    ("eval_plain", "out", "/dev/null", "out must name a file that ends in .json"),
    ("eval_plain", "out", "vit", "out must name a file that ends in .json"),
    ("eval_plain", "ckpt", "/dev/zero", "no folder"),
    ("eval_plain", "ckpt", "''", "no complete checkpoint"),
    ("eval_he", "he.samples", "-1", "samples"),
    ("eval_he", "he.samples", "x", "samples"),
    ("eval_he", "he.workers", "0", "he.workers"),
    ("eval_he", "he.workers", "-1", "he.workers"),
    ("eval_he", "he.workers", "100000", "he.workers"),
    ("eval_he", "he.shard", "0/2", "he.shard"),
    ("eval_he", "he.shard", "3/2", "he.shard"),
    ("eval_he", "he.shard", "1/0", "he.shard"),
    ("eval_he", "he.shard", "x", "he.shard"),
    ("eval_he", "he.shard", "1", "he.shard"),
    ("eval_he", "he.shard", "-1/2", "he.shard"),
    ("eval_he", "he.shard", "[1,2]", "he.shard"),
    ("eval_he", "he.agreement", "2", "he.agreement"),
    ("eval_he", "he.agreement", "-0.1", "he.agreement"),
    ("eval_he", "he.rows_at_once", "0", "he.rows_at_once"),
    ("eval_he", "he.rows_at_once", "[1]", "he.rows_at_once"),
    ("eval_he", "he.scope", "all", "scope"),
    ("eval_he", "he.max_level", "-1", "he.max_level"),
    ("eval_he", "he.owner.bootstrap", "huge", "bootstrap"),
    ("plan", "times", "[1]", "times must be a name"),
    ("plan", "cache", "[1]", "cache must be a name"),
    ("plan", "times", "/dev/zero", "regular file"),
    ("plan", "times", "nowhere.json", "no such file"),
    ("plan", "margin", "[1]", "margin"),
    ("plan", "margin", "-1", "margin"),
    ("plan", "scope", "all", "scope"),
    ("plan", "objective", "x", "objective"),
    ("plan", "rows", "-1", "rows"),
    ("plan", "columns", "0", "columns"),
    ("plan", "split", "test", "never see test data"),
    ("train", "outputs", "/dev/null", "/dev/null"),
    ("train", "run", "'../x'", "run"),
    ("train", "run", "''", "run"),
    ("train", "train.epochs", "-1", "train.epochs"),
    ("train", "train.batch_size", "0", "train.batch_size"),
    ("train", "train.accumulate", "0", "train.accumulate"),
    ("train", "train.warmup", "2", "train.warmup"),
    ("train", "train.lr", "0", "train.lr"),
    ("train", "train.workers", "-1", "train.workers"),
    ("train", "train.order", "[]", "train.order"),
    ("train", "train.order", "[a]", "train.order"),
    ("train", "task.limit", "{train: 0}", "task.limit.train"),
    ("train", "task.limit", "3", "task.limit"),
    ("train", "model.options.depth", "-1", "depth"),
    ("train", "model.options.embed_dim", "1000000000", "embed_dim"),
    ("train", "model.options.num_heads", "0", "num_heads"),
    ("train", "model.timm_name", "nothing", "nothing"),
    ("train", "temper.samples", "-1", "temper.samples"),
    ("train", "calibrate.samples", "0", "calibrate.samples"),
]


@pytest.mark.parametrize(("command", "key", "text", "says"), SETTINGS, ids=lambda v: str(v)[:24])
def test_a_setting_that_makes_no_sense(base, tmp_path, command, key, text, says):
    folder = bad_cases.copied(base, tmp_path / "here", {"command": command})
    refused(lambda: composed.run(command, bad_cases.COMMANDS[command], key, text), folder, says)
    count("settings that make no sense")


@pytest.mark.parametrize("threads", ["-1", "0", "100000", "1.5", "[1]"])
def test_counts_of_threads_of_the_real_engine(base, tmp_path, threads):
    pytest.importorskip("desilofhe")
    asked = ("ckpt=vit/ckpt-1", "he=desilo", "he.samples=1", "he.owner.mode=parallel", "out=out.json")
    folder = bad_cases.copied(base, tmp_path / "here", {"command": "eval_he"})
    refused(lambda: composed.run("eval_he", asked, "he.owner.threads", threads), folder, "threads")
    count("settings that make no sense")


# -- files ----------------------------------------------------------------------------------------------

WAYS = [
    {"do": "gone"},
    {"do": "a_folder"},
    {"do": "a_fifo", "bit": 0},
    {"do": "a_device", "bit": 1},
    {"do": "a_loop"},
    {"do": "sparse"},
    {"do": "cut", "at": 0.5},
    *(
        {"do": "another_type", "type": each}
        for each in ("nothing", "list", "null", "png", "pickle", "deep", "infinite")
    ),
]
SPOILT = [
    *[("vit/ckpt-1/run.json", "eval_plain", "vit", way) for way in WAYS if way["do"] not in ("gone",)],
    *[("vit/ckpt-1/softmax.json", "eval_he", "vit", way) for way in WAYS],
    *[("vit/ckpt-1/model.safetensors", "eval_plain", "vit", way) for way in WAYS],
    *[("vit/ckpt-1/plan.json", "eval_plain", "vit", way) for way in WAYS],
    *[("vit/ckpt-1/state/progress.json", "state", "vit", way) for way in WAYS],
    *[("bert/ckpt-1/host/config.json", "eval_plain", "bert", way) for way in WAYS],
    *[("bert/ckpt-1/host/tokenizer.json", "eval_plain", "bert", way) for way in WAYS[:7]],
    *[("data/test.csv", "eval_plain", "bert", way) for way in WAYS],
    *[("data/train.json", "table", "train.json", way) for way in WAYS],
    *[("data/train.csv.gz", "table", "train.csv.gz", way) for way in WAYS],
    *[("images/train/a/0.png", "pictures", "0.png", way) for way in WAYS[1:] if way.get("type") != "png"],
    *[("part1-shard1of2.json", "merge", "shards", way) for way in WAYS],
    *[("part1-shard1of2.jsonl", "merge", "shards", way) for way in WAYS if way["do"] not in ("cut",)],
    *[("reported/run/ckpt-1/eval/plain-chain-k3-test-8.json", "report", "report", way) for way in WAYS[1:9]],
]


@pytest.mark.parametrize("file", sorted({case[0] for case in SPOILT}))
def test_a_spoilt_file(base, tmp_path, file):
    failed = []
    for number, (name, reader, about, way) in enumerate(case for case in SPOILT if case[0] == file):
        case = {"file": name, "reader": reader, "name": about, "change": {"at": 0.5, "bit": 0, **way}}
        folder = bad_cases.copied(base, tmp_path / str(number), case)
        row = bad_cases.run_file(case, base, folder, {})
        if row.verdict != "refused":
            failed.append((way, row.verdict, row.said, row.more))
        count("spoilt files")
    assert not failed, failed


# -- data sets that are bombs, cut, or not what they say ------------------------------------------------


def png(width, height):
    """A PNG that says it is so large, and has one row of it."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    )


TEXTS = {  # what a table holds, and what the sentence says
    "a bomb": ("train.csv.gz", lambda: gzip.compress(b"text,label\n" + bytes(2**28), 9), "holds more"),
    "cut gz": ("train.csv.gz", lambda: gzip.compress(b"text,label\n" + b"a b,c\n" * 999)[:-20], "reading it failed"),
    "gz of no gz": ("train.csv.gz", lambda: b"text,label\na,b\n", "reading it failed"),
    "no column": ("train.csv", lambda: b"text,class\na,b\n", "needs the column label"),
    "a column twice": ("train.csv", lambda: b"text,label,label\na,b,b\n", "once"),
    "one class": ("train.csv", lambda: b"text,label\n" + b"".join(b"t%d,a\n" % i for i in range(9)), "two classes"),
    "latin-1": ("train.csv", lambda: "text,label\ncafé,a\nthe,b\n".encode("latin-1"), "UTF-8"),
    "utf-16": ("train.csv", lambda: "text,label\na,b\n".encode("utf-16"), "UTF-8"),
    "an open quote": ("train.csv", lambda: b'text,label\n"a,b\nc,d\n', "not"),
    "no rows": ("train.csv", lambda: b"text,label\n", "needs rows"),
    "empty": ("train.csv", lambda: b"", "needs the columns"),
    "a row too long": ("train.csv", lambda: b"text,label\na,b,c\n", "values in every row"),
    "an empty label": ("train.csv", lambda: b"text,label\na,\n", "needs a value of 'label'"),
    "labels that all differ": (
        "train.csv",
        lambda: b"text,label\n" + b"".join(b"t%d,l%d\n" % (i, i) for i in range(50)),
        "labels that repeat",
    ),
    "a field of megabytes": ("train.csv", lambda: b"text,label\n" + b"x" * 2**20 + b",a\n", "at least two classes"),
    "deep JSON": ("train.json", lambda: b"[" * 10**5 + b"]" * 10**5, "nested too deep"),
    "deep lines": ("train.jsonl", lambda: b"[" * 10**5 + b"]" * 10**5 + b"\n", "nested too deep"),
    "an object": ("train.json", lambda: b"{}", "list of objects"),
    "a number of ages": ("train.jsonl", lambda: b'{"text": ' + b"9" * 5000 + b', "label": 1}\n', "JSON"),
    "parquet of zeros": ("train.parquet", lambda: bytes(1000), "parquet"),
    "a suffix of another kind": ("train.parquet", lambda: b"text,label\na,b\n", "parquet"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_table_that_is_none(base, tmp_path, case):
    name, content, says = TEXTS[case]
    folder = bad_cases.copied(base, tmp_path / "here", {"reader": "table", "name": name})
    (folder / "data" / name).write_bytes(content())
    refused(lambda: readers.table(folder, name), folder, says)
    count("data sets")


def archive(*entries):
    def write(path):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in entries:
                file.writestr(name, content)

    return write


def cut_archive(path):
    archive(("train/a/0.png", png(8, 8)), ("train/b/1.png", bytes(9999)))(path)
    path.write_bytes(path.read_bytes()[:-30])


PICTURES = {
    "thousands of millions of pixels": (png(60_000, 60_000), "pixels"),
    "a hundred million pixels": (png(10_000, 10_000), "may have 67108864 pixels"),
    "a cut picture": (png(8, 8)[:-40], "needs to be an image"),
    "no pixels": (png(0, 0), "needs to be an image"),
    "text": (b"hello", "needs to be an image"),
    "nothing": (b"", "needs to be an image"),
    "a TIFF that points to itself": (b"II*\x00\x08\x00\x00\x00\x01\x00" + bytes(12) + b"\x08\x00\x00\x00", "image"),
    "a pickle": (spoilt.OTHERS["pickle"], "needs to be an image"),
}
ARCHIVES = {
    "a bomb": (archive(("train/a/0.png", bytes(2**27))), "may hold"),
    "cut": (cut_archive, "needs to be a zip archive"),
    "no archive": (lambda path: path.write_bytes(b"hello"), "needs to be a zip archive"),
}


@pytest.mark.parametrize("case", PICTURES)
def test_a_picture_that_is_none(base, tmp_path, case):
    content, says = PICTURES[case]
    folder = bad_cases.copied(base, tmp_path / "here", {"reader": "pictures", "name": "0.png"})
    (folder / "images" / "train" / "a" / "0.png").write_bytes(content)
    refused(lambda: readers.pictures(folder, "0.png"), folder, says)
    count("data sets")


@pytest.mark.parametrize("case", ARCHIVES)
def test_an_archive_that_is_none(tmp_path, case):
    from cgf.data.image_files import Archive

    write, says = ARCHIVES[case]
    write(tmp_path / "images.zip")
    with pytest.raises(UserError, match=says):
        Archive(tmp_path / "images.zip")
    count("data sets")


def test_an_archive_that_leads_out_of_its_folder_writes_nothing(tmp_path):
    """It is read into memory, where a name is a name."""
    from cgf.data.image_files import Archive

    archive(("../../escaped.png", b"x"), ("/etc/escaped.png", b"x"), ("train/a/0.png", b"x"))(tmp_path / "images.zip")
    before = bad_cases.snapshot(tmp_path.parent)
    assert Archive(tmp_path / "images.zip").names("train") == ["train/a/0.png"]
    assert bad_cases.snapshot(tmp_path.parent) == before
    count("data sets")


def test_an_array_whose_header_says_more_than_there_is(tmp_path):
    from cgf.client.images import read_array

    np.save(tmp_path / "a.npy", np.zeros((2, 1, 4, 4), np.float32))
    content = (tmp_path / "a.npy").read_bytes()
    old, new = b"(2, 1, 4, 4), }" + b" " * 7, b"(99999999, 1, 4, 4), }"
    assert old in content and len(old) == len(new)
    (tmp_path / "a.npy").write_bytes(content.replace(old, new))
    with pytest.raises(UserError, match="images as numbers"):
        read_array(tmp_path / "a.npy")
    count("data sets")


# -- real processes -------------------------------------------------------------------------------------

LINES = [  # a process each: script, arguments, what it says
    ("train", ["task=null"], "task"),
    ("train", ["softmax=null"], "softmax"),
    ("train", ["model=null"], "model"),
    ("train", ["train=null"], "train holds settings of its own"),
    ("train", ["+softmax.key="], "key"),
    ("train", ["+train.nothing=1"], "nothing"),
    ("train", ["ckpt=vit_digits-digits-cgf-lr=0.1"], "a value that holds = goes in quotes of its own"),
    ("search", ["study.schedules.teacher=[train.epochs=4,train.lr=1]"], '=["train.epochs=4","train.lr=1"]'),
    ("train", ["train.lr="], "train.lr"),
    ("train", ["train.lr=[1e-3]"], "train.lr must be a number"),
    ("train", ["seed=-1"], "seed must be a whole number from 0"),
    ("train", ["run=${nothing}"], "run"),
    ("train", ["outputs=/dev/null", "train.max_steps=1"], "/dev/null"),
    ("train", ["=3"], "override"),
    ("train", ["~task"], "task"),
    ("eval_plain", ["ckpt=/dev/null"], "no folder"),
    ("eval_plain", ["ckpt=nowhere", "approx=null"], "approx"),
    ("eval_plain", ["ckpt='a\\nb'"], "no folder"),
    ("eval_he", ["ckpt=nowhere", "he=null"], "he"),
    ("eval_he", ["ckpt=nowhere", "he=sim", "+nothing=1"], "unknown setting 'nothing'"),
    ("eval_he", ["ckpt=nowhere", "he=sim", "he.agreement=nan"], "he.agreement must be finite"),
    ("eval_he", ["ckpt=nowhere", "he=sim", "he.shard=0/0"], "he.shard"),
    ("eval_he", ["ckpt=nowhere", "he=sim", "he.workers=100000"], "he.workers"),
    ("plan", ["range=[0,0]"], "range"),
    ("plan", ["range=[-8,inf]"], "finite"),
    ("plan", ["range=[-8,0]", "rows=0"], "rows"),
    ("plan", ["range=[-8,0]", "times=/dev/zero"], "regular file"),
    ("merge_shards", ["shards=x", "out=c.json"], "shards must be a list"),
    ("merge_shards", ["shards=[]", "out=c.json"], "shard"),
    ("merge_shards", ["shards=[/dev/zero]", "out=c.json"], "regular file"),
    ("merge_shards", ["shards=[a.json,a.json]", "out=/dev/null"], "out must name a file"),
]


def whole_command(script, arguments):
    """In a fork: the command line with all its checks, to the exit code."""
    done = call(script, *arguments)
    sys.stderr.write(done.stderr)
    sys.stdout.write(done.stdout)
    return done.returncode


@pytest.mark.parametrize("script", sorted({line[0] for line in LINES}))
def test_real_processes_refuse(tmp_path, script):
    failed = []
    for own, arguments, says in LINES:
        if own != script:
            continue
        ended, _ = bad_cases._watched(lambda arguments=arguments: whole_command(script, arguments), tmp_path)
        code, said = ended.code, ended.err
        fine = code == 2 and said.count("\n") == 1 and said.startswith("error: ") and says in said
        if not fine or "Traceback" in ended.out or list(tmp_path.iterdir()):
            failed.append((arguments, code, said[-1500:], [p.name for p in tmp_path.iterdir()]))
        count("processes")
    assert not failed, failed


def test_a_name_cannot_speak_to_a_terminal():
    assert inert("a\x1b[2J\nb\u202ec\x9b é日") == "a\\x1b[2J\\nb\\u202ec\\x9b é日"


def test_what_results_say_is_inert_in_a_terminal_and_in_a_page(base, tmp_path):
    folder = bad_cases.copied(base, tmp_path / "here", {"reader": "report", "name": "report"})
    evil = "\x1b[2J\x1b]0;x\x07<script>alert(1)</script>"
    path = next((folder / "reported").rglob("*.json"))
    result = json.loads(path.read_text())
    for key in ("model", "task", "softmax", "approx", "split", "checkpoint"):
        path.with_name(f"{key}.json").write_text(json.dumps({**result, key: evil}))
    ended, _ = bad_cases._watched(lambda: readers.report(folder, "report") and None, folder)
    assert ended.code == 0 and not ended.err, ended.err  # the reader holds the page against the script
    assert "\x1b" not in ended.out and "\\x1b" in ended.out


def test_a_reader_that_has_enough_ends_a_command_quietly(tmp_path):
    code = (
        "import sys; sys.argv = ['train.py', '--help']; import runpy; "
        f"sys.path.insert(0, {str(ROOT)!r}); runpy.run_path({str(ROOT / 'train.py')!r}, run_name='__main__')"
    )
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_reader_that_has_enough_ends_the_list_of_verbs_quietly():
    read, write = os.pipe()
    os.close(read)
    line = [sys.executable, "-m", "cgf.cli", "--help"]
    done = subprocess.run(line, stdout=write, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_ctrl_c_ends_a_command_with_one_line(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import os, signal, time; from cgf.ending import quiet\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background has it ignored
        "with quiet():\n    os.kill(os.getpid(), signal.SIGINT); time.sleep(20)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 130 and done.stderr.startswith("stopped: ") and done.stderr.count("\n") == 1


def test_what_a_fork_loads_the_next_ones_have(tmp_path, monkeypatch):
    """And what ends it ends it as before."""
    (tmp_path / "loaded_by_few.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "here").mkdir()

    def load():
        import loaded_by_few  # noqa: F401

        sys.exit(1)

    assert bad_cases.with_its_modules(load, tmp_path / "here").code == 1
    assert sys.modules.pop("loaded_by_few").__file__ == str(tmp_path / "loaded_by_few.py")


# -- how many -------------------------------------------------------------------------------------------


def test_there_are_three_hundred_of_them_and_more():
    """Of the rows alone, whatever part of this file ran."""
    cases = [*SETTINGS, *SPOILT, *TEXTS, *PICTURES, *ARCHIVES, *LINES]
    assert len(cases) >= 300 and len(LINES) >= 30
    names = [(file, reader, json.dumps(way, sort_keys=True)) for file, reader, _, way in SPOILT]
    assert len(set(names)) == len(names) and len({(c, k, t) for c, k, t, _ in SETTINGS}) == len(SETTINGS)
    assert {way["do"] for way in WAYS} <= set(spoilt.DOING)
