"""The README's first table: accuracies of whole test sets with their intervals."""

import json

import pytest

from cgf.errors import UserError
from cgf.report.headline import FILES, headline, interval


def test_the_interval_is_wilsons():
    # (p + z^2/2n ± z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n) at p = 0.9, n = 100, z = 1.959964
    assert interval(0.9, 100) == "90.00 % [82.56, 94.48]"
    assert interval(1.0, 359) == "100.00 % [98.94, 100.00]"
    with pytest.raises(UserError, match=r"0\.905 of 100 is none"):
        interval(0.905, 100)


def test_a_line_a_file_and_none_is_missing(tmp_path):
    for name in ("exact", "attention", "network"):
        (tmp_path / "he" / name).mkdir(parents=True)
    (tmp_path / "he" / "exact" / f"{FILES[0]}.json").write_text(json.dumps({"accuracy": 0.6}))
    for name in FILES:
        host, task, softmax = (name.split("/")[-1] + "-cgf_chain").split("-")[:3]
        softmax = softmax.removesuffix("_tempered")
        result = {"model": host, "task": task, "softmax": softmax, "samples": 10, "accuracy": 0.5, "agreement": 1.0}
        cost = {"client_s": 2.0, "server_s": 3.0} if "/" in name else {}
        (tmp_path / "he" / f"{name}.json").write_text(json.dumps({**result, "levels": 5, **cost}))
    table = headline(tmp_path).splitlines()
    assert len(table) == 2 + len(FILES)
    assert table[2].startswith("| softmax | minilm | clinc150 | `cgf` | 10 | 50.00 % [")
    assert table[3].startswith("| softmax | minilm | banking77 | `cgf_tempered` | 10 |")
    assert table[2].endswith("| 5 | – | – |") and table[6].endswith("| 5 | – | 0.50 |")  # no table of parameters
    assert [line.split(" | ")[0] for line in table[2:]] == [
        "| " + what for what in [*["softmax"] * 3, "attention", *["network"] * 2]
    ]
    assert [line.split(" | ")[7] for line in (table[2], table[3], table[5])] == ["-10.00, undecided: 1 seed", "–", "–"]
    path = tmp_path / "he" / f"{FILES[5]}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "kind": "eval_network", "red": ["7 logits are wrong"]}))
    shown = [line.split(" | ")[5] for line in headline(tmp_path).splitlines()[2:]]
    assert [cell.endswith("] (red)") for cell in shown] == [False] * 5 + [True]
    (tmp_path / "he" / f"{FILES[3]}.json").unlink()
    with pytest.raises(UserError, match=FILES[3]):
        headline(tmp_path)
