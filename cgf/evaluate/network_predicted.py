"""What was predicted of a whole network, from its circuit and a table of operation times, beside what its run took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace

from cgf.checkpoint import read
from cgf.data.task import Task
from cgf.errors import UserError
from cgf.evaluate.open_checkpoint import open_checkpoint
from cgf.evaluate.plan_network import planned
from cgf.evaluate.token_counts import chosen
from cgf.plan.network_cost import PredictedNetwork
from cgf.plan.op_times import OpTimes
from cgf.types import Json


def against_run(ckpt: str, result: Json, times: OpTimes, make_task: Callable[[Json], Task]) -> Json:
    """The row of one result of eval_he.py he.scope=network and the run folder that it evaluated.

    UserError for another kind of result, a shard, a simulated one, one of several workers, of he.max_level or he.check,
    and for a checkpoint that is not the one of the result.
    """
    if result.get("kind") != "eval_network" or {"shard", "shards"} & set(result):
        raise UserError(
            "a prediction is held against a result of eval_he.py he.scope=network in one piece, and this is none"
        )
    if read(ckpt).digest != result["checkpoint_sha256"]:
        raise UserError(f"ckpt={ckpt} must hold the weights that the result is of, and they differ")
    config = result["run"]["config"]
    he = SimpleNamespace(**{"tokens": None, "alone": False, **config["he"]})  # results of before do not say these
    if other := [key for key in ("max_level", "check") if config["he"][key]]:
        raise UserError(f"a prediction is of an evaluation without he.{other[0]}, and this result was made with it")
    if not result["encrypted"] or result["workers"] != 1 or isinstance(result.get("processes"), list):
        raise UserError(
            "a prediction is of one set of ciphertexts at a time: encrypted, by he.workers=1 and one he.processes"
        )
    opened = open_checkpoint(ckpt, result["split"], make_task)
    opened.put_in_place(config["approx"])
    indices, _ = chosen(opened, he, config["seed"])
    processes = result.get("processes", 1)  # results of before sets were shared out do not say
    sets, predicted = planned(opened, times, indices, he.alone, processes)
    return row(result, {tokens: count for tokens, (count, _) in sets.items()}, predicted, processes)


def row(result: Json, sets: dict[int, int], predicted: list[PredictedNetwork], processes: int) -> Json:
    """Predicted and measured levels, core-seconds in all and by stage, seconds of the slowest set, and MiB.

    sets  how many there are of each count of tokens. UserError where the result has another number of them, and where
    it lacks a stage that was predicted
    """
    if sum(sets.values()) != result["sets"]:
        raise UserError(
            f"the result is of {result['sets']} sets of ciphertexts, and {sum(sets.values())} were planned: texts that "
            "were filled up or left out otherwise are not compared"
        )
    stages = Counter[str]()
    for one in predicted:
        stages.update({stage.name: sets[one.tokens] * stage.seconds for stage in one.stages})
    measured = {stage["stage"]: stage["core_s"] for stage in result["stages"]}
    if missing := [name for name in stages if name not in measured]:
        raise UserError(
            f"the result must have the stages that are predicted, and '{missing[0]}' is missing: evaluate it anew"
        )
    return {
        "sets": result["sets"],
        "processes": processes,
        "levels": _both(max(one.levels for one in predicted), result["levels"]),
        "core_s": _both(sum(sets[one.tokens] * one.total_s for one in predicted), result["core_s"]),
        "set_s": _both(max(one.client_s + one.server_s / processes for one in predicted), result["latency_s"]),
        "mib": _both(max(one.mib for one in predicted), result["peak_mib"]),
        "stages": {name: _both(seconds, measured[name]) for name, seconds in stages.items()},
        "hardware": result["run"]["hardware"],
    }


def _both(predicted: float, measured: float) -> Json:
    return {"predicted": predicted, "measured": measured, "ratio": predicted / measured}
