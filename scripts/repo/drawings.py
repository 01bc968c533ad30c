"""Writes the drawings of docs/concepts/ as SVG files that follow a light or dark screen: --check fails where stale."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from cgf.approx.fit import chain
from cgf.report.made_files import maker

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "concepts" / "drawings"
STYLE = (
    "text{font:14px sans-serif;fill:#222}.s{font-size:12px}.l{stroke:#222;stroke-width:1.5;fill:none}"
    ".a{fill:#cfe2f7;stroke:#33668f}.b{fill:#f7e3c4;stroke:#9a6b1c}.c{fill:#d9efd6;stroke:#3d7a3a}"
    ".o{fill:none;stroke:#888;stroke-dasharray:3 3}.e{stroke:#0072b2;stroke-width:2;fill:none}"
    ".p{stroke:#d55e00;stroke-width:2;fill:none;stroke-dasharray:6 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.l{stroke:#e6e6e6}.a{fill:#1f3b57;stroke:#7fb2e0}"
    ".b{fill:#543c14;stroke:#e0b062}.c{fill:#1f4a1d;stroke:#86c982}.e{stroke:#56b4e9}.p{stroke:#f0945a}}"
)


def svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """A drawing of its own style, with a title for those who cannot see it."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">'
    return "\n".join([head, f"<title>{title}</title>", f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def text(x: float, y: float, said: str, small: bool = False, anchor: str = "start") -> str:
    """A line of text; anchor as in SVG."""
    size = ' class="s"' if small else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{size}>{said}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, said: str = "") -> str:
    """A box of a kind of the style, with a text in its middle."""
    rect = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" class="{kind}"/>'
    return rect + (text(x + width / 2, y + height / 2 + 4, said, small=True, anchor="middle") if said else "")


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """A line with a head."""
    length = float(np.hypot(to_x - x, to_y - y))
    u, v = (to_x - x) / length, (to_y - y) / length
    left, right = (to_x - 8 * u - 4 * v, to_y - 8 * v + 4 * u), (to_x - 8 * u + 4 * v, to_y - 8 * v - 4 * u)
    return (
        f'<path class="l" d="M{x:g} {y:g}L{to_x:g} {to_y:g}M{left[0]:g} {left[1]:g}L{to_x:g} {to_y:g}'
        f'L{right[0]:g} {right[1]:g}"/>'
    )


def levels() -> str:
    """A ciphertext that loses a level at each multiplication."""
    steps = ("encrypted", "mean, variance: a square", "1st squaring", "2nd squaring", "3rd squaring")
    parts = []
    for i, said in enumerate(steps):
        y = 20 + 46 * i
        for level in range(4):
            parts.append(box(230 + 74 * level, y, 66, 30, "a" if level < 4 - i else "o"))
        parts += [text(215, y + 20, said, anchor="end"), text(540, y + 20, f"{4 - i} levels left")]
    return svg(660, 260, "Each multiplication uses up one level of a ciphertext", parts)


def packing() -> str:
    """Four rows of four scores, in one ciphertext with columns a gap apart, and in four of one column each."""
    kinds, parts = ("a", "b", "c", "a"), [text(20, 20, "scores: 4 rows of 4")]
    for r in range(4):
        parts += [box(20 + 44 * c, 32 + 30 * r, 42, 28, kinds[c], f"{r + 1},{c + 1}") for c in range(4)]
    parts.append(text(230, 20, "one column a ciphertext: sums are additions"))
    for c in range(4):
        parts += [box(230 + 44 * r, 32 + 30 * c, 42, 28, kinds[c], f"{r + 1},{c + 1}") for r in range(4)]
        parts.append(box(408, 32 + 30 * c, 90, 28, "o", "rows of others"))
    parts.append(text(20, 190, "all columns in one ciphertext, a gap of 4 slots: sums are rotations and additions"))
    for slot in range(16):
        parts.append(box(20 + 40 * slot, 202, 38, 28, kinds[slot // 4], f"{slot % 4 + 1},{slot // 4 + 1}"))
    parts += [
        arrow(180, 246, 22, 246),
        text(195, 251, "rotated by 4: the next column comes below the first", small=True),
    ]
    return svg(680, 265, "How scores lie in the slots of ciphertexts", parts)


def folding() -> str:
    """Where Algorithm 1 takes three levels before the core's, and the folded circuit one."""
    parts = [text(20, 24, "Algorithm 1, as written")]
    for i, said in enumerate(("variance", "scaling")):
        parts.append(box(20 + 190 * i, 36, 170, 34, "b", f"{said}: 1 level"))
        parts.append(arrow(190 + 190 * i, 53, 208 + 190 * i, 53))
    parts += [box(400, 36, 220, 34, "a", "polynomial and its squarings")]
    parts.append(text(20, 112, "folded"))
    parts += [box(20, 124, 360, 34, "c", "square of n X - rowsum(X): 1 level")]
    parts += [arrow(380, 141, 398, 141), box(400, 124, 220, 34, "a", "k squarings: k levels")]
    parts.append(
        text(
            20,
            186,
            "the rest of the scaling rides on the encoding of the scores, and on the constants of the squarings",
            True,
        )
    )
    return svg(640, 200, "Folding: public factors move to where they cost no level", parts)


def domain() -> str:
    """exp and a chain of three squarings fitted on [-6, 1], by size: where it is exp, where a ciphertext holds it."""
    e = chain(-6.0, 1.0, 3)
    assert e.fit is not None
    lo, hi, low, high = -45.0, 35.0, -4.0, 8.0  # of y, and of log10 of the values

    def at(y: float, value: float) -> tuple[float, float]:
        return 60 + (y - lo) / (hi - lo) * 580, 290 - (value - low) / (high - low) * 250

    def path(of: Callable[[np.ndarray], np.ndarray], kind: str) -> str:
        y = np.linspace(lo, hi, 641)
        values = np.log10(np.maximum(np.abs(of(y)), 1e-12))
        points = [at(a, v) for a, v in zip(y, values, strict=True) if low <= v <= high]
        return f'<polyline class="{kind}" points="' + " ".join(f"{a:.0f},{b:.0f}" for a, b in points) + '"/>'

    parts = []
    for kind, (start, end), y, said in (("b", e.fit.guard, 58, "guard"), ("c", e.fit.domain, 78, "domain")):
        left, right = at(start, 0)[0], at(end, 0)[0]
        size = f'x="{left:.0f}" y="40" width="{right - left:.0f}" height="250"'
        parts.append(f'<rect {size} class="{kind}" opacity="0.6"/>')
        parts.append(text(round(left) + 6, y, said, small=True))
    parts += [path(np.exp, "e"), path(lambda y: e.core(e.a * y + e.b), "p")]
    for y in (-40, -30, -20, -10, 0, 10, 20, 30):
        parts.append(text(round(at(y, 0)[0]), 308, str(y), small=True, anchor="middle"))
    for power in (-4, 0, 4, 8):
        parts.append(text(52, round(at(lo, power)[1]) + 4, f"1e{power}", small=True, anchor="end"))
    parts += [text(60, 22, "blue: exp(y); dashed: a chain of 3 squarings in its place, by its size", small=True)]
    parts += [text(655, 308, "y", small=True)]
    title = "Inside the domain the chain is exp, inside the guard a ciphertext holds it, beyond it does not"
    return svg(680, 320, title, parts)


DRAWINGS: dict[str, Callable[[], str]] = {"levels": levels, "packing": packing, "folding": folding, "domain": domain}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the drawings; with --check refuses stale ones instead."""
    return maker(
        lambda: {FOLDER / f"{name}.svg": draw() for name, draw in DRAWINGS.items()},
        __doc__ or "",
        "scripts/repo/drawings.py",
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main())
