"""Where an encrypted evaluation puts its result when nobody names a file."""

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
