"""Plots as SVG. Each function returns None where there is too little data to draw."""

from __future__ import annotations

from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from cgf.report.collect import CHECKPOINT
from cgf.report.figure import colours, new_figure, svg
from cgf.report.red import reasons
from cgf.report.tables import CKKS, NETWORK, PLAIN, engine_name, is_number, percent, samples, under_ckks

# One colour for one reading of the softmax in every plot (Okabe and Ito: told apart by the colour-blind).
COLOURS = {"exact": "#0072B2", "polynomial": "#E69F00", "CKKS": "#009E73", "simulator": "#999999"}
RED = ", red"  # behind the text of a bar that is not to be believed; the bar is hatched
STAGES = ("encrypt", "circuit", "decrypt")


def training_curves(curves: dict[str, list[dict]]) -> bytes | None:
    """Loss (left) and validation accuracy (right) by step, a line a run; needs two points of a run."""
    loss = _series(curves, "loss")
    accuracy = _series(curves, "val_accuracy")
    panels = [
        (title, data)
        for title, data in (("training loss", loss), ("validation accuracy", accuracy))
        if any(len(points) > 1 for points in data.values())
    ]
    if not panels:
        return None
    names = [name for name in curves if loss.get(name) or accuracy.get(name)]
    colour_of = dict(zip(names, colours(len(names)), strict=True))
    figure, axes = new_figure(3.4 + 0.2 * len(names), len(panels))
    for ax, (title, data) in zip(axes, panels, strict=True):
        for name, points in data.items():
            marker = "o" if len(points) <= 30 else ""
            steps, values = zip(*sorted(points.items()), strict=True)
            ax.plot(steps, values, color=colour_of[name], marker=marker, markersize=3.5, label=name)
        ax.set_title(title)
        ax.set_xlabel("step")
        ax.set_ylim(bottom=0 if title.endswith("loss") else None)
    handles = {str(line.get_label()): line for ax in axes for line in ax.get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="outside lower left", frameon=False)
    return svg(figure)


def _series(curves: dict[str, list[dict]], key: str) -> dict[str, dict[float, float]]:
    """Run -> step -> value, runs without the key left out.

    A resumed run logs again the steps since its last checkpoint; the later line is the one that counts.
    """
    series = {}
    for name, lines in curves.items():
        points = {line["step"]: line[key] for line in lines if is_number(line.get("step")) and is_number(line.get(key))}
        if points:
            series[name] = points
    return series


def accuracy_bars(results: list[dict]) -> bytes | None:
    """Accuracy with the exact softmax formula, with its polynomial, and under CKKS.

    Bars stand together only where they are of the same samples; each group states split and number. A red result's bar
    is hatched, and its text says so.
    """
    groups = _accuracy_groups(results)
    count = sum(len(bars) for _, bars in groups)
    if not count:
        return None
    figure, (ax,) = new_figure(1.1 + 0.3 * (count + len(groups)))
    place = 0.0
    for label, bars in groups:
        middle = place + (len(bars) - 1) / 2
        beside = ax.get_yaxis_transform()  # x in shares of the axes, y in data
        ax.text(-0.01, middle, label, ha="right", va="center", transform=beside, fontsize=8.5)
        for reading, text, value in bars:
            bar = ax.barh(place, 100 * value, height=0.86, color=COLOURS[reading], label=reading)
            if text.endswith(RED):
                bar.patches[0].set(hatch="xx", edgecolor="#b3261e")
            ax.text(100 * value + 0.8, place, f"{percent(value)}  {text}", va="center", fontsize=8)
            place += 1
        place += 0.8
    ax.set_yticks([])
    ax.set_ylim(place - 0.8 - 0.3, -0.7)
    ax.set_xlim(0, 135)  # room for the text beside a full bar
    ax.set_xticks(range(0, 101, 20))
    ax.set_xlabel("accuracy, %")
    _legend(ax)
    return svg(figure)


def _accuracy_groups(results: list[dict]) -> list[tuple[str, list[tuple[str, str, float]]]]:
    """(label, [(reading, text, accuracy)]): one group for each checkpoint and set of samples."""

    def key(result: dict) -> tuple:
        names = ("softmax", CHECKPOINT, "split", "samples")
        first = (str(result.get("task")), str(result.get("model")), result.get("softmax") != "exact")
        drawn = (result.get("run") or {}).get("seed")  # which samples, where they are a part of the split
        return (*first, *(str(result.get(name)) for name in names), str(drawn))

    groups = []
    clear = [result for result in results if result.get("kind") == PLAIN]
    for _, group in groupby(sorted(clear, key=key), key=key):
        members = list(group)
        bars = [_clear_bar(result) for result in members if is_number(result.get("accuracy"))]
        groups.append((_label(members[0]), sorted(bars, key=lambda bar: (bar[0] != "exact", bar[1]))))
    for result in sorted((result for result in results if result.get("kind") in (CKKS, NETWORK)), key=key):
        last = "CKKS" if under_ckks(result) else "simulator"
        readings = (
            ("exact", "exact", result.get("accuracy_exact")),
            ("polynomial", str(result.get("approx")), result.get("accuracy_plain")),
            (last, engine_name(result) + _red(result), result.get("accuracy")),
        )
        bars = [(reading, text, value) for reading, text, value in readings if is_number(value)]
        groups.append((_label(result), bars))
    return [(label, bars) for label, bars in groups if bars]


