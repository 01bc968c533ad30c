"""The table of whole attentions by shape: ratios and sums are of the numbers of the file."""

from cgf.report.attention_cost import table

SHAPE = {
    "samples": 1024,
    "heads": 8,
    "tokens": 12,
    "features": 32,
    "rows": "causal",
    "layout": "8192 slots, a=1 b=1",
    "levels": 6,
    "ciphertexts": {"encrypted": 1200, "decrypted": 384},
    "client_s": 4.0,
    "server_s": 6.0,
    "ms_per_head": 1.5,
    "runs": {"count": 3, "least_s": 9.0, "most_s": 11.5},
    "us_per_mac": 0.25,
    "us_per_entry": 20.0,
    "peak_mib": 1000.0,
    "predicted": {"total_s": 8.0, "mib": 1300.0},
    "max_error": 3e-6,
    "largest": 6.0,
}


def test_a_row_a_shape():
    header, _, row = table({"shapes": [SHAPE]}).splitlines()
    cells = dict(zip((c.strip() for c in header.split("|")), (c.strip() for c in row.split("|")), strict=True))
    assert cells["attention"] == "1,024 x 8 heads, 12 tokens, causal" and cells["ciphertexts in, out"] == "1,200, 384"
    assert cells["predicted / measured s"] == "0.80" and cells["predicted / measured MiB"] == "1.30"
    assert cells["both, range of the runs, s"] == "9.0 to 11.5 (3 runs)"
    assert cells["error of the largest output"] == "5.0e-07" and cells["ms a head"] == "1.5"
