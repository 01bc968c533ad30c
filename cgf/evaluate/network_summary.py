"""The result of an evaluation of a whole network under CKKS, a function of its lines alone."""

from __future__ import annotations

from collections import Counter

import numpy as np

from cgf.evaluate.he_lines import FinishedSamples
from cgf.evaluate.he_scope import SAYS
from cgf.types import Json

CLIENT = ("encrypt", "decrypt")


def network_summary(finished: FinishedSamples, encrypts: bool) -> Json:
    """Accuracies, agreement, errors, levels, seconds by stage, bytes and memory of all finished samples.

    accuracy_plain, agreement    against the network's program in float64: the same algebra in the clear
    accuracy_exact, agreement_exact  against the model as it was trained
    unfolded_error  largest difference of the program from the model's own forward with the same polynomials in place
    max_error  of a logit against the program, largest_logit: of which size they are
    core_s     CPU seconds of client and server, client_s and server_s: of each;  wall_s: of the whole evaluation
    s_per_sample  core_s of a sample;  latency_s: wall seconds of the slowest set, which one sample alone takes too
    stages     CPU and wall seconds by name, summed over the sets;  bytes_up, bytes_down: of all sets, key_bytes: of the
               evaluation keys of one worker (of the largest set of keys, where counts of tokens differ)
    """
    records = [batch["network"] for batch in finished.batches]
    errors = [batch["errors"] for batch in finished.batches]
    stages, ops = stages_of(records), Counter[str]()
    for record in records:
        ops.update(record["ops"])
    core = sum(stage["core_s"] for stage in stages)
    client = sum(stage["core_s"] for stage in stages if stage["stage"] in CLIENT)
    slots = sorted({record["slots"] for record in records})
    wall = sum(batch["seconds"] for batch in finished.batches)
    return {
        "scope": SAYS["network"][0 if encrypts else 1],
        "encrypted": encrypts,
        **finished.shares(),
        **_errors(errors),
        "overflow": sum(record["overflow"] for record in records),
        "levels": max(record["levels"] for record in records),
        "levels_counted": max(record["counted"] for record in records),
        "ring_slots": slots[0] if len(slots) == 1 else slots,
        "bootstraps": ops["boot"],
        "ops": dict(ops),
        "sets": len(records),
        "made_by": finished.made_by(),
        "core_s": core,
        "client_s": client,
        "server_s": core - client,
        "wall_s": wall,
        "s_per_sample": core / len(finished.samples),
        "samples_per_s": len(finished.samples) / wall,
        "latency_s": max(batch["set_s"] for batch in finished.batches),
        "stages": stages,
        "peak_mib": max(batch["peak_mib"] for batch in finished.batches),
        "bytes_up": _total(records, "bytes_up"),
        "bytes_down": _total(records, "bytes_down"),
        "key_bytes": max((record["key_bytes"] or 0 for record in records), default=0) or None,
        "layers": [],
    }


def stages_of(records: list[Json]) -> list[Json]:
    """Seconds of each stage, in the order of the first set, summed over the sets."""
    seconds: dict[str, Counter[str]] = {}
    for record in records:
        for name, wall, core in record["stages"]:
            own = seconds.setdefault(name, Counter())
            own.update({"wall_s": wall, "core_s": core})
    return [{"stage": name, **own} for name, own in seconds.items()]


def _errors(errors: list[Json]) -> Json:
    """Errors of all logits, how many are wrong, and entries beyond the guards; NaN where an error is NaN."""
    worst = {key: np.max([error[key] for error in errors]).item() for key in ("max_error", "largest", "unfolded")}
    return {
        "max_error": worst["max_error"],
        "mean_error": sum(error["sum_error"] for error in errors) / max(1, sum(error["logits"] for error in errors)),
        "largest_logit": worst["largest"],
        "unfolded_error": worst["unfolded"],
        "wrong": sum(error["wrong"] for error in errors),
        "inexact": 0,
        **_beyond(errors),
    }


def _beyond(errors: list[Json]) -> Json:
    """Entries beyond the guards, in all and by attention and head."""
    places: Counter[tuple[int, int]] = Counter()
    for error in errors:
        for layer, head, count in error["beyond"]:
            places[layer, head] += count
    at = [{"layer": layer, "head": head, "entries": count} for (layer, head), count in sorted(places.items())]
    return {"beyond_guard": places.total(), "beyond_at": at}


def _total(records: list[Json], key: str) -> int | None:
    known = [record[key] for record in records if record[key] is not None]
    return sum(known) if known else None
