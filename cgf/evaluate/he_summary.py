"""The result of an encrypted evaluation, a function of its lines alone; shards of one evaluation merged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from cgf.errors import UserError
from cgf.evaluate.by_class import by_class
from cgf.evaluate.he_batches import parse_shard
from cgf.evaluate.he_lines import FinishedSamples, together
from cgf.evaluate.he_scope import SAYS, scope_of
from cgf.evaluate.network_summary import network_summary
from cgf.he.layer_record import LayerRecord
from cgf.results import read_json
from cgf.types import Json

RAN = ("workers", "processes")  # with which lines ran
OF_A_SHARD = (
    "checkpoint",
    "workers",
    "processes",
    "by_class",
    "run",
    "green",
    "red",
)  # where it lay and ran, and what is found anew


def summary(finished: FinishedSamples, encrypts: bool = True, scope: str = "softmax") -> Json:
    """Accuracies, agreement, levels, operations, seconds and errors of all finished samples.

    encrypts: whether the engine that ran does. circuit names what ran, circuits counts its entries. outside_domain is
    a share of the entries, beyond_guard, wrong and inexact count them (cgf.he.layer_record.HeadErrors).

    seconds: total is wall time; the phases (model, pack, encrypt, circuit, decrypt, compare) and the operations
    of the circuit are summed over workers and threads. A ruined sample counts as wrong and as not agreeing; errors
    are those of the others.
    """
    layers, total = finished.layers(), sum(batch["seconds"] for batch in finished.batches)
    entries = sum(record.entries for record in layers)
    ops, seconds = Counter[str](), Counter[str]()
    for record in layers:
        ops.update(record.ops)
        seconds.update(record.seconds)
    slots = sorted({s for record in layers for s in record.slots})
    ranged = all(record.low is not None for record in layers)
    beyond, circuits = sum(record.beyond for record in layers), _circuits(layers, entries)
    return {
        "scope": SAYS[scope][0 if encrypts else 1],
        "encrypted": encrypts,
        **finished.shares(),
        "max_error": max(record.max_error for record in layers),
        "mean_error": sum(record.sum_error for record in layers) / _compared(layers),
        "levels": max(record.levels for record in layers),
        "levels_counted": max(record.levels_counted for record in layers),
        "ops": dict(ops),
        "seconds": {"total": total, "model": sum(batch["model_s"] for batch in finished.batches), **seconds},
        "ring_slots": slots[0] if len(slots) == 1 else slots,
        "circuit": " and ".join(sorted(circuits)),
        "circuits": circuits,
        "made_by": finished.made_by(),
        "entries": entries,
        "batches": len(finished.batches),
        "samples_per_s": len(finished.samples) / total,
        "us_per_entry": 1e6 * total / entries,
        "peak_mib": max(batch["peak_mib"] for batch in finished.batches),
        "worker_mib": max(batch.get("worker_mib", 0.0) for batch in finished.batches) or None,  # lines of before: none
        "outside_domain": sum(record.outside for record in layers) / entries if ranged else None,
        "beyond_guard": beyond if ranged or beyond else None,
        **{name: sum(record.count(name) for record in layers) for name in ("wrong", "inexact")},
        "overflow": sum(record.overflow for record in layers),
        **(_whole(layers, seconds, total) if scope == "attention" else {}),
        "layers": [_layer(number, record) for number, record in enumerate(layers)],
    }


def _compared(layers: list[LayerRecord]) -> int:
    """Numbers that an error was taken of: outputs of whole attentions, else weights."""
    return max(1, sum(record.outputs or record.entries - record.lost for record in layers))


def _whole(layers: list[LayerRecord], seconds: Counter[str], total: float) -> Json:
    """Of whole attentions: where numbers lay, multiply-adds, and the seconds of key holder and server, summed.

    ms_per_head is of one head of one sample in one layer. It, us_per_mac and us_per_entry_core count the seconds of
    both, over all workers.
    """
    client, server = seconds["pack"] + seconds["encrypt"] + seconds["decrypt"], seconds["circuit"]
    layouts: Counter[str] = Counter()
    for record in layers:
        layouts.update(record.layouts)
    macs, entries = sum(record.macs for record in layers), sum(record.entries for record in layers)
    return {
        "layout": dict(layouts),
        "macs": macs,
        "ms_per_head": 1e3 * (client + server) / sum(record.instances for record in layers),
        "us_per_mac": 1e6 * (client + server) / macs,
        "us_per_entry_core": 1e6 * (client + server) / entries,
        "client_s": client,
        "server_s": server,
    }


def _circuits(layers: list[LayerRecord], entries: int) -> dict[str, int]:
    """Entries by the circuit that they went through; lines of earlier versions do not tell."""
    counts: Counter[str] = Counter()
    for record in layers:
        counts.update(record.circuits)
    untold = entries - counts.total()
    return dict(counts) | ({"not recorded": untold} if untold else {})


def _layer(number: int, record: LayerRecord) -> Json:
    return {
        "layer": number,
        "max_error": record.max_error,
        "mean_error": record.sum_error / _compared([record]),
        "levels": record.levels,
        "range": None if record.low is None else [record.low, record.high],
        "heads": None if record.heads is None else record.heads.to_json(),
    }


def shard_of(path: Path) -> Json:
    """The result of a shard in a file; UserError, naming the file, for what lacks what a merge reads."""
    result = read_json(path)
    if not isinstance(result, dict):
        raise UserError(f"{path} must hold the result of a shard, and holds no object")
    needed: dict[str, type | tuple[type, ...]] = {
        "kind": str,
        "digest": str,
        "split_by": (dict, list),
        "samples_of_all_shards": int,
        "shard": str,
        "run": dict,
    }
    for key, kind in needed.items():
        if not isinstance(result.get(key), kind):
            raise UserError(
                f"a merge needs results of he.shard=i/n, and got one that is not a shard: {path} lacks '{key}'"
            )
    if missing := [key for key in ("seed", "data", "model") if key not in result["run"]]:
        raise UserError(f"{path} must say in 'run' what it was made of, and lacks '{missing[0]}'")
    return result


def _check_alike(results: list[Json], names: list[str], but: set[str]) -> None:
    """UserError where the shards differ in a field that the merged result takes over; but: those that it does not."""
    for key in sorted({key for result in results for key in result} - but):
        if any(result.get(key) != results[0].get(key) for result in results):
            raise UserError(f"shards of one evaluation are needed, and these differ in '{key}': {', '.join(names)}")


def merged(results: list[Json], lines: list[FinishedSamples]) -> Json:
    """One result of the shards' results and lines, in the form of an evaluation in one piece.

    Seconds are summed over the shards. Raises UserError unless the shards are all of one evaluation: same digest
    (checkpoint, polynomial, engine, samples), each there once, and together every sample.
    """
    names = [str(result["shard"]) for result in results if result.get("shard")]
    if not results or len(names) < len(results):
        raise UserError("a merge needs results of he.shard=i/n, and got one that is not a shard")
    # a shard that went on with another batch has a list of both, and its lines say which samples came together
    split = [result["split_by"] for result in results if isinstance(result["split_by"], dict)]
    makers = [maker for part in lines for maker in part.made_by()]
    for what, facts in (
        ("checkpoint, polynomial, engine or samples", [result["digest"] for result in results]),
        # batches of before do not say
        ("the source of their softmax", [maker["definition"] for maker in makers if maker.get("definition")]),
        ("batching", split if len(split) == len(results) else []),
    ):
        if len(set(map(str, facts))) > 1:
            raise UserError(f"shards of one evaluation are needed, and these differ in {what}: {', '.join(names)}")
    parts, count = sorted(parse_shard(name) for name in names), parse_shard(names[0])[1]
    if parts != [(i, count) for i in range(1, count + 1)]:
        raise UserError(f"a merge needs each of the {count} shards once, and got {', '.join(sorted(names))}")
    whole = together(lines)
    needed, have = results[0]["samples_of_all_shards"], sum(len(part.samples) for part in lines)
    if not needed == have == len(whole.samples):
        raise UserError(
            f"the shards need to hold {needed} samples, each once, and hold {have}, "
            f"{len(whole.samples)} of them different"
        )
    own = ("shard", "samples_of_all_shards", "lines_sha256", "predictions")
    first = {key: value for key, value in results[0].items() if key not in own}
    if "by_class" in first:  # the shards of earlier versions have none
        first["by_class"] = by_class(list(first["by_class"]), whole.predictions())
    encrypts, scope = first.get("encrypted", True), scope_of(first)
    own_summary = network_summary(whole, encrypts) if scope == "network" else summary(whole, encrypts, scope)
    _check_alike(results, names, {*own, *OF_A_SHARD, *own_summary, "split_by"})
    split_by = whole.split_by(first["split_by"] if isinstance(first["split_by"], dict) else {})
    ran = {key: first[key] for key in RAN if key in first}
    return {**first, **own_summary, **whole.ran(**ran), "split_by": split_by, "shards": count}
