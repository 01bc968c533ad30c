"""Why a result is not to be believed: a sentence a reason, in the result file, at the terminal and in every table."""

from __future__ import annotations

import math
import sys

from cgf.types import Json

CURE = "plan on more samples (scripts/plan.py samples=null), or train with a range penalty (penalty.weight=0.1)"
UNFOLDED = 1e-6  # of the largest logit, or of 1: programs measured differ from their models by 1e-14
KINDS = ("eval_plain", "eval_he", "eval_network")


def judged(result: Json, whose: str) -> Json:
    """The result with ``red``, a sentence for each reason not to believe it, and ``green`` where there is none.

    whose: plan or polynomial, for the words.
    """
    red = complaints(result, whose)
    return {**result, "green": not red, "red": red}


def reasons(result: Json) -> list[str]:
    """The sentences of a result file; a file of before they were written is judged by what it counted."""
    if result.get("kind") not in KINDS:
        return []
    return result["red"] if "red" in result else complaints(result, "polynomial")


def polynomial_told(result: Json) -> str:
    """', largest error E on [LO, HI]' of the polynomial that ran in place of exp; nothing where none states one."""
    polynomial = result.get("polynomial")
    own = polynomial if isinstance(polynomial, list) else [polynomial]
    stated = [p for p in own if isinstance(p, dict) and p.get("max_error") is not None and p.get("domain")]
    if not stated:
        return ""
    error, low, high = (
        max(p["max_error"] for p in stated),
        max(p["domain"][0] for p in stated),
        min(p["domain"][1] for p in stated),
    )
    return f", largest error {error:.1e} on [{low:g}, {high:g}]"


def tell_red(result: Json) -> None:
    """Prints the reasons and ends with exit code 1 where there are any."""
    if result["red"]:
        print("\n".join(f"error: {reason}" for reason in result["red"]), file=sys.stderr)
        sys.exit(1)


def complaints(result: Json, whose: str) -> list[str]:
    """A sentence for each reason not to believe the result; of what a file does not count there is none."""
    layers, red = result.get("layers") or [], []
    network = result.get("kind") == "eval_network"
    if result.get("beyond_guard"):
        where = places(layers, "beyond") if layers else _beyond(result)
        red.append(
            f"{result['beyond_guard']} entries lay beyond the {whose}'s guard, so their ciphertexts "
            f"{'may be' if layers else 'would be'} ruined: {where}; {CURE}"
        )
    if result.get("overflow"):
        red.append(
            f"{result['overflow']} slots of the simulator, summed over operations, held more than a "
            f"ciphertext can; {CURE}"
        )
    if result.get("ruined"):
        red.append(
            f"{result['ruined']} of {result['samples']} samples are ruined, counted as wrong: their "
            f"{'logits' if network else 'weights'} came back as no finite numbers{_at(layers, 'ruined')}; {CURE}"
        )
    if result.get("wrong"):
        what = "outputs" if "layout" in result else "weights"  # of whole attentions, or of softmaxes
        what, largest = ("logits", "logit") if network else (what, "weight times what the circuit amplifies")
        red.append(
            f"{result['wrong']} {what} came back further from the same polynomials in the clear than ten "
            f"times the error stated for {result['engine']}, {result['noise_stated']:g} of the largest "
            f"{largest}{_at(layers, 'wrong')}; the largest error is {result['max_error']:.2e}"
        )
    if result.get("inexact"):
        red.append(
            f"{result['inexact']} weights of the polynomials in the clear are further from what softmax "
            f"'{result['softmax']}' defines than ten times its stated error, though their scores lie in its "
            f"domain: {places(layers, 'inexact')}; it needs the interval of its denominators set to what the "
            "model has"
        )
    return red + _otherwise_read(result) + _disagreement(result)


def _otherwise_read(result: Json) -> list[str]:
    """Of a whole network: its program is another function than the model's forward, or its run is not its dry run."""
    if result.get("kind") != "eval_network":
        return []
    unfolded, red = result.get("unfolded_error"), []
    allowed = UNFOLDED * max(1.0, result.get("largest_logit") or 0.0)
    if unfolded is not None and not unfolded <= allowed:  # so that NaN is red
        red.append(
            "the program that ran in place of the network computes other logits than the model's own forward in "
            f"float64 with the same polynomials in place: the largest difference is {unfolded:.2e}, and {allowed:.0e} "
            "may be"
        )
    levels, counted = result.get("levels"), result.get("levels_counted")
    if levels is not None and counted is not None and levels != counted:
        red.append(f"the ciphertexts lost {levels} levels, and the dry run of the same circuit counted {counted}")
    return red


def _disagreement(result: Json) -> list[str]:
    """Of samples that are not ruined, more predicted otherwise than in the clear than agreement_asked allows."""
    share, samples = result.get("agreement_asked"), result.get("samples")
    if share is None or samples is None:
        return []
    other = round((1 - result["agreement"]) * samples) - result["ruined"]
    asked, most = math.ceil((1 - share) * samples - 1e-9), samples // 10  # 0.01 of 100 is 1.0000000000000009
    capped, most = most < asked, min(asked, most)
    if other <= most:
        return []
    worst = places(result["layers"], "wrong") or _worst(result["layers"])
    return [
        f"{other} of {samples} samples are predicted otherwise than by the same polynomials in the clear, and "
        f"{most} may be (he.agreement={share:g}{', and one sample in ten at most' if capped else ''}): {worst}"
    ]


def _worst(layers: list[Json]) -> str:
    """The layer and head of the largest error."""
    known = [
        (error, layer["layer"], head)
        for layer in layers
        if layer["heads"]
        for head, error in enumerate(layer["heads"]["max_error"])
    ]
    if not known:  # of a whole network: nothing is opened on the way
        return "nothing on the way was decrypted that would tell where"
    error, layer, head = max(known, key=lambda x: x[0])
    return f"the largest error, {error:.2e}, is in layer {layer} head {head}"


def _beyond(result: Json) -> str:
    """Where they lay in an evaluation in the clear; a result of before that was kept tells how far they reached."""
    at = result.get("beyond_at") or []
    if not at:
        return f"the range is {result.get('range')}"
    return named([(place["entries"], place["layer"], place["head"]) for place in at])


def _at(layers: list[Json], key: str) -> str:
    """': layer 2 head 5 (17), ...'; nothing where no layer tells, as of a whole network, which is opened at its end."""
    where = places(layers, key)
    return f": {where}" if where else ""


def places(layers: list[Json], key: str) -> str:
    """Layers and heads where ``key`` (outside, beyond, ruined, ...) counts: 'layer 2 head 5 (17), ...', most first."""
    return named(
        [
            (count, layer["layer"], head)
            for layer in layers
            if layer["heads"]
            for head, count in enumerate(layer["heads"].get(key, []))
            if count
        ]
    )


def named(heads: list[tuple[int, int, int]]) -> str:
    """(count, layer, head) in words, the most first."""
    ordered = sorted(heads, key=lambda x: (-x[0], x[1:]))
    shown = ", ".join(f"layer {layer} head {head} ({count})" for count, layer, head in ordered[:5])
    return shown + (f" and {len(ordered) - 5} more heads" if len(ordered) > 5 else "")
