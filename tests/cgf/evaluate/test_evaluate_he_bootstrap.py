"""A baseline that bootstraps, from end to end: one sample of the small ViT with Cho et al. on the simulator."""

import json

import pytest
from test_evaluate_he import call

# Cho et al. in the place of the trained softmax: 45 levels and more, which no ring holds
CHO = ("softmax=cho", "softmax.bound=256.0", "softmax.n=16", "approx=exact")


def test_one_sample_with_bootstraps(checkpoint):
    done = call("eval_he", f"ckpt={checkpoint}", "he=sim", "he.samples=1", *CHO, "he.owner.bootstrap=small")
    (out,) = (checkpoint / "eval").glob("he-sim-folded-cho-*-own-test-1*.json")
    result = json.loads(out.read_text())
    assert result["softmax"] == "cho" and result["samples"] == 1 and result["ops"]["boot"] > 0
    assert result["ring_slots"] == 32768 and result["circuits"] == {"formula": 4 * 4 * 16 * 16}
    assert result["max_error"] < 1e-6 and result["agreement"] == 1.0
    assert (done.returncode, result["overflow"], result["ruined"]) == (0, 0, 0), done.stderr


def test_another_softmax_than_the_trained_one_with_workers(checkpoint):
    """Standard softmax by its polynomials under CKKS and in the clear; as trained is the checkpoint's own softmax."""
    arguments = (f"ckpt={checkpoint}", "he=sim", "he.samples=4", "he.workers=2")
    done = call(
        "eval_he",
        *arguments,
        "approx=exact",
        "softmax=standard",
        "softmax.low=-30.0",
        "softmax.high=30.0",
        f"out={checkpoint}/other.json",
    )
    assert done.returncode in (0, 1), done.stderr
    other = json.loads((checkpoint / "other.json").read_text())
    assert call("eval_he", *arguments, f"out={checkpoint}/own.json").returncode == 0
    own = json.loads((checkpoint / "own.json").read_text())
    assert (other["softmax"], other["circuits"]) == ("standard", {"formula": other["entries"]})
    assert other["digest"] != own["digest"] and own["softmax"] == "cgf"
    lines = [
        [json.loads(line) for line in (checkpoint / f"{name}.jsonl").read_text().splitlines()]
        for name in ("other", "own")
    ]
    trained = [{row["index"]: row["exact"] for row in records if "index" in row} for records in lines]
    assert trained[0] == trained[1] and len(trained[0]) == 4


@pytest.mark.parametrize(
    "arguments, says",
    [
        ([], "softmax 'cho' needs bootstraps here, and the engine has no key for them: he.owner.bootstrap=small"),
        (["he.owner.bootstrap=small", "he.workers=2"], "he.owner.bootstrap=small needs he.workers=1"),
    ],
)
def test_what_bootstraps_need_is_told(checkpoint, arguments, says):
    done = call("eval_he", f"ckpt={checkpoint}", "he=sim", "he.samples=1", *CHO, *arguments)
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_keys_of_the_owner_are_part_of_what_lines_depend_on(checkpoint):
    from cgf.config import compose, resolved, task_maker
    from cgf.evaluate.open_checkpoint import open_checkpoint
    from cgf.evaluate.result_file import digest_of

    opened = open_checkpoint(str(checkpoint), "test", task_maker(None))
    config = resolved(compose("eval_he", [f"ckpt={checkpoint}", "he=sim"]))
    digest = digest_of(opened, None, config, [1])
    assert digest_of(opened, None, config, [1]) == digest
    config["he"]["owner"]["bootstrap"] = "small"
    assert digest_of(opened, None, config, [1]) != digest
