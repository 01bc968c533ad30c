"""Cases of bad input, each a few plain values: how it is drawn, run in a fork, and judged.

Judged: *refused* is exit code 2, one line on stderr that begins with 'error: ', and no file changed. A setting of
another kind than its default, or not finite, must be refused. A spoilt file that is accepted must have *no effect*,
the result being that of the whole one, or be *told*: the result names another digest of the checkpoint or another hash
of the data. Whatever else is accepted is a finding, and so are a traceback, a hang and memory beyond the limit.
"""

import contextlib
import importlib
import json
import math
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import composed
import readers
import spoilt
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from isolated import Ended, isolated
from omegaconf import DictConfig, OmegaConf
from resealed import reseal

from cgf.errors import UserError, sentence

MIB = 2048  # that may be taken before an input is refused
FINDINGS = ("accepted", "traceback", "hang", "memory", "litter", "unclear")
TINY = ("embed_dim: 8", "depth: 1", "num_heads: 2")
COMMANDS = {  # what each takes to work at all, on the files of bad_bases
    "train": (
        "outputs=outputs", "train.max_steps=1", "train.epochs=1", "task.limit={train: 64, val: 16, test: 16}",
        "task.augment=false", "model.options.embed_dim=8", "model.options.depth=1", "model.options.num_heads=2",
    ),
    "eval_plain": ("ckpt=vit/ckpt-1", "approx=plan", "samples=8", "out=out.json"),
    "eval_he": ("ckpt=vit/ckpt-1", "he=sim", "he.samples=1", "out=out.json"),
    "plan": ("ckpt=vit/ckpt-1", "samples=16", "approx=chain", "approx.k=3", "pareto=false", "cache=null"),
    "friendly": ("ckpt=vit/ckpt-1", "samples=16", "out=out"),
    "merge_shards": ("shards=[part1-shard1of2.json,part2-shard2of2.json]", "out=merged.json"),
}  # fmt: skip
APART = ("hydra", "_target_", "_partial_")
LISTED = ("penalty.bound", "margin")  # numbers that may be a list


@dataclass
class Outcome:
    """A case that was run. verdict: refused, valid, no effect, told, unchanged, or one of FINDINGS."""

    case: dict
    verdict: str
    said: str = ""
    cpu_s: float = 0.0
    mib: float = 0.0
    more: dict = field(default_factory=dict)


# -- settings -------------------------------------------------------------------------------------------


def keys_of(command: str) -> list[tuple[str, str]]:
    """(key, kind of its default) of every setting of a command's composed configuration."""
    return list(_keys(composed.own_part(composed.composed(command, COMMANDS[command])), ""))


def own_keys_of(command: str) -> list[tuple[str, str]]:
    """The same, without the groups of a model, a task and a softmax but for ``train``, which all build alike."""
    shared = ("model", "task", "softmax") if command != "train" else ()
    return [(key, kind) for key, kind in keys_of(command) if key.partition(".")[0] not in shared]


def _keys(node, above):
    for key in node:
        if key in APART or OmegaConf.is_missing(node, key):
            continue
        value = node[key]
        yield f"{above}{key}", "group" if isinstance(value, DictConfig) else type(value).__name__
        if isinstance(value, DictConfig):
            yield from _keys(value, f"{above}{key}.")


def is_sure(key: str, kind: str, value) -> bool:
    """Whether a value must be refused whatever the setting means: another kind than the default's, or not finite."""
    if isinstance(value, str) and value.startswith("${"):  # a reference, which may lead to a value of any kind
        return False
    if isinstance(value, float) and not math.isfinite(value):
        return True
    if value is None:
        return kind == "group" or key.rpartition(".")[2] == "seed"
    if key in LISTED and isinstance(value, list):
        return not value or any(is_sure(key, kind, each) for each in value)
    own = {"bool": bool, "int": int, "float": int | float, "group": dict, "ListConfig": list}.get(kind)
    if own is None:
        return kind == "str" and isinstance(value, dict)
    return not isinstance(value, own) or (isinstance(value, bool) and kind != "bool")


FIXED = (
    "null", "true", "''", "x", "-1", "-0.5", "0", "0.5", "1e30", "1000000000000000000000000000000", "nan", "inf",
    "-inf", "[]", "[1]", "[x]", "{}", "{a: 1}", "'1e5'", "1.5", "-1e300", "100000", "'../x'", "/dev/null", "'a\\tb'",
    "'<script>alert(1)</script>'", "[1,[2,[3]]]", "{_target_: os.mkdir}", "a=b", "${seed}", "${nothing}",
    "'\x1b[2J'",
)  # fmt: skip
QUOTE = "'"