def _clear_bar(result: dict) -> tuple[str, str, float]:
    approx = str(result.get("approx"))
    return "exact" if approx == "exact" else "polynomial", approx + _red(result), result["accuracy"]


def _red(result: dict) -> str:
    return RED if reasons(result) else ""


def _label(result: dict) -> str:
    return (
        f"{result.get('softmax', '?')} softmax\n{result.get('model', '?')}, {result.get('task', '?')}\n"
        f"samples: {samples(result) or 'unknown'}"
    )


def error_by_layer(results: list[dict]) -> bytes | None:
    """Largest and mean error of the softmax weights in each layer, log scale, a colour a result."""
    lines = []
    for result in (result for result in results if result.get("kind") == CKKS):
        for key, style in (("max_error", "-"), ("mean_error", ":")):
            layers = [layer for layer in result.get("layers") or [] if _positive(layer.get(key))]
            if layers:
                lines.append((result, key, style, layers))
    if not lines:
        return None
    name_of = _names([result for result, *_ in lines])
    names = list(dict.fromkeys(name_of.values()))
    colour_of = dict(zip(names, colours(len(names)), strict=True))
    figure, (ax,) = new_figure(3.2 + 0.2 * len(lines))
    for result, key, style, layers in lines:
        name = name_of[id(result)]
        x, y = [layer.get("layer") for layer in layers], [layer[key] for layer in layers]
        label = f"{name}: {'largest' if key == 'max_error' else 'mean'}"
        ax.plot(x, y, style, marker="o", markersize=4, color=colour_of[name], label=label)
    ax.set_yscale("log")
    ax.set_xlabel("layer")
    ax.set_ylabel("error against the clear polynomial")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    figure.legend(loc="outside lower left", frameon=False)
    return svg(figure)


def seconds_by_operation(results: list[dict]) -> bytes | None:
    """Seconds of each stage, and of each operation within the circuit, summed over the samples."""
    timed = [(result, _seconds(result)) for result in results if result.get("kind") == CKKS]
    timed = [(result, seconds) for result, seconds in timed if seconds]
    if not timed:
        return None
    keys = list(dict.fromkeys(key for _, seconds in timed for key in seconds))
    order = [key for key in STAGES if key in keys] + [key for key in keys if key not in STAGES]
    height = 0.8 / len(timed)
    name_of = _names([result for result, _ in timed])
    figure, (ax,) = new_figure(1.2 + 0.2 * len(timed) + len(order) * max(0.34, 0.2 * len(timed)))
    for index, ((result, seconds), colour) in enumerate(zip(timed, colours(len(timed)), strict=True)):
        places = [order.index(key) + (index + 0.5) * height - 0.4 for key in seconds]
        times = list(seconds.values())
        bars = ax.barh(places, times, height=height * 0.94, color=colour, label=name_of[id(result)])
        ax.bar_label(bars, [f"{time:.3g} s" for time in times], padding=3, fontsize=8)
    ax.set_yticks(range(len(order)), [key if key in STAGES else f"· {key}" for key in order], parse_math=False)
    ax.invert_yaxis()
    ax.margins(x=0.14)
    ax.set_xlabel("seconds, all samples together (operations marked · are part of the circuit)")
    figure.legend(loc="outside lower left", frameon=False)
    return svg(figure)


def _seconds(result: dict) -> dict[str, float]:
    seconds = result.get("seconds")
    if not isinstance(seconds, dict):
        return {}
    return {key: value for key, value in seconds.items() if key != "total" and _positive(value)}


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and value > 0


def _names(results: list[dict]) -> dict[int, str]:
    """Legend entries by the results' ids: what was measured; the checkpoint or file too where two read the same."""
    entries = {
        id(result): [
            f"{result.get('softmax', '?')}, {result.get('approx', '?')}, {engine_name(result)}, "
            f"{samples(result) or '?'}",
            str(result.get(CHECKPOINT, "?")),
            str(result.get("_path", "?")),
        ]
        for result in results
    }
    named = {}
    for key, (said, checkpoint, path) in entries.items():
        alike = [other for other in entries.values() if other[0] == said]
        same_place = [other for other in alike if other[1] == checkpoint]
        more = "" if len(alike) == 1 else f" ({checkpoint if len(same_place) == 1 else path})"
        named[key] = said + more
    return named


def _legend(ax: Axes) -> None:
    """One entry a reading, in the order of COLOURS, above the axes."""
    handles, labels = ax.get_legend_handles_labels()
    names = [name for name in COLOURS if name in labels]
    first = [handles[labels.index(name)] for name in names]
    ax.legend(first, names, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False)
