import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgf.data.sentences import parts_of, whole_of
from cgf.errors import UserError

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=5).map(" ".join), max_size=12)


def within(part: str, whole: str) -> bool:
    return f" {part.strip()} " in f" {whole} " or not part.strip()


def test_phrases_go_to_their_sentence():
    texts = ["film", "a good film", "good", "a good film , and a long one", "long film", "film", ""]
    assert whole_of(texts) == [3, 3, 3, 3, 4, 3, 6]
    assert whole_of(["long ones", "a long one"]) == [0, 1], "words, not letters"


@given(TEXTS)
def test_a_whole_contains_its_parts_and_is_part_of_nothing_longer(texts):
    wholes = whole_of(texts)
    for text, i in zip(texts, wholes, strict=True):
        assert within(text, texts[i]) and wholes[i] == i
    roots = {i for i in wholes if texts[i]}
    assert not any(i != j and within(texts[i], texts[j]) for i in roots for j in roots)


def sides(splits):
    """The sentences that train's phrases of ten words and more are of, and val's, all read together."""
    (train, _), (val, _) = splits["train"], splits["val"]
    assert len(train) + len(val) == 67_349
    texts = train + val
    wholes = [texts[i] for i in whole_of(texts)]
    long = [(whole, i < len(train)) for i, whole in enumerate(wholes) if len(texts[i].split()) >= 10]
    return {whole for whole, first in long if first}, [whole for whole, first in long if not first]


def test_phrases_of_a_sentence_stay_on_one_side(make, data_root):
    train, val = sides(make("sst2", data_root)._splits)
    assert not train & set(val) and 5_100 < len(train) < 5_400 and 500 < len(set(val)) < 650
    train, val = sides(make("sst2", data_root, val_sentences=False)._splits)
    assert sum(sentence in train for sentence in val) > len(val) / 2


def test_held_out_sentences_leave_no_part_in_train_and_val_as_it_is(make, data_root):
    plain = make("sst2", data_root)._splits
    held = make("sst2", data_root, test_sentences=1000)._splits
    assert held["val"] == plain["val"] and held["test"][0][:872] == plain["test"][0]
    new = held["test"][0][872:]
    assert len(new) == len(set(new)) == 1000 and 510 < sum(held["test"][1][872:]) < 535, "the classes' shares of train"
    parts = parts_of(new)
    assert not parts & {" ".join(text.split()) for text in held["train"][0]}
    left = [pair for pair in zip(*plain["train"], strict=True) if " ".join(pair[0].split()) not in parts]
    assert list(zip(*held["train"], strict=True)) == left and len(left) < len(plain["train"][0]) - 1000
    long = {" ".join(text.split()) for text in held["val"][0] if len(text.split()) >= 10}
    assert not parts & long, "a part of a sentence that val has is short"
    with pytest.raises(
        UserError, match=r"test_sentences=9000 needs more sentences than that in train of task sst2, and "
    ):
        _ = make("sst2", data_root, test_sentences=9000)._splits
    with pytest.raises(UserError, match=r"task\.test_sentences needs to be a count of sentences, and it is True"):
        make("sst2", data_root, test_sentences=True)
