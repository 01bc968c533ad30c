"""A baseline that bootstraps, from end to end: one sample of the small ViT with Cho et al. on the simulator."""

import json

import pytest
from test_evaluate_he import call, checkpoint_fixture, trained_run_fixture  # noqa: F401

CHO = {"_target_": "cgf.softmax.normalize_square.NormalizeSquare", "variant": "cho", "bound": 256.0, "n": 16, "k": None,
       "degrees": None}


@pytest.fixture(name="baseline")
def baseline_fixture(checkpoint):
    """The trained ViT with Cho et al. in the place of its softmax: 45 levels and more, which no ring holds."""
    path = checkpoint / "softmax.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "softmax": CHO}))
    (checkpoint / "plan.json").unlink()
    return checkpoint


def test_one_sample_with_bootstraps(baseline):
    out = baseline / "eval" / "boot.json"
    done = call("eval_he", f"ckpt={baseline}", f"out={out}", "he=sim", "he.samples=1", "approx=exact",
                "he.owner.bootstrap=small")
    result = json.loads(out.read_text())
    assert result["softmax"] == "cho" and result["samples"] == 1 and result["ops"]["boot"] > 0
    assert result["ring_slots"] == 32768 and result["circuits"] == {"formula": 4 * 4 * 16 * 16}
    assert result["max_error"] < 1e-6 and result["agreement"] == 1.0
    assert (done.returncode, result["overflow"], result["ruined"]) == (0, 0, 0), done.stderr


@pytest.mark.parametrize("arguments, says", [
    ([], "softmax 'cho' needs bootstraps here, and the engine has no key for them: he.owner.bootstrap=small (13 GiB)"),
    (["he.owner.bootstrap=small", "he.workers=2"], "he.owner.bootstrap=small needs he.workers=1"),
])
def test_what_bootstraps_need_is_told(baseline, arguments, says):
    done = call("eval_he", f"ckpt={baseline}", "he=sim", "he.samples=1", "approx=exact", *arguments)
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_setting_left_at_none_goes_on_with_lines_from_before_it_was_there(checkpoint):
    """The digest of lines is what it was before he.owner.bootstrap was a setting."""
    from cgf.config import compose, resolved, task_maker
    from models.evaluation import open_checkpoint

    opened = open_checkpoint(str(checkpoint), "test", task_maker(None))
    config = resolved(compose("eval_he", [f"ckpt={checkpoint}", "he=sim"]))
    digest = opened.digest(None, config, [1])
    assert config["he"]["owner"].pop("bootstrap", "absent") is None
    assert opened.digest(None, config, [1]) == digest
    config["he"]["owner"]["bootstrap"] = "small"
    assert opened.digest(None, config, [1]) != digest
