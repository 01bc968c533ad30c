"""Every softmax as a whole attention, on the simulator and on ciphertexts: python scripts/repo/attention_errors.py

Each softmax of configs/softmax that can be encrypted meets full, causal and padded rows, grouped queries and windows of
drawn sizes (1 to 40 tokens, 1 to 64 features), and CGF-softmax 197 tokens of 64 features. A softmax with a rule for its
settings (cgf.plan.published) has those of the scores at hand, as a model's plan has; other published ones have
intervals made for the longest row at hand, as their ``n`` is set. A softmax that states that its circuit amplifies an
engine's noise (series of degree 63 and 255) runs on full rows with its publication's settings too: there it is held to
ten times what it states on ciphertexts, and listed by itself. The outputs are compared with float64 of the same
polynomials, and the levels with those that were counted before. Wanted are at most 1e-9 of the largest output on the
simulator and 1e-5 on ciphertexts; what is more is listed and ends with code 1. A circuit that bootstraps runs on the
simulator alone: its keys take 15 GiB. What cannot be encrypted so is refused in words, and counted. seed=N draws other
sizes, softmax=NAME takes one alone, keep=true keeps the cases of all others, each with the commit that it was run
at, processes=N works on so many cases at once. Writes <out>/attention_errors.json.
"""

from __future__ import annotations

import functools
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/cgf/he"), str(ROOT / "scripts/repo")]  # inputs are made beside the tests

import test_attention as whole  # noqa: E402
import torch  # noqa: E402
from given import ends, given  # noqa: E402
from test_every_softmax import built, prepared  # noqa: E402

from cgf.errors import UserError  # noqa: E402
from cgf.evaluate.score_range import ScoreWatch  # noqa: E402
from cgf.he import attention_run  # noqa: E402
from cgf.he.attention_needs import AttentionCost, needs_of  # noqa: E402
from cgf.he.engines.desilo import DesiloOwner  # noqa: E402
from cgf.he.engines.engine import BOOTSTRAPPABLE, RINGS, Owner, Ring  # noqa: E402
from cgf.he.engines.sim import SimOwner  # noqa: E402
from cgf.he.party import NOISE, TENFOLD  # noqa: E402
from cgf.network.attention import Heads  # noqa: E402
from cgf.plan.published import RULES, settings  # noqa: E402
from cgf.results import read_json, run_info, write_json  # noqa: E402
from cgf.softmax.base import Softmax  # noqa: E402
from cgf.softmax.bpmax import BPMax  # noqa: E402
from cgf.softmax.exact import Exact  # noqa: E402
from cgf.types import Json  # noqa: E402

DEFAULTS: dict[str, int | str] = {
    "seed": 1,
    "softmax": "",
    "keep": "false",
    "processes": 1,
    "out": "results/reliability",
}
TOKENS = (1, 2, 3, 5, 8, 12, 17, 24, 32, 40)
FEATURES = (1, 2, 3, 8, 16, 32, 64)
KINDS = ("full", "causal", "padded", "grouped", "window")
MOST = {"simulator": 1e-9, "ciphertexts": 1e-5}  # of the largest output
RUINED = 1e30  # the error told of outputs that are no numbers, or further off


