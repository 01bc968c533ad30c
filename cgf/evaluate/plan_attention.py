"""What whole attentions of a checkpoint will take under CKKS, by length of text: levels, layout, seconds and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cgf.checks import whole
from cgf.data.task import Task
from cgf.errors import UserError
from cgf.evaluate.he_batches import Batches
from cgf.evaluate.he_lengths import joint_lengths, tokens_of
from cgf.evaluate.he_probe import AttentionProbe, probed
from cgf.evaluate.open_checkpoint import OpenCheckpoint, open_checkpoint
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.engine import Owner
from cgf.he.session import Session
from cgf.he.workers import whole_workers
from cgf.memory import resident_mib
from cgf.plan.attention_cost import predict_attention
from cgf.plan.op_times import OpTimes
from cgf.results import read_json, run_info, write_json
from cgf.target import check_writable
from cgf.types import Json

FILE = "attention_plan.json"
UNUSED = (
    "range",
    "rows",
    "columns",
    "per_layer",
    "whole",
    "out",
)  # settings of configs/plan.yaml that are for polynomials


@dataclass(frozen=True)
class PlannedSets:
    """All sets of ciphertexts of one layout: how many batches, samples, and what they take in all layers together.

    client_s, server_s  seconds of one thread;  mib: the most that a process holds beside what it held before
    """

    tokens: int
    layout: str
    levels: int
    batches: int
    samples: int
    client_s: float
    server_s: float
    mib: float

    def told(self) -> str:
        """One line for the terminal."""
        return (
            f"{self.tokens} tokens: {self.samples} samples in {self.batches} sets of {self.layout}, "
            f"{self.levels} levels, "
            f"{self.client_s:.0f} + {self.server_s:.0f} s of one core, {self.mib:.0f} MiB"
        )


def plan_attention(
    opened: OpenCheckpoint, make_owner: Callable[..., Owner], times: OpTimes, indices: list[int], most_mib: float
) -> list[PlannedSets]:
    """The sets that an evaluation of these samples will run, by tokens and layout, with what each is predicted to take.

    The softmaxes must have their polynomials in place. A batch counts with the mask of its longest sample. UserError
    where a softmax cannot run, its levels do not fit, or the table of operation times lacks an operation.
    """
    party = Session(make_owner, most_mib=most_mib).party
    probes: dict[int, list[AttentionProbe]] = {}

    def probe(index: int) -> tuple[int, int, int]:
        probes[index] = probed(opened.host, opened.softmaxes, opened.dataset, opened.collate, index)
        return min((p.capacity(party) for p in probes[index]), key=lambda capacity: capacity[2] // capacity[0])

    masked = opened.host.row_kind == "masked"
    samples = opened.dataset, opened.collate, indices
    joint = joint_lengths(opened.host, opened.softmaxes, samples, party, opened.as_trained)
    batches = Batches(opened.dataset, probe, masked, pieces=False, joint=joint).of(indices)
    sums: dict[tuple[int, str, int], Counter[str]] = {}
    for batch in batches:
        for layer in probes[batch[-1]]:
            heads = (
                layer.many(len(batch) * layer.heads)
                if joint is None
                else layer.lengths(tokens_of(opened.dataset, batch))
            )
            needs = party.attention_needs(layer.softmax, heads, np.arange(heads.instances))
            seconds, sets = predict_attention(needs, heads, times), -(-heads.instances // needs.tile.instances)
            own = sums.setdefault((heads.shape[3], str(needs.tile), needs.levels), Counter())
            share = {"batches": 1.0, "samples": float(len(batch))} if layer is probes[batch[-1]][0] else {}
            # mypy: a Counter adds any numbers, and is typed for whole ones
            own.update({**share, "client_s": sets * seconds.client_s, "server_s": sets * seconds.server_s})  # type: ignore[arg-type]
            own["mib"] = max(own["mib"], seconds.mib)  # type: ignore[assignment]  # as above
    return [
        PlannedSets(
            tokens, layout, levels, int(s["batches"]), int(s["samples"]), s["client_s"], s["server_s"], s["mib"]
        )
        for (tokens, layout, levels), s in sorted(sums.items())
    ]


def plan_whole(config: Json, make_task: Callable[[Json], Task]) -> str:
    """Writes attention_plan.json beside a checkpoint, as configs/plan.yaml asks for it; returns what it says in lines.

    The checkpoint's polynomials are those planned or trained. UserError without a checkpoint or a table of times.
    """
    if config["ckpt"] is None or config["times"] is None:
        raise UserError("scope=attention needs ckpt=RUN and times=FILE, made by python scripts/bench/op_times.py")
    if other := [key for key in UNUSED if config[key] not in (None, False)]:
        raise UserError(f"scope=attention plans no polynomial, and {other[0]}={config[other[0]]} is about one")
    if config["approx"]["method"] != "auto":
        raise UserError(
            "scope=attention takes the polynomials that are planned or trained, and "
            f"approx={config['approx']['method']} was given: leave it out, and plan a polynomial without scope"
        )
    workers, times = whole_workers(config["workers"]), one_thread(config["times"])
    most_mib = whole("memory_mib", config["memory_mib"], 1)
    opened = open_checkpoint(config["ckpt"], config["split"], make_task)
    check_writable(path := opened.checkpoint.path / FILE)
    if opened.softmaxes[0].uses_exponential:
        opened.put_in_place({"method": "plan"})
    indices = opened.samples(config["samples"], config["seed"])
    sets = plan_attention(opened, DesiloOwner, times, indices, most_mib)
    plan = content(sets, config["split"], len(indices), workers, resident_mib())
    write_json(path, {**plan, "run": run_info(config, config["seed"])})
    total = f"{plan['wall_s']:.0f} s by {workers} workers, {plan['mib']:.0f} MiB each, {plan['levels']} levels"
    short = list(filter(None, [times.end_told(plan["levels"])]))
    return "\n".join([*(s.told() for s in sets), total, *short, str(path)])


def one_thread(path: str) -> OpTimes:
    """The times of a file. UserError for another engine's, or those of several threads: a worker has one."""
    data = read_json(path)
    times, name = OpTimes.from_json(data), DesiloOwner.library.name
    if (data.get("engine"), data.get("threads")) != (name, 1):
        raise UserError(
            f"this prediction needs operation times of {name} on one thread, and {path} has those of "
            f"{data.get('engine')} on {data.get('threads')}: python scripts/bench/op_times.py he.owner.mode=cpu "
            "out=FILE"
        )
    return times


def content(sets: list[PlannedSets], split: str, samples: int, workers: int, held: float) -> Json:
    """What attention_plan.json says, run info apart; held: MiB that a process has before it encrypts, as this one."""
    client, server = sum(s.client_s for s in sets), sum(s.server_s for s in sets)
    return {
        "kind": "attention_plan",
        "split": split,
        "samples": samples,
        "levels": max(s.levels for s in sets),
        "client_s": client,
        "server_s": server,
        "wall_s": (client + server) / workers,
        "workers": workers,
        "mib": held + max(s.mib for s in sets),
        "sets": [vars(s) for s in sets],
    }
