"""Where an encrypted evaluation puts its result when nobody names a file."""

import json
from pathlib import Path

from digits_checkpoint import call

from cgf.errors import UserError
from cgf.evaluate import result_file


def test_every_engine_has_result_names_of_its_own(checkpoint, monkeypatch):
    """desilo, desilo_gpu and desilo_lanes are one library, and a result of one is none of another."""

    def result_path(opened, out, kind, *others, **named):
        raise UserError(f"the result begins with {kind}")

    monkeypatch.setattr(result_file, "result_path", result_path)
    for he in ("sim", "desilo", "desilo_gpu", "desilo_lanes", "openfhe"):
        refused = call("eval_he", f"ckpt={checkpoint}", f"he={he}", "he.samples=1")
        assert refused.stderr.strip() == f"error: the result begins with he-{he}-folded"


def test_a_softmax_put_in_untrained_takes_no_result_of_the_trained_one(tmp_path, monkeypatch):
    """Their descriptions are the same: what a chain learned lies in tensors."""
    monkeypatch.chdir(tmp_path)
    small = ["train.max_steps=6", "train.lr=2e-3", "train.softmax_lr=20", "task.limit={train: 48, val: 16, test: 16}"]
    assert call("train", "run=chain", "softmax=cgf_chain", *small).returncode == 0
    results = []
    for other in ([], ["softmax=cgf_chain"]):
        done = call("eval_plain", "ckpt=outputs/chain", "approx=exact", *other)
        assert done.returncode == 0, done.stderr
        results.append((done.stdout.strip().splitlines()[-1], "stands, untrained, where" in done.stdout))
    (trained, told), (untrained, also) = results
    assert trained != untrained and (told, also) == (False, True)
    one, other = (json.loads(Path(path).read_text()) for path in (trained, untrained))
    assert (one["replaced"], other["replaced"]) == (False, True) and one["loss"] != other["loss"]


def test_another_polynomial_than_the_plans_takes_no_result_of_it(checkpoint):
    """Both are fitted and have as many squarings, so that one name held the last of them."""
    plan = json.loads((checkpoint / "plan.json").read_text())["exponential"]
    same = [f"approx={plan['method']}", f"approx.k={plan['k']}", "approx.range=[-7,1]"]
    for other in ([], *([same] if plan["method"] in ("fitted", "chain", "limit", "chebyshev") else [])):
        done = call("eval_plain", f"ckpt={checkpoint}", "samples=8", *(other or ["approx=plan"]))
        assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (checkpoint / "eval").glob("plain-*.json"))
    kept = f"plain-{plan['method']}-k{plan['k']}"
    assert len(names) == 2 and names[-1] == f"{kept}-test-8.json" and names[0].startswith(f"{kept}-")
    domains = [json.loads((checkpoint / "eval" / name).read_text())["domain"] for name in names]
    assert domains[0] != domains[1]
