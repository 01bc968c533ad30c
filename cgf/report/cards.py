"""An encrypted evaluation as four cards: of the model, of the cryptography, of the system and of the application."""

from __future__ import annotations

from cgf.report.red import reasons
from cgf.report.scopes import KINDS, SEES, what
from cgf.report.tables import NETWORK, is_number, plain, under_ckks
from cgf.stats.intervals import wilson
from cgf.types import Json, JsonValue

Card = Json
CARDS = ("model", "crypto", "system", "application")
UNSTATED = "by the library's parameters, which the evaluation does not measure: docs/explanations/threat-model.md"
SECONDS = ("total", "model", "pack", "encrypt", "circuit", "decrypt")


def cards(result: Json) -> dict[str, Card]:
    """The four cards of one encrypted or simulated evaluation, by name; None stands for what its file does not tell.

    Shares are of 1, seconds are of the clock where the key says 'wall' or 'total' and else summed over workers.
    """
    run = result["run"] if isinstance(result.get("run"), dict) else {}
    made = (_model(result, run), _crypto(result, run), _system(result, run), _application(result))
    return dict(zip(CARDS, made, strict=True))


def all_cards(results: list[Json]) -> list[Json]:
    """The cards of every evaluation on ciphertexts or their simulator, each with the path of its result file."""
    return [{"result": row.get("_path"), **cards(row)} for row in results if row.get("kind") in KINDS]


def encrypts(result: Json) -> bool:
    """Whether ciphertexts were computed on, and not the simulator."""
    return bool(result.get("encrypted")) if result["kind"] == NETWORK else under_ckks(result)


def unknown(made: dict[str, Card]) -> list[str]:
    """'system.gpu' and the like: what the file does not tell, in the cards' order."""
    return [f"{name}.{key}" for name in CARDS for key, value in made[name].items() if value is None]


def _model(result: Json, run: Json) -> Card:
    fitted = result.get("polynomial")
    by_layer = fitted if isinstance(fitted, list) else []  # else one polynomial is that of all layers
    polynomials = [p for p in ([fitted] if isinstance(fitted, dict) else by_layer) if isinstance(p, dict)]
    errors = [p["max_error"] for p in polynomials if is_number(p.get("max_error"))]
    return {
        "name": result.get("model"),
        "weights": run.get("model"),
        "checkpoint": result.get("checkpoint"),
        "checkpoint_sha256": result.get("checkpoint_sha256"),
        "softmax": result.get("softmax"),
        "trained_with": result.get("trained_with"),
        "attention_layers": len(result["layers"]) if result.get("layers") else len(by_layer) or None,
        "exponential": _only([p.get("method") for p in polynomials]) or result.get("approx"),
        "exponential_domain": _only([p.get("domain") for p in polynomials]),
        "exponential_max_error": max(errors, default=None),
        "accuracy_in_the_clear_as_trained": result.get("accuracy_exact"),
    }


def _crypto(result: Json, run: Json) -> Card:
    slots, real = result.get("ring_slots"), encrypts(result)
    versions, makers = run.get("versions") or {}, result.get("made_by") or []
    said = {str(maker["desilofhe"]) for maker in makers if maker.get("desilofhe")}
    library = " and ".join(sorted(said)) or versions.get("desilofhe")
    dimension = [2 * s for s in slots] if isinstance(slots, list) else None if slots is None else 2 * slots
    ops = result.get("ops") or {}
    return {
        "scheme": "CKKS" if real else "none: simulated, nothing encrypted",
        "library": _library(str(result.get("engine")), library) if real else None,
        "ring_dimension": dimension,
        "slots": slots,
        "security": UNSTATED if real else None,
        "encrypted": what(result) if real else None,
        "levels": result.get("levels"),
        "levels_counted": result.get("levels_counted"),
        "bootstraps": ops.get("boot", result.get("bootstraps")),
        "circuit": result.get("circuit"),
        "operations": ops or None,
        "evaluation_key_bytes": result.get("key_bytes"),
        "largest_error_against_the_same_polynomials_in_the_clear": result.get("max_error"),
        "mean_error_against_the_same_polynomials_in_the_clear": result.get("mean_error"),
    }