def value_cases():
    """Settings of every command with a value of any kind."""
    every = [(command, key, kind) for command in COMMANDS for key, kind in own_keys_of(command)]
    texts = st.one_of(
        st.sampled_from(FIXED),
        st.integers(-(2**70), 2**70).map(str),
        st.floats(width=64).map(repr),
        st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12).map(
            lambda text: f"'{text.replace(QUOTE, '')}'"
        ),
        st.lists(st.integers(-3, 300), max_size=5).map(str),
    )
    return st.tuples(st.sampled_from(every), texts).map(
        lambda pair: {"command": pair[0][0], "key": pair[0][1], "kind": pair[0][2], "text": pair[1]}
    )


def run_value(case: dict, folder: Path) -> Outcome:
    """A setting, through the command's own checks, in a folder of the bases."""
    command, key, text = case["command"], case["key"], case["text"]
    base = COMMANDS[command]
    try:  # the checks of the command line take no work: without a fork
        composed.with_setting(command, base, key, text)
    except UserError as error:
        said = str(error)
        return Outcome(case, "unclear" if "\n" in said or not said else "refused", sentence(error))
    ended, changed = _watched(lambda: composed.run(command, base, key, text), folder)
    outcome = _judged(case, ended, changed)
    if outcome is None:
        try:
            sure = is_sure(key, case["kind"], composed.value_of(text))
        except Exception:
            sure = True
        outcome = Outcome(case, "accepted" if sure else "valid")
    return _with(outcome, ended)


# -- files ----------------------------------------------------------------------------------------------


def file_cases(network: bool):
    """Every file that a command reads, with one change."""
    targets = [*readers.TARGETS, *(readers.NETWORK if network else [])]
    share = st.floats(0, 1, exclude_max=True)
    simple = sorted(set(spoilt.DOING) - {"a_value", "another_type", "swapped"})
    change = st.one_of(
        st.fixed_dictionaries({"do": st.sampled_from(simple), "at": share, "bit": st.integers(0, 7)}),
        st.fixed_dictionaries({"do": st.just("another_type"), "type": st.sampled_from(sorted(spoilt.OTHERS))}),
        st.fixed_dictionaries({"do": st.just("swapped"), "with": st.sampled_from([t["file"] for t in targets])}),
    )
    value = st.fixed_dictionaries(
        {
            "do": st.just("a_value"),
            "at": share,
            "where": share,
            "bit": st.integers(0, 7),
            "value": st.one_of(st.sampled_from(["remove", "nudge"]), st.integers(0, len(spoilt.VALUES) - 1)),
        }
    )

    def of(target):
        is_json = target["file"].endswith((".json", ".jsonl"))
        return st.one_of(change, value, value) if is_json else change

    return st.sampled_from(targets).flatmap(lambda target: of(target).map(lambda change: {**target, "change": change}))


def run_file(case: dict, base: Path, folder: Path, whole: dict) -> Outcome:
    """A file spoilt in a copy of the bases at ``folder``; whole: facts of the unspoilt, by reader and name."""
    path, reader = folder / case["file"], readers.READERS[case["reader"]]
    other = case["change"].get("with")
    if not spoilt.spoil(path, case["change"], None if other is None else base / other):
        return Outcome(case, "unchanged")
    if case.get("seal") and case["change"]["do"] == "sparse":
        return Outcome(case, "unchanged", "nobody seals ten gigabytes")
    if case.get("seal"):
        try:
            reseal(path.parent if path.parent.name != "host" else path.parent.parent)
        except Exception:
            return Outcome(case, "unchanged", "what cannot be sealed")
    told = folder.parent / "facts.json"
    told.unlink(missing_ok=True)

    def function():
        found = reader(folder, case["name"])
        told.write_text(json.dumps(found))

    ended, changed = _watched(function, folder)
    outcome = _judged(case, ended, changed)
    if outcome is None and (case["reader"], case["name"]) not in whole:
        outcome = Outcome(case, "accepted")
    if outcome is None:
        found = json.loads(told.read_text())
        outcome = Outcome(case, _effect(found, whole[case["reader"], case["name"]]))
    return _with(outcome, ended)


def whole_facts(reader, case: dict, base: Path, place: Path):
    """What a reader finds in files that are whole."""
    folder = copied(base, place / "whole" / "here", case)
    told = folder.parent / "facts.json"

    def function():
        told.write_text(json.dumps(reader(folder, case["name"])))

    ended = with_its_modules(function, folder)
    assert ended.code == 0, ended.err
    found = json.loads(told.read_text())
    shutil.rmtree(folder.parent)
    return found


