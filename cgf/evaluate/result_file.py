"""Which file a result of an opened checkpoint goes into, whose a result is, and what its lines depend on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from cgf.evaluate.he_lines import VERSION
from cgf.evaluate.open_checkpoint import OpenCheckpoint
from cgf.plan.plan import Plan
from cgf.target import result_file
from cgf.types import Json

SPLIT_BY = ("batch", "rows_at_once")  # settings that decide which samples share ciphertexts
# settings that a result file's name holds by themselves, or that change nothing of the result
NAMED = (
    "approx.method",
    "approx.k",
    *(f"he.{key}" for key in ("engine", "circuit", "samples", "workers", "processes", "shard")),
    *(f"he.{key}" for key in SPLIT_BY),
)


def is_result_of(opened: OpenCheckpoint, there: Json, path: Path) -> bool:
    """Whether the result ``there`` of file ``path`` is of this checkpoint.

    One of an earlier version has no digest: its names must be this one's, and its ``ckpt`` or its own folder too.
    """
    if "checkpoint_sha256" in there:
        return bool(there["checkpoint_sha256"] == opened.checkpoint.digest)
    own = opened.checkpoint.path.resolve()
    ckpt = str((there["run"].get("config") or {}).get("ckpt")) if isinstance(there.get("run"), dict) else ""
    places = {Path(ckpt).expanduser().resolve(), path.resolve().parent.parent}
    named = {"model": opened.host.name, "task": opened.checkpoint.run["task"], "checkpoint": own.name}
    return named.items() <= there.items() and bool(places & {own, own.parent})


def result_path(
    opened: OpenCheckpoint,
    out: str | None,
    kind: str,
    plan: Plan | None,
    *,
    split: str,
    samples: int,
    part: str = "",
    changed: Json | None = None,
    by_hand: bool = False,
) -> Path:
    """``out``, or a name in the checkpoint's eval/ that keeps evaluations of other polynomials apart.

    part: of a result in several files, at the end of its name. changed: settings that differ from the defaults,
    of which a hash goes into the name. by_hand: the polynomial is not the checkpoint's plan, and a hash of it goes into
    the name too. UserError where ``out`` cannot be a result file.
    """
    if out is not None:
        path = result_file(out)
        return path.with_stem(path.stem + part)
    name = opened.names(plan)["approx"]
    alike = opened.softmaxes[0].to_json() == opened.checkpoint.softmax.to_json()
    untrained = opened.replaced is not None and any(softmax.tensors() for softmax in opened.replaced)
    if untrained or not alike:
        name = f"{opened.softmaxes[0].name}-{_hash(opened.softmaxes[0].to_json())}-{name}"
    if plan is not None:
        name += f"-k{plan.exponential.to_json()['k']}" + ("-layers" if plan.layers else "")
        name += f"-{_hash(plan.exponential.to_json())}" if by_hand else ""
    other = f"-{_hash(changed)}" if changed else ""
    return opened.checkpoint.path / "eval" / f"{kind}-{name}-{split}-{samples}{other}{part}.json"


def digest_of(opened: OpenCheckpoint, plan: Plan | None, config: Json, indices: list[int]) -> str:
    """Of all that the lines of an encrypted evaluation depend on: a stopped run goes on with its own alone.

    The checkpoint's files, the softmax and polynomial in place, engine and circuit, the split's revision and the
    samples. How the work is batched and shared out is not part of it, nor which agreement is asked for.
    """
    others = ("samples", "workers", "processes", "shard", "agreement", *SPLIT_BY)
    he = {k: v for k, v in config["he"].items() if k not in others}
    facts = {
        "plan": None if plan is None else plan.to_json(),
        "he": he,
        "split": config["split"],
        "samples": indices,
        "checkpoint": opened.checkpoint.digest,
        "data": opened.task.revision(),
        "softmax": [softmax.describe() for softmax in opened.softmaxes],
    }
    if opened.replaced is not None:
        facts["replaced"] = True  # one of the trained softmax's description lacks what it learned
    if plan is not None and he.get("scope") == "network":
        facts["exact"] = "as trained"  # lines of before compared the plan with itself
    if config["split"] == "train" and opened.task.has_images:
        facts["images"] = "as evaluated"  # lines of before may be of augmented ones
    return VERSION + hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def _hash(facts: Json) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
