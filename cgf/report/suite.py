"""The table of workloads in the shape of the FHE benchmarking suite: core-seconds by stage, bytes, and the verdict."""

from __future__ import annotations

from cgf.report.columns import NONE, grid
from cgf.types import Json

TITLES = [
    "workload",
    "size",
    "keys core-s",
    "encrypt core-s",
    "compute core-s",
    "decrypt core-s",
    "latency core-s",
    "peak MiB",
    "keys MiB",
    "input MiB",
    "results MiB",
    "levels",
    "error",
    "verdict",
]
ENCRYPT = ("client_preprocess_input", "client_encode_encrypt_input")
COMPUTE = ("server_encrypted_compute",)
DECRYPT = ("client_decrypt_decode", "client_postprocess")
SIZES = ("public and evaluation keys", "encrypted input", "encrypted results")


def table(result: Json) -> str:
    """A line a workload and size; keys and the server's preprocessing are no part of the latency."""
    return grid(TITLES, [line(row) for row in result["rows"]])


def line(row: Json) -> list[str]:
    """Cells of a workload; preparing stands under encrypt, and judging under decrypt."""
    return [
        row["workload"],
        f"{row['size']}: {shape(row)}",
        core_seconds(row, "client_key_generation"),
        core_seconds(row, *ENCRYPT),
        core_seconds(row, *COMPUTE),
        core_seconds(row, *DECRYPT),
        core_seconds(row, *ENCRYPT, *COMPUTE, *DECRYPT),
        f"{max(stage['peak_mib'] for stage in row['stages']):,.0f}",
        *(f"{row['bytes'][name] / 2**20:,.1f}" for name in SIZES),
        str(row["levels"]),
        NONE if row["error"] is None else f"{row['error']:.1e}",
        row["verdict"],
    ]


def core_seconds(row: Json, *stages: str) -> str:
    """Of processes, summed: what else the machine does is no part of them."""
    return f"{sum(stage['core_s'] for stage in row['stages'] if stage['stage'] in stages):.1f}"


def shape(row: Json) -> str:
    """What the data are."""
    if row["workload"] == "network":
        return f"{row['images']:,} images"
    first: list[int] = next(iter(row["shape"].values()))
    if row["workload"] == "softmax":
        return f"{first[0]:,} x {first[1]:,}"
    sentences, heads, tokens, features = first
    return f"{sentences} x {heads} heads, {tokens} tokens, {features} features"
