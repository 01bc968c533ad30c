"""The hub path. Its answers are real rows in the hub's form; only the network in between is replaced."""

import time
from types import SimpleNamespace

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from cgf.errors import UserError


@pytest.fixture(autouse=True)
def no_root(monkeypatch):
    monkeypatch.delenv("CGF_DATA_ROOT", raising=False)


@pytest.fixture
def hub(monkeypatch):
    """Makes the hub answer with given splits; gives back what was asked for."""
    asked = {}

    def answer(splits, files=()):
        def info(self, repo, revision=None, timeout=None):
            return SimpleNamespace(sha="c0ffee", siblings=[SimpleNamespace(rfilename=name) for name in files])

        def load(repo, config, revision=None):
            asked.update(repo=repo, config=config, revision=revision)
            return DatasetDict(splits)

        monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", info)
        monkeypatch.setattr("datasets.load_dataset", load)
        return asked

    return answer


def as_hub(records, text, label, names):
    features = Features({text: Value("string"), label: ClassLabel(names=names)})
    columns = {text: [row[0] for row in records], label: [names.index(row[1]) for row in records]}
    return Dataset.from_dict(columns, features=features)


def test_clinc_from_the_hub_equals_local(make, data_root, hub):
    plus = make("clinc150", data_root, variant="oos_plus", oos=True)
    records = plus._source.records
    names = sorted(plus.class_names)  # the hub's order: 'oos' in the middle
    hubs = {"train": "train", "val": "validation", "test": "test"}
    asked = hub({name: as_hub(records[ours], "text", "intent", names) for ours, name in hubs.items()})
    local, far = make("clinc150", data_root), make("clinc150")
    assert far.class_names == local.class_names and far._splits == local._splits
    assert asked == {"repo": "clinc/clinc_oos", "config": "plus", "revision": "c0ffee"}
    assert far.revision() == {"clinc/clinc_oos/plus": "c0ffee"}
    assert make("clinc150", variant="oos_plus", oos=True)._splits == plus._splits
    with pytest.raises(UserError, match=r"needs task\.variant=oos_plus"):
        _ = make("clinc150", oos=True)._splits


def test_banking_from_the_hub_equals_local(make, data_root, hub):
    local = make("banking77", data_root)
    records = local._source.records
    splits = {name: as_hub(records[name], "text", "label", local.class_names) for name in ("train", "test")}
    asked = hub(splits, files=["README.md", "banking77.py"])
    assert make("banking77")._splits == local._splits
    assert asked["revision"] == "refs/convert/parquet"


def test_sst2_from_the_hub_equals_local(make, data_root, hub):
    local = make("sst2", data_root)
    records = {k: [(t + " ", ["negative", "positive"][int(v)]) for t, v in r] for k, r in local._source.records.items()}
    names = ["negative", "positive"]
    splits = {"train": records["train"], "validation": records["test"]}
    hub({k: as_hub(v, "sentence", "label", names) for k, v in splits.items()})
    assert make("sst2")._splits == local._splits


def test_a_checkpoint_keeps_the_commit_of_a_set_of_the_hub(make, data_root, hub, monkeypatch):
    """What moves on the hub since is no other state of the data for it: it reads those of then."""
    local = make("banking77", data_root)
    names = local.class_names
    splits = {k: as_hub(local._source.records[k], "text", "label", names) for k in ("train", "test")}
    hub(splits)
    assert make("banking77").kept() == {}  # nothing names a commit
    monkeypatch.setattr("cgf.data.hub._commit", lambda data, revision: "ab" * 20)
    assert make("banking77").kept() == {"hub_revision": "ab" * 20}
    assert make("banking77").revision() == {"PolyAI/banking77": "ab" * 20}
    assert local.kept() == {} and make("cifar10", data_root).kept() == {}


def test_other_columns_and_splits(make, hub):
    hub({"train": Dataset.from_dict({"a": ["x"]})})
    with pytest.raises(UserError, match=r"needs the splits train, validation of hub dataset stanfordnlp/sst2"):
        _ = make("sst2")._splits
    wrong = Dataset.from_dict({"a": ["x"]})
    hub({"train": wrong, "validation": wrong})
    with pytest.raises(
        UserError, match="needs the columns sentence, label of hub dataset stanfordnlp/sst2, and it has a"
    ):
        _ = make("sst2")._splits


@pytest.mark.parametrize(("name", "hub_id"), [("clinc150", "clinc/clinc_oos"), ("imagenet1k", "ILSVRC/imagenet-1k")])
def test_unreachable_hub_fails_fast(make, monkeypatch, tmp_path, name, hub_id):
    # A real refused connection: nothing listens on this port.
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    start = time.monotonic()
    with pytest.raises(UserError) as caught:
        _ = make(name).class_names
    assert time.monotonic() - start < 8
    message = str(caught.value)
    assert hub_id in message and "CGF_DATA_ROOT" in message and "hf auth login" in message and "\n" not in message


def test_gated_hub(make, monkeypatch, hub):
    from datasets.exceptions import DatasetNotFoundError

    hub({})

    def refuse(*args, **kwargs):
        raise DatasetNotFoundError("Dataset 'ILSVRC/imagenet-1k' is a gated dataset on the Hub.")

    monkeypatch.setattr("datasets.load_dataset", refuse)
    with pytest.raises(UserError, match=r"ILSVRC/imagenet-1k.*gated dataset.*hf auth login"):
        _ = make("imagenet1k").class_names


def test_no_hub_and_no_root(make):
    with pytest.raises(UserError, match="task cifar10 needs a data root"):
        _ = make("cifar10").class_names
