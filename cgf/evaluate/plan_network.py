"""What a whole network will take under CKKS: of a checkpoint's samples by count of tokens, or of a shape alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from cgf.checks import whole
from cgf.data.task import Task
from cgf.errors import UserError
from cgf.evaluate.he_batches import Batches
from cgf.evaluate.network_eval import features_of
from cgf.evaluate.open_checkpoint import OpenCheckpoint, open_checkpoint
from cgf.evaluate.plan_attention import one_thread
from cgf.evaluate.token_counts import ByTokens
from cgf.he.workers import whole_workers
from cgf.models.network import network_of
from cgf.named import arguments
from cgf.network.program import program_of
from cgf.network.shapes import NetworkShape
from cgf.plan.network_cost import PredictedNetwork, predict_network
from cgf.plan.op_times import OpTimes
from cgf.results import run_info, write_json
from cgf.target import check_writable
from cgf.types import Json

FILE = "network_plan.json"
UNUSED = ("range", "rows", "columns", "per_layer", "whole")  # settings of configs/plan.yaml that are for polynomials


def plan_network(config: Json, make_task: Callable[[Json], Task]) -> str:
    """Writes network_plan.json as configs/plan.yaml asks for it; returns what it says in lines.

    Of ckpt's samples beside the checkpoint, or of ``shape`` alone in the folder ``out``. UserError without either, for
    a host that does not stay encrypted whole, and for a table of times that lacks an operation.
    """
    if (config["ckpt"] is None) == (config["shape"] is None) or config["times"] is None:
        raise UserError(
            "scope=network needs ckpt=RUN or shape={blocks:...}, and times=FILE, made by python "
            "scripts/bench/op_times.py he.owner.mode=cpu"
        )
    if other := [key for key in UNUSED if config[key] not in (None, False)]:
        raise UserError(f"scope=network plans no polynomial, and {other[0]}={config[other[0]]} is about one")
    alone, processes = _shared_out(config)
    workers, times = whole_workers(config["workers"]), one_thread(config["times"])
    if config["shape"] is not None:
        folder = Path(config["out"] or "outputs/plan").expanduser()
        check_writable(folder / FILE)
        shape = NetworkShape(**arguments(NetworkShape, config["shape"], "shape"))
        sets = {shape.tokens: (1, 1)}
        program = program_of(shape.network(), shape.tokens, streams=not alone)
        predicted = [predict_network(program, times, alone, processes)]
    else:
        opened = open_checkpoint(config["ckpt"], config["split"], make_task)
        check_writable(opened.checkpoint.path / FILE)
        if opened.softmaxes[0].uses_exponential:
            opened.put_in_place({"method": "plan"})
        sets, predicted = planned(opened, times, opened.samples(config["samples"], config["seed"]), alone, processes)
        folder = opened.checkpoint.path
    plan = content(sets, predicted, workers, processes)
    write_json(folder / FILE, {**plan, "run": run_info(config, config["seed"])})
    return "\n".join([*(one.told() for one in predicted), str(folder / FILE)])


def _shared_out(config: Json) -> tuple[bool, int]:
    """alone and processes of configs/plan.yaml, checked. UserError for values that are none, and for both at once."""
    alone, processes = config["alone"], whole("processes", config["processes"], 1)
    if not isinstance(alone, bool):
        raise UserError(f"alone must be true or false, and {alone!r} was given")
    if alone and processes > 1:
        raise UserError(f"alone=true is of one process, and processes={processes} was given")
    return alone, processes


def planned(
    opened: OpenCheckpoint, times: OpTimes, indices: list[int], alone: bool = False, processes: int = 1
) -> tuple[dict[int, tuple[int, int]], list[PredictedNetwork]]:
    """(tokens -> (sets, samples), what a set of each count of tokens takes), of chosen samples."""
    network, inputs = network_of(opened.host)
    known: dict[int, PredictedNetwork] = {}

    def tokens_of(index: int) -> int:
        return int(features_of(inputs, opened.collate([opened.dataset[index]])).shape[1])

    def probe(index: int) -> tuple[int, int, int]:
        tokens = tokens_of(index)
        if tokens not in known:
            known[tokens] = predict_network(program_of(network, tokens, streams=not alone), times, alone, processes)
        return 1, 1, known[tokens].samples

    sets, samples = Counter[int](), Counter[int]()
    for batch in Batches(ByTokens(opened.dataset, inputs), probe, False, pieces=False).of(indices):
        tokens = tokens_of(batch[0])
        sets[tokens] += 1
        samples[tokens] += len(batch)
    return {n: (sets[n], samples[n]) for n in sorted(sets)}, [known[n] for n in sorted(sets)]


def content(
    sets: dict[int, tuple[int, int]], predicted: list[PredictedNetwork], workers: int, processes: int = 1
) -> Json:
    """What network_plan.json says, run info apart.

    wall_s  key holder's and server's seconds by the clock: as many sets at once as there are workers, the server's part
            of each shared out evenly over its processes. A set stays with one worker, so that the slowest is the least
    """
    clock = {one.tokens: one.client_s + one.server_s / processes for one in predicted}
    core = sum(sets[one.tokens][0] * one.total_s for one in predicted)
    return {
        "kind": "network_plan",
        "samples": sum(samples for _, samples in sets.values()),
        "levels": max(one.levels for one in predicted),
        "bootstraps": sum(sets[one.tokens][0] * one.bootstraps for one in predicted),
        "core_s": core,
        "wall_s": max(*clock.values(), sum(sets[tokens][0] * s for tokens, s in clock.items()) / workers),
        "workers": workers,
        "processes": processes,
        "mib": max(one.mib for one in predicted),
        "sets": [
            {"sets": sets[one.tokens][0], "samples_in_all": sets[one.tokens][1], **asdict(one)} for one in predicted
        ],
    }
