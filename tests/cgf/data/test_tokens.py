"""Tokenized texts on disk: read where nothing changed, made anew where something did, safe for runs side by side."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from cgf.data import tokens
from cgf.data.tokens import tokenized
from cgf.errors import UserError

TEXTS = ["a b c d", "", "b", "é a a"]


def tokenizer(*words):
    model = Tokenizer(WordLevel({w: i for i, w in enumerate(("?", *words))}, unk_token="?"))
    model.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=model, pad_token="?")


@pytest.fixture
def counted(monkeypatch):
    calls, own = [], tokens._encode
    monkeypatch.setattr(tokens, "_encode", lambda *a: (calls.append(a), own(*a))[1])
    return calls


def test_the_second_time_is_read(tmp_path, counted):
    wanted = [[1, 2, 3, 4], [], [2], [0, 1, 1]]
    for count in (1, 1):
        assert tokenized(TEXTS, tokenizer(*"abcd"), 8, str(tmp_path / "c")) == wanted
        assert len(counted) == count
    assert len(list((tmp_path / "c").iterdir())) == 1
    assert tokenized(TEXTS, tokenizer(*"abcd"), 8) == wanted and len(counted) == 2  # no cache: always anew


@pytest.mark.parametrize(
    "texts, words, length",
    [
        (["a b c", "d", "b", "é a a"], "abcd", 8),
        (["a b c d", "b", "", "é a a"], "abcd", 8),
        (TEXTS, "abdc", 8),
        (TEXTS, "abcd", 2),
    ],
)
def test_a_change_is_noticed(texts, words, length, tmp_path, counted):
    tokenized(TEXTS, tokenizer(*"abcd"), 8, str(tmp_path))
    fresh = tokenized(texts, tokenizer(*words), length)
    assert tokenized(texts, tokenizer(*words), length, str(tmp_path)) == fresh and len(counted) == 3


def other_bits(raw):
    """The archive with its first array's compressed bytes changed, which zlib refuses."""
    begin = raw.index(b".npy") + 4
    return raw[:begin] + bytes(255 - byte for byte in raw[begin : begin + 40]) + raw[begin + 40 :]


@pytest.mark.parametrize(
    "spoil", [lambda raw: b"", lambda raw: raw[: len(raw) // 2], lambda raw: b"PK" + raw[:40], other_bits]
)
def test_a_damaged_file_is_made_anew(spoil, tmp_path, counted):
    first = tokenized(TEXTS, tokenizer(*"abcd"), 8, str(tmp_path))
    (path,) = tmp_path.iterdir()
    path.write_bytes(spoil(path.read_bytes()))
    for _ in range(2):
        assert tokenized(TEXTS, tokenizer(*"abcd"), 8, str(tmp_path)) == first and len(counted) == 2


def test_runs_side_by_side(tmp_path):
    texts = [f"a b {'c ' * (i % 7)}" for i in range(300)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: tokenized(texts, tokenizer(*"abcd"), 8, str(tmp_path)), range(16)))
    assert all(ids == found[0] for ids in found) and len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"task\.cache must be a folder that can be written"):
        tokenized(TEXTS, tokenizer(*"abcd"), 8, str(tmp_path / "file"))


def test_a_task_hands_the_same_items_out(make, data_root, text_inputs, tmp_path, counted):
    limit = {"train": 40, "val": 10, "test": 10}
    plain = make("clinc150", data_root, limit=limit).dataset("train", text_inputs)
    for _ in range(2):
        kept = make("clinc150", data_root, limit=limit, cache=str(tmp_path)).dataset("train", text_inputs)
        assert kept.input_ids == plain.input_ids and kept.labels == plain.labels and kept.lengths == plain.lengths
    assert len(counted) == 2