@dataclass(frozen=True)
class Case:
    """One attention: a yaml of configs/softmax, what stands in for its exponential (None: its own), kind and sizes.

    published  the numbers of the yaml, whatever the rows at hand are
    """

    path: Path
    method: str | None
    kind: str
    tokens: int
    features: int
    seed: int
    published: bool = False

    def parts(self) -> tuple[Softmax, Heads]:
        """The softmax as it is evaluated, and queries, keys and values that it serves."""
        softmax = prepared(self.path, self.method, self.tokens)
        keys = max(1, self.tokens // 3) if self.kind == "window" else self.tokens
        if not self.published:
            if softmax.name in RULES and keys > 1:  # rows of one entry have no range to plan for
                heads = self.heads()
                return planned(softmax.name, heads, "full" if heads.mask is None else "masked"), heads
            softmax = whole.for_rows(softmax, keys)
        if isinstance(softmax, BPMax):  # denominators by query position
            softmax.training, softmax.denominator = True, None  # those it came with are of fewer heads
            softmax.weights(torch.randn(2, 4, self.tokens, self.tokens, dtype=torch.float64))
            softmax.training = False
        return softmax, whole.suited(softmax, self.heads())

    def heads(self) -> Heads:
        """Queries, keys and values of two samples of four heads; of 197 tokens one of each."""
        n, large = self.tokens, self.tokens > max(TOKENS)
        mask = {
            "causal": lambda: whole.causal(n),
            "padded": lambda: whole.padded(2, n),
            "grouped": lambda: whole.causal(n),
            "window": lambda: whole.causal(n, window=max(1, n // 3)),
        }.get(self.kind, lambda: None)()
        b, h = (1, 1) if large else (2, 4)
        shared = 2 if self.kind == "grouped" else h
        return whole.layer(b, h, n, self.features, g=shared, mask=mask, seed=self.seed)


def planned(name: str, heads: Heads, row_kind: str) -> Softmax:
    """A published softmax with the settings that a plan makes for these scores."""
    watch = ScoreWatch()
    query, key, _ = whole.tensors(heads)
    watch.add(Exact().scores(query, key, heads.scaling), None if heads.valid is None else torch.from_numpy(heads.valid))
    made = settings([name], watch.seen(), row_kind)
    if made.left_out:
        raise UserError(made.left_out[name])
    return made.softmaxes[0]


def main() -> int:
    """Runs the cases; exit code 1 where one is beyond what is wanted or takes other levels than counted."""
    told = given(sys.argv[1:], DEFAULTS)
    out = Path(str(told["out"])) / "attention_errors.json"
    only, run = str(told["softmax"]), run_info(told)
    chosen = list(cases(int(told["seed"]), only))
    if not chosen:
        raise UserError(f"softmax must be a file of configs/softmax that can be encrypted, and is {only!r}")
    if told["keep"] not in ("true", "false"):
        raise UserError(f"keep must be true or false, and is {told['keep']!r}")
    rows = kept(out, only, told) if told["keep"] == "true" else []
    with multiprocessing.get_context("spawn").Pool(int(told["processes"]), maxtasksperchild=1) as pool:
        for row in pool.imap(measured, chosen):
            rows.append({**row, "commit": run["git"]["commit"]})
            print(line(row), flush=True)
            rows.sort(key=lambda row: row["softmax"])
            write_json(out, {"kind": "attention_errors", "most": MOST, **counts(rows), "cases": rows, "run": run})
    print(out)
    return 0 if all(fine(row) for row in rows) else 1


def kept(out: Path, only: str, told: Json) -> list[Json]:
    """The cases of a file of before but those of one softmax; UserError where it was made with another seed."""
    if not only:
        raise UserError("keep=true keeps the cases of all softmaxes but one: name that one, softmax=NAME")
    before = read_json(out)
    if (seed := before["run"]["config"]["seed"]) != told["seed"]:
        raise UserError(f"{out} has the cases of seed={seed}, and seed={told['seed']} draws other sizes")
    own = before["run"]["git"]["commit"]
    return [{"commit": own, **row} for row in before["cases"] if row["softmax"] != only]


def cases(seed: int, only: str = "") -> Iterator[Case]:
    """The cases in their order; each softmax meets every kind, and the sizes go round."""
    rng = np.random.default_rng(seed)
    for path, method in (each.values for each in whole.cases()):
        softmax = built(path)
        fixed = getattr(softmax, "n", None)  # of one length of rows alone
        fixed = fixed if isinstance(fixed, int) and fixed <= max(TOKENS) else None
        for kind in KINDS:
            tokens, features, own = (int(rng.choice(TOKENS)), int(rng.choice(FEATURES)), int(rng.integers(2**31)))
            if only in ("", path.stem):
                yield Case(path, method, kind, fixed or tokens, features, own)
                if softmax.amplification > 1.0 and kind == "full":
                    yield Case(path, method, kind, fixed or tokens, features, own, published=True)
        if path.stem == "cgf" and only in ("", "cgf"):
            yield Case(path, method, "full", 197, 64, seed)


def measured(case: Case) -> Json:
    """Errors and levels of one case on both engines."""
    torch.manual_seed(case.seed)
    try:
        softmax, heads = case.parts()
    except UserError as error:
        raise UserError(f"the case {case} cannot be made: {error}") from error
    wanted = whole.in_the_clear(softmax, heads)
    row: Json = {
        "softmax": case.path.stem,
        "published_settings": case.published,
        "amplification": softmax.amplification if case.published else 1.0,  # of noise, as far as it is granted
        "attention": case.kind,
        "tokens": case.tokens,
        "features": heads.query.shape[3],
        "shape": list(heads.shape),
        "key_heads": heads.key.shape[1],
    }
    every, largest = np.arange(heads.instances), float(np.abs(wanted).max())
    rings: tuple[Ring, ...] = RINGS
    try:
        needs = needs_of(softmax, heads, every, rings=rings)
    except UserError:
        try:
            needs, rings = needs_of(softmax, heads, every, rings=(BOOTSTRAPPABLE,)), (BOOTSTRAPPABLE,)
        except UserError as error:
            return {**row, "refused": str(error)}
    bootstraps = rings == (BOOTSTRAPPABLE,)
    row |= {"layout": str(needs.tile), "levels_counted": needs.levels, "bootstraps": bootstraps}
    makers: dict[str, Callable[..., Owner]] = {"simulator": functools.partial(SimOwner, rings=rings)}
    if not bootstraps:
        makers["ciphertexts"] = functools.partial(DesiloOwner, mode="cpu")
    for name, make in makers.items():
        started = time.perf_counter()
        outputs, levels = through(softmax, heads, needs, make)
        off = float(np.abs(outputs - wanted).max()) / largest
        row[name] = {
            "error": off if off < RUINED else RUINED,
            "levels": levels,
            "seconds": time.perf_counter() - started,
        }
    return row


def through(softmax: Softmax, heads: Heads, needs: AttentionCost, make: Callable[..., Owner]) -> tuple[np.ndarray, int]:
    """(outputs as the heads have them, levels used): all sets of ciphertexts that the instances take."""
    owner = make(needs.max_level)
    evaluator = owner.evaluator(needs.rotations, needs.pairs)
    outputs, levels = [], 0
    for chosen in np.array_split(np.arange(heads.instances), -(-heads.instances // needs.tile.instances)):
        task = needs.task(heads, chosen)
        result, seen = attention_run.run(needs, owner, evaluator, softmax, task)
        outputs.append(result)
        levels = max(levels, seen.levels)
    return np.concatenate(outputs).reshape(*heads.shape[:3], -1), levels


def fine(row: Json) -> bool:
    """Whether a case is as wanted, or was refused in words."""
    engines = [name for name in MOST if name in row]
    return all(row[n]["error"] <= most(row, n) and row[n]["levels"] == row["levels_counted"] for n in engines)


def most(row: Json, engine: str) -> float:
    """The error that a case may have, as a share of its largest output."""
    amplifies = engine == "ciphertexts" and row["amplification"] > 1.0
    return TENFOLD * NOISE * float(row["amplification"]) if amplifies else MOST[engine]


def counts(rows: list[Json]) -> Json:
    """Of the cases: how many ran where, which were refused, the largest errors, and which are beyond what is wanted."""
    ran = {name: [row for row in rows if name in row] for name in MOST}
    as_wanted = {name: [row for row in there if most(row, name) == MOST[name]] for name, there in ran.items()}
    amplified = [row for row in ran["ciphertexts"] if most(row, "ciphertexts") != MOST["ciphertexts"]]
    return {
        "ran": {name: len(there) for name, there in ran.items()},
        "refused": sorted({row["softmax"] for row in rows if "refused" in row}),
        "largest_error": {
            name: max((row[name]["error"] for row in there), default=None) for name, there in as_wanted.items()
        },
        "amplified": {
            name: {
                "largest_error": max(row["ciphertexts"]["error"] for row in own),
                "most": most(own[0], "ciphertexts"),
            }
            for name in sorted({row["softmax"] for row in amplified})
            if (own := [row for row in amplified if row["softmax"] == name])
        },
        "beyond": [line(row) for row in rows if not fine(row)],
    }


def line(row: Json) -> str:
    """A case for a person."""
    told = (
        ", ".join(f"{name} {row[name]['error']:.1e} in {row[name]['levels']} levels" for name in MOST if name in row)
        or f"refused: {row['refused']}"
    )
    own = " with its publication's settings" if row["published_settings"] else ""
    return f"{row['softmax']}{own}, {row['attention']}, {row['tokens']} tokens, {row['features']} features: {told}"


if __name__ == "__main__":
    ends(main)
