"""A checkpoint is what it was when it was saved: whatever was changed, taken away or added since is named."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch
from resealed import reseal, unseal
from safetensors.torch import load_file, save_file

from cgf import checkpoint
from cgf.checkpoint import TrainingState, read, save
from cgf.errors import UserError
from cgf.softmax.bpmax import BPMax
from cgf.softmax.cgf import CGF

CGF_NODE = {"_target_": "cgf.softmax.cgf.CGF", "order": 2, "ceiling": None}
RUN = {
    "model": "m",
    "task": "t",
    "num_classes": 2,
    "family": "vit",
    "source": {"timm": "x"},
    "seed": 1,
    "config": {"model": {"name": "m"}, "task": {"name": "t"}, "softmax": CGF_NODE},
}


def surroundings(folder):
    (folder / "deep").mkdir(parents=True)
    (folder / "config.json").write_text('{"a": 1}')
    (folder / "deep" / "vocab.txt").write_text("a\nb\n")


@pytest.fixture
def folder(tmp_path):
    state = TrainingState.of({"step": 1}, torch.optim.AdamW([torch.nn.Parameter(torch.ones(2))]))
    host = {"w": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2)}
    return save(tmp_path / "ckpt-3", host, [CGF()], RUN, surroundings, state)


def opened(folder):
    found = read(folder)
    found.weights()
    return found


def edit(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def flip(folder):
    raw = bytearray((folder / "model.safetensors").read_bytes())
    raw[-3] ^= 1  # of a number
    (folder / "model.safetensors").write_bytes(raw)


def run(**values):
    return lambda folder: edit(folder / "run.json", lambda data: data.update(values))


def without(*keys):
    return lambda folder: edit(folder / "run.json", lambda data: [data.pop(key) for key in keys])


def order(folder):
    edit(folder / "softmax.json", lambda data: data["softmax"].update(order=3))


@pytest.mark.parametrize(
    "change, says",
    [
        (flip, "model.safetensors was changed or damaged"),
        (order, "softmax.json was changed after"),
        (lambda f: edit(f / "run.json", lambda d: d["config"]["task"].update(seed=7)), "run.json was changed after"),
        (run(task="another"), "run.json was changed after"),
        (run(num_classes=3), "run.json was changed after"),
        (run(files={}), "run.json was changed after"),
        (run(seal="0" * 64), "run.json was changed after"),
        (without("seal"), "run.json was changed after"),
        (without("schema"), "must be of schema 2, and is of None"),
        (run(schema=3), "must be of schema 2, and is of 3"),
        (run(schema=True), "must be of schema 2"),
        (lambda f: (f / "host" / "config.json").write_text('{"a": 2}'), r"host/config\.json was changed"),
        (lambda f: (f / "host" / "deep" / "vocab.txt").unlink(), r"lacks host/deep/vocab\.txt"),
        (lambda f: shutil.rmtree(f / "host"), r"lacks host/config\.json"),
        (lambda f: (f / "host" / "more.json").write_text("{}"), r"holds host/more\.json, which was not saved with it"),
        (
            lambda f: shutil.copy(f / "model.safetensors", f / "other.safetensors"),
            r"holds other\.safetensors, which was",
        ),
        (lambda f: (f / "weights.npz").write_bytes(b"x"), r"holds weights\.npz, which was not saved"),
        (lambda f: (f / "model.pt").write_bytes(b"x"), r"holds model\.pt, a pickled file"),
    ],
    ids=[
        "flipped bit",
        "order",
        "task node",
        "task",
        "classes",
        "hashes",
        "seal",
        "no seal",
        "no schema",
        "schema 3",
        "schema true",
        "host file",
        "host file gone",
        "host gone",
        "host file more",
        "weights more",
        "arrays more",
        "pickle",
    ],
)
def test_what_was_changed_since_is_named(change, says, folder):
    opened(folder)
    change(folder)
    with pytest.raises(UserError, match=says) as error:
        opened(folder)
    assert "\n" not in str(error.value)


def test_state_plan_and_results_may_come_and_go(folder):
    before = opened(folder).digest
    shutil.rmtree(folder / "state")
    (folder / "plan.json").write_text("{}")
    (folder / "eval").mkdir()
    (folder / "eval" / "plain.json").write_text("{}")
    assert opened(folder).digest == before and opened(folder).run == RUN


def test_a_file_without_hashes_loads_as_before(folder):
    with_hashes = opened(folder)
    unseal(folder)
    assert set(json.loads((folder / "run.json").read_text())) == set(RUN)
    before = opened(folder)
    assert before.files is None and before.run == RUN and before.digest == with_hashes.digest


@pytest.mark.parametrize(
    "change, says",
    [
        (order, "was trained with the softmax .*'order': 2.*softmax.json has .*'order': 3"),
        (run(model="another"), "says model=another, and its configuration 'm'"),
        (run(num_classes="two"), "'num_classes' of .* must be of type int"),
        (run(num_classes=0), "from 1 to 65536"),
        (run(num_classes=10**9), "from 1 to 65536"),
        (run(source=[]), "'source' of .* must be of type dict"),
        (run(family=3), "'family' of .* must be of type str"),
    ],
    ids=["order", "model", "classes of words", "no classes", "classes without end", "source", "family"],
)
def test_an_old_file_that_contradicts_itself_is_refused(change, says, folder):
    unseal(folder)
    change(folder)
    with pytest.raises(UserError, match=says):
        opened(folder)


def test_the_task_is_the_one_that_was_trained_on(folder):
    found = read(folder)
    found.check_task(SimpleNamespace(name="t", num_classes=2))
    with pytest.raises(UserError, match="says task=t, and the task of its configuration has u"):
        found.check_task(SimpleNamespace(name="u", num_classes=2))
    with pytest.raises(UserError, match="says num_classes=2, and the task of its configuration has 3"):
        found.check_task(SimpleNamespace(name="t", num_classes=3))


@pytest.mark.parametrize(
    "change",
    [
        lambda f: save_file({**load_file(f / "model.safetensors"), "b": torch.zeros(2)}, f / "model.safetensors"),
        lambda f: edit(f / "softmax.json", lambda data: data.update(note="x")),
        lambda f: (f / "host" / "config.json").write_text('{"a": 2}'),
        run(seed=2),
    ],
    ids=["weights", "softmax.json", "host", "run.json"],
)
def test_the_digest_follows_every_file_that_a_result_depends_on(change, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "moved")
    before = read(folder).digest
    assert len(before) == 64 and read(tmp_path / "moved").digest == before
    change(folder)
    reseal(folder)
    assert read(folder).digest != before


@pytest.mark.parametrize("old", [False, True], ids=["with hashes", "without"])
def test_the_weights_are_hashed_once_an_opening(old, folder, monkeypatch):
    if old:
        unseal(folder)
    hashed, own = [], checkpoint.file_hash

    def watched(path):
        hashed.append(path.name)
        return own(path)

    monkeypatch.setattr(checkpoint, "file_hash", watched)
    found = read(folder)
    assert hashed == []
    found.weights()
    assert found.digest == found.digest
    found.weights()
    assert hashed.count("model.safetensors") == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_that_are_no_numbers_are_named(value, dtype, tmp_path):
    host = {"a": torch.ones(2), "b": torch.tensor([1.0, value], dtype=dtype)}
    with pytest.raises(UserError, match="needs finite numbers, and 'b' holds NaN or infinity"):
        read(save(tmp_path / "ckpt-1", host, [CGF()], RUN)).weights()


def test_a_softmax_that_measures_has_measured(tmp_path):
    measured = [BPMax(), BPMax()]
    measured[0].denominator = torch.ones(2, 3, 1)
    config = {**RUN, "config": {}}
    found = read(save(tmp_path / "ckpt-1", {"w": torch.ones(1)}, measured, config))
    with pytest.raises(UserError, match=r"'bpmax' needs 'denominator', which training measures, and .* none in layer"):
        found.check_measured(found.weights()[1])
    measured[1].denominator = torch.ones(2, 3, 1)
    found = read(save(tmp_path / "ckpt-1", {"w": torch.ones(1)}, measured, config))
    found.check_measured(found.weights()[1])
