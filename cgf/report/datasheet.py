"""What data and hosts are, beside every number: letters in the cells of tables, notes below them, counts of samples."""

from __future__ import annotations

from pathlib import Path

from cgf.report.columns import grid
from cgf.report.comparison import samples_of
from cgf.report.training import read_results

NOTES = {
    "a": "SmolLM2's weights are the 4-bit GGUF of the Instruct model, read back to floats",
    "b": "CIFAR-10 is a subset of JPEG images with 2,000 test images",
    "c": "Tiny ImageNet is a new split of its validation images, shown at 70 pixels",
    "d": "ViT-S/14 is the first ten of twelve blocks of a DINOv2 that its packager tuned for saliency",
    "e": "SST-2's test set is the 872 sentences of its dev set",
    "f": "minilm_sentences is tested on 4,000 sentences of the training part too, whose phrases are not trained on",
}
LETTERS = {  # of cells, by content
    "smollm2": "a",
    "cifar10": "b",
    "tiny_imagenet": "c",
    "vit_s14": "d",
    "sst2": "e",
    "minilm_sentences": "f",
}
COLUMNS = ("host", "model", "task")  # titles of the columns that are looked at
TITLES = ["host", "task", "test samples", "validation samples"]


def with_letters(table: str) -> str:
    """A markdown table, or several, with a letter behind each host and task that is not what its name says.

    A note for each letter follows the whole; what holds no such cell stays as it is.
    """
    used, looked, lines = set[str](), list[int](), list[str]()
    for line in table.splitlines():
        cells = line.strip("|").split("|") if line.startswith("|") else []
        if not cells:
            looked = []
        elif not looked:
            looked = [i for i, cell in enumerate(cells) if cell.strip() in COLUMNS] or [-1]
        else:
            for i in (i for i in looked if 0 <= i < len(cells)):
                if letter := LETTERS.get(cells[i].strip()):
                    used.add(letter)
                    cells[i] = f" {cells[i].strip()} <sup>{letter}</sup> "
            line = "|" + "|".join(cells) + "|"
        lines.append(line)
    notes = [f"<sup>{letter}</sup> {NOTES[letter]}." for letter in sorted(used)]
    return "\n".join([*lines, *(["", " ".join(notes)] if notes else [])])


def counts(folder: Path) -> str:
    """Samples that the rows of training were tested and chosen on, by host and task."""
    sizes = {(r["host"], r["task"], samples_of(r), r["val_samples"]) for r in read_results(folder)}
    return grid(TITLES, [[host, task, f"{test:,}", f"{val:,}"] for host, task, test, val in sorted(sizes)])