def _library(engine: str, version: str | None) -> str:
    desilo = engine.startswith("desilo")
    return f"desilofhe {version or 'of a version not recorded'}" if desilo else engine


def _system(result: Json, run: Json) -> Card:
    hardware, git = run.get("hardware") or {}, run.get("git") or {}
    seconds: Card = result["seconds"] if isinstance(result.get("seconds"), dict) else {}
    return {
        "cpu": hardware.get("cpu"),
        "cpu_model": hardware.get("cpu_model"),
        "cores": hardware.get("cores"),
        "memory_gib": hardware.get("memory_gib"),
        "gpu": hardware.get("gpu") or ("none" if "gpu" in hardware else None),
        "workers": result.get("workers"),
        "peak_memory_mib": result.get("peak_mib"),
        "seconds": {key: seconds[key] for key in SECONDS if key in seconds} or _network_seconds(result),
        "samples_per_second": result.get("samples_per_s"),
        "latency_wall_seconds": result.get("latency_s"),
        "microseconds_an_attention_weight": result.get("us_per_entry"),
        "bytes_to_the_server": result.get("bytes_up"),
        "bytes_to_the_client": result.get("bytes_down"),
        "versions": run.get("versions"),
        "commit": None if not git.get("commit") else git["commit"] + (" (changed)" if git.get("dirty") else ""),
        "command": " ".join(map(str, run["command"])) if run.get("command") else None,
    }


def _network_seconds(result: Json) -> Card | None:
    names = {"wall_s": "total", "client_s": "client", "server_s": "server"}
    return {said: result[key] for key, said in names.items() if is_number(result.get(key))} or None


def _application(result: Json) -> Card:
    samples, accuracy = result.get("samples"), result.get("accuracy")
    interval = None
    if is_number(samples) and is_number(accuracy) and samples > 0:
        interval = list(wilson(round(accuracy * samples), int(samples)))
    return {
        "task": result.get("task"),
        "split": result.get("split"),
        "data": (result.get("run") or {}).get("data"),
        "samples": samples,
        "accuracy": accuracy,
        "accuracy_95_percent_interval": interval,
        "accuracy_with_the_same_polynomials_in_the_clear": result.get("accuracy_plain"),
        "agreement_with_the_same_polynomials_in_the_clear": result.get("agreement"),
        "scope": result.get("scope"),
        "the_key_holder_sees": SEES[what(result)],
        "public": "shapes, lengths, masks and the polynomials",
        "not_to_be_believed": reasons(result),
    }


def _only(values: list[JsonValue]) -> JsonValue:
    """The one value that all of them are, else the list of them; None of none."""
    kinds = [value for i, value in enumerate(values) if value not in values[:i]]
    return kinds[0] if len(kinds) == 1 else values or None


ELSEWHERE = ("operations", "versions", "command", "seconds")  # of the page: in tables of their own


def table_rows(results: list[Json]) -> list[Card]:
    """A row an evaluation for the page: 'model: name' and so on, in words, without what has a table of its own."""
    table: list[Card] = []
    for made in all_cards(results):
        row = {"evaluation": made["result"]}
        for name in CARDS:
            shown = {key: value for key, value in made[name].items() if key not in ELSEWHERE}
            row |= {f"{name}: {_words(key)}": _text(value) for key, value in shown.items()}
        table.append(row)
    return table


def _words(key: str) -> str:
    return key.replace("_95_percent_", " 95 % ").replace("_", " ")


def _text(value: JsonValue) -> str:
    if value is None:
        return "not recorded"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    if isinstance(value, list) and not value:
        return "nothing"
    return plain(value)
