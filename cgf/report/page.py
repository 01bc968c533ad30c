"""One HTML page that holds a whole folder's results: tables, plots and where they came from.

The page refers to nothing outside itself, so that it can be sent or archived as a single file.
"""

from __future__ import annotations

import json
import os
from html import escape
from pathlib import Path

from cgf.report import cards, friendly, levels_figure, markup, plots, scopes, tables
from cgf.report.collect import ReportInputs
from cgf.report.style import STYLE
from cgf.results import plain_json, write_json, write_text
from cgf.types import JsonValue

SCOPE = "Softmax under CKKS, all else in the clear."
SIMULATED = "Softmax simulated, nothing encrypted."
POINTS = (
    "Fewer levels are cheaper: look for the points that stand high on the left. Filled: encrypted; hollow: in the "
    "clear; grey: simulated. Bars are Wilson's 95 % intervals over the samples. Point at a point to read its row."
)
LICENCE = "This work uses the DESILO FHE library developed by DESILO Inc. (https://desilo.ai)"


def write_page(inputs: ReportInputs, path: str | os.PathLike) -> Path:
    """Write the page of what `collect` found to `path`, and its data beside it (report.data.json for report.html).

    Each is written whole or not at all. Returns the path of the page.
    """
    write_json(Path(path).with_suffix(".data.json"), plain_json(vars(inputs)))
    write_text(path, page(inputs))
    return Path(path)


def page(inputs: ReportInputs) -> str:
    """The HTML text. Every value that comes from a file is escaped."""
    kinds = [row.get("kind") for row in inputs.results]
    lead = (
        f"{_several(len(inputs.curves), 'training run')}, "
        f"{_several(kinds.count(tables.PLAIN), 'evaluation')} in the clear, "
        f"{_several(kinds.count(tables.CKKS), 'evaluation')} of softmaxes or attentions as circuits, "
        f"{_several(kinds.count(tables.NETWORK), 'evaluation')} of a whole network as one."
    )
    title = f"CGF-softmax results: {inputs.name}"
    parts = [
        _summary(inputs),
        _scopes(inputs.results),
        *_figures(inputs),
        *_friendliness(inputs),
        *_details(inputs),
        _provenance(inputs.results),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n"
        f'<p class="lead"><strong>{escape(scope(inputs.results))}</strong> {escape(lead)}</p>\n'
        + "\n".join(part for part in parts if part)
        + f"\n<footer>{escape(LICENCE)}</footer>\n</main>\n</body>\n</html>\n"
    )


def scope(results: list[dict]) -> str:
    """What stayed encrypted in the results, as the page and the terminal say it; each scope once, where they differ."""
    encrypted = [row for row in results if row.get("kind") in (tables.CKKS, tables.NETWORK)]
    if encrypted and not any(map(tables.under_ckks, encrypted)):
        encrypted, default = encrypted, SIMULATED
    else:
        encrypted, default = [row for row in encrypted if tables.under_ckks(row)], SCOPE
    said = dict.fromkeys(str(row["scope"]) for row in encrypted if "scope" in row)
    return " ".join(text[:1].upper() + text[1:] + "." for text in said) or default


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


# ---------------------------------------------------------------- sections


def _summary(inputs: ReportInputs) -> str:
    table_rows = tables.table_rows(inputs.results)
    if not table_rows:
        return ""
    titles = [column.title for column in tables.COLUMNS]
    left = {"model", "task", "softmax", "exponential", "engine"}
    numeric = [column.key not in left for column in tables.COLUMNS]
    notes = "".join(f"<li>{escape(note)}</li>" for note in tables.NOTES)
    table = markup.table(
        titles, [tables.cells(row) for row in table_rows], numeric, red=[bool(row.get("red")) for row in table_rows]
    )
    red = "".join(f"<li>{escape(reason)}</li>" for row in table_rows for reason in row.get("red") or [])
    return markup.section(
        f"Results{_of(inputs.results)}",
        table + (f'<ul class="red">{red}</ul>' if red else "") + f'<ul class="notes">{notes}</ul>',
    )


def _scopes(results: list[dict]) -> str:
    """Evaluations that encrypt more and more of a model, side by side; nothing where there is one scope alone."""
    shown = scopes.table_rows(results)
    return markup.section("How much stays encrypted", markup.dict_table(shown)) if shown else ""


def _figures(inputs: ReportInputs) -> list[str]:
    encrypted = [row for row in inputs.results if row.get("kind") == tables.CKKS]
    drawn = (
        (
            "Accuracy" + _of(inputs.results),
            plots.accuracy_bars(inputs.results),
            "Bars of one group are of the same samples. Exact: the formula of that softmax without a polynomial.",
        ),
        (
            "Training",
            plots.training_curves(inputs.curves),
            "Left: loss on training batches. Right: accuracy on the validation split.",
        ),
        (
            "Error by layer" + _of(encrypted),
            plots.error_by_layer(inputs.results),
            "Of the softmax weights, against the same polynomial in the clear. An error of 0 is not drawn.",
        ),
        (
            "Seconds by operation" + _of(encrypted),
            plots.seconds_by_operation(inputs.results),
            "Stages of the encrypted softmax, and the operations that its circuit is made of.",
        ),
    )
    levels = levels_figure.figure(inputs.results)
    first = (
        []
        if levels is None
        else [markup.section("Accuracy against levels" + _of(inputs.results), markup.inline(levels, POINTS))]
    )
    return first + [
        markup.section(title, markup.image(image, title, caption)) for title, image, caption in drawn if image
    ]


