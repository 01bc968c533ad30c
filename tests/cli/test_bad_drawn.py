"""Inputs that a draw of 2,000 found to end in a traceback, or to be taken: each is refused in a sentence."""

import bad_bases
import bad_cases
import pytest


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return bad_bases.make(tmp_path_factory.mktemp("drawn") / "base")


def host(name, **change):
    return {
        "file": f"bert/ckpt-1/host/{name}.json",
        "reader": "eval_plain",
        "name": "bert",
        "seal": True,
        "change": change,
    }


def table(**change):
    return {"file": "data/train.tsv", "reader": "table", "name": "train.tsv", "change": {"bit": 0, "at": 0.0, **change}}


FILES = {
    "a tokenizer nested too deep": host("tokenizer", do="another_type", type="deep"),
    "a tokenizer of another way to end texts": host(
        "tokenizer", do="a_value", value="nudge", bit=2, at=0.22, where=0.22
    ),
    "a tokenizer that lacks a field": host("tokenizer", do="inserted", at=0.1, bit=4),
    "a tokenizer of a number for a version": host("tokenizer", do="a_value", bit=7, at=0.0, value=14, where=0.0),
    "layers that are no whole number": host("config", do="a_value", at=0.7, value=14, bit=0, where=0.7004238378345347),
    "layers that are none": host("config", do="a_value", at=0.7, value=0, bit=0, where=0.7004238378345347),
    "a script for a count of words": host("config", do="a_value", at=0.7, value=22, bit=0, where=0.9999999999999998),
    "a tokenizer that does not say what it does not know": host(
        "tokenizer", do="a_value", bit=0, at=0.005, value=25, where=0.9999999999999999
    ),
    "a training state that is a fifo": {
        "file": "vit/ckpt-1/state/tensors.safetensors",
        "reader": "state",
        "name": "vit",
        "change": {"do": "a_fifo", "bit": 6, "at": 0.0},
    },
    "a table that is an archive": table(do="another_type", type="zip"),
    "a table of zeros": table(do="another_type", type="nul"),
    "a table with a block of zeros": table(do="block"),
    "a shard whose polynomial lost its domain": {
        "file": "./part1-shard1of2.json",
        "reader": "merge",
        "name": "shards",
        "change": {"bit": 1, "at": 0.62, "value": "remove", "where": 0.6191467612445714, "do": "a_value"},
    },
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_was_drawn(base, tmp_path, case):
    folder = bad_cases.copied(base, tmp_path / "here", FILES[case])
    row = bad_cases.run_file(FILES[case], base, folder, {})
    assert row.verdict == "refused", (row.verdict, row.said, row.more)


@pytest.mark.parametrize(
    ("command", "key", "text", "says"),
    [
        ("eval_he", "approx", "{_target_: os.mkdir}", "approx must be a file of configs/approx"),
        ("eval_plain", "approx", "{method: exact, further: 1}", "approx has the keys method, degree, k, range"),
        ("plan", "approx", "{method: [1]}", "approx must be a file of configs/approx"),
        ("plan", "times", "${seed}", "times must be a name"),
        ("train", "train.order", "null", "train.order must name each of"),
        ("train", "model.options.embed_dim", "6848", "weights needs 4.2 GiB"),
        ("train", "task.name", "[1]", "task.name must be a text"),
        ("merge_shards", "shards", "[1, 2]", "shards must be a list of result files"),
        ("train", "softmax.ceiling", "5.3e239", "softmax.ceiling must be a number from 0 to 88"),
    ],
)
def test_a_setting_that_was_drawn(base, tmp_path, command, key, text, says):
    folder = bad_cases.copied(base, tmp_path / "here", {"command": command})
    row = bad_cases.run_value({"command": command, "key": key, "kind": "", "text": text}, folder)
    assert row.verdict == "refused" and says in row.said, (row.verdict, row.said, row.more)
