"""A result under CKKS with nothing to complain of, which tests spoil."""

HEADS = {"max_error": [1e-6, 3e-6], **{key: [0, 0] for key in ("outside", "beyond", "ruined", "wrong", "inexact")}}
FINE = {
    "kind": "eval_he",
    "model": "m",
    "task": "t",
    "softmax": "cgf",
    "approx": "chain",
    "engine": "desilo",
    "encrypted": True,
    "samples": 100,
    "split": "test",
    "accuracy": 0.9,
    "accuracy_plain": 0.9,
    "agreement": 1.0,
    "ruined": 0,
    "overflow": 0,
    "beyond_guard": 0,
    "wrong": 0,
    "inexact": 0,
    "max_error": 3e-6,
    "levels": 5,
    "noise_stated": 1e-4,
    "agreement_asked": 0.99,
    "layers": [{"layer": 0, "heads": HEADS}],
    "_path": "eval/a.json",
}
