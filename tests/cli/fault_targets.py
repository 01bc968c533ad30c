"""What faults are put into: commands at work in a folder, and what is compared of what they leave behind.

Two undisturbed runs of a target leave equal facts, and so must a run that was disturbed and started again. Facts are
hashes of weights and results field by field, without what two runs may not share: times, memory, where a run was made,
and at which commit, since somebody may commit meanwhile.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Facts = dict[str, object]
APART = re.compile(  # keys of what no two runs share
    r"run|git|seal|shards|workers|made_by|split_by|.*sha256|us_per_entry|samples_per_s|.*seconds.*|.*_s|.*_ms|.*mib.*|.*time.*|date"
)
SAMPLES = ("index", "label", "prediction", "plain", "exact", "logits")
DRAFTS = (".tmp", ".part")  # ends of names of what is half-written
NEAR = 1e-3  # of logits under encryption: keys and noise are new in each process


@dataclass(frozen=True)
class Target:
    """A command.

    line     its command line; made: the folders and files that it writes, in the folder it works in
    needs    what it reads, copied there from the base
    workers  processes that share its work, beside itself
    near     how far numbers of two runs may differ: 0 where nothing is encrypted
    locked   whether a second one in the same folder is refused
    """

    name: str
    line: tuple[str, ...]
    made: tuple[str, ...]
    needs: tuple[str, ...]
    facts: Callable[[Path], Facts]
    workers: int = 0
    near: float = 0.0
    locked: bool = True

    def prepare(self, base: Path, folder: Path) -> Path:
        """A new folder with all that the command reads."""
        folder.mkdir(parents=True)
        for name in self.needs:
            if (base / name).is_dir():
                shutil.copytree(base / name, folder / name)
            else:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(base / name, folder / name)
        return folder

    def names(self, folder: Path) -> list[str]:
        """Every file that the command made and every draft, by its name below the folder, sorted."""
        found = []
        for path in folder.rglob("*"):
            name = str(path.relative_to(folder))
            if name.endswith(DRAFTS) or (not path.is_dir() and (name.startswith(self.made) or path.name[0] == ".")):
                found.append(name)
        return sorted(found)


def same(found: object, expected: object, near: float) -> str:
    """Where two facts differ, '' where nowhere; numbers by up to ``near``."""
    if isinstance(found, dict) and isinstance(expected, dict):
        if found.keys() != expected.keys():
            return f"keys {sorted(map(str, found.keys() ^ expected.keys()))}"
        for key in expected:
            if where := same(found[key], expected[key], near):
                return f"{key}: {where}"
        return ""
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        return next((f"{i}: {where}" for i, pair in pairs if (where := same(*pair, near))), "")
    if near and isinstance(found, float) and isinstance(expected, float):
        return "" if abs(found - expected) <= near else f"{found} for {expected}"
    return "" if found == expected else f"{str(found)[:80]} for {str(expected)[:80]}"


def without(value: object) -> object:
    """JSON without what no two runs share."""
    if isinstance(value, dict):
        return {key: without(item) for key, item in value.items() if not APART.fullmatch(key)}
    return [without(item) for item in value] if isinstance(value, list) else value


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def training(folder: Path) -> Facts:
    """Weights, states, losses and what is said of the best checkpoint."""
    run = folder / "outputs" / "small"
    tensors = {str(p.relative_to(run)): digest(p) for p in sorted(run.rglob("*.safetensors"))}
    told = {str(p.relative_to(run)): without(json.loads(p.read_text())) for p in sorted(run.rglob("*.json"))}
    progress = {name: without(json.loads((run / name / "run.json").read_text())["progress"]) for name in os.listdir(run)
                if name.startswith("ckpt-")}  # fmt: skip
    return {"tensors": tensors, "told": told, "progress": progress, "metrics": without(lines_of(run / "metrics.jsonl"))}


def evaluation(folder: Path) -> Facts:
    """The result, and what the lines say of every sample."""
    records = lines_of(folder / "out.jsonl")
    batches = {i for record in records if "batch" in record for i in record["batch"]}
    samples = {
        str(record["index"]): {key: record[key] for key in SAMPLES}
        for record in records
        if record.get("index") in batches
    }
    result = without(json.loads((folder / "out.json").read_text()))
    errors = {key: None for key in result if "error" in key}  # of noise, which is another in each process
    return {"result": {**result, **errors} if result["kind"] == "eval_he" else result, "samples": samples}


def planned(folder: Path) -> Facts:
    plans = sorted(folder.glob("vit/ckpt-1/p*.json"))
    return {path.name: without(json.loads(path.read_text())) for path in plans}


def served(folder: Path) -> Facts:
    """Results by the hashes of their ciphertexts: the same keys, uploads and network give the same bytes."""
    return {path.name: digest(path) for path in sorted((folder / "results").glob("*.result"))}


TRAIN = (
    "train.py", "outputs=outputs", "run=small", "train.batch_size=16", "train.epochs=3", "train.save_every=2",
    "task.limit={train: 64, val: 16, test: 16}", "task.augment=false", "model.options.embed_dim=8",
    "model.options.depth=1", "model.options.num_heads=2",
)  # fmt: skip
EVALUATE = ("eval_he.py", "ckpt=vit/ckpt-1", "he.batch=1", "out=out.json")
SIMULATED, ENCRYPTED = ("he=sim", "he.samples=16"), ("he=desilo", "he.samples=6", "he.owner.mode=cpu")
SERVE = ("-m", "cgf.server", "run", "uploads", "--bundle", "server", "--keys", "keys/evaluation.keys", "--out",
         "results", "--state", "state", "--save-after", "0")  # fmt: skip
CHECKPOINT, RESULT = ("vit/ckpt-1",), ("out.json", "out.jsonl")
TARGETS = {
    target.name: target
    for target in (
        Target("training", TRAIN, ("outputs",), (), training),
        Target("simulated", (*EVALUATE, *SIMULATED), RESULT, CHECKPOINT, evaluation),
        Target("encrypted", (*EVALUATE, *ENCRYPTED), RESULT, CHECKPOINT, evaluation, near=NEAR),
        Target("simulated, workers", (*EVALUATE, *SIMULATED, "he.workers=2"), RESULT, CHECKPOINT, evaluation, 2),
        Target("encrypted, workers", (*EVALUATE, *ENCRYPTED, "he.workers=2"), RESULT, CHECKPOINT, evaluation, 2, NEAR),
        Target("server", SERVE, ("results", "state"), ("server", "uploads", "keys/evaluation.keys"), served),
        Target(
            "plan",
            ("scripts/plan.py", "ckpt=vit/ckpt-1", "samples=16", "approx=chain", "approx.k=3", "pareto=false"),
            ("vit/ckpt-1/plan.json", ".cache"),
            CHECKPOINT,
            planned,
            locked=False,
        ),
    )
}
