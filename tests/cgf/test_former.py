"""Names that files of earlier versions hold: each leads to a class of today, by the fixed tables alone."""

import pytest

from cgf.data.tasks import TASKS
from cgf.distill.run_folder import MARK, RunFolder
from cgf.distill.teacher import LOADERS
from cgf.former import MOVED, current_name, current_names
from cgf.softmax.load import TARGETS, softmax_from_json

# as configurations and softmax.json of schema 1 and 2 have them
SOFTMAXES = {
    "cgf.softmax.standard.Standard": "standard",
    "cgf.softmax.statistical.Arion": "arion",
    "cgf.softmax.gaussian.GaussianKernel": "gaussian",
    "cgf.softmax.quotient.StablePower": "power_stable",
    "cgf.softmax.cgf.CGF": "cgf",
    "cgf.softmax.chain_cgf.ChainCGF": "cgf_chain",
}


@pytest.mark.parametrize(("target", "variant"), SOFTMAXES.items())
def test_a_softmax_of_an_earlier_file_is_found(target, variant):
    assert softmax_from_json({"_target_": target, "variant": variant}).name == variant
    assert softmax_from_json({"_target_": target}).name == variant  # the first files had no variant
    assert "_target_" not in softmax_from_json({"_target_": target}).to_json()


def test_every_former_name_leads_to_something_that_is_there():
    softmaxes = {target.rpartition(".")[0] for target in TARGETS}
    loaders = {target.rpartition(".")[0] for target in LOADERS}
    for before, now in MOVED.items():
        assert now in softmaxes | loaders or now.startswith("cgf.he.engines."), before
    newer = {"cgf.models.hf.load", "cgf.models.bert_tiny.load"}  # than the move
    assert {current_name(f"{before}.load") for before in MOVED if before.startswith("models.")} == set(LOADERS) - newer
    assert all(current_name(target) == target for target in (*TARGETS, *TASKS, *LOADERS))


def test_what_was_never_moved_stays():
    for name in ("os.system", "cgf.softmax.standard", "models.vit.os.load", None, 3):
        assert current_name(name) == name


def test_a_run_of_before_is_gone_on_with(tmp_path):
    """The classes of its configuration have moved since; its settings are the same."""
    import json

    before = {"model": {"_target_": "models.vit.load", "name": "m"}, "list": [{"_target_": "cgf.he.sim.SimOwner"}]}
    now = {
        "model": {"_target_": "cgf.models.vit.load", "name": "m"},
        "list": [{"_target_": "cgf.he.engines.sim.SimOwner"}],
    }
    assert current_names(before) == now == current_names(now)
    folder = tmp_path / "run" / "ckpt-3"
    (folder / "state").mkdir(parents=True)
    (folder.parent / "run.txt").write_text(MARK)
    (folder / "run.json").write_text(json.dumps({"config": before, "progress": {"finished": False}}))
    assert RunFolder.claim(str(tmp_path), "run", now, resume=True, overwrite=False).newest == folder
