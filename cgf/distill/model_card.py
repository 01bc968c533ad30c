"""The model card of a checkpoint: what was trained on what, with which softmax, how to go on, and its limits."""

from __future__ import annotations

import json
from collections.abc import Mapping

from cgf.softmax.base import Softmax
from cgf.types import Json, JsonValue

NAME = "README.md"


def model_card(run: Json, softmax: Softmax, layers: int, parts: Mapping[str, Json] | None = None) -> str:
    """The card in Markdown, with the front matter that the hub reads.

    run    what run.json says: model, task, config, progress, data, git, versions
    parts  what norm.json and activation.json say, by 'norm' and 'activation', where there are such files
    The validation accuracy is that of this checkpoint's run at its best; a test accuracy stands in eval/ alone.
    """
    progress, config = run.get("progress", {}), run.get("config", {})
    train = config.get("train", {})
    settings = {key: train[key] for key in ("epochs", "batch_size", "lr", "schedule", "precision") if key in train}
    teacher = config.get("distill", {}).get("name", "none")
    front = {"library_name": "cgf-softmax", "tags": ["homomorphic-encryption", "ckks", f"softmax-{softmax.name}"]}
    facts = [
        ("model", f"{run['model']} ({run['family']}), {layers} attentions, {run['num_classes']} classes"),
        ("task", str(run["task"])),
        ("softmax", f"{softmax.title()}, {json.dumps(softmax.params())}"),
        *((f"{kind}s", f"{said['variant']} at {len(said['places'])} places") for kind, said in (parts or {}).items()),
        ("teacher", "none: fine-tuned on labels" if teacher == "none" else str(teacher)),
        ("training", f"step {progress.get('step')}, epoch {progress.get('epoch')}; {json.dumps(settings)}"),
        ("best accuracy on the validation split so far", _percent(progress.get("best"))),
        ("data", json.dumps(run.get("data", {}))),
        ("commit", _commit(run.get("git"))),
    ]
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in front.items()), "---"]
    lines += [f"# {_cell(run['model'])} on {_cell(run['task'])} with {softmax.name}", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in facts]
    lines += ["", "## Use", "```", *_commands(softmax), "```", "", "## Limits", ""]
    lines += [
        "- The accuracy is of one seed, on the split that chose the checkpoint. `eval/` holds those of the test.",
        "- The security of an encrypted run rests on the library's parameters, which nothing here measures.",
        "- Softmaxes, or attentions, are encrypted; all else is in the clear, and a key holder acts once a layer."
        + (" With `he.scope=network` the whole is, where every part is a polynomial." if parts else ""),
        "- The licences of the model's weights and of the data are theirs; this card grants none.",
    ]
    return "\n".join(lines) + "\n"


def _commands(softmax: Softmax) -> list[str]:
    plain = "python eval_plain.py ckpt=FOLDER"
    if not softmax.encryptable:
        return [plain]
    if softmax.uses_exponential and softmax.exponential is None:
        return [
            plain,
            "python scripts/plan.py ckpt=FOLDER               # the polynomial, from training data",
            "python eval_he.py ckpt=FOLDER he.samples=20      # every softmax encrypted",
        ]
    return [plain, "python eval_he.py ckpt=FOLDER approx=exact he.samples=20      # every softmax encrypted"]


def _percent(share: object) -> str:
    if not isinstance(share, float | int) or isinstance(share, bool) or not share >= 0:
        return "not validated"
    return f"{100 * share:.2f} %"


def _commit(git: JsonValue) -> str:
    if not isinstance(git, dict) or not git.get("commit"):
        return "not recorded"
    return str(git["commit"]) + (" with uncommitted changes" if git.get("dirty") else "")


def _cell(text: object) -> str:
    """A value on one line of a table, neither HTML nor a cell's end."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")