def _friendliness(inputs: ReportInputs) -> list[str]:
    """Is the model CGF-friendly, by layer: the sentences, the table and the plots of scripts/friendly.py."""
    sections = []
    for name, result in inputs.friendly.items():
        title = f"Is {result['name']} CGF-friendly? ({name})"
        said = "".join(f"<li>{escape(line)}</li>" for line in friendly.sentences(result))
        lines = [[line[0], *line[2:]] for line in friendly.table_rows(result, heads=False)]
        titles = [column for column in friendly.COLUMNS if column != "head"]
        body = markup.table(titles, lines, [column != "exponential" for column in titles])
        drawn = (
            (friendly.range_figure(result), "Range of y by layer and head, and each layer's accuracy domain."),
            (friendly.kappa_figure(result), "Higher cumulants of the rows: what order 2 leaves out."),
        )
        images = "".join(markup.image(png, title, caption) for png, caption in drawn if png)
        sections.append(markup.section(title, body + f'<ul class="notes">{said}</ul>' + images))
    return sections


def _of(results: list[dict]) -> str:
    """', test split, 20 to 360 samples': what a title must say about the rows below it."""
    results = [row for row in results if row.get("kind") in tables.EVALUATIONS]
    splits = sorted({str(row["split"]) for row in results if row.get("split")})
    counts = sorted({row["samples"] for row in results if tables.is_number(row.get("samples"))})
    text = f", {' and '.join(splits)} split" + ("s" if len(splits) > 1 else "") if splits else ""
    if counts:
        few, many = tables.plain(counts[0]), tables.plain(counts[-1])
        text += f", {many} samples" if few == many else f", {few} to {many} samples"
    return text


def _details(inputs: ReportInputs) -> list[str]:
    encrypted = [row for row in inputs.results if row.get("kind") == tables.CKKS]
    listed = (
        ("Cost of the circuit" + _of(encrypted), tables.circuit_rows(inputs.results), markup.side_by_side),
        ("Layers" + _of(encrypted), tables.layer_rows(inputs.results), markup.dict_table),
        ("Plans, from training or validation data", tables.plan_rows(inputs.plans), markup.dict_table),
        (
            "Cards of model, cryptography, system and application",
            cards.table_rows(inputs.results),
            markup.texts_side_by_side,
        ),
        ("Other results", tables.other_rows(inputs.results), markup.dict_table),
    )
    return [markup.section(title, draw(table_rows)) for title, table_rows, draw in listed if table_rows]


def _provenance(results: list[dict]) -> str:
    """Which command, commit, versions and hardware gave each file; results of one set-up share a table."""
    groups: dict[str, list[dict]] = {}
    for row in results:
        run = row["run"] if isinstance(row.get("run"), dict) else {}
        shared = {key: run.get(key) for key in ("git", "versions", "hardware")}
        groups.setdefault(json.dumps(shared, sort_keys=True), []).append(row)
    setups = [_setup(json.loads(key), group) for key, group in groups.items()]
    return "\n".join(markup.section("Run information", setup) for setup in setups)


def _setup(shared: dict, results: list[dict]) -> str:
    pairs = [("commit", _commit(shared["git"]))]
    pairs += [(key, _pairs(shared[key])) for key in ("hardware", "versions")]
    files = [
        {"result": row.get("_path")} | {key: run.get(name) for key, name in COMMAND.items()} | _revisions(run)
        for row in results
        for run in [row["run"] if isinstance(row.get("run"), dict) else {}]
    ]
    configs = "".join(
        f"<details><summary>Configuration of {escape(str(row.get('_path')))}</summary>"
        f"<pre>{escape(json.dumps(row['run']['config'], indent=2, ensure_ascii=False))}</pre></details>"
        for row in results
        if isinstance(row.get("run"), dict) and row["run"].get("config")
    )
    body = "".join(f'<tr><td class="key">{escape(k)}</td><td>{escape(v)}</td></tr>' for k, v in pairs)
    return f'<table class="wrap">{body}</table>' + markup.dict_table(files, "wrap") + configs


COMMAND = {"time (UTC)": "time_utc", "seed": "seed", "command": "command"}


def _revisions(run: dict) -> dict:
    return {key: _pairs(run[key]) for key in ("data", "model") if run.get(key)}


def _commit(git: JsonValue) -> str:
    if not isinstance(git, dict) or not git.get("commit"):
        return "not recorded"
    return str(git["commit"]) + (" with uncommitted changes" if git.get("dirty") else "")


def _pairs(value: JsonValue) -> str:
    if not isinstance(value, dict):
        return tables.plain(value)
    return ", ".join(f"{key} {tables.plain(item)}" for key, item in value.items() if item is not None)
