"""The five commands on a small random model of every host: python -m scripts.repo.host_commands [NAME ...]

Goes on with the hosts that results/hosts.json lacks; hosts that are named are tried anew.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import os
import random
import re
import runpy
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from torch import nn

from cgf.results import read_json, run_info, write_json
from cgf.types import HostModule, Json, VendorObject

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# types of scripts/ are checked file by file, not as a package
hosts: VendorObject = import_module("scripts.repo.hosts")
OUT = hosts.ROOT / "results" / "hosts.json"
SCRIPTS = {
    "train": "train.py",
    "plan": "scripts/plan.py",
    "eval_plain": "eval_plain.py",
    "eval_he": "eval_he.py",
    "report": "scripts/report.py",
}
CLASSES = ("crab", "goose", "mole", "newt", "wolf")  # as many as the random models have
WORDS = 50  # of the tokenizer, and of every text model
LOADED = [
    "torch",
    "timm",
    "transformers",
    "accelerate",
    "matplotlib.figure",
    "cgf.evaluate.he_run",
    "cgf.distill.trainer",
]
NOTE = (
    "seconds are wall time, without the loading of libraries, of a machine that did other work too: no measure of cost"
)
OK, UNREACHED = "ok", "not reached"
Run = Callable[[str, Sequence[str], Path], tuple[int, str]]  # (command, arguments, folder) -> (exit code, what it said)


@dataclass(frozen=True)
class Case:
    """A host that is tried: its library, its name there, a remark, and what makes the random model."""

    library: str
    name: str
    remark: str
    make: Callable[[], nn.Module]

    @property
    def label(self) -> str:
        """How results name it."""
        return f"{self.library} {self.name} {self.remark}".strip()


def all_cases() -> list[Case]:
    """Every host of docs/hosts.md."""
    return [Case(library, name, remark, make) for (library, name, remark), make in hosts.cases().items()]


def save(model: HostModule, folder: Path) -> None:
    """Writes a random model as its own library does, with a tokenizer of 50 words or an image processor."""
    if not hasattr(model, "save_pretrained"):
        import timm

        timm.models.save_for_hf(model, str(folder), safe_serialization=True)
        return
    model.save_pretrained(folder)
    if getattr(model, "main_input_name", "") == "input_ids":
        _tokenizer().save_pretrained(folder)
    else:
        side = getattr(model.config, "vision_config", model.config).image_size
        prepared = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": side, "width": side}}
        (folder / "preprocessor_config.json").write_text(json.dumps(prepared))


def _tokenizer() -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    words = ["pad", *(f"w{i}" for i in range(1, WORDS))]
    model = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[-1]))
    model.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=model, pad_token="pad")


def write_texts(folder: Path) -> list[str]:
    """Two tables of texts of 3 to 9 words, 12 and 4 a class; the task's settings."""
    draw = random.Random(0)
    for split, count in (("train", 12), ("test", 4)):
        with open(folder / f"{split}.csv", "w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["words", "kind"])
            for i in range(count * len(CLASSES)):
                words = draw.choices(range(1, WORDS), k=draw.randint(3, 9))
                writer.writerow([f"w{1 + i} " + " ".join(f"w{n}" for n in words), CLASSES[i % len(CLASSES)]])
    return ["task=csv", "task.train=train.csv", "task.test=test.csv", "task.text=words", "task.label=kind"]


def write_images(folder: Path) -> list[str]:
    """A folder of images of noise, 12 and 4 a class; the task's settings."""
    draw = np.random.default_rng(0)
    for split, count in (("train", 12), ("test", 4)):
        for name in CLASSES:
            (folder / "images" / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = draw.integers(0, 256, (24, 24, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / "images" / split / name / f"{i}.png")
    return ["task=image_folder", "task.root=images"]


def arguments(library: str, task: list[str]) -> dict[str, list[str]]:
    """What each command is called with, in the folder of a host; the model lies in ``model``."""
    model = "hf" if library == "transformers" else "timm"
    short = ["train.max_steps=3", "train.batch_size=8", "temper.samples=0", "run=host"]
    return {
        "train": [f"model={model}", "model.path=model", "model.name=host", *task, *short],
        "plan": ["ckpt=outputs/host", "samples=40", "pareto=false"],
        "eval_plain": ["ckpt=outputs/host", "approx=plan"],
        "eval_he": ["ckpt=outputs/host", "he=sim", "he.samples=4"],
        "report": ["outputs"],
    }


def process(command: str, given: Sequence[str], folder: Path) -> tuple[int, str]:
    """Runs a command in a process of its own, a fork of one that has loaded the libraries; (exit code, its errors)."""
    context = get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    errors = folder / "errors.txt"
    errors.unlink(missing_ok=True)
    started = context.Process(target=_enter, args=(str(hosts.ROOT / SCRIPTS[command]), list(given), str(folder)))
    started.start()
    started.join()
    return started.exitcode or 0, errors.read_text(encoding="utf-8", errors="replace")


def _enter(script: str, given: list[str], folder: str) -> None:
    """In the fork: the script as a shell would start it in this folder."""
    os.chdir(folder)
    with open("errors.txt", "w") as errors, open("said.txt", "w") as said:
        os.dup2(errors.fileno(), 2)
        os.dup2(said.fileno(), 1)
        sys.stderr, sys.stdout = errors, said
        sys.argv, sys.path[0] = [script, *given], str(Path(script).parent)
        runpy.run_path(script, run_name="__main__")


def outcome(code: int, errors: str) -> str:
    """'ok', or the sentence that a command ended with: refused (2), red (1), or failed."""
    if code == 0:
        return OK
    said = next((line for line in reversed(errors.splitlines()) if line.strip()), f"exit code {code}")
    kind = {1: "red", 2: "refused"}.get(code, "failed") if said.startswith("error: ") else "failed"
    return f"{kind}: {plain(said.removeprefix('error: '))}"


def plain(said: str) -> str:
    """A sentence without what differs from run to run, and without the model's name at its beginning."""
    return hosts.rounded(said.partition(" cannot be taken as a host: ")[2] or said)


def tried(case: Case, run: Run = process) -> Json:
    """The record of a host: what became of each command, and the figures of the two evaluations."""
    with tempfile.TemporaryDirectory(prefix="host-") as place:
        folder = Path(place)
        model = case.make()
        save(model, folder / "model")
        task = (write_texts if getattr(model, "main_input_name", "") == "input_ids" else write_images)(folder)
        del model
        commands: dict[str, Json] = {}
        for command, given in arguments(case.library, task).items():
            if any(done["outcome"] != OK for done in commands.values()):
                commands[command] = {"outcome": UNREACHED, "seconds": None}
                continue
            start = time.perf_counter()
            came = outcome(*run(command, given, folder))
            commands[command] = {"outcome": came, "seconds": round(time.perf_counter() - start, 1)}
        about = {"library": case.library, "name": case.name, "remark": case.remark}
        return {**about, "commands": commands, **figures(folder)}


def figures(folder: Path) -> Json:
    """Agreement, levels planned and used, and the largest error, of what was reached."""
    reached: Json = {}
    outputs = folder / "outputs" / "host"
    for path in sorted(outputs.glob("ckpt-*/plan.json")):
        plan = read_json(path)
        reached |= {"levels_planned": plan["levels"], "rows": plan["rows"], "calibrated": plan["calibrated"]}
    for result in map(read_json, sorted(outputs.glob("ckpt-*/eval/*.json"))):
        if result["kind"] == "eval_plain":
            reached["accuracy"] = result["accuracy"]
        else:
            kept = {key: result[key] for key in ("agreement", "max_error", "samples", "red")}
            reached |= {"levels_used": result["levels"], **kept}
    return reached


def main(given: Sequence[str] | None = None) -> None:
    """Tries the hosts that are named, or all that the file lacks, and writes it after each."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="hosts to try anew, by their name in their library; none: those left")
    parser.add_argument("--out", type=Path, default=OUT, help="the file (results/hosts.json)")
    asked = parser.parse_args(given)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "PYTHONPATH": str(hosts.ROOT)}
    results = {_label(result): result for result in read_json(asked.out)["hosts"]} if asked.out.is_file() else {}
    cases = all_cases()
    for case in cases:
        if (case.name in asked.names) if asked.names else (case.label not in results):
            results[case.label] = {**tried(case), "run": run_info()}
            print(
                case.label, {key: done["outcome"] for key, done in results[case.label]["commands"].items()}, flush=True
            )
            kept = [results[each.label] for each in cases if each.label in results]
            write_json(asked.out, {"kind": "hosts", "engine": "sim", "note": NOTE, "hosts": kept})


def _label(result: Json) -> str:
    return re.sub(r"\s+$", "", f"{result['library']} {result['name']} {result['remark']}")


if __name__ == "__main__":
    main()
