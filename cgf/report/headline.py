"""The results that the README begins with: whole test sets under CKKS, with intervals."""

from __future__ import annotations

from pathlib import Path

from cgf.errors import UserError
from cgf.report.columns import grid
from cgf.report.comparison import told
from cgf.report.parameters import met
from cgf.report.red import reasons
from cgf.report.whole import against_exact, read, softmax_of
from cgf.stats.intervals import wilson
from cgf.types import Json

# below results/he; the folder says what stays encrypted, and of a file without one it is the softmaxes
FILES = [
    "minilm-clinc150-cgf",
    "minilm-banking77-cgf_tempered",
    "smollm2-clinc150-cgf",
    "attention/minilm-clinc150-cgf_chain",
    "network/bert_tiny-clinc150",
    "network/vit_digits-digits-2_blocks",
]
TITLES = [
    "encrypted",
    "host",
    "task",
    "softmax",
    "test samples",
    "accuracy under CKKS [95 %]",
    "same answers as in the clear [95 %]",
    "points against exact softmax in the clear",
    "levels",
    "128 bits",
    "core-seconds a sample",
]


def interval(share: float, samples: int) -> str:
    """'95.89 % [95.27, 96.43]': a share in per cent, with Wilson's 95 % interval over ``samples``.

    UserError where ``share`` of ``samples`` is no whole number of them.
    """
    hits = round(share * samples)
    if samples < 1 or abs(hits / samples - share) > 1e-9:
        raise UserError(f"an accuracy is a share of its samples, and {share} of {samples} is none")
    low, high = wilson(hits, samples)
    return f"{100 * share:.2f} % [{100 * low:.2f}, {100 * high:.2f}]"


def headline(folder: Path) -> str:
    """A markdown table of FILES under ``folder``/he; UserError where one is missing or no whole number of samples."""
    results = [_read(folder / "he" / f"{name}.json", name) for name in FILES]
    compared = [against_exact(folder, result) if _encrypted(result) == "softmax" else None for result in results]
    return grid(TITLES, [_line(folder, result, words) for result, words in zip(results, told(compared), strict=True)])


def _read(path: Path, name: str) -> Json:
    if not path.is_file():
        raise UserError(f"the table needs {path}, and it is not there")
    return {**read(path), "file": name}


def _encrypted(result: Json) -> str:
    """softmax, attention or network: what nothing is decrypted within."""
    return str(Path(result["file"]).parent) if "/" in result["file"] else "softmax"


def _cost(result: Json) -> str:
    """Seconds of processor cores a sample, key holder and server together; a dash where there is wall time alone."""
    if "client_s" not in result:
        return "–"
    return f"{(result['client_s'] + result['server_s']) / result['samples']:.2f}"


def _line(folder: Path, result: Json, against_exact: str) -> list[str]:
    samples = result["samples"]
    return [
        _encrypted(result),
        result["host"],
        result["task"],
        f"`{softmax_of(result)}`",
        f"{samples:,}",
        interval(result["accuracy"], samples) + (" (red)" if reasons(result) else ""),
        interval(result["agreement"], samples),
        against_exact,
        str(result["levels"]),
        met(folder, result),
        _cost(result),
    ]
