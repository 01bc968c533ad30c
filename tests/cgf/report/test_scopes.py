"""Evaluations of several scopes beside each other."""

from rich.console import Console

from cgf.report import levels_figure, plots, scopes, tables

ONE = {
    "model": "vit",
    "softmax": "cgf_chain",
    "encrypted": True,
    "samples": 10,
    "accuracy": 0.9,
    "agreement": 1.0,
    "max_error": 2e-6,
    "levels": 6,
    "ring_slots": 8192,
    "beyond_guard": 0,
}
SOFTMAX = ONE | {
    "kind": "eval_he",
    "scope": "softmax under CKKS",
    "seconds": {"circuit": 3.0, "encrypt": 1.0, "model": 9.0},
}
ATTENTION = ONE | {
    "kind": "eval_he",
    "scope": "attention under CKKS; ...",
    "client_s": 2.0,
    "server_s": 5.0,
    "seconds": {},
}
NETWORK = ONE | {"kind": "eval_network", "scope": "whole network under CKKS", "core_s": 60.0, "levels": 10}


def test_each_scope_is_named_with_the_seconds_of_its_ciphertexts():
    assert [scopes.what(r) for r in (SOFTMAX, ATTENTION, NETWORK)] == ["softmax", "attention", "network"]
    assert [scopes.core_seconds(r) for r in (SOFTMAX, ATTENTION, NETWORK)] == [4.0, 7.0, 60.0]
    assert scopes.core_seconds(ONE) is None


def test_the_table_goes_from_least_to_most_encrypted_and_leaves_out_what_was_not():
    table = scopes.side_by_side([NETWORK, SOFTMAX, ATTENTION, ATTENTION | {"encrypted": False}])
    console = Console(width=250, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table)
    lines = [line for line in console.export_text().splitlines() if "vit" in line]
    assert [line.split()[1] for line in lines] == ["softmax", "attention", "network"]
    assert "0.40" in lines[0] and "6.00" in lines[2] and "logits" in lines[2]


def test_one_scope_alone_is_no_comparison_but_a_network_is_always_shown():
    assert scopes.side_by_side([SOFTMAX, SOFTMAX]) is None
    simulated = NETWORK | {"encrypted": False}
    assert [row["encrypted"] for row in scopes.table_rows([NETWORK, simulated])] == ["network", "network (simulated)"]
    assert tables.other_rows([NETWORK]) == []  # so that it is shown once


def test_a_network_stands_in_the_table_and_the_figures_of_all_evaluations():
    network = NETWORK | {"engine": "desilo", "accuracy_plain": 0.8, "_path": "run/ckpt-1/eval/net.json"}
    for encrypted, engine in ((True, "CKKS (desilo), whole network"), (False, "simulator, whole network")):
        (row,) = tables.table_rows([network | {"encrypted": encrypted}])
        assert row["engine"] == engine and row["accuracy"] == 0.8 and row["levels"] == 10
        assert row["accuracy_ckks"] == (0.9 if encrypted else None)
    (point,) = levels_figure.points([network])
    assert point[0] == 10 and point[4] == "ckks" and "whole network" in point[5]
    assert b"whole network" in plots.accuracy_bars([network])


def test_legends_name_a_file_only_where_two_would_read_the_same():
    timed = [SOFTMAX | {"approx": name, "_path": f"a/ckpt-1/eval/{name}.json"} for name in ("chain", "limit")]
    assert b".json" not in plots.seconds_by_operation(timed)
    alike = [row | {"approx": "chain", "_checkpoint": "a/ckpt-1"} for row in timed]
    assert plots.seconds_by_operation(alike).count(b"a/ckpt-1/eval/") == 2
    apart = [row | {"_checkpoint": f"run-{i}"} for i, row in enumerate(alike)]
    drawn = plots.seconds_by_operation(apart)
    assert b".json" not in drawn and b"(run-0)" in drawn and b"(run-1)" in drawn


def test_a_plan_is_named_by_its_checkpoints_folder_and_its_hashes_are_called_so():
    plan = {"checkpoint": "ab12", "seal": "cd34", "levels": 5, "share_outside": 0.0, "range": [-4.0, 1.0], "layers": []}
    (row,) = tables.plan_rows({"student/ckpt-2": plan})
    assert row["checkpoint"] == "student/ckpt-2" and row["share outside"] == 0.0 and row["range"] == [-4.0, 1.0]
    assert (row["checkpoint sha256"], row["seal sha256"]) == ("ab12", "cd34") and "layers" not in row