def load_command(command: str, base: Path, place: Path) -> None:
    """Loads here what a command loads while it works."""
    folder = copied(base, place / "loading" / "here", {"command": command})
    ended = with_its_modules(lambda: composed.run(command, COMMANDS[command]), folder)
    assert ended.code in (0, 1), ended.err
    shutil.rmtree(folder.parent)


def with_its_modules(function, folder) -> Ended:
    """A function in a fork; what it loads is loaded here, too: three seconds of a core that no later fork takes."""
    told = folder.parent / "modules.json"

    def there():
        try:
            return function()
        finally:
            told.write_text(json.dumps(sorted(sys.modules)))

    ended, _ = _watched(there, folder)
    for name in json.loads(told.read_text()):
        if name not in sys.modules:
            with contextlib.suppress(ImportError):  # of a module that a file of the commands makes
                importlib.import_module(name)
    return ended


def _effect(found, whole) -> str:
    if found == whole:
        return "no effect"
    for key in ("told", "checkpoint_sha256"):
        if isinstance(found, dict) and key in found and found[key] != whole[key]:
            return "told"
    return "accepted"


# -- both -----------------------------------------------------------------------------------------------


def snapshot(folder: Path) -> dict:
    """What there is below a folder: a folder's name alone, of others also size and time of change."""
    found = {}
    for path in folder.rglob("*"):
        about = path.lstat()
        is_folder = path.is_dir() and not path.is_symlink()
        found[str(path.relative_to(folder))] = "folder" if is_folder else (about.st_size, about.st_mtime_ns)
    return found


def _watched(function, folder) -> tuple[Ended, list[str]]:
    before = snapshot(folder)

    def there():
        os.chdir(folder)
        os.environ.pop("CGF_DATA_ROOT", None)
        os.environ["HF_HUB_OFFLINE"] = "1"
        return function()

    ended = isolated(there, mib=MIB + 512)
    after = snapshot(folder)
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return ended, changed


def _judged(case: dict, ended: Ended, changed: list[str]) -> Outcome | None:
    """The outcome of whatever was not accepted; None for what was."""
    lines = ended.err.splitlines()
    said = lines[-1] if lines else ""
    if ended.hung:
        return Outcome(case, "hang", said)
    if ended.mib > MIB:
        return Outcome(case, "memory", said)
    if ended.crashed or "Traceback" in ended.err + ended.out:
        return Outcome(case, "traceback", said, more={"whole": ended.err[-3000:]})
    if "\x1b" in ended.out + ended.err:
        return Outcome(case, "unclear", "a terminal's escape sequence is passed on")
    if ended.code in (0, 1):
        return None
    if ended.code != 2 or len(lines) != 1 or not said.startswith("error: ") or not said.isprintable():
        return Outcome(case, "unclear", ended.err[-1500:])
    if changed:
        return Outcome(case, "litter", said, more={"changed": changed[:8]})
    return Outcome(case, "refused", said)


def _with(outcome: Outcome, ended: Ended) -> Outcome:
    outcome.cpu_s, outcome.mib = round(ended.cpu_s, 3), round(ended.mib, 1)
    return outcome


def drawn(strategy, count: int, seed: int) -> list[dict]:
    """So many different cases; the same for the same seed."""
    found: dict[str, dict] = {}
    for step in range(50):
        if len(found) >= count:
            break

        @seeded(seed * 50 + step)
        @settings(
            max_examples=count, database=None, derandomize=False, deadline=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(strategy)
        def draw(case):
            found.setdefault(json.dumps(case, sort_keys=True), case)

        draw()
    return list(found.values())[:count]


def copied(base: Path, folder: Path, case: dict) -> Path:
    """A copy of what a case needs of the bases; big files are links, which ``spoilt`` replaces."""
    folder.mkdir(parents=True)
    for top in needs(case):
        source, target = base / top, folder / top
        if source.is_dir():
            copy = os.link if top == "network" else shutil.copy2
            shutil.copytree(source, target, copy_function=copy)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for made in readers.MADE.get(case.get("reader", ""), ()):
        path = folder / "network" / made
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return folder


def needs(case: dict) -> tuple[str, ...]:
    """The parts of the bases that a case reads."""
    shards = tuple(f"part{i}-shard{i}of2.{s}" for i in (1, 2) for s in ("json", "jsonl"))
    if "command" in case:
        return {"train": (), "merge_shards": shards}.get(case["command"], ("vit",))
    by = {"shards": shards, "report": ("reported",), "bert": ("bert", "data"), "network": ("network",), "vit": ("vit",)}
    return by.get(case["name"], ("data", "images") if case["reader"] in ("table", "pictures") else ("vit",))
