"""What lines come to does not depend on the order in which workers ended their batches."""

from dataclasses import replace
from importlib import import_module
from itertools import permutations

import pytest

from cgf.errors import UserError
from cgf.evaluate.he_lines import FinishedSamples, SampleLog
from cgf.evaluate.he_summary import merged
from cgf.he.layer_record import LayerRecord
from cgf.softmax.cgf import CGF
from cgf.softmax.published.quotient import Quad
from cgf.softmax.source import definition_hash


def test_sums_do_not_depend_on_the_order_of_batches():
    batches = [
        {"batch": [3 * i, 3 * i + 1], "layers": [LayerRecord(entries=1, sum_error=e).to_json()]}
        for i, e in enumerate((0.1, 0.2, 0.3))
    ]
    sums = {FinishedSamples(batches=list(order)).layers()[0].sum_error for order in permutations(batches)}
    assert len(sums) == 1 and len({0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1}) == 2, "added as they come, they would differ"


def sample(index):
    return {"index": index, "label": 0, "prediction": 0, "plain": 0, "exact": 0}


def test_lines_that_were_added_twice_or_lost_are_refused(tmp_path):
    """Each line is right by its checksum; seconds, operations and bytes would count twice all the same."""
    log = SampleLog(tmp_path / "a.jsonl", "2:some")
    log.add([sample(0), sample(1)], {"batch": [0, 1]})
    log.add([sample(2)], {"batch": [2]})
    text = log.path.read_text()
    assert len(log.read().batches) == 2
    log.path.write_text(text + text)
    with pytest.raises(UserError, match=r"a\.jsonl was changed .* sample 0 is in two batches"):
        log.read()
    log.path.write_text("".join(text.splitlines(keepends=True)[1:]))
    with pytest.raises(UserError, match=r"a\.jsonl was changed .* sample 0 has no line before that of its batch"):
        log.read()


def test_samples_of_another_shard_are_refused(tmp_path):
    finished = FinishedSamples({index: sample(index) for index in (3, 5, 8)})
    finished.check_among([[8, 9], [3, 5]], tmp_path / "a.jsonl")
    with pytest.raises(UserError, match=r"a shard needs the batches .* of the samples in .*a\.jsonl 5, 8 would be"):
        finished.check_among([[3, 4], [6]], tmp_path / "a.jsonl")


def test_workers_are_those_of_the_batches_and_not_of_the_last_command(tmp_path):
    def told(*parts, **now):
        return FinishedSamples(batches=[{"batch": [i], **part} for i, part in enumerate(parts)]).ran(**now)

    log = SampleLog(tmp_path / "a.jsonl", "2:some", None, {"workers": 1})
    log.add([sample(0)], {"batch": [0]})
    assert SampleLog(log.path, "2:some", None, {"workers": 4}).read().ran(workers=4) == {"workers": 1}
    two = {"ran": {"workers": 1, "processes": 2}}, {"ran": {"workers": 4, "processes": 2}}
    assert told(*two, workers=4, processes=1) == {"workers": [1, 4], "processes": 2}
    assert told({}, workers=4) == {"workers": 4}  # lines of before do not say


def test_batches_are_those_that_ran_and_not_of_the_last_command(tmp_path):
    """A finished evaluation that was asked for with another he.batch said that it had run so."""
    log = SampleLog(tmp_path / "a.jsonl", "2:some", split_by={"batch": 4})
    log.add([sample(0)], {"batch": [0]})
    assert log.read().split_by({"batch": 8}) == {"batch": 4}
    replace(log, split_by={"batch": 8}).add([sample(1)], {"batch": [1]})
    assert log.read().split_by({"batch": 8}) == [{"batch": 4}, {"batch": 8}]
    assert FinishedSamples(batches=[{"batch": [0]}]).split_by({"batch": 8}) == {"batch": 8}


def test_samples_of_another_definition_are_not_gone_on_with(tmp_path):
    """An own softmax was edited and evaluated again: the answer was that of the formula before."""

    def log(definition):
        return SampleLog(tmp_path / "a.jsonl", "2:some", None if definition is None else {"definition": definition})

    log("a").add([sample(0)], {"batch": [0]})
    log("a").check_own()
    log(None).check_own()  # a class made in a session has no source
    with pytest.raises(UserError, match=r"a\.jsonl holds samples by another definition of this softmax, whose source"):
        log("b").check_own()
    (tmp_path / "a.jsonl").unlink()
    log(None).add([sample(0)], {"batch": [0]})
    log("b").check_own()  # lines of before do not say


def test_a_definition_is_known_by_what_it_computes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = """\"\"\"A module.\"\"\"
from dataclasses import dataclass
from typing import ClassVar
from cgf.softmax.base import Softmax

@dataclass(eq=False)
class Own(Softmax):
    \"\"\"Squares.\"\"\"
    name: ClassVar[str] = "own"

    def formula(self, x):
        return x.square()
"""
    texts = {"one": text, "alike": text.replace("Squares.", "Other words.") + "\n# more\n"}
    texts["other"] = text.replace("x.square()", "x.square() * 2.0")
    for name, code in texts.items():
        (tmp_path / f"own_softmax_{name}.py").write_text(code)
    one, alike, other = (definition_hash(import_module(f"own_softmax_{name}").Own()) for name in texts)
    assert one == alike != other
    assert definition_hash(CGF()) == definition_hash(CGF(order=3)) != definition_hash(Quad())


def test_shards_of_two_definitions_are_not_merged():
    results = [{"shard": f"{i}/2", "digest": "d", "split_by": {}} for i in (1, 2)]
    parts = [FinishedSamples(batches=[{"batch": [i], "made_by": {"definition": text}}]) for i, text in enumerate("ab")]
    with pytest.raises(UserError, match="differ in the source of their softmax: 1/2, 2/2"):
        merged(results, parts)
