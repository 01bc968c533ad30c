"""Evaluations of several scopes beside each other."""

from rich.console import Console

from cgf.report import scopes, tables

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
